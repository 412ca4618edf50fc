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
from math import ceil
from typing import Literal, NamedTuple

from npda.corpus.pairs import Pair
from npda.errors import InputError

Reason = Literal["equal", "contained", "containing", "near"]
Side = Literal["pair", "source", "target"]
REASONS: tuple[Reason, ...] = ("equal", "contained", "containing", "near")
SIDES: tuple[Side, ...] = ("pair", "source", "target")


@dataclass(frozen=True)
class LeakageSettings:
    """What counts as a leak."""

    min_words: int = 1  # an equal side shorter than this is a leak only if the other side is equal too
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
        leaks = []
        for text, (side, index) in zip(texts, self._sides, strict=True):
            if match := index.alike(text):
                leaks.append(Leak(pair, self._held_out[match.place], match.reason, side, match.overlap))
        return min(leaks, key=lambda leak: (REASONS.index(leak.reason), -leak.overlap), default=None)


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

    rank: int
    negative_overlap: float
    place: int

    @property
    def reason(self) -> Reason:
        return REASONS[self.rank]

    @property
    def overlap(self) -> float:
        return -self.negative_overlap


class _Index:
    """The sides of the held-out pairs in one language, found by what they share with a text."""

    def __init__(self, texts: Sequence[str], settings: LeakageSettings) -> None:
        self.settings = settings
        self.places: dict[str, int] = {}  # normalised text → the first held-out pair that has it
        for place, text in enumerate(texts):
            self.places.setdefault(text, place)
        self.texts = [text for text in self.places if _words(text) >= settings.ngram]
        self._index_words()
        self._index_characters()

    def equal(self, text: str) -> int | None:
        return self.places.get(text) if _words(text) >= self.settings.min_words else None

    def alike(self, text: str) -> _Match | None:
        """The best match of a text that is equal to none."""
        if _words(text) < self.settings.ngram:
            return None
        return min([*self._by_words(text), *self._by_characters(text)], default=None)

    def _index_words(self) -> None:
        self.ngram_counts: list[int] = []
        self.with_ngram: dict[tuple[str, ...], list[int]] = {}
        for number, text in enumerate(self.texts):
            ngrams = _word_ngrams(text, self.settings.ngram)
            self.ngram_counts.append(len(ngrams))
            for ngram in ngrams:
                self.with_ngram.setdefault(ngram, []).append(number)

    def _by_words(self, text: str) -> Iterator[_Match]:
        """Texts that contain, are contained or are near by word n-grams; none of them shares no n-gram at all."""
        ngrams = _word_ngrams(text, self.settings.ngram)
        shared: Counter[int] = Counter()
        for ngram in ngrams:
            if ngram in self.with_ngram:
                shared.update(self.with_ngram[ngram])
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
        """Index each text that could be near a short one under the rarest of its character n-grams only.

        Two sets of Jaccard similarity ≥ t share at least t·size of either's elements. With the elements of both in one
        order, the first size − ⌈t·size⌉ + 1 of each must then meet (prefix filtering); rare ones first, they seldom
        meet by chance.
        """
        size = self.settings.char_ngram
        self.short = {
            number: _char_ngrams(text, size) for number, text in enumerate(self.texts) if self._maybe_short(text)
        }
        frequencies = Counter(ngram for ngrams in self.short.values() for ngram in ngrams)
        by_rarity = sorted(frequencies, key=lambda ngram: (frequencies[ngram], ngram))
        self.rarity = {ngram: rank for rank, ngram in enumerate(by_rarity)}
        self.with_prefix: dict[int, list[int]] = {}
        for number, ngrams in self.short.items():
            for rank in self._prefix(ngrams):
                self.with_prefix.setdefault(rank, []).append(number)

    def _prefix(self, ngrams: set[str]) -> list[int]:
        """Ranks of the rarest n-grams; those that occur in no held-out text are rarer still, and meet none."""
        known = self.rarity.keys() & ngrams
        # Rounding must not make the prefix too short.
        needed = ceil(self.settings.short_threshold * len(ngrams) - 1e-9)
        if len(known) < needed:
            return []
        return sorted(map(self.rarity.__getitem__, known))[: len(known) - needed + 1]

    def _by_characters(self, text: str) -> Iterator[_Match]:
        """Texts that are near by character n-grams, the shorter of the two being short."""
        if not self._maybe_short(text):
            return
        ratio = self.settings.short_threshold
        ngrams = _char_ngrams(text, self.settings.char_ngram)
        candidates: set[int] = set()
        for rank in self._prefix(ngrams):
            candidates.update(self.with_prefix.get(rank, ()))
        for number in candidates:
            other, others = self.texts[number], self.short[number]
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
