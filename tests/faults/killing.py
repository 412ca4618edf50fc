"""kill -9 at any moment of every verb that writes: the next run gives the same bytes, and leaves nothing else."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from tests.faults.deeds import Doing, deeds
from tests.faults.interference import Interference
from tests.faults.trial import begin, judged, npda, wait
from tests.faults.verdicts import Case, Cases, Found, Verdict
from tests.faults.world import World


def cases(world: World, chance: random.Random, cheap: bool = False) -> Cases:
    chosen = deeds(world, chance, cheap)
    while True:
        for doing in chosen:
            _, count, ended = doing.undisturbed
            at = 1 + chance.randrange(count)
            yield Case(f"{doing.deed.name}, killed before {at} of {count}", lambda doing=doing, at=at: _at(doing, at))
            if not cheap:
                after = chance.random() * ended.seconds
                yield Case(
                    f"{doing.deed.name}, killed after {after:.3f} s",
                    lambda doing=doing, after=after: _after(doing, after),
                )


def again(world: World, chance: random.Random, cheap: bool = False) -> Cases:
    """Done once more, to the same bytes."""
    while True:
        for doing in deeds(world, chance, cheap):
            yield Case(doing.deed.name, lambda doing=doing: _again(doing))


def _again(doing: Doing) -> Found:
    doing.undisturbed  # noqa: B018 (the first time)
    with doing.begun() as folder:
        ended, wrong = doing.finished(folder)
    found = judged(ended)
    return Found(Verdict.SILENT, f"{wrong}; {ended.words}") if found and wrong else found


def _at(doing: Doing, at: int) -> Found:
    """Before it asks the disk for the nth time, and once more in the run after that."""
    with doing.begun() as folder:
        for again in (False, True):
            interference = Interference(doing.world.root, at)
            ended = npda(doing.deed.words(doing.world, again), interference.begin, folder)
            if ended.code not in (0, 1, 2, -signal.SIGKILL) or "Traceback" in ended.errors:
                return judged(ended)
        return _resumed(doing, folder)


def _after(doing: Doing, seconds: float) -> Found:
    """Some time after it has begun."""
    from npda.cli import app
    from npda.cli.verbs import run

    with doing.begun() as folder, open(os.devnull, "w") as nowhere:
        words = doing.deed.words(doing.world)
        child = begin(lambda: run(app, words), folder, None, nowhere.fileno(), nowhere.fileno())
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        wait(child)
        return _resumed(doing, folder)


def _resumed(doing: Doing, folder: Path) -> Found:
    ended, wrong = doing.finished(folder)
    found = judged(ended)
    if found and wrong:
        return Found(Verdict.LOST, f"{wrong}; {ended.words}")
    return found
