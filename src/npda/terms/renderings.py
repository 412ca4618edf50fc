"""How terms are rendered, as sentences and their translations show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from npda.corpus.terms import Rendering
from npda.terms.lexical import LexicalTable
from npda.terms.phrases import Phrases, Span, begins_sentence, lower_first, normal, spans

MOST_CONTEXTS = 300  # of a term that are looked at
_COMES_FROM = 0.5  # posterior from which on a word is taken to come from a term
_LONGEST = 4  # words of a rendering
_SHARE = 0.05  # of its contexts in which a rendering of a term is found at least
_WHOLE = 0.7  # share of a rendering's contexts in which a longer one stands, from which on the longer one is meant
_LEAST_PURITY = 0.02
_UNHEARD = 0.001  # share of sentences that hold a term which the text has never: whoever lists it expects to hear it
_FREQUENT = 0.01  # share of sentences that have a word from which on it may be an article or the like …
_OWN = 0.1  # … and neither begins nor ends a rendering of several words, unless so many of them hold the term

Sources = tuple[str, ...]  # of a term: ways to say it


@dataclass(frozen=True)
class Learnt:
    """What is known of a term. renderings: the most frequent first; contexts: sentences that hold it"""

    renderings: tuple[Rendering, ...] = ()
    contexts: int = 0


@dataclass(frozen=True)
class _Sentence:
    """source: its words, a term being one; terms: number of a term → its place there; places, words: of the output"""

    source: list[str]
    terms: Mapping[int, int]
    output: str
    places: list[Span]
    words: list[str]


def learn_renderings(
    terms: Sequence[Sources], pairs: Sequence[tuple[str, str]], shares: Sequence[float] | None = None
) -> list[Learnt]:
    """Find out how every term is rendered: the words that come from it by IBM Model 1, as few phrases as cover most.

    pairs: sentences and their translations, those that hold terms and others; shares: of the sentences of a text
    that hold each term, where ``pairs`` is no fair sample of it
    """
    sentences = list(_read(terms, pairs))
    table = LexicalTable((sentence.source, sentence.words) for sentence in sentences)
    holding: list[list[_Sentence]] = [[] for _ in terms]
    for sentence in sentences:
        for term in sentence.terms:
            holding[term].append(sentence)
    if shares is None:
        shares = [len(contexts) / max(1, len(sentences)) for contexts in holding]
    purity = _Purity(sentences, holding, shares)
    words = Counter(word for sentence in sentences for word in set(sentence.words))
    frequent = {word: count for word, count in words.items() if count > _FREQUENT * len(sentences)}
    found = []
    for term, contexts in enumerate(holding):
        together = Counter(word for sentence in contexts for word in frequent.keys() & sentence.words)
        edges = {word for word, count in frequent.items() if purity(term, together[word], count) < _OWN}
        shown = contexts[:MOST_CONTEXTS]
        found.append(_cover([_candidates(table, sentence, sentence.terms[term], edges) for sentence in shown]))
    written, both = _counts(found, sentences)
    learnt = []
    for term, texts in enumerate(found):
        rated = [Rendering(text, round(purity(term, both[term, text], written[text]), 2)) for text in texts]
        kept = tuple(rendering for rendering in rated if rendering.purity >= _LEAST_PURITY)
        learnt.append(Learnt(kept, len(holding[term])))
    return learnt


@dataclass(frozen=True)
class _Purity:
    """How often a term was said when something is written."""

    sentences: Sequence[_Sentence]
    holding: Sequence[Sequence[_Sentence]]
    shares: Sequence[float]

    def __call__(self, term: int, both: int, written: int) -> float:
        """both: sentences in which it is written and the term was said; written: all in which it is written"""
        inside = len(self.holding[term])
        outside = len(self.sentences) - inside
        return bayes(self.shares[term] or _UNHEARD, both / max(1, inside), (written - both) / max(1, outside))


def bayes(share: float, inside: float, outside: float) -> float:
    """P(term | rendering) from P(term), P(rendering | term) and P(rendering | no term); 0 where nothing is known."""
    said = share * inside
    total = said + (1 - share) * outside
    return said / total if total > 0 else 0.0


def _read(terms: Sequence[Sources], pairs: Sequence[tuple[str, str]]) -> Iterator[_Sentence]:
    """Words of the source without case, those of the output in the case they have inside sentences."""
    named = ((source, term) for term, sources in enumerate(terms) for source in sources)
    phrases = Phrases(named, smart=True)
    usual = usual_case(output for _, output in pairs)
    for text, output in pairs:
        source, held, after = [], {}, 0
        words = spans(text)
        for match in phrases.find(text):
            source += [word.word.casefold() for word in words[after : match.first]]
            held.setdefault(match.value, len(source))
            source.append(f" {match.value}")  # which no word is
            after = match.last + 1
        source += [word.word.casefold() for word in words[after:]]
        places = spans(output)
        yield _Sentence(source, held, output, places, [usual(output, place) for place in places])


def usual_case(texts: Iterable[str]) -> Callable[[str, Span], str]:
    """Tells how a word would be written if it did not begin its sentence, as far as other sentences show it."""
    inside = Counter(place.word for text in texts for place in spans(text) if not begins_sentence(text, place.start))

    def usual(text: str, place: Span) -> str:
        if not begins_sentence(text, place.start):
            return place.word
        return max((place.word, lower_first(place.word)), key=lambda form: inside[form])

    return usual


def _candidates(table: LexicalTable, sentence: _Sentence, term: int, edges: Set[str]) -> set[str]:
    """Every phrase within a run of words that come from the term; a single word between two of them may be any.

    edges: words that no phrase of several begins or ends with
    """
    comes = table.posteriors(sentence.source, sentence.words)[:, term] >= _COMES_FROM
    inside = comes.copy()
    inside[1:-1] |= comes[:-2] & comes[2:]
    found = set()
    for first in np.flatnonzero(comes):
        for last in range(first, min(first + _LONGEST, len(comes))):
            if not inside[last] or (last > first and not _joined(sentence, last)):
                break
            if comes[last] and (first == last or not edges & {sentence.words[first], sentence.words[last]}):
                text = sentence.output[sentence.places[first].start : sentence.places[last].end]
                word = sentence.words[first]
                found.add(normal(word + text[len(word) :]))
    return found


def _joined(sentence: _Sentence, word: int) -> bool:
    """Whether nothing but space or an apostrophe parts it from the word before."""
    gap = sentence.output[sentence.places[word - 1].end : sentence.places[word].start]
    return normal(gap) in ("", "'")


def _cover(contexts: Sequence[set[str]]) -> list[str]:
    """As few phrases as cover most contexts, by turns the one that is in most of those that are left."""
    least = 1 if len(contexts) < 4 else max(2.0, _SHARE * len(contexts))
    left, chosen = [context for context in contexts if context], []
    while left:
        counts = Counter(phrase for context in left for phrase in sorted(context))
        best, most = max(counts.items(), key=lambda item: (item[1], item[0]))
        if most < least:
            break
        wholes = [phrase for phrase, n in counts.items() if n >= _WHOLE * most and f" {best} " in f" {phrase} "]
        best = max(wholes, key=lambda phrase: (len(phrase), phrase))
        chosen.append(best)
        left = [context for context in left if best not in context]
    return chosen


def _counts(
    found: Sequence[Sequence[str]], sentences: Iterable[_Sentence]
) -> tuple[Counter[str], Counter[tuple[int, str]]]:
    """Sentences in which a rendering is written, and those in which it is and its term was said."""
    phrases = Phrases((text, text) for texts in found for text in texts)
    written: Counter[str] = Counter()
    both: Counter[tuple[int, str]] = Counter()
    for sentence in sentences:
        here = {match.value for match in phrases.find(sentence.output)}
        written.update(here)
        both.update((term, text) for term in sentence.terms for text in here)
    return written, both
