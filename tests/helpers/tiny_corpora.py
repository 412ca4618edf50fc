"""Folders laid out as MuST-C, Europarl-ST and Europarl, made of a few sentences of the embedded corpus."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import soundfile

from npda import audio
from npda.corpus.manifest import Utterance
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair
from npda.corpus.synthesis import Espeak

RATE = 16_000


@dataclass(frozen=True)
class Talk:
    """Sentences spoken one after the other, with pauses."""

    name: str
    pairs: list[Pair]
    spoken: list[np.ndarray]  # [samples] int16 each
    starts: list[int]  # samples
    whole: np.ndarray  # [samples] int16

    @property
    def spans(self) -> list[tuple[float, float]]:
        """Start and duration in seconds."""
        return [(start / RATE, len(speech) / RATE) for start, speech in zip(self.starts, self.spoken, strict=True)]


def talks(domain: str, split: str, names: tuple[str, ...], language: str = "de", each: int = 3) -> list[Talk]:
    pairs, espeak = _sentences(domain, split, language), _espeak()
    return [_talk(espeak, name, pairs[place * each : (place + 1) * each]) for place, name in enumerate(names)]


_sentences = cache(sentences)
_espeak = cache(Espeak)


def _talk(espeak: Espeak, name: str, pairs: list[Pair]) -> Talk:
    spoken = [(espeak.speak(pair.src_text) * 32767).astype(np.int16) for pair in pairs]
    # Odd pauses, so that nothing starts at a whole hundredth of a second.
    pauses = [np.zeros(4_001 + 1_237 * place, dtype=np.int16) for place in range(len(pairs) + 1)]
    parts = [part for both in zip(pauses, spoken, strict=False) for part in both] + [pauses[-1]]
    ends = np.cumsum([len(part) for part in parts])
    return Talk(name, pairs, spoken, [int(end) for end in ends[0:-1:2]], np.concatenate(parts))


def write_mustc(root: Path, split: str, talks: list[Talk], language: str = "de") -> Path:
    """The folder of a split: wav/, txt/{split}.yaml, .en and .{language}"""
    folder = root / f"en-{language}" / "data" / split
    (folder / "wav").mkdir(parents=True)
    (folder / "txt").mkdir()
    entries = []
    for number, talk in enumerate(talks):
        soundfile.write(folder / "wav" / f"{talk.name}.wav", talk.whole, RATE)
        for start, duration in talk.spans:
            entries.append(
                f"- {{duration: {duration:.6f}, offset: {start:.6f}, rW: 9, uW: 0, "
                f"speaker_id: spk.{number}, wav: {talk.name}.wav}}"
            )
    write_text(folder / "txt" / f"{split}.yaml", entries)
    write_text(folder / "txt" / f"{split}.en", [pair.src_text for talk in talks for pair in talk.pairs])
    write_text(folder / "txt" / f"{split}.{language}", [pair.tgt_text for talk in talks for pair in talk.pairs])
    return folder


def write_europarl_st(root: Path, split: str, talks: list[Talk], language: str = "de", suffix: str = ".flac") -> Path:
    """The folder of a split: segments.lst, .en and .{language}, speeches.* and speakers.lst; audio in en/audios/"""
    folder = root / "en" / language / split
    folder.mkdir(parents=True)
    (root / "en" / "audios").mkdir(exist_ok=True)
    rows = []
    for talk in talks:
        soundfile.write(root / "en" / "audios" / f"{talk.name}{suffix}", talk.whole, RATE)
        rows += [f"{talk.name} {start:.5f} {start + duration:.5f}" for start, duration in talk.spans]
    write_text(folder / "segments.lst", rows)
    for end, side in (("en", "src_text"), (language, "tgt_text")):
        write_text(folder / f"segments.{end}", [getattr(pair, side) for talk in talks for pair in talk.pairs])
        write_text(folder / f"speeches.{end}", [" ".join(getattr(pair, side) for pair in talk.pairs) for talk in talks])
    write_text(folder / "speeches.lst", [talk.name for talk in talks])
    write_text(folder / "speakers.lst", [f"Member {number}" for number in range(len(talks))])
    return folder


def write_europarl(root: Path, pairs: list[Pair], language: str = "de") -> tuple[Path, Path]:
    root.mkdir(parents=True, exist_ok=True)
    english, other = (root / f"europarl-v7.{language}-en.{end}" for end in ("en", language))
    write_text(english, [pair.src_text for pair in pairs])
    write_text(other, [pair.tgt_text for pair in pairs])
    return english, other


def check_sentences(utterances: list[Utterance], talks: list[Talk]) -> None:
    """Whether utterances are the English sentences of the talks with their German, in order and to the sample."""
    pairs = [pair for talk in talks for pair in talk.pairs]
    spoken = [sentence for talk in talks for sentence in talk.spoken]
    for one, pair, sentence in zip(utterances, pairs, spoken, strict=True):
        heard = audio.load(one.audio)
        np.testing.assert_array_equal(heard, sentence / np.float32(32768))
        assert one.n_frames == len(audio.fbank(heard))
        assert (one.src_text, one.tgt_text) == (pair.src_text, pair.tgt_text)
        assert (one.src_lang, one.tgt_lang) == ("en", "de")


def write_text(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def edit(path: Path, old: str, new: str, count: int = 1) -> None:
    """Replace the first occurrence; a test whose fault is not there would prove nothing."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, count), encoding="utf-8")
