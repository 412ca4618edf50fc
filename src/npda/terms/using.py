"""Terms at work on the hypotheses of a search, with a second search where a term was heard but is not in the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from npda.decoding.beam import Hypothesis, SearchOptions, is_usable, search
from npda.decoding.fusion import Fusion, of_sentences
from npda.models.backbone import Backbone, Memory
from npda.terms.ear import of_rows
from npda.terms.nudging import Nudge, Phrase, contains
from npda.terms.phrases import upper_first
from npda.terms.replacing import Placed
from npda.terms.termbase import Terms

Wishes = Sequence[Sequence[Phrase]]  # of each term that was heard, its renderings in tokens

BONUS = 6.0  # log-probability that a translation may lose for each term that was heard


@dataclass(frozen=True)
class Searched:
    """A search that found hypotheses: what it takes to search for some of its sentences again.

    memory: of all sentences; prompts: [batch, n] of each, with what was begun at their ends; begun: how many tokens
    that is; options: of the search; fusions: that were used
    """

    backbone: Backbone
    memory: Memory
    prompts: Tensor
    options: SearchOptions
    fusions: Sequence[Fusion] = ()
    begun: int = 0


def use_terms(
    terms: Terms,
    searched: Searched,
    found: Sequence[Sequence[Hypothesis]],
    rows: Sequence[int],
    n_best: int = 1,
    language: str | None = None,
) -> list[list[tuple[Hypothesis, Placed]]]:
    """Put terms into hypotheses; of each sentence the ``n_best`` with their texts.

    All hypotheses of the beam tell which terms may have been said: the ear is asked about those that are not certain.
    Where it hears a term that is not in the best text, a second search is nudged towards the term's renderings. What
    that finds comes first, with the score that it has without the nudge.

    found: hypotheses of these rows of the search, best first; language: of the texts
    """
    backbone = searched.backbone
    decode = backbone.target.decode
    texts = [[decode(h.tokens) for h in hypotheses] for hypotheses in found]
    memory = _part(searched.memory, rows)
    heard = terms.listen(backbone, memory, texts)
    placed = terms.place([of_one[:n_best] for of_one in texts], heard, language)
    used = [list(zip(h, p, strict=False)) for h, p in zip(found, placed, strict=True)]
    wanted: dict[int, Wishes] = {}
    for place, transcript in heard.items():
        # What never ended, or only without the stores, is not searched for again.
        if not found[place][0].retried and (lacking := terms.lacking(used[place][0][1], transcript)):
            wanted[place] = [_ways(backbone, terms, numbers) for numbers in lacking]
    if wanted:
        for place, better in _again(searched, rows, wanted).items():
            ((new,),) = terms.place([[decode(better.tokens)]], {0: heard[place]}, language)
            as_well_ended = better.ended or not found[place][0].ended
            if as_well_ended and len(terms.lacking(new, heard[place])) < len(wanted[place]):
                others = [each for each in used[place] if each[1].text != new.text]
                used[place] = [(better, new), *others][:n_best]
    return used


def use_lists(
    lists: Sequence[Terms | None], searched: Searched, found: Sequence[Sequence[Hypothesis]], n_best: int
) -> list[list[tuple[Hypothesis, Placed]]]:
    """``use_terms`` where every sentence has a list of its own, or none; those of one list are looked at together."""
    decode = searched.backbone.target.decode
    used = [[(h, Placed(decode(h.tokens))) for h in hypotheses[:n_best]] for hypotheses in found]
    for terms in {id(terms): terms for terms in lists if terms is not None}.values():
        rows = [row for row, own in enumerate(lists) if own is terms]
        for row, of_one in zip(rows, use_terms(terms, searched, [found[r] for r in rows], rows, n_best), strict=True):
            used[row] = of_one
    return used


def _again(searched: Searched, rows: Sequence[int], wanted: Mapping[int, Wishes]) -> dict[int, Hypothesis]:
    """The best hypothesis of a nudged search, by place, where it is of use; its scores are without the bonus."""
    places = sorted(wanted)
    numbers, options = [rows[place] for place in places], replace(searched.options, n_best=1)
    wishes = {number: wanted[place] for number, place in enumerate(places)}
    nudge = Nudge(wishes, searched.prompts.shape[1] - searched.begun, BONUS)
    found = search(
        searched.backbone,
        _part(searched.memory, numbers),
        searched.prompts[numbers],
        options,
        [*of_sentences(searched.fusions, numbers), nudge],
        searched.begun,
    )
    better = {}
    for place, (best,) in zip(places, found, strict=True):
        if is_usable(searched.backbone, best, options):
            fulfilled = sum(any(contains(best.tokens, way) for way in ways) for ways in wanted[place])
            better[place] = _without_bonus(best, fulfilled * BONUS)
    return better


def _without_bonus(hypothesis: Hypothesis, bonus: float) -> Hypothesis:
    share = hypothesis.score / hypothesis.log_prob if hypothesis.log_prob else 1.0  # 1 / length^α
    log_prob = hypothesis.log_prob - bonus
    return replace(hypothesis, log_prob=log_prob, score=log_prob * share)


def _ways(backbone: Backbone, terms: Terms, numbers: Sequence[int]) -> list[Phrase]:
    """Renderings in tokens, as they are written inside a sentence and at its beginning. numbers: of terms alike"""
    texts = [rendering.text for number in numbers for rendering in terms.terms[number].renderings or ()]
    forms = dict.fromkeys(form for text in texts for form in (text, upper_first(text)))
    return [tokens for form in forms if (tokens := tuple(backbone.target.encode(form)))]


def _part(memory: Memory, rows: Sequence[int]) -> Memory:
    if len(rows) == memory.states.shape[0]:
        return memory
    return of_rows(memory, torch.tensor(rows, device=memory.mask.device))
