"""Tables of the docs from committed run files, so that nobody types a figure: make results.

    npda demo --json | python -m benchmarks.results keep demo 'npda demo --json'   # docs/results/demo.json
    python -m benchmarks.results keep exact 'python -m benchmarks.exact --json FILE' < FILE
    python -m benchmarks.results                # write the tables of docs/*.md anew
    python -m benchmarks.results --check        # exit code 1 if that would change anything

A page marks where a table stands: what is between ``<!-- results: NAME -->`` and ``<!-- end of results -->`` is written
from docs/results/NAME.json. A run file holds what the command printed, the command, and the version it ran with.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs"
RUNS = PAGES / "results"

_BLOCK = re.compile(r"<!-- results: ([a-z0-9-]+) -->\n(.*?)<!-- end of results -->", re.DOTALL)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is words, and all others numbers."""
    rules = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rules, *rows))


def demonstration(output: Mapping[str, Any]) -> str:
    """What `npda demo --json` says of its systems, of the size of the store and of its terms."""
    rows = []
    for name, system in output["systems"].items():
        p = system.get("p_vs_base")
        scores = [f"{system[side]:.1f}" for side in ("domain", "general")]
        rows.append([name, *scores, "" if p is None else f"{p:.3f}"])
    systems = markdown(("system", "parliament", "everyday talk", "p against the model alone"), rows)
    sizes = [[f"{point['pairs']:,}", f"{point['keys']:,}", f"{point['domain']:.1f}"] for point in output["curve"]]
    curve = markdown(("sentence pairs in the store, no gate", "keys", "parliament"), sizes)
    terms = output["terms"]
    told = (
        f"{terms['used']} of {terms['said']} terms are written as wanted, {terms['before']} without the list; of the "
        f"{terms['sentences_without']} sentences without a term {terms['changed_without']} change."
    )
    return f"{systems}\n\n{curve}\n\n{told}"


def lines(output: Mapping[str, Any]) -> str:
    """What a benchmark's --json says, line by line."""
    rows = []
    for line in output["lines"]:
        if "reason" in line:
            rows.append([line["name"], "skipped", line["reason"]])
        else:
            bar = "" if line["bar"] is None else f"{'≤' if line['most'] else '≥'} {line['bar']:g}"
            rows.append([line["name"], f"{line['value']:.2f}", bar])
    threads, load = output["threads"], output["load"]["before"]
    table = markdown((output["title"], "measured", "bar"), rows)
    return f"{table}\n\n{threads} thread(s), load {load:.0f} of the machine."


def rendered(run: Mapping[str, Any]) -> str:
    """The table of a run file, with its command and version."""
    output = run["output"]
    table: Callable[[Mapping[str, Any]], str] = lines if "lines" in output else demonstration
    return f"\n{table(output)}\n\nMeasured with npda {run['npda']} ({run['commit']}): `{run['command']}`\n\n"


def written(page: str, runs: Path = RUNS) -> str:
    """The text of a page with its tables as the run files have them."""

    def block(found: re.Match[str]) -> str:
        path = runs / f"{found[1]}.json"
        if not path.is_file():
            raise SystemExit(f"There is no run file {path}: keep one, see the top of benchmarks/results.py.")
        table = rendered(json.loads(path.read_text(encoding="utf-8")))
        return f"<!-- results: {found[1]} -->\n{table}<!-- end of results -->"

    return _BLOCK.sub(block, page)


def keep(name: str, command: str, output: Any) -> Path:
    """Write a run file of what a command has printed."""
    from npda import __version__

    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    run = {"npda": __version__, "commit": commit, "command": command, "output": output}
    path = RUNS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def changed() -> dict[Path, str]:
    """Pages that are not as the run files have them, and what they should be."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(PAGES.glob("*.md"))}
    return {page: new for page, text in pages.items() if (new := written(text)) != text}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if a page is out of date")
    parser.add_argument("keep", nargs="*", help="keep NAME COMMAND: make a run file of the JSON on standard input")
    options = parser.parse_args()
    if options.keep:
        if len(options.keep) != 3 or options.keep[0] != "keep":
            parser.error("give keep NAME COMMAND")
        _, name, command = options.keep
        print(keep(name, command, json.load(sys.stdin)))
        return 0
    stale = changed()
    for page, text in stale.items():
        print(f"{page.relative_to(ROOT)} is {'out of date' if options.check else 'written anew'}")
        if not options.check:
            page.write_text(text, encoding="utf-8")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
