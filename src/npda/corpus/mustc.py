"""MuST-C v1: talks in English with translations, one archive for each language.

ROOT/en-de/data/train/wav/ted_767.wav
ROOT/en-de/data/train/txt/train.yaml    a list of {duration, offset, speaker_id, wav}, in seconds
ROOT/en-de/data/train/txt/train.en      a transcript for each entry of the list
ROOT/en-de/data/train/txt/train.de      a translation for each entry of the list
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from npda.corpus.layout import expect_file, expect_folder, file_name, language_code
from npda.corpus.manifest import Utterance
from npda.corpus.segments import Segments, Span, seconds
from npda.io.errors import InputError

SPLITS = ("train", "dev", "tst-COMMON", "tst-HE")

REQUIRED = ("duration", "offset", "wav")


def read(
    root: str | Path, language: str, split: str, remarks: Counter[str] | None = None, progress: bool = False
) -> list[Utterance]:
    """A split of MuST-C into a language, without decoding any audio. root: the folder that holds en-de, en-fr, …

    How many segments were skipped or clipped, and why, is counted in `remarks`.
    """
    recordings, spans, source, target = files(root, language, split)
    return Segments(str(spans), _spans(spans, recordings), source, target, "en", language).utterances(remarks, progress)


def files(root: str | Path, language: str, split: str) -> tuple[Path, Path, Path, Path]:
    """The folder of the recordings, the list of segments, their transcripts and their translations."""
    if split not in SPLITS:
        raise InputError(f"MuST-C has no split {split!r}; it has {', '.join(SPLITS)}.")
    pair = f"en-{language_code(language)}"
    layout = (
        f"MuST-C is expected as ROOT/{pair}/data/{split}/wav/*.wav and "
        f"ROOT/{pair}/data/{split}/txt/{split}.yaml, .en and .{language}: unpack its archive of {pair} in ROOT."
    )
    folder = expect_folder(Path(root), pair, "data", split, layout=layout)
    recordings, texts = (expect_folder(folder, name, layout=layout) for name in ("wav", "txt"))
    spans, source, target = (expect_file(texts / f"{split}.{end}", layout) for end in ("yaml", "en", language))
    return recordings, spans, source, target


def _spans(path: Path, recordings: Path) -> Iterator[Span]:
    for line, entry in _entries(path):
        where = f"{path}, line {line}"
        for name in REQUIRED:
            if name not in entry:
                raise InputError(f"{where}: the entry has no {name}; it needs {', '.join(REQUIRED)}.")
        yield Span(
            where,
            recordings / file_name(where, entry["wav"]),
            seconds(where, "offset", entry["offset"]),
            seconds(where, "duration", entry["duration"]),
            entry.get("speaker_id", ""),
        )


def _entries(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The entries of a list of plain mappings, each with its line.

    From the events of the parser: the objects of a training set of 230,000 entries would take 1.5 GB, and eight
    times as long.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entry: list[str] | None = None  # keys and values by turns, while inside a mapping
    line, listed = 0, False
    try:
        with open(path, "rb") as stream:
            for event in yaml.parse(stream, Loader=loader):
                here = event.start_mark.line + 1 if event.start_mark else line
                if isinstance(event, yaml.SequenceStartEvent) and not listed:
                    listed = True
                elif isinstance(event, yaml.MappingStartEvent) and listed and entry is None:
                    line, entry = here, []
                elif isinstance(event, yaml.ScalarEvent) and entry is not None:
                    entry.append(event.value)
                elif isinstance(event, yaml.MappingEndEvent) and entry is not None:
                    yield line, dict(zip(entry[::2], entry[1::2], strict=True))
                    entry = None
                elif isinstance(event, yaml.SequenceEndEvent):
                    listed = False
                elif isinstance(event, yaml.NodeEvent):
                    raise InputError(f"{path}, line {here}: not a list of {{duration, offset, speaker_id, wav}}.")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        raise InputError(f"{path}{place}: broken YAML ({reason}); unpack the corpus again.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
