"""Every verb that writes, as something that may be interrupted, refused by the disk, and done again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

from tests.faults.interference import Act, Interference, kill
from tests.faults.trial import Ended, npda, snapshot
from tests.faults.world import World


@dataclass(frozen=True)
class Deed:
    """name: of the verb; arguments: with HOME for the world's files, all else lies in a folder of its own;
    copies: of the world that it changes there; results: what it makes or changes; kept: what an unfinished run may
    leave for the next one; again: what is added to the arguments then; differs: files that tell times
    """

    name: str
    arguments: str
    results: tuple[str, ...] = ("out",)
    copies: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    again: str = ""
    differs: tuple[str, ...] = ()
    cheap: bool = False

    def words(self, world: World, again: bool = False) -> list[str]:
        words = f"{self.arguments} {self.again if again else ''}".split()
        return [*self.name.split(" (")[0].split(), *(word.replace("HOME", str(world.home)) for word in words)]

    def made(self, folder: Path) -> dict[str, str]:
        """What stands for the results, but for times."""
        found = snapshot(folder)
        return {
            path: digest
            for path, digest in found.items()
            if path.split("/")[0] in self.results
            and not any(fnmatch(path, pattern) for pattern in (*self.differs, _HELD))
        }

    def litter(self, folder: Path, unfinished: bool = False) -> list[str]:
        """What lies there besides. unfinished: what is left for the next run is none"""
        names = sorted(path.name for path in folder.iterdir())
        known = [*self.results, *self.copies, *(self.kept if unfinished else ())]
        return [name for name in names if not any(fnmatch(name, pattern) for pattern in known)]


_HELD = "*/.held-*.json"  # versions of a store that are read: they go with the next change
_MODEL = "--model HOME/model"
_SPEECH = f"HOME/1.wav HOME/2.wav HOME/3.wav {_MODEL} --beam 1 --max-length 6 -q"
_FEW = "--max-updates 4 --seed 1 -q"
_WORK = (".out.*", "out")
_LOGS = ("out/*.jsonl", "out/*log*", "out/*state.json")  # which tell seconds
_TUNE = f"{_MODEL} --store store --text HOME/more.tsv --unguarded --beam 1 --max-length 6 --decodes 1 -q"
DEEDS = (
    Deed("build", f"{_MODEL} --text HOME/pairs.tsv --out out -q", kept=_WORK),
    Deed("build (index)", f"{_MODEL} --text HOME/pairs.tsv --index IVF2,Flat --out out -q", kept=_WORK, cheap=True),
    Deed("build (append)", f"{_MODEL} --text HOME/more.tsv --append --out store -q", ("store",), ("store",),
         cheap=True),
    Deed("build (speech)", f"{_MODEL} --speech HOME/speech.tsv --out out -q", kept=_WORK),
    Deed("build (voice)", f"{_MODEL} --text HOME/few.tsv --speak espeak:en-us --keep-audio audio --out out -q",
         ("out", "audio"), kept=(*_WORK, "audio")),
    Deed("remove", "store --source domain", ("store",), ("store",), cheap=True),
    Deed("compress", "HOME/store --out out --dim 8 -q", kept=_WORK, cheap=True),
    Deed("terms", f"HOME/terms.tsv {_MODEL} --general HOME/pairs.tsv --sentences 4 --out out -q", kept=_WORK),
    Deed("translate", f"{_SPEECH} -f json -o out", kept=(".out.*",), again="--resume", cheap=True),
    Deed("translate (folder)", f"{_SPEECH} -f srt --output-dir out", kept=(".translation.*", "out"), again="--resume"),
    Deed("explain", f"HOME/1.wav {_MODEL} --store HOME/store --unguarded --beam 1 --max-length 6 --html out"),
    Deed("filter", "HOME/pairs.tsv --against HOME/more.tsv --out out.tsv --report report.tsv -q",
         ("out.tsv", "report.tsv"), cheap=True),
    Deed("synthesize", "HOME/few.tsv --voice espeak:en-us --out out -q", kept=("out",)),
    Deed("tune", _TUNE, ("store",), ("store",)),
    Deed("train", f"HOME/train.tsv --dev HOME/dev.tsv --out out {_FEW} --source-size 50 --target-size 50",
         kept=("out",), differs=_LOGS),
    Deed("train-text", f"HOME/pairs.tsv --task mt --dev HOME/more.tsv --out out {_FEW} --vocabulary-size 50",
         kept=("out",), differs=_LOGS),
    Deed("align", f"HOME/train.tsv {_MODEL} --dev HOME/dev.tsv --out out --max-epochs 1 --seed 1 --layers 1 -q",
         kept=("out",), differs=_LOGS),
    Deed("reproduce", "HOME/tiny.yaml --runs out -q", kept=("out",), differs=("out/**",)),
)  # fmt: skip


class Doing:
    """A deed with what it makes when nothing happens to it."""

    def __init__(self, world: World, deed: Deed, act: Act = kill) -> None:
        """act: what will happen to it"""
        self.world, self.deed, self.act = world, deed, act

    @cached_property
    def undisturbed(self) -> tuple[dict[str, str], int, Ended]:
        """What it makes, how many times it asks the disk, and how it ended."""
        with self.world.scratch(*self.deed.copies) as folder:
            counter = Interference(self.world.root, act=self.act)
            ended = npda(self.deed.words(self.world), counter.begin, folder)
            assert ended.code == 0, ended.words
            assert not self.deed.litter(folder), self.deed.litter(folder)
            return self.deed.made(folder), counter.count, ended

    @contextmanager
    def begun(self) -> Iterator[Path]:
        with self.world.scratch(*self.deed.copies) as folder:
            yield folder

    def finished(self, folder: Path) -> tuple[Ended, str]:
        """Do it again, undisturbed. → how that ended, and what is not as it should be"""
        ended = npda(self.deed.words(self.world, again=True), cwd=folder)
        wanted, found = self.undisturbed[0], self.deed.made(folder)
        names = sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))
        wrong = f"not as without an interruption: {', '.join(names[:5])}" if names else ""
        if litter := self.deed.litter(folder):
            wrong = f"left behind: {', '.join(litter[:5])}"
        return ended, wrong


def deeds(world: World, chance: random.Random, cheap: bool, act: Act = kill) -> list[Doing]:
    chosen = [Doing(world, deed, act) for deed in DEEDS if deed.cheap or not cheap]
    chance.shuffle(chosen)
    return chosen
