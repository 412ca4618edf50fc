"""Several at one store: two writers, readers while it changes, and the same command twice at once."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random

import numpy as np

from npda.cli import app
from npda.cli.verbs import run
from npda.datastore.store import Datastore
from npda.datastore.verify import verify
from tests.faults.deeds import DEEDS, Doing
from tests.faults.trial import begin, forked, judged, together, wait
from tests.faults.verdicts import WORKED, Case, Cases, Found, Verdict
from tests.faults.world import World


def cases(world: World, chance: Random) -> Cases:
    twice = [Doing(world, deed) for deed in DEEDS if deed.cheap]
    while True:
        doing = chance.choice(twice)
        yield Case(f"{doing.deed.name}, twice at once", lambda doing=doing: _twice(doing))
        yield Case("add and remove at once", lambda: _writers(world))
        pause = chance.uniform(0.0, 0.02)
        yield Case("readers while a store changes", lambda pause=pause: _readers(world, pause))


def _twice(doing: Doing) -> Found:
    """One of them does it; the other too, or it says why not; the result is that of one."""
    with doing.begun() as folder:
        words = doing.deed.words(doing.world)
        for ended in together([lambda: run(app, words)] * 2, folder):
            if not (found := judged(ended)):
                return found
        ended, wrong = doing.finished(folder)
        return Found(Verdict.LOST, f"{wrong}; {ended.words}") if wrong else judged(ended)


def _adding(world: World) -> list[str]:
    text = str(world.file("more.tsv"))
    return ["build", "--model", str(world.model), "--text", text, "--append", "--out", "store", "-q"]


def _writers(world: World) -> Found:
    """Adding and removing: one after the other, or one of them is refused; the store is whole in any case."""
    with world.scratch("store") as folder:
        add = _adding(world)
        remove = ["remove", "store", "--source", "domain"]
        works = [lambda: run(app, add), lambda: run(app, remove), lambda: run(app, add)]
        every = together(works, folder)
        for ended in every:
            if not (found := judged(ended)):
                return found
        done = [ended.code == 0 for ended in every]
        checked = forked(lambda: _checked(folder / "store"), folder)
        sources = checked.output.split()
        wanted = ([] if done[1] else ["domain"]) + (["more.tsv"] if done[0] or done[2] else [])
        if checked.code != 0 or sources != wanted:
            return Found(Verdict.LOST, f"{sources} instead of {wanted}; {checked.words}")
        return WORKED


def _checked(store: Path) -> int:
    """→ 0, after its sources were printed, if every byte is as it should be"""
    verify(store, progress=False)
    print(*(source.name for source in Datastore.open(store).info.sources))
    return 0


def _readers(world: World, pause: float) -> Found:
    """Whatever a reader opens is one version, whole, until it lets go."""
    with world.scratch("store") as folder:
        store = folder / "store"
        add = _adding(world)
        remove = ["remove", "store", "--source", "more.tsv"]
        smaller = ["compress", "store", "--out", "small", "--dim", "8", "-q"]
        readers = [begin(lambda: _reading(store, pause), folder) for _ in range(2)]
        codes = []
        for words in (add, remove, smaller):
            ended = forked(lambda words=words: run(app, words), folder)
            codes.append((words[0], ended))
        found = WORKED
        for reader in readers:
            os.kill(reader, signal.SIGTERM)
        for reader in readers:
            code, _ = wait(reader)
            if code != 0:
                found = Found(Verdict.SILENT if code == 3 else Verdict.TRACEBACK, f"a reader ended with {code}")
        for name, ended in codes:
            if ended.code != 0:
                found = Found(Verdict.LOST, f"{name} beside readers: {ended.words}")
        checked = forked(lambda: _checked(store), folder)
        return found if checked.code == 0 else Found(Verdict.LOST, checked.words)


def _reading(store: Path, pause: float) -> int:
    """Open, search, look up, until it is told to stop. → 3 if what is found changes"""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    random = np.random.default_rng(0)
    while not stopped:
        opened = Datastore.open(store)
        queries = random.normal(size=(2, opened.dim)).astype(np.float32)
        first = opened.search(queries, 3)
        signal.sigtimedwait([], pause) if pause else None
        again = opened.search(queries, 3)
        if not np.array_equal(first.ids, again.ids) or len(opened) != opened.info.count:
            return 3
        opened.neighbour_info(int(first.ids[0, 0]))
    return 0
