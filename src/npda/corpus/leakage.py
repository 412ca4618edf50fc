"""Leakage: training pairs that give away a held-out sentence, found exactly and in one pass over the training text.

A side of a training pair is compared with the sides of the held-out pairs in the same language, after `normalize`.
The pair leaks when one of its sides is

equal       to a held-out side; or
contained   in a held-out side, word for word, and at least `ngram` words long; or
containing  a held-out side, likewise; or
near        to a held-out side: of the distinct word n-grams of one or the other at least `threshold` are shared.
            Where one of the two has fewer than `short_chars` characters, a single changed word would break nearly all
            of its n-grams, or a set phrase be nearly all of them; there the Jaccard similarity of character n-grams
            decides, at `short_threshold`, provided the lengths agree to the same degree. Below `ngram` words only
            equality counts: "thank you, madam" is no leak of "thank you, sir".
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import ceil
from typing import Literal, NamedTuple

from npda.corpus.pairs import Pair
from npda.io.errors import InputError

Reason = Literal["equal", "contained", "containing", "near"]
Side = Literal["pair", "source", "target"]
REASONS: tuple[Reason, ...] = ("equal", "contained", "containing", "near")
SIDES: tuple[Side, ...] = ("pair", "source", "target")

# More make the character index larger but more selective; four or five are fastest on real text.
MEETINGS = 4


@dataclass(frozen=True)
class LeakageSettings:
    """What counts as a leak."""

    min_words: int = 1  # a side shorter than this is a leak only if both sides are equal to a held-out pair's
    ngram: int = 5  # words of an n-gram, and of the shortest side that can be contained or near
    threshold: float = 0.5  # share of a side's word n-grams that makes it near
    short_chars: int = 60  # sides shorter than this are compared by characters
    char_ngram: int = 4
    short_threshold: float = 0.7  # Jaccard similarity of character n-grams that makes a short side near

    def __post_init__(self) -> None:
        for name in ("min_words", "ngram", "short_chars", "char_ngram"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        for name in ("threshold", "short_threshold"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be above 0 and at most 1.")


@dataclass(frozen=True, slots=True)
class Leak:
    """A training pair, the held-out pair it gives away, and how."""

    pair: Pair
    held_out: Pair
    reason: Reason
    side: Side  # "pair": both sides are equal to those of the held-out pair
    overlap: float  # share of n-grams; 1 unless near


@dataclass
class LeakageReport:
    """What was kept and what was dropped, with the first few examples of every kind."""

    kept: int = 0
    counts: Counter[tuple[Reason, Side]] = field(default_factory=Counter)
    examples: defaultdict[tuple[Reason, Side], list[Leak]] = field(default_factory=lambda: defaultdict(list))
    examples_each: int = 3

    @property
    def dropped(self) -> int:
        return self.counts.total()

    def add(self, leak: Leak | None) -> None:
        """Count a training pair; None is one without a leak."""
        if leak is None:
            self.kept += 1
            return
        kind = (leak.reason, leak.side)
        self.counts[kind] += 1
        if len(self.examples[kind]) < self.examples_each:
            self.examples[kind].append(leak)


class LeakageFilter:
    """Held-out pairs, indexed so that every training pair is compared with all of them at once.

    Memory grows with the held-out text only, time with the training text.
    """

    def __init__(self, held_out: Iterable[Pair], settings: LeakageSettings = LeakageSettings()) -> None:
        self.settings = settings
        self._held_out = list(held_out)
        sources = [normalize(pair.src_text) for pair in self._held_out]
        targets = [normalize(pair.tgt_text) for pair in self._held_out]
        self._pairs: dict[tuple[str, str], int] = {}
        for place, both in enumerate(zip(sources, targets, strict=True)):
            self._pairs.setdefault(both, place)
        self._sides: tuple[tuple[Side, _Index], ...] = (
            ("source", _Index(sources, settings)),
            ("target", _Index(targets, settings)),
        )

    def find(self, pair: Pair) -> Leak | None:
        """The worst leak of a training pair: equal before contained before near, the source before the target."""
        texts = (normalize(pair.src_text), normalize(pair.tgt_text))
        if (place := self._pairs.get(texts)) is not None:
            return Leak(pair, self._held_out[place], "equal", "pair", 1.0)
        for text, (side, index) in zip(texts, self._sides, strict=True):
            if (place := index.equal(text)) is not None:
                return Leak(pair, self._held_out[place], "equal", side, 1.0)
        matches: list[tuple[_Match, Side]] = [
            (match, side)
            for text, (side, index) in zip(texts, self._sides, strict=True)
            if (match := index.alike(text)) is not None
        ]
        if not matches:
            return None
        match, side = min(matches, key=lambda found: found[0][:2])
        return Leak(pair, self._held_out[match.place], REASONS[match.rank], side, -match.negative)


def drop_leaks(
    pairs: Iterable[Pair], held_out: Iterable[Pair], settings: LeakageSettings = LeakageSettings()
) -> tuple[Iterator[Pair], LeakageReport]:
    """The training pairs without leaks, in order, and a report that is complete once they have all been taken."""
    leakage = LeakageFilter(held_out, settings)
    report = LeakageReport()

    def kept() -> Iterator[Pair]:
        for pair in pairs:
            leak = leakage.find(pair)
            report.add(leak)
            if leak is None:
                yield pair

    return kept(), report


def normalize(text: str) -> str:
    """Words separated by single spaces: compatibility forms and case folded, punctuation and symbols dropped.

    A letter of a script that is written without spaces (Chinese, Japanese, Thai, …) is a word of its own.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold().translate(_FOLDED)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)  # casefold undoes it here and there
    return " ".join(text.split())


