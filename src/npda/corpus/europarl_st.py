"""Europarl-ST v1.1: speeches in the European Parliament with translations, in many directions.

ROOT/en/audios/en.20081117.21.1-146.m4a     or .wav, .flac
ROOT/en/de/train/segments.lst               a speech, its start and its end in seconds, on every line
ROOT/en/de/train/segments.en                a transcript for each segment
ROOT/en/de/train/segments.de                a translation for each segment
ROOT/en/de/train/speeches.lst               the speeches; speakers.lst, where there is one, names who holds them
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from npda.corpus.layout import expect_file, expect_folder, file_name, language_code
from npda.corpus.manifest import Utterance
from npda.corpus.segments import Segments, Span, seconds
from npda.io.errors import InputError
from npda.io.files import read_lines, stream_lines

SPLITS = ("train", "dev", "test", "train-noisy")

# The first that is there is taken: the corpus comes as m4a, and a wav or flac beside it is a converted copy.
SUFFIXES = (".wav", ".flac", ".m4a")


def read(
    root: str | Path,
    source: str,
    target: str,
    split: str,
    remarks: Counter[str] | None = None,
    progress: bool = False,
) -> list[Utterance]:
    """A split of Europarl-ST from a language into another, without decoding audio. root: the folder that holds en, …

    How many segments were skipped or clipped, and why, is counted in `remarks`.
    """
    recordings, spans, transcripts, translations = files(root, source, target, split)
    segments = Segments(str(spans), _spans(spans, recordings), transcripts, translations, source, target)
    return segments.utterances(remarks, progress)


def files(root: str | Path, source: str, target: str, split: str) -> tuple[Path, Path, Path, Path]:
    """The folder of the recordings, the list of segments, their transcripts and their translations."""
    if split not in SPLITS:
        raise InputError(f"Europarl-ST has no split {split!r}; it has {', '.join(SPLITS)}.")
    if language_code(source) == language_code(target):
        raise InputError(f"Europarl-ST translates into other languages, not from {source} into {target}.")
    layout = (
        f"Europarl-ST is expected as ROOT/{source}/audios/*.wav, .flac or .m4a and "
        f"ROOT/{source}/{target}/{split}/segments.lst, .{source} and .{target}: unpack its archive and give "
        f"the folder that holds {source} as ROOT."
    )
    recordings = expect_folder(Path(root), source, "audios", layout=layout)
    folder = expect_folder(Path(root), source, target, split, layout=layout)
    spans, transcripts, translations = (
        expect_file(folder / f"segments.{end}", layout) for end in ("lst", source, target)
    )
    return recordings, spans, transcripts, translations


def _spans(path: Path, recordings: Path) -> Iterator[Span]:
    by_speech: dict[str, Path] = {}
    for suffix in reversed(SUFFIXES):
        by_speech |= {file.name.removesuffix(suffix): file for file in recordings.glob(f"*{suffix}")}
    speakers = _speakers(path.parent)
    for number, line in enumerate(stream_lines(path), start=1):
        where = f"{path}, line {number}"
        fields = line.split()
        if len(fields) != 3:
            raise InputError(f"{where}: {len(fields)} fields instead of a speech, its start and its end.")
        speech = file_name(where, fields[0])
        if speech not in by_speech:
            raise InputError(f"{where}: there is no {speech}.wav, .flac or .m4a in {recordings}; unpack it again.")
        start, end = seconds(where, "the start", fields[1]), seconds(where, "the end", fields[2])
        if end < start:
            raise InputError(f"{where}: the segment ends at {end} s, before it starts at {start} s.")
        yield Span(where, by_speech[speech], start, end - start, speakers.get(speech, ""))


def _speakers(folder: Path) -> dict[str, str]:
    """The speaker of each speech; none is known unless there is one line for each."""
    speeches, speakers = folder / "speeches.lst", folder / "speakers.lst"
    if not (speeches.is_file() and speakers.is_file()):
        return {}
    names = [line.split() for line in read_lines(speeches)], [line.split() for line in read_lines(speakers)]
    if len(names[0]) != len(names[1]):
        return {}
    return {speech[0]: " ".join(speaker) for speech, speaker in zip(*names, strict=True) if speech}
