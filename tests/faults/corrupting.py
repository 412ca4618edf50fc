"""Every file of a store and of a model, damaged as disks and copies damage files, or as somebody would on purpose."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from npda.datastore.format import FileInfo
from npda.io.sealed import write_sealed
from tests.faults.spoiling import spoilt
from tests.faults.trial import Ended, judged, npda
from tests.faults.verdicts import Case, Cases, Found, Verdict
from tests.faults.world import World

Damage = Callable[[Path], object]  # to a file


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def damages() -> Iterator[tuple[str, Damage]]:
    """What happens to any file."""
    for share in (0.0, 0.5, 0.99):
        yield f"cut to {share:.0%}", lambda path, share=share: os.truncate(path, int(share * path.stat().st_size))
    yield "longer", lambda path: path.write_bytes(path.read_bytes() + b"\0")
    yield "zeros", lambda path: path.write_bytes(bytes(path.stat().st_size))
    yield "missing", Path.unlink
    yield "a folder", lambda path: (path.unlink(), path.mkdir())


def flip(path: Path, random: Random) -> None:
    """One bit."""
    data = bytearray(path.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


class Corrupter:
    """Damages copies of a folder and asks a command. It must refuse, or say what it says of the whole one."""

    def __init__(
        self, world: World, command: list[str], copies: tuple[str, ...], codes: tuple[int, ...] = (0,)
    ) -> None:
        """command: with names of the copies in it"""
        self.world, self.command, self.copies, self.codes = world, command, copies, codes
        with world.scratch(*copies) as folder:
            self.good = npda(command, cwd=folder)
        assert self.good.code == 0, self.good.words

    def case(self, name: str, damage: Callable[[Path], object], must_refuse: bool = False) -> Case:
        """damage: to the folder that the copies lie in"""

        def run() -> Found:
            with self.world.scratch(*self.copies) as folder:
                damage(folder)
                ended = npda(self.command, cwd=folder)
            found = judged(ended, must_refuse)
            if found.verdict == Verdict.WORKED and not self.same(ended):
                return Found(Verdict.SILENT, f"another answer: {ended.words}; not {self.good.words}")
            return found

        return Case(f"{self.command[0]} {self.copies[0]}: {name}", run)

    def same(self, ended: Ended) -> bool:
        return ended.output == self.good.output

    def every(self, folder: str, other: str, random: Random) -> Cases:
        """Every damage to every file, and every file taken from another such folder."""
        root = self.world.file(folder)
        for file in files(root):
            if (root / file).stat().st_size == 0:
                continue
            for name, damage in damages():
                if name == "missing" and file == "knn.json":  # as if it had never been tuned
                    continue
                yield self.case(
                    f"{file}, {name}", lambda where, file=file, damage=damage: damage(where / folder / file)
                )
            theirs = self.world.file(other) / file
            if theirs.is_file():
                yield self.case(
                    f"{file} of another",
                    lambda where, file=file, theirs=theirs: shutil.copyfile(theirs, where / folder / file),
                )

    def flips(self, folder: str, random: Random) -> Cases:
        """Single bits, and what else happens to bytes, for ever."""
        names = [name for name in files(self.world.file(folder)) if self.world.file(f"{folder}/{name}").stat().st_size]
        while True:
            for file in names:
                seed = random.randrange(1 << 30)
                yield self.case(
                    f"{file}, bit {seed}",
                    lambda where, file=file, seed=seed: flip(where / folder / file, Random(seed)),
                )
            file, seed = random.choice(names), random.randrange(1 << 30)

            def spoil(where: Path, file: str = file, seed: int = seed) -> None:
                path = where / folder / file
                path.write_bytes(spoilt(path.read_bytes(), Random(seed))[0])

            yield self.case(f"{file}, spoilt {seed}", spoil)


def stores(world: World, random: Random) -> Cases:
    search = ["--max-length", "8", "-q", "-f", "json"]
    speech = str(world.file("1.wav"))
    by_hand = ["translate", speech, "--model", str(world.model), "--unguarded", *search]
    plain = Corrupter(world, [*by_hand, "--store", "store"], ("store",))
    learned = Corrupter(world, [*by_hand, "--store", "store", "--adaptive"], ("store",))
    small = Corrupter(world, [*by_hand, "--store", "small"], ("small",))
    verify = Corrupter(world, ["inspect", "store", "--verify"], ("store",))
    yield from plain.every("store", "other_store", random)
    yield from small.every("small", "other_store", random)
    yield from verify.every("store", "other_store", random)
    yield from _planted(plain)
    while True:
        for corrupter, folder in ((plain, "store"), (learned, "store"), (small, "small"), (verify, "store")):
            flips = corrupter.flips(folder, random)
            for _ in range(12):
                yield next(flips)
        yield from _resealed(plain, random)


def _rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """datastore.json with something else in it, and with the right checksum of that."""
    path = folder / "store" / "datastore.json"
    info = json.loads(path.read_text())
    del info["sha256"]
    for shard in info["shards"]:
        for name in shard["files"]:
            shard["files"][name] = FileInfo.of(folder / "store" / "shards" / shard["name"] / name).model_dump()
    change(info)
    write_sealed(path, {**info, "format": 1})


def _planted(plain: Corrupter) -> Cases:
    """Stores that somebody has made to do harm: all checksums are right."""

    def array(name: str, change: Callable[[np.ndarray], object]) -> Callable[[Path], None]:
        def damage(folder: Path) -> None:
            path = folder / "store" / "shards" / "00000" / f"{name}.npy"
            numbers = np.load(path)
            change(numbers)
            np.save(path, numbers)
            _rewritten(folder, lambda info: None)

        return damage

    def fill(value: Any, place: Any = slice(None)) -> Callable[[np.ndarray], None]:
        return lambda numbers: numbers.__setitem__(place, value)

    for name, damage in {
        "values beyond the vocabulary": array("values", fill(60_000, 0)),
        "values below none": array("values", fill(-1, 0)),
        "sentences that are not there": array("sentences", fill(30_000, -1)),
        "sentences that fall": array(
            "sentences", lambda numbers: numbers.__setitem__(slice(None), numbers[::-1].copy())
        ),
        "offsets beyond the texts": array("offsets", fill(1 << 40, -1)),
        "offsets that fall": array("offsets", lambda numbers: numbers.__setitem__(slice(None), numbers[::-1].copy())),
        "offsets below none": array("offsets", fill(-5, 1)),
        "positions below none": array("positions", fill(-1, 0)),
        "keys that are no numbers": array("keys", fill(np.nan, 0)),
        "keys without end": array("keys", fill(np.inf, 0)),
    }.items():
        yield plain.case(name, damage, must_refuse=True)

    def pickled(folder: Path) -> None:
        path = folder / "store" / "shards" / "00000" / "values.npy"
        np.save(path, np.array([Planted(), 1], dtype=object), allow_pickle=True)
        _rewritten(folder, lambda info: None)

    yield plain.case("a pickle", pickled, must_refuse=True)
    changes: dict[str, Callable[[dict[str, Any]], object]] = {
        "a way out": lambda info: info["shards"][0].update(name="../../home/store/shards/00000"),
        "an absolute name": lambda info: info["shards"][0].update(name="/etc"),
        "a file's way out": lambda info: info["index"]["files"].update({"../x": info["index"]["files"]["index.faiss"]}),
        "an id beyond reason": lambda info: info["shards"][-1].update(first=10**12),
        "no shards": lambda info: info.update(shards=[]),
        "dimensions beyond reason": lambda info: info.update(dim=10**9),
        "a scale of nothing": lambda info: info.update(distance_scale=0),
        "counts below none": lambda info: info.update(count=-1),
        "visits beyond reason": lambda info: info["index"].update(nprobe=10**9),
        "an unknown key": lambda info: info.update(run="rm -rf /"),
        "another model": lambda info: info["backbone"].update(digest="0" * 64),
        "escape sequences in a name": lambda info: (
            [source.update(name="\x1b[31mred") for source in info["sources"]],
            [shard.update(source="\x1b[31mred") for shard in info["shards"]],
        ),
    }
    for name, change in changes.items():
        refused = name not in ("escape sequences in a name",)
        yield plain.case(name, lambda folder, change=change: _rewritten(folder, change), must_refuse=refused)


class Planted:
    """What no loader must bring to life."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo planted; kill -9 $PPID",)


