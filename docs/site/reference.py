"""What the site takes from the code: every verb with its options, every name that ``npda`` exports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pymdownx.slugs import slugify

import npda
from npda.cli import GROUPS, app

COMMANDS, PYTHON = "reference/commands.md", "reference/python.md"
# In the order in which somebody meets them; what is not named comes at the end.
_SEAMS = {
    "Translate": ("Translator", "Translation", "Cascade", "SearchOptions", "InputError"),
    "Stores": ("Datastore", "Pair", "Source", "BuildOptions", "Entry"),
    "Search": ("Retriever", "ExplainableRetriever", "Neighbours", "LocalRetriever", "JoinedRetriever",
               "CachingRetriever"),
    "What neighbours say": ("Combiner", "KnnOptions", "Retrieved", "knn_weights", "AdaptiveCombiner", "tuned_combiner"),
    "Fusions": ("Fusion", "EarlyFusion", "KnnFusion", "GuardedFusion", "SkippingFusion", "FollowingFusion",
                "FastFusion", "FastRetriever", "ShallowFusion"),
    "Models": ("Backbone", "TorchBackbone", "LearnsToRead", "Memory", "Stream", "Tokens", "Packed", "Suppressed",
               "load_backbone"),
}  # fmt: skip


_WORKER = "assets/iframe-worker.js"  # named in mkdocs.yml instead of one that the theme would fetch from another host


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Headings get the anchors that they have on code hosting sites."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages; mkdocs calls this before it reads any."""
    for uri, lines in ((COMMANDS, commands()), (PYTHON, python())):
        files.append(File.generated(config, uri, content="\n".join(lines) + "\n"))
    worker = Path(__file__).with_name("worker.js").read_text(encoding="utf-8")
    files.append(File.generated(config, _WORKER, content=worker))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leave out what blocks of code say to tests behind their language."""
    return re.sub(r"^(```\w+) [^\n]*$", r"\1", markdown, flags=re.MULTILINE)


def commands() -> Iterator[str]:
    """Every verb: its help text, its arguments and its options."""
    yield "# Command line"
    yield ""
    yield "`npda VERB --help` shows the same. The examples run on what `make demo` leaves in `runs/demo`."
    known: dict[str, Any] = dict(typer.main.get_command(app).commands)  # pyright: ignore[reportAttributeAccessIssue]
    for panel, verbs in GROUPS.items():
        yield f"\n## {panel}"
        for verb in verbs:
            name = verb.__name__.strip("_").replace("_", "-")
            yield from _verb(name, known.pop(name))
    for name, command in known.items():
        yield f"\n## npda {name}"
        for inner, verb in command.commands.items():
            yield from _verb(f"{name} {inner}", verb)


def _verb(name: str, command: Any) -> Iterator[str]:
    yield f"\n### npda {name}\n"
    text, _, examples = (command.help or "").partition("Examples:")
    yield text.strip()
    if examples:
        lines = (line.strip() for line in re.sub(r"\\\n\s*", "", examples).splitlines())
        yield "\n```bash"
        yield from (line for line in lines if line)
        yield "```"
    yield "\n| option | |\n|---|---|"
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        names = ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{(parameter.metavar or parameter.name).upper()}`"
        told = " ".join((getattr(parameter, "help", None) or "").split())
        yield f"| {names} | {_cell(told)}{_default(parameter)} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


def _default(parameter: Any) -> str:
    value = parameter.default
    plain = isinstance(value, (int, float, str)) and not isinstance(value, bool) and value != ""
    return f" Default: `{value}`." if plain and "default" not in (parameter.help or "") else ""


def python() -> Iterator[str]:
    """Every name of ``npda.__all__``, once."""
    yield "# Python"
    yield ""
    yield "`from npda import …` offers these names. [Write your own](../extending.md) shows how they fit together."
    left = [name for name in npda.__all__ if not any(name in names for names in _SEAMS.values())]
    for title, names in {**_SEAMS, **({"More": tuple(left)} if left else {})}.items():
        yield f"\n# {title}\n"
        for name in names:
            yield f"\n::: {npda._HOME_OF[name]}.{name}\n"
