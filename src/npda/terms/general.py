"""General text that terms are looked up in: as much of it as learning them takes, however large it is."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np

from npda.corpus.pairs import stream_pairs
from npda.io.errors import InputError
from npda.io.files import stream_lines
from npda.terms.phrases import Phrases, words
from npda.terms.renderings import MOST_CONTEXTS, Sources

OTHERS = 20_000  # sentences without any term that are kept


@dataclass(frozen=True)
class General:
    """Sentences and, where the text has them, their translations ("" otherwise).

    holding: sentences with terms, and which, by number; others: a random sample of those without; shares: of all
    sentences of the text that hold each term
    """

    holding: tuple[tuple[str, str, tuple[int, ...]], ...]
    others: tuple[tuple[str, str], ...]
    shares: tuple[float, ...]


def gather(paths: Sequence[Path], terms: Sequence[Sources], most: int = MOST_CONTEXTS) -> General:
    """Go once through the text. most: sentences kept for every term"""
    phrases = Phrases(((source, term) for term, sources in enumerate(terms) for source in sources), smart=True)
    draw = random.Random(0)
    counts = [0] * len(terms)
    holding, others, total, without = [], [], 0, 0
    for source, target in _sentences(paths):
        total += 1
        found = tuple(dict.fromkeys(match.value for match in phrases.find(source)))
        wanted = [term for term in found if counts[term] < most]
        for term in found:
            counts[term] += 1
        if wanted:
            holding.append((source, target, found))
        elif not found:
            without += 1
            if len(others) < OTHERS:
                others.append((source, target))
            elif (place := draw.randrange(without)) < OTHERS:  # a reservoir: each stays as likely as any other
                others[place] = (source, target)
    return General(tuple(holding), tuple(others), tuple(count / max(1, total) for count in counts))


class SearchedText:
    """General text in memory that is looked through again and again, each time for a few terms.

    pairs: sentences and their translations
    """

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = pairs
        holding: defaultdict[str, list[int]] = defaultdict(list)
        for number, (source, _) in enumerate(pairs):
            for word in {word.casefold() for word in words(source)}:
                holding[word].append(number)
        self._holding = {word: np.array(numbers, dtype=np.int32) for word, numbers in holding.items()}

    def gather(self, terms: Sequence[Sources], most: int = MOST_CONTEXTS, others: int = OTHERS) -> General:
        """As ``gather`` of the same text; of the sentences without terms at most ``others``."""
        phrases = Phrases(((source, term) for term, sources in enumerate(terms) for source in sources), smart=True)
        counts, holding, inside = [0] * len(terms), [], set()
        for number in self._candidates(terms):
            source, target = self._pairs[number]
            found = tuple(dict.fromkeys(match.value for match in phrases.find(source)))
            if found:
                inside.add(number)
                if any(counts[term] < most for term in found):
                    holding.append((source, target, found))
                for term in found:
                    counts[term] += 1
        outside = [number for number in range(len(self._pairs)) if number not in inside]
        drawn = sorted(random.Random(0).sample(outside, min(others, len(outside))))
        shares = tuple(count / max(1, len(self._pairs)) for count in counts)
        return General(tuple(holding), tuple(self._pairs[number] for number in drawn), shares)

    def _candidates(self, terms: Sequence[Sources]) -> list[int]:
        """Sentences that hold all words of some term, in their order."""
        nowhere = np.empty(0, np.int32)
        found = [nowhere]
        for sources in terms:
            for source in sources:
                held = [self._holding.get(word.casefold(), nowhere) for word in words(source)]
                if held:
                    found.append(reduce(np.intersect1d, held))
        return np.unique(np.concatenate(found)).tolist()


def _sentences(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """A TSV of pairs, or a manifest with transcripts, has translations; any other text has a sentence a line."""
    for path in paths:
        if path.name.removesuffix(".gz").endswith(".tsv"):
            yield from ((pair.src_text, pair.tgt_text) for pair in stream_pairs(path))
            continue
        empty = True
        for line in stream_lines(path):
            if line.strip():
                empty = False
                yield line.strip(), ""
        if empty:
            raise InputError(f"{path} has no sentences; it needs one per line.")
