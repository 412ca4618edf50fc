"""A command at a door: what is planted, what is asked, and whether anything else has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.trial import Ended, changes, judged, npda, snapshot
from tests.faults.verdicts import Case, Found, Verdict
from tests.faults.world import World

Check = Callable[[Ended, Path], str]  # of what worked: what is wrong with it, or ""


@dataclass(frozen=True)
class Planted:
    """files: bytes by name; made: what makes something else at a name"""

    files: dict[str, bytes] = field(default_factory=dict)
    made: dict[str, Callable[[Any], object]] = field(default_factory=dict)

    def into(self, folder: Path) -> None:
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name, make in self.made.items():
            make(folder / name)


@dataclass(frozen=True)
class Door:
    """Commands that take what is planted. rest: of every command"""

    world: World
    rest: list[str]

    def case(
        self,
        name: str,
        verb: str,
        planted: Planted,
        *arguments: str,
        must_refuse: bool = False,
        must_work: bool = False,
        check: Check | None = None,
        rest: list[str] | None = None,
        writes: tuple[str, ...] = (),
    ) -> Case:
        """arguments: of the verb, by default the first planted file; writes: what may be new if it works"""
        given = list(arguments) or [next(iter(planted.files))]

        def run() -> Found:
            with self.world.scratch() as folder:
                planted.into(folder)
                home, before = snapshot(self.world.home), snapshot(folder)
                ended = npda([*verb.split(), *given, *(self.rest if rest is None else rest)], cwd=folder)
                found = judged(ended, must_refuse)
                after = snapshot(folder)
                if found.verdict == Verdict.WORKED:
                    after = {path: digest for path, digest in after.items() if path.split("/")[0] not in writes}
                changed = changes(home, snapshot(self.world.home)) or changes(before, after)
                if found and changed:
                    return Found(Verdict.LOST, f"{changed}; {ended.words}")
                if found.verdict == Verdict.REFUSED and must_work:
                    return Found(Verdict.LOST, f"it should have worked; {ended.words}")
                if found.verdict == Verdict.WORKED and check and (wrong := check(ended, folder)):
                    return Found(Verdict.SILENT, f"{wrong}; {ended.words}")
                return found

        return Case(f"{verb}: {name}", run)