class _Folding(dict[int, str]):
    """What a character becomes, worked out when it is first met."""

    UNSPACED = ("CJK UNIFIED", "CJK COMPAT", "HIRAGANA", "KATAKANA", "THAI", "LAO ", "KHMER", "MYANMAR")

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if category == "Cf":  # soft hyphens, joiners and direction marks stand inside words
            folded = ""
        elif category[0] not in "LMN":
            folded = " "
        elif unicodedata.name(character, "").startswith(self.UNSPACED):
            folded = f" {character} "
        else:
            folded = character
        self[code] = folded
        return folded


_FOLDED = _Folding()


class _Match(NamedTuple):
    """Best first when sorted."""

    rank: int  # in REASONS
    negative: float  # −overlap
    place: int  # of the held-out pair


class _Index:
    """The sides of the held-out pairs in one language, found by what they share with a text."""

    def __init__(self, texts: Sequence[str], settings: LeakageSettings) -> None:
        self.settings = settings
        self.places: dict[str, int] = {}  # normalised text → the first held-out pair that has it
        for place, text in enumerate(texts):
            self.places.setdefault(text, place)
        self.shortest = max(settings.ngram, settings.min_words)
        self.texts = [text for text in self.places if _words(text) >= self.shortest]
        self._index_words()
        self._index_characters()

    def equal(self, text: str) -> int | None:
        return self.places.get(text) if _words(text) >= self.settings.min_words else None

    def alike(self, text: str) -> _Match | None:
        """The best match of a text that is equal to none."""
        if _words(text) < self.shortest:
            return None
        return min(chain(self._by_words(text), self._by_characters(text)), default=None)

    def _index_words(self) -> None:
        self.ngram_counts: list[int] = []
        self.with_ngram: dict[tuple[str, ...], list[int]] = {}
        for number, text in enumerate(self.texts):
            ngrams = _word_ngrams(text, self.settings.ngram)
            self.ngram_counts.append(len(ngrams))
            for ngram in ngrams:
                self.with_ngram.setdefault(ngram, []).append(number)

    def _by_words(self, text: str) -> Iterator[_Match]:
        """Texts that contain, are contained or are near by word n-grams: all of them share an n-gram."""
        ngrams = _word_ngrams(text, self.settings.ngram)
        known = self.with_ngram.keys() & ngrams
        shared = Counter(chain.from_iterable(map(self.with_ngram.__getitem__, known)))
        for number, count in shared.items():
            other = self.texts[number]
            overlap = count / min(len(ngrams), self.ngram_counts[number])
            if overlap == 1 and f" {text} " in f" {other} ":
                yield self._match("contained", 1.0, other)
            elif overlap == 1 and f" {other} " in f" {text} ":
                yield self._match("containing", 1.0, other)
            elif overlap >= self.settings.threshold and not self._short(text, other):
                yield self._match("near", overlap, other)

    def _index_characters(self) -> None:
        """Index each text that could be near a short one under the rarest of its character n-grams (prefix filtering).

        Two sets of Jaccard similarity ≥ t share at least ⌈t·size⌉ elements, for the size of either. With the elements
        of both in one order, the first m of those lie within the first size − ⌈t·size⌉ + m of either set. In an order
        from rare to common, few other sets meet m times there.
        """
        self.ngrams = {
            number: _char_ngrams(text, self.settings.char_ngram)
            for number, text in enumerate(self.texts)
            if self._maybe_short(text)
        }
        frequencies = Counter(chain.from_iterable(self.ngrams.values()))
        by_rarity = sorted(frequencies, key=lambda ngram: (frequencies[ngram], ngram))
        self.rarity = {ngram: rank for rank, ngram in enumerate(by_rarity)}
        self.with_rare: defaultdict[int, list[int]] = defaultdict(list)
        for number, ngrams in self.ngrams.items():
            for rank in self._rare(ngrams):
                self.with_rare[rank].append(number)

    def _needed(self, ngrams: set[str]) -> int:
        """How many of these n-grams a similar set must share; rounding must not make it one too many."""
        return ceil(self.settings.short_threshold * len(ngrams) - 1e-9)

    def _rare(self, ngrams: set[str]) -> list[int]:
        """Ranks of the rarest n-grams; those that occur in no held-out text are rarer still, and meet none."""
        known = self.rarity.keys() & ngrams
        spare = len(known) - self._needed(ngrams)
        return sorted(map(self.rarity.__getitem__, known))[: spare + MEETINGS] if spare >= 0 else []

    def _by_characters(self, text: str) -> Iterator[_Match]:
        """Texts that are near by character n-grams, the shorter of the two being short."""
        if not self._maybe_short(text):
            return
        ratio = self.settings.short_threshold
        ngrams = _char_ngrams(text, self.settings.char_ngram)
        known = self.with_rare.keys() & set(self._rare(ngrams))
        met = Counter(chain.from_iterable(map(self.with_rare.__getitem__, known)))
        meetings = min(MEETINGS, self._needed(ngrams))
        for number in (number for number, count in met.items() if count >= meetings):
            other, others = self.texts[number], self.ngrams[number]
            if len(other) < ratio * len(text) or len(text) < ratio * len(other) or not self._short(text, other):
                continue
            shared = len(ngrams & others)
            similarity = shared / (len(ngrams) + len(others) - shared)
            if similarity >= ratio:
                yield self._match("near", similarity, other)

    def _short(self, text: str, other: str) -> bool:
        """Whether two texts are compared by characters."""
        return min(len(text), len(other)) < self.settings.short_chars

    def _maybe_short(self, text: str) -> bool:
        """Whether some text of an agreeing length is short."""
        return self.settings.short_threshold * len(text) < self.settings.short_chars

    def _match(self, reason: Reason, overlap: float, other: str) -> _Match:
        return _Match(REASONS.index(reason), -overlap, self.places[other])


def _words(text: str) -> int:
    """How many words a normalised text has."""
    return text.count(" ") + 1 if text else 0


def _word_ngrams(text: str, size: int) -> set[tuple[str, ...]]:
    words = text.split()
    return set(zip(*(words[start:] for start in range(size)), strict=False))


def _char_ngrams(text: str, size: int) -> set[str]:
    padded = f" {text} "
    return {padded[start : start + size] for start in range(max(1, len(padded) - size + 1))}
