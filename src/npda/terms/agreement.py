"""Articles and adjectives that go with a noun: how they change when another noun takes its place.

Learnt from the model itself: it reads sentences with a term, and the same with a word that it knows and that is `like`
the wanted one. What differs to the left of the two nouns is what has to change: "den neuen Schrank", "die neue Lampe".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from npda.terms.phrases import Match, Phrases, begins_sentence, lower_first, spans

LONGEST = 3  # words to the left of a noun that may change with it
_CLEAR = 0.5  # share of the sentences with a beginning in which the most frequent change is made
_SHARED, _AKIN = 2, 0.8  # beginnings at least that two pairs of nouns share, and the share that changes alike

T = TypeVar("T")
Left = tuple[str, ...]


@dataclass(frozen=True)
class Observed:
    """Words to the left of a rendering, and what stands there with the word that is like the wanted one.

    times: sentences in which this was seen
    """

    rendering: str
    like: str
    before: Left
    after: Left
    times: int


def observe(rendering: str, like: str, other: str, pairs: Iterable[tuple[str, str]]) -> list[Observed]:
    """What changes between translations of sentences that differ in one noun.

    rendering: of the term; like: the word that took its place, other: how that is rendered; pairs: translations
    with the one and the other
    """
    first, second = Phrases([(rendering, True)]), Phrases([(other, True)])
    seen: Counter[tuple[Left, Left]] = Counter()
    for a, b in pairs:
        one, two = first.find(a), second.find(b)
        if len(one) == len(two) == 1 and (change := _change(a, one[0], b, two[0])) is not None:
            seen[change] += 1
    return [Observed(rendering, like, *change, times) for change, times in sorted(seen.items())]


def _change(a: str, one: Match[bool], b: str, two: Match[bool]) -> tuple[Left, Left] | None:
    """Where two sentences differ to the left of their nouns; None if they differ elsewhere too."""
    if a[one.end :] != b[two.end :]:
        return None
    before, after = (words_before(text, match.start, None) for text, match in ((a, one), (b, two)))
    same = _common(before, after)
    if same == len(before) == len(after):
        same = max(0, same - 1)  # nothing changes after this word
    before, after = before[same:], after[same:]
    if max(len(before), len(after)) > LONGEST or not before:
        return None
    return tuple(before), tuple(after)


@dataclass
class _Changes:
    """What changes to the left of one rendering for one word that is like the wanted one.

    whole: words → what they become; endings: an article and the ending of the adjective after it → what these become
    """

    whole: dict[Left, Counter[Left]] = field(default_factory=lambda: defaultdict(Counter))
    endings: dict[Left, Counter[Left]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, before: Left, after: Left, times: int) -> None:
        self.whole[before][after] += times
        if len(before) == len(after) == 2:
            stem = _common(before[1], after[1])
            self.endings[before[0], before[1][stem:]][after[0], after[1][stem:]] += times

    def akin(self, other: _Changes) -> bool:
        """Whether most of what was seen with both is the same, as it is if the genders are."""
        shared = [_clearest(self.whole[b]) == _clearest(other.whole[b]) for b in self.whole.keys() & other.whole.keys()]
        return sum(shared) >= _SHARED and sum(shared) >= _AKIN * len(shared)

    def left(self, words: Left) -> Left | None:
        """What these words become; None if that was not seen."""
        if words in self.whole:
            return _clearest(self.whole[words])
        if len(words) == 2 and words[1][:1].islower():
            article, adjective = words
            for length in range(min(3, len(adjective) - 2), -1, -1):
                stem, ending = adjective[: len(adjective) - length], adjective[len(adjective) - length :]
                if (change := _clearest(self.endings.get((article, ending)))) is not None:
                    return change[0], stem + change[1]
            alone = _clearest(self.whole.get((article,)))
            return (*alone, adjective) if alone is not None else None
        return None


class Agreement:
    """What has been observed, put to use."""

    def __init__(self, observed: Iterable[Observed] = ()) -> None:
        found: defaultdict[tuple[str, str], _Changes] = defaultdict(_Changes)
        for seen in observed:
            found[seen.rendering, seen.like].add(seen.before, seen.after, seen.times)
        # What was not seen with a pair may have been with others of its genders.
        self._changes = {pair: [own, *_others(own, found.values())] for pair, own in found.items()}

    def left(self, rendering: str, like: str, words: Sequence[str]) -> tuple[int, Left] | None:
        """How many of the words to the left of a rendering change, and into what; None if none has to.

        words: to the left of the rendering, see ``words_before``
        """
        for changes in self._changes.get((rendering, like), ()):
            for length in range(min(len(words), LONGEST), 0, -1):
                before = tuple(words[-length:])
                after = changes.left(before)
                if after is not None:
                    return (length, after) if after != before else None
        return None


def _others(own: _Changes, found: Iterable[_Changes]) -> list[_Changes]:
    """One for all that are akin."""
    together = _Changes()
    for other in found:
        if other is not own and own.akin(other):
            for before, counts in other.whole.items():
                for after, times in counts.items():
                    together.add(before, after, times)
    return [together]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """With how many words, or letters, both begin."""
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _clearest(found: Counter[T] | None) -> T | None:
    """What was seen most often, unless it is not clear."""
    if not found:
        return None
    (best, times), *_ = found.most_common(1)
    return best if times >= _CLEAR * found.total() else None


def words_before(text: str, place: int, most: int | None = LONGEST) -> list[str]:
    """The words to the left of a place, in the case they have inside a sentence.

    most: at most so many, and only those without punctuation in between; None for all
    """
    found: list[str] = []
    after = place
    for span in reversed([span for span in spans(text) if span.end <= place]):
        if most is not None and (text[span.end : after].strip() or len(found) == most):
            break
        found.append(lower_first(span.word) if begins_sentence(text, span.start) else span.word)
        after = span.start
    return found[::-1]
