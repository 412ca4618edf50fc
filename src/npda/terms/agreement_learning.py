"""Letting a model read sentences twice, with a term and with a word like the wanted one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from npda.corpus.terms import Term
from npda.terms.agreement import Observed, observe
from npda.terms.general import General
from npda.terms.phrases import Phrases, begins_sentence, upper_first
from npda.terms.renderings import Sources, learn_renderings
from npda.terms.replacing import with_article

CONTEXTS = 60  # sentences with a term that are read, and as many with the word that is like the wanted one
_OTHERS = 500  # sentences with neither that are read if they have no translations


def swapped(text: str, sources: Sources, by: str, language: str | None) -> str:
    """The sentence with another word in a term's place. language: of the sentence"""
    written, after = "", 0
    for match in Phrases(((source, True) for source in sources), smart=True).find(text):
        written += text[after : match.start]
        if language == "en":
            written = with_article(written, by)
        written += upper_first(by) if begins_sentence(text, match.start) else by
        after = match.end
    return written + text[after:]


def learn_agreement(
    terms: Sequence[Term],
    look_up: Callable[[Sequence[Sources], int], General],
    read: Callable[[Sequence[str]], Mapping[str, str]],
    language: str | None,
) -> list[Observed]:
    """What changes to the left of the terms' renderings.

    terms: those that have a word that is like the wanted one; look_up: finds as many sentences for each of some words;
    read: gives the translation of every sentence that the model has room for; language: of the sentences
    """
    likes: list[Sources] = list(dict.fromkeys((term.like,) for term in terms))
    sources: list[Sources] = [term.sources for term in terms]
    found = look_up([*sources, *likes], CONTEXTS)
    holding: list[list[str]] = [[] for _ in (*sources, *likes)]
    for sentence, _, held in found.holding:
        for number in held:
            if len(holding[number]) < CONTEXTS:
                holding[number].append(sentence)
    twins: list[list[tuple[str, str]]] = []  # with the term, with the other word
    for number, term in enumerate(terms):
        of_like = holding[len(terms) + likes.index((term.like,))]
        twins.append(
            [(text, swapped(text, term.sources, term.like, language)) for text in holding[number]]
            + [(swapped(text, (term.like,), term.sources[0], language), text) for text in of_like]
        )
    outputs = read(list(dict.fromkeys(text for pairs in twins for pair in pairs for text in pair)))
    rest = [pair for pair in found.others if pair[1]] or read([text for text, _ in found.others[:_OTHERS]]).items()
    others = dict(zip(likes, learn_renderings(likes, [*outputs.items(), *rest]), strict=True))
    return [
        seen
        for term, pairs in zip(terms, twins, strict=True)
        for rendering in term.renderings or ()
        for other in others[(term.like,)].renderings
        for seen in observe(
            rendering.text,
            term.like,
            other.text,
            [(outputs[a], outputs[b]) for a, b in pairs if a in outputs and b in outputs],
        )
    ]
