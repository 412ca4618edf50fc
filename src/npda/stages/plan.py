"""Stages: pieces of work, each in a directory named by the hash of everything that goes into it.

runs/stages/<name>-<key>/   what the stage wrote, its log.txt, and at the very end stage.json: the mark that it is done;
                            until then begun.json tells which code is at work
runs/locks/                 one file per stage, so that two runs share the work instead of disturbing each other
runs/digests.json           digests of input files, so that large ones are read once

`plan` tells what is there and what is to do; `npda.stages.run.run` does it. A result that other code made is stale, and
so is everything made from it: stage.json records a digest of the code of a stage and of the stages it needs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Literal

from npda.io.digests import Digests
from npda.io.errors import InputError
from npda.io.names import unknown
from npda.io.records import read_record, write_record
from npda.stages.code import Code
from npda.stages.freshness import Origin

ENGINE = 1  # part of every key: a new number makes everything anew
MARK = "stage.json"
BEGUN = "begun.json"
LOG = "log.txt"


class StageLog:
    """The log.txt of a stage; called with a message, it writes a line with the time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, message: str) -> None:
        with self.path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {message}\n")


# (its own directory, the directories of the stages it needs by name, log); results go into its own directory
Work = Callable[[Path, Mapping[str, Path], StageLog], None]


