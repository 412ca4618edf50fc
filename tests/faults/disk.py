"""A disk that is full, broken or read-only, at any moment of every verb that writes."""

from __future__ import annotations

import errno
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from npda.cli import app
from npda.cli.verbs import run
from tests.faults.deeds import Doing, deeds
from tests.faults.interference import Interference, failing, no_file_beyond, read_only, small_disk
from tests.faults.trial import changes, forked, judged, npda, snapshot
from tests.faults.verdicts import Case, Cases, Found, Skipped, Verdict
from tests.faults.world import World

CODES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EDQUOT)
_NO_MOUNT = 77


def cases(world: World, chance: random.Random, cheap: bool = False) -> Cases:
    chosen = deeds(world, chance, cheap, failing(0))
    while True:
        for doing in chosen:
            count = doing.undisturbed[1]
            at, code, lasting = 1 + chance.randrange(count), chance.choice(CODES), chance.random() < 0.5
            name = f"{doing.deed.name}: {os.strerror(code)} {'from' if lasting else 'at'} {at} of {count}"
            begin = Interference(world.root, at, failing(code), lasting).begin
            yield Case(name, lambda doing=doing, begin=begin: _refused(doing, begin))
            size = int(10 ** chance.uniform(0, 5))
            yield Case(
                f"{doing.deed.name}: no file beyond {size:,} bytes",
                lambda doing=doing, size=size: _refused(doing, no_file_beyond(size)),
            )


def mounted(world: World, chance: random.Random, cheap: bool = False) -> Cases:
    """The same with disks of their own, which the system lets a user mount in many places."""
    with tempfile.TemporaryDirectory() as folder:
        if forked(lambda: _mounts(Path(folder))).code == _NO_MOUNT:
            raise Skipped("nobody may mount a disk here")
    chosen = deeds(world, chance, cheap, failing(0))
    while True:
        for doing in chosen:
            size = 4_096 * int(10 ** chance.uniform(0, 2))
            yield Case(
                f"{doing.deed.name} on a disk of {size:,} bytes", lambda doing=doing, size=size: _on_small(doing, size)
            )
            yield Case(
                f"{doing.deed.name} on a disk that is read-only", lambda doing=doing: _on_small(doing, 1 << 24, True)
            )


def _refused(doing: Doing, begin: Callable[[], None]) -> Found:
    """A sentence, or it did not matter; what was there is as it was; and with room again all comes out."""
    with doing.begun() as folder:
        home, before = snapshot(doing.world.home), snapshot(folder)
        ended = npda(doing.deed.words(doing.world), begin, folder)
        found = judged(ended)
        if not found:
            return found
        if found.verdict == Verdict.REFUSED:
            if changed := changes(home, snapshot(doing.world.home)) or _gone(doing, before, snapshot(folder)):
                return Found(Verdict.LOST, f"{changed}; {ended.words}")
            if litter := doing.deed.litter(folder, unfinished=True):
                return Found(Verdict.LOST, f"left behind: {litter}; {ended.words}")
        after, wrong = doing.finished(folder)
        if not (then := judged(after)):
            return then
        return Found(Verdict.LOST, f"{wrong}; {ended.words}; then {after.words}") if wrong else found


def _gone(doing: Doing, before: dict[str, str], after: dict[str, str]) -> str:
    """What is lost of what was there; what is new is looked at apart."""
    wanted = doing.undisturbed[0]
    if before and {path: after.get(path) for path in wanted} == wanted:
        return ""  # it was done, and what failed came afterwards
    return changes(before, {path: digest for path, digest in after.items() if path in before})


def _mounts(folder: Path) -> int:
    try:
        small_disk(folder, 4_096)
    except OSError:
        return _NO_MOUNT
    return 0


def _on_small(doing: Doing, size: int, closed: bool = False) -> Found:
    """All in one process, which alone sees its disk."""
    with doing.world.scratch(*doing.deed.copies) as folder:
        words, place = doing.deed.words(doing.world), folder / "disk"
        place.mkdir()
        said = folder / "said"

        def work() -> int:
            import shutil

            content = sum(path.stat().st_size + 4_096 for path in folder.rglob("*"))
            small_disk(place, size + (0 if closed else content))
            for name in doing.deed.copies:
                shutil.copytree(folder / name, place / name)
            if closed:
                read_only(place)
            os.chdir(place)
            before = snapshot(place)
            code = run(app, words)
            if code == 2:
                lost = _gone(doing, before, snapshot(place))
                litter = doing.deed.litter(place, unfinished=True)
                said.write_text(lost or (f"left behind: {litter}" if litter else ""))
            return code

        ended = forked(work, folder)
        found = judged(ended, must_refuse=closed)
        wrong = said.read_text() if said.exists() else ""
        return Found(Verdict.LOST, f"{wrong}; {ended.words}") if found and wrong else found
