"""How many of the terms that were said are written as wanted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from npda.corpus.terms import Term
from npda.terms.phrases import Phrases, words

_ALIKE = 0.75  # share of the longer of two words that has to be the same


@dataclass(frozen=True)
class Accuracy:
    """said: occurrences of source terms; exact: of these, rendered as wanted; fuzzy: as wanted but for an ending or so

    holding: numbers of the sentences that hold a term; by_term: source → (said, exact, fuzzy)
    """

    said: int
    exact: int
    fuzzy: int
    holding: tuple[int, ...]
    by_term: dict[str, tuple[int, int, int]]


def term_accuracy(terms: Sequence[Term], sources: Sequence[str], hypotheses: Sequence[str]) -> Accuracy:
    """Look every term of every source up in its hypothesis; a term said twice has to be written twice.

    sources: transcripts of what was said
    """
    targets: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)  # a plural may sound like its singular
    for term in terms:
        targets[term.sources].append(term.target)
    phrases = Phrases(((source, sources) for sources in targets for source in sources), smart=True)
    by_term: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    holding = []
    for number, (text, hypothesis) in enumerate(zip(sources, hypotheses, strict=True)):
        said = Counter(match.value for match in phrases.find(text))
        if said:
            holding.append(number)
        written = [word.casefold() for word in words(hypothesis)]
        for term, count in said.items():
            wanted = [[word.casefold() for word in words(target)] for target in targets[term]]
            exact = sum(_occurrences(written, target, str.__eq__) for target in wanted)
            # What is exact is alike too, and singular and plural are alike: the most that one of them finds.
            fuzzy = max(_occurrences(written, target, alike) for target in wanted)
            for place, found in enumerate((count, min(count, exact), min(count, max(exact, fuzzy)))):
                by_term[term[0]][place] += found
    said, exact, fuzzy = (sum(counts[place] for counts in by_term.values()) for place in range(3))
    return Accuracy(said, exact, fuzzy, tuple(holding), {term: (a, b, c) for term, (a, b, c) in by_term.items()})


def _occurrences(written: Sequence[str], target: Sequence[str], same) -> int:
    """How often a target stands in a text, without overlap; words are compared by ``same``."""
    found = place = 0
    while place + len(target) <= len(written):
        if target and all(same(a, b) for a, b in zip(written[place:], target, strict=False)):
            found += 1
            place += len(target)
        else:
            place += 1
    return found


def alike(a: str, b: str) -> bool:
    """Whether two words share a stem, as far as letters tell: most of the longer is in both, in order."""
    return a == b or 1 - distance(a, b) / max(len(a), len(b)) >= _ALIKE


def distance(a: str, b: str) -> int:
    """Levenshtein's: the fewest letters to be put in, taken out or exchanged."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]