_VALUES = (None, True, -1, 0, 1, 1 << 70, 0.5, float("nan"), "", "x", "../../x", "\x1b[31m", [], [[]], {}, {"x": 1})


def _resealed(plain: Corrupter, random: Random) -> Cases:
    """One value of datastore.json is something else, under a checksum that is right."""
    info = json.loads((plain.world.store / "datastore.json").read_text())
    for path in random.sample(list(_paths(info)), 12):
        value = random.choice(_VALUES)

        def change(found: Any, path: tuple[Any, ...] = path, value: Any = value) -> None:
            for step in path[:-1]:
                found = found[step]
            found[path[-1]] = value

        yield plain.case(
            f"datastore.json, {'.'.join(map(str, path))} is {value!r}",
            lambda folder, change=change: _rewritten(folder, change),
        )


def _paths(found: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places in JSON."""
    inside = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for step, value in inside:
        if step not in ("sha256", "format"):
            yield (*before, step)
            yield from _paths(value, (*before, step))


class OtherModel(Corrupter):
    """A model has no checksums of its own: other numbers are another model, which may say something else."""

    def same(self, ended: Ended) -> bool:
        return True


def models(world: World, random: Random) -> Cases:
    command = ["translate", str(world.file("1.wav")), "--max-length", "8", "-q", "-f", "json", "--model", "model"]
    plain = OtherModel(world, command, ("model",))
    yield from chain(plain.every("model", "other", random), _configurations(plain, random))
    while True:
        flips = plain.flips("model", random)
        for _ in range(30):
            yield next(flips)
        yield from _configurations(plain, random)


def _configurations(plain: Corrupter, random: Random) -> Cases:
    """One value of config.json is something else."""
    config = json.loads((plain.world.model / "config.json").read_text())
    for path in random.sample(list(_paths(config)), 12):
        value = random.choice(_VALUES)

        def change(folder: Path, path: tuple[Any, ...] = path, value: Any = value) -> None:
            whole = json.loads(json.dumps(config))
            found = whole
            for step in path[:-1]:
                found = found[step]
            found[path[-1]] = value
            (folder / "model" / "config.json").write_text(json.dumps(whole))

        yield plain.case(f"config.json, {'.'.join(map(str, path))} is {value!r}", change)
