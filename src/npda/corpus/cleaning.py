"""Cleaning bilingual text: what the makers of Europarl advise, and the length limits usual in training on it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from npda.corpus.pairs import Pair
from npda.io.errors import InputError

MARKUP, LONG, UNEVEN = "with markup", "with too many words", "of uneven lengths"


@dataclass(frozen=True)
class CleaningSettings:
    """What makes a pair unfit."""

    max_words: int = 250  # on either side
    max_ratio: float = 9.0  # of the words of one side to those of the other, as in Moses

    def __post_init__(self) -> None:
        if self.max_words < 1:
            raise InputError(f"max_words is {self.max_words}; it must be at least 1.")
        if not self.max_ratio >= 1:
            raise InputError(f"max_ratio is {self.max_ratio}; it must be at least 1.")


def clean(
    pairs: Iterable[Pair],
    settings: CleaningSettings = CleaningSettings(),
    skipped: Counter[str] | None = None,
) -> Iterator[Pair]:
    """The fit pairs, in order, each side on one line. Pairs left out are counted in `skipped`, by reason."""
    skipped = Counter() if skipped is None else skipped
    for pair in pairs:
        pair = replace(pair, src_text=one_line(pair.src_text), tgt_text=one_line(pair.tgt_text))
        if reason := _fault(pair, settings):
            skipped[reason] += 1
        else:
            yield pair


def one_line(text: str) -> str:
    """Text that fits into a field of a TSV: tabs and line breaks are spaces, none of them at the ends."""
    # Far faster than str.translate, which looks every letter up.
    return text.replace("\t", " ").replace("\n", " ").replace("\r", " ").strip()


def _fault(pair: Pair, settings: CleaningSettings) -> str | None:
    # Europarl marks chapters, speakers and paragraphs by lines that start with a tag.
    if pair.src_text.startswith("<") or pair.tgt_text.startswith("<"):
        return MARKUP
    fewer, more = sorted((len(pair.src_text.split()), len(pair.tgt_text.split())))
    if more > settings.max_words:
        return LONG
    return UNEVEN if more > settings.max_ratio * fewer else None