@dataclass(frozen=True)
class Stage:
    """A piece of work with a name of its own.

    The directory handed to ``work`` may hold what an interrupted attempt left: go on with it, or write over it. It
    always holds log.txt already, so whatever insists on an empty directory takes one inside.
    """

    name: str
    work: Work = field(compare=False, repr=False)
    settings: Any = None  # JSON: everything that shapes the result besides needs and inputs, for instance a version
    needs: tuple[str, ...] = ()  # names of the stages whose results it reads
    cost: float = 0.0  # estimated seconds on two cores, for the plan and the ETA
    inputs: tuple[Path, ...] = ()  # files from outside it reads, told by their contents
    code: Code | None = None  # that decides the result; none: whatever code made a result, it counts

    @property
    def slug(self) -> str:
        """The name as a part of a path."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:60] or "stage"


@dataclass(frozen=True)
class Step:
    """A stage with its place on disk and how far it has got."""

    stage: Stage
    key: str  # SHA-256 of what goes into the stage
    directory: Path
    lock: Path
    code: str  # digest of the code of the stage and of those it needs; empty if they name none
    state: Literal["done", "partly", "stale", "to do"] = "to do"
    again: bool = False  # to be cleared and done anew
    keep_stale: bool = False  # what other code has made counts too
    earlier_counts: bool = False  # whether a result of version 0.1.0, which recorded no code, counts
    took: float | None = None  # seconds it took when it was done, if in one go

    @property
    def name(self) -> str:
        return self.stage.name

    def is_done(self) -> bool:
        return self._counts(self.mark())

    def is_stale(self) -> bool:
        """Whether other code has made, or begun, what lies here."""
        left = self.mark() or self._record(BEGUN)
        return bool(left) and not self._counts(left)

    def is_begun(self) -> bool:
        return self.directory.is_dir() and any(self.directory.iterdir())

    def mark(self) -> dict[str, Any]:
        """What stage.json says; empty if it is missing, damaged or of other work."""
        return self._record(MARK)

    def begin(self) -> None:
        """Record the code at work, unless an interrupted attempt has; then the result is of that code."""
        if not self._record(BEGUN):
            write_record(self.directory / BEGUN, {"key": self.key, "code": self.code})

    def finish(self, seconds: float, resumed: bool, needs: Mapping[str, Path]) -> None:
        """Mark the stage as done, once everything else is on disk."""
        mark = {
            "name": self.name,
            "key": self.key,
            "code": self._record(BEGUN).get("code", self.code),
            "settings": self.stage.settings,
            "needs": {name: directory.name for name, directory in needs.items()},
            "inputs": [str(path) for path in self.stage.inputs],
            "cost": self.stage.cost,
            "seconds": round(seconds, 2),
            "resumed": resumed,
            "finished": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        write_record(self.directory / MARK, mark)
        (self.directory / BEGUN).unlink(missing_ok=True)

    def _record(self, name: str) -> dict[str, Any]:
        record = read_record(self.directory / name)
        return record if record.get("key") == self.key else {}

    def _counts(self, record: Mapping[str, Any]) -> bool:
        """Whether a mark, or the record of a begun attempt, is not stale."""
        if not record or self.keep_stale:
            return bool(record)
        code = record.get("code") or ("" if self.earlier_counts else "unrecorded")
        return not Origin(record["key"], code).difference(Origin(self.key, self.code))


@dataclass(frozen=True)
class Plan:
    """The chosen stages in the order they are run, each after those it needs; skipped: those not chosen."""

    steps: tuple[Step, ...]
    skipped: tuple[Stage, ...] = ()

    @property
    def cost(self) -> float:
        """Estimated seconds of what is still to do."""
        return sum(step.stage.cost for step in self.steps if step.state != "done")

    def record(self) -> dict[str, Any]:
        """For scripts."""
        stages = [
            {
                "name": step.name,
                "state": step.state,
                "cost": step.stage.cost,
                "needs": list(step.stage.needs),
                "key": step.key,
                "directory": str(step.directory),
            }
            for step in self.steps
        ]
        skipped = [
            {"name": stage.name, "state": "skipped", "cost": stage.cost, "needs": list(stage.needs)}
            for stage in self.skipped
        ]
        return {"stages": stages + skipped, "cost": self.cost}


def plan(
    stages: Sequence[Stage],
    runs: str | Path,
    only: Sequence[str] = (),
    from_: str | None = None,
    keep_stale: bool = False,
) -> Plan:
    """Find out what is done and what is to do; nothing is run.

    only: names or patterns such as "train *" of the stages wanted, by default all; what they need comes with them
    from_: name or pattern of stages to do again, along with everything that depends on them
    keep_stale: take what other code has made as done
    """
    runs = Path(runs).absolute()
    by_name = _check(stages)
    ordered = _in_order(by_name)
    wanted = {name for pattern in only for name in _matching(pattern, by_name)} if only else set(by_name)
    for name in reversed(ordered):
        if name in wanted:
            wanted.update(by_name[name].needs)
    again = set(_matching(from_, by_name)) if from_ is not None else set()
    if from_ is not None and not again & wanted:
        raise InputError(f"The stage {from_!r} to start from is not among those chosen, nor needed by them.")
    steps: dict[str, Step] = {}
    digests = Digests(runs / "digests.json")
    for name in ordered:
        stage = by_name[name]
        if again.intersection(stage.needs):
            again.add(name)
        if name in wanted:
            needs = [steps[need] for need in stage.needs]
            key = _key(stage, [need.key for need in needs], digests)
            steps[name] = _step(stage, key, needs, runs, name in again, keep_stale)
    digests.save()
    return Plan(tuple(steps.values()), tuple(by_name[name] for name in ordered if name not in wanted))


def _check(stages: Iterable[Stage]) -> dict[str, Stage]:
    by_name: dict[str, Stage] = {}
    for stage in stages:
        if stage.name in by_name:
            raise ValueError(f"two stages are named {stage.name!r}")
        by_name[stage.name] = stage
    for stage in by_name.values():
        for need in stage.needs:
            if need not in by_name:
                raise ValueError(f"stage {stage.name!r} needs an {unknown('stage', need, by_name)}")
    return by_name


def _in_order(by_name: Mapping[str, Stage]) -> list[str]:
    """Each name after those it needs, otherwise in the order given."""
    try:
        TopologicalSorter({name: stage.needs for name, stage in by_name.items()}).prepare()
    except CycleError as error:
        circle = error.args[1][:0:-1]  # told from the needed to the needing
        start = min(range(len(circle)), key=lambda place: list(by_name).index(circle[place]))
        circle = [*circle[start:], *circle[:start], circle[start]]
        raise ValueError(f"the stages need each other in a circle: {' → '.join(circle)}") from None
    # Depth first, where graphlib goes by generations: one system is finished before the next begins.
    ordered: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in ordered:
            for need in by_name[name].needs:
                visit(need)
            ordered[name] = None

    for name in by_name:
        visit(name)
    return list(ordered)


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    names = list(names)
    # A name may hold characters that mean something else in a pattern.
    found = [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]
    if not found:
        sentence = unknown("stage", pattern, names)
        raise InputError(sentence[0].upper() + sentence[1:])
    return found


def _key(stage: Stage, needs: Sequence[str], digests: Digests) -> str:
    contents = []
    for path in stage.inputs:
        try:
            contents.append(digests.of(path))
        except OSError as error:
            raise InputError(f"{path}, an input of {stage.name!r}, cannot be read: {error.strerror}.") from None
    identity = [ENGINE, stage.name, stage.settings, list(needs), contents]
    try:
        canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the settings of stage {stage.name!r} are not JSON: {error}") from None
    return hashlib.sha256(canonical.encode()).hexdigest()


def _code(stage: Stage, needs: Iterable[str]) -> str:
    """The digest of a stage's code along with that of the results it is made from."""
    own, needs = stage.code.digest() if stage.code is not None else "", list(needs)
    return hashlib.sha256(" ".join([own, *needs]).encode()).hexdigest()[:16] if any(needs) else own


def _step(stage: Stage, key: str, needs: Sequence[Step], runs: Path, again: bool, keep_stale: bool) -> Step:
    place = f"{stage.slug}-{key[:12]}"
    made_by = [need.mark().get("code", "") if need.state == "done" else need.code for need in needs]
    step = Step(
        stage,
        key,
        runs / "stages" / place,
        runs / "locks" / place,
        _code(stage, made_by),
        again=again,
        keep_stale=keep_stale,
        earlier_counts=not any(made_by),  # version 0.1.0 cannot have used what a later one has made
    )
    if again or not step.is_begun():
        return step
    if step.is_stale():
        return replace(step, state="stale")
    if not step.is_done():
        return replace(step, state="partly")
    mark = step.mark()
    return replace(step, state="done", took=None if mark.get("resumed") else mark.get("seconds"))
