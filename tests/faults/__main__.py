"""The campaign: every way to break something, and a table of what came of it.

    python -m tests.faults                      # all of it, 40 minutes
    python -m tests.faults --minutes 5          # the same, in less time
    python -m tests.faults --only stores kills  # some rows
    python -m tests.faults --cases 20           # so many of each row

It ends with exit code 1 if something was silently wrong, lost, hung or ended with a traceback.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

_AMONG = 8  # times as many cases are looked through for those of --cases
os.environ |= {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=40.0, help="for all rows together")
    parser.add_argument("--cases", type=int, help="of each row, instead of --minutes")
    parser.add_argument("--only", nargs="+", metavar="ROW", help="these rows")
    parser.add_argument("--seed", type=int, default=0, help="other seeds try other things")
    parser.add_argument("--verbose", action="store_true", help="print every case")
    options = parser.parse_args()
    from tests.faults import world
    from tests.faults.rows import ROWS
    from tests.faults.verdicts import Row, Skipped, table

    chosen = {name: ROWS[name] for name in options.only or ROWS}
    shares = sum(row.share for row in chosen.values())
    rows = []
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        made = world.make(Path(folder))
        for name, (share, cases, cheap) in chosen.items():
            rows.append(row := Row(name))
            until = time.monotonic() + 60 * options.minutes * share / shares
            began = time.process_time() + sum(os.times()[2:4])
            try:
                chance = random.Random(f"{options.seed} {name}")
                if options.cases:
                    most = _AMONG * options.cases
                    tried = chance.sample(list(islice((cheap or cases)(made, chance), most)), options.cases)
                else:
                    tried = cases(made, chance)
                for case in tried:
                    if not options.cases and time.monotonic() > until:
                        break
                    found = case.run()
                    row.add(case.name, found)
                    if options.verbose or not found:
                        print(f"{found.verdict:15} {case.name}: {found.said[:300]}", flush=True)
            except Skipped as why:
                row.skipped = str(why)
            if options.verbose:
                print(
                    f"{name}: {time.process_time() + sum(os.times()[2:4]) - began:.1f} s of processor time", flush=True
                )
    print(table(rows))
    return int(any(row.faults for row in rows))


if __name__ == "__main__":
    sys.exit(main())
