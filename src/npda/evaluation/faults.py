"""What goes wrong in translations, counted: sentences cut short, empty, caught in a loop, or taken from the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from npda.corpus.wording import loops, normalize, words
from npda.datastore.store import Datastore
from npda.evaluation.scores import check

CUT_SHORT = 0.6  # of the reference's words; fewer are too few
UNRELATED = 20.0  # chrF of a sentence; nineteen in twenty pairs of sentences that have nothing in common have less
_RUN = 4  # words that stand together in the store as well
_TAKEN = 0.5  # share of an output's words in such runs: it comes from the store


@dataclass(frozen=True)
class Faults:
    """Counts over n sentences.

    cut_short: under ``CUT_SHORT`` of the reference's words, empty ones included; looping: a phrase over and over that
    the reference does not repeat; words, reference_words: of all sentences; copies: word by word a sentence of the
    store which the reference is not; invented: taken from the store with nothing of the reference in it; both are None
    where the store's sentences are not known
    """

    n: int
    words: int
    reference_words: int
    cut_short: int
    empty: int
    looping: int
    copies: int | None = None
    invented: int | None = None

    @property
    def length_ratio(self) -> float:
        """Words out per word of the references."""
        return self.words / self.reference_words if self.reference_words else 1.0

    def record(self) -> dict:
        """For scripts, as JSON."""
        return {**asdict(self), "length_ratio": round(self.length_ratio, 4)}


class StoreText:
    """Target sentences of a store, as outputs are compared with them: without case, punctuation and spaces' number."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._sentences = {normalize(sentence) for sentence in sentences} - {""}

    @classmethod
    def of(cls, *stores: Datastore) -> StoreText:
        return cls(target for store in stores for shard in store.entries.shards for _, target in shard.all_texts())

    def __contains__(self, text: str) -> bool:
        return normalize(text) in self._sentences

    def taken(self, texts: Sequence[str]) -> list[bool]:
        """Which texts come from the store: whole, or at least half of their words in runs that stand there."""
        split = [words(text) for text in texts]
        wanted = {run for text in split for run in _runs(text)}
        known: set[tuple[str, ...]] = set()
        for sentence in self._sentences if wanted else ():
            known.update(wanted.intersection(_runs(words(sentence))))
        return [text in self or _covered(row, known) >= _TAKEN for text, row in zip(texts, split, strict=True)]


def count_faults(hypotheses: Sequence[str], references: Sequence[str], store: StoreText | None = None) -> Faults:
    """Count what goes wrong; copies and inventions only if there is a store to look in."""
    return counted(find_faults(hypotheses, references, store), hypotheses, references)


def counted(found: Mapping[str, Sequence[int]], hypotheses: Sequence[str], references: Sequence[str]) -> Faults:
    """The counts of what ``find_faults`` has found."""
    return Faults(
        n=len(references),
        words=sum(len(words(text)) for text in hypotheses),
        reference_words=sum(len(words(text)) for text in references),
        **{name: len(places) for name, places in found.items()},
    )


def find_faults(
    hypotheses: Sequence[str], references: Sequence[str], store: StoreText | None = None
) -> dict[str, list[int]]:
    """The places of the sentences with each fault, under its name in ``Faults``."""
    check(hypotheses, references)
    pairs = list(zip(hypotheses, references, strict=True))
    lengths = [(len(words(text)), len(words(reference))) for text, reference in pairs]
    found = {
        "cut_short": [n for n, (ours, theirs) in enumerate(lengths) if ours < CUT_SHORT * theirs],
        "empty": [n for n, (ours, theirs) in enumerate(lengths) if theirs and not ours],
        "looping": [n for n, (text, reference) in enumerate(pairs) if loops(text) and not loops(reference)],
    }
    if store is not None:
        copies = [text in store and normalize(text) != normalize(reference) for text, reference in pairs]
        found["copies"] = [n for n, copy in enumerate(copies) if copy]
        strange = unrelated(hypotheses, references)
        taken = store.taken([hypotheses[n] for n in strange])
        found["invented"] = [n for n, whence in zip(strange, taken, strict=True) if whence]
    return found


def unrelated(hypotheses: Sequence[str], references: Sequence[str]) -> list[int]:
    """The places of the sentences that say something, but nothing of their references."""
    pairs = enumerate(zip(hypotheses, references, strict=True))
    return [n for n, (text, reference) in pairs if words(text) and _chrf(text, reference) < UNRELATED]


def _runs(text: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(text[start:] for start in range(_RUN)), strict=False)


def _covered(text: Sequence[str], known: set[tuple[str, ...]]) -> float:
    """The share of words that stand in one of the runs."""
    inside = {start + n for start, run in enumerate(_runs(text)) if run in known for n in range(_RUN)}
    return len(inside) / len(text) if text else 0.0


def _chrf(text: str, reference: str) -> float:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF().sentence_score(text, [reference]).score
