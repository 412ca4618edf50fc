"""A translation that is interrupted goes on where it stopped, and gives what it would have given."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import said
import soundfile
import tiny
from command_line import npda

from npda import translator as translator_module
from npda.decoding.beam import SearchOptions
from npda.io.errors import InputError
from npda.io.journal import Journal
from npda.recordings import AudioInput, Translating, work_digest
from npda.translator import Translator
from npda.writers import write

OPTIONS = SearchOptions(beam=2, max_length=8, n_best=2)


class Killed(BaseException):
    """Nobody catches it."""


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[AudioInput]:
    """Five short ones, of which one is silent and one broken, and two long ones of some parts."""
    monkeypatch.setattr(translator_module, "WINDOW", 2)
    monkeypatch.setattr(translator_module, "_LONG_WINDOW", 1.0)
    pause = np.zeros(16_000, np.float32)
    talk = np.concatenate([part for n in (14_000, 18_000, 20_000) for part in (said.speech(n), pause)])
    sounds = {f"{n}.wav": said.speech(9_000 + 3_000 * n) for n in range(4)} | {"silent.wav": pause}
    sounds |= {"long.wav": talk, "longer.wav": np.concatenate([talk, talk])}
    for name, sound in sounds.items():
        soundfile.write(tmp_path / name, sound, 16_000)
    (tmp_path / "broken.wav").write_bytes(b"no sound")
    names = ["0.wav", "silent.wav", "broken.wav", "1.wav", "2.wav", "long.wav", "3.wav", "longer.wav"]
    return [AudioInput(name, str(tmp_path / name)) for name in names]


def translated(recordings: list[AudioInput], journal: Journal | None, stop: int | None = None) -> tuple[str, int, int]:
    """Output, faults, and how many inputs were decoded; killed in front of the decoding of so many."""
    backbone = tiny.backbone(max_source_positions=300)
    decoded: list[int] = []

    class Counting(Translator):
        def decode(self, tasks: Any, *arguments: Any, **named: Any) -> Any:
            if stop is not None and sum(decoded) >= stop:
                raise Killed
            decoded.append(len(tasks))
            return super().decode(tasks, *arguments, **named)

    translator = Counting(backbone)
    work = Translating(translator, OPTIONS, None, (), "auto", lambda _: None, journal=journal, quiet=True)
    stream = io.StringIO()
    write(work.results(recordings), "json", stream)
    return stream.getvalue(), len(work.faults), sum(decoded)


@pytest.mark.parametrize("stop", [0, 2, 4, 5, 6, 7, 9])
def test_what_was_done_is_not_done_again_and_comes_out_the_same(
    recordings: list[AudioInput], tmp_path: Path, stop: int
):
    expected, faults, all_of_them = translated(recordings, None)
    path = tmp_path / ".out.json.unfinished"
    with pytest.raises(Killed):
        translated(recordings, Journal(path, "work", resume=False), stop)
    with open(path, "a") as file:
        file.write('{"part": "0.0", "va')  # killed while it was written
    output, again, decoded = translated(recordings, Journal(path, "work", resume=True))
    assert (output, again) == (expected, faults)
    assert decoded <= all_of_them - stop + 2  # of a window that was killed, what was decoded goes
    assert translated(recordings, Journal(path, "work", resume=True)) == (expected, faults, 0)


def test_a_journal_of_something_else_is_refused(recordings: list[AudioInput], tmp_path: Path):
    translator = Translator(tiny.backbone())
    digests = {
        work_digest(recordings, translator, OPTIONS),
        work_digest(recordings[1:], translator, OPTIONS),
        work_digest(recordings, translator, SearchOptions()),
        work_digest(recordings, Translator(tiny.backbone(seed=1)), OPTIONS),
    }
    assert len(digests) == 4
    Journal(tmp_path / "j", "one", resume=False).close()
    with pytest.raises(InputError, match="leave out --resume to start afresh"):
        Journal(tmp_path / "j", "two", resume=True)
    assert Journal(tmp_path / "j", "two", resume=False).count == 0


def test_outputs_are_looked_at_before_anything_else(tmp_path: Path):
    """There is no such model, and nobody gets so far."""
    (tmp_path / "file").write_text("x")
    for options, words in {
        ("-o", tmp_path): "is a folder: name a file in it",
        ("-o", tmp_path / "file" / "out.txt"): "cannot be written",
        ("--output-dir", tmp_path / "file"): "cannot be written",
        ("--resume",): "--resume goes on with a file or folder of outputs",
    }.items():
        answer = npda("translate", "x.wav", "--model", tmp_path / "none", *options)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert words in answer.stderr, answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
