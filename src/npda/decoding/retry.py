"""Retry sentences whose search never reached the end symbol, or found nothing but loops and white space.

Each attempt gives up something. A model may hear less of the silence after an utterance than it was trained on
(Whisper: half a minute), because silence costs time, and now and then misses the end for it: the first attempt takes
that time. A store may lead into a phrase that leads into itself: the second goes without. The third forbids to repeat
anything. What loops in all of them is cut after the first round of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from npda.corpus.wording import loops
from npda.decoding.beam import Hypothesis, Retried, SearchOptions, is_usable, search
from npda.decoding.fusion import Fusion, of_sentences
from npda.decoding.loops import NoRepeats, first_loop
from npda.models.backbone import Backbone, Memory

WITHOUT_FUSIONS: tuple[Retried, ...] = ("model alone", "no repeats")  # attempts without any store

_TOGETHER = 4  # sentences tried again at once: with full padding they are long


def search_with_retry(
    backbone: Backbone,
    memory: Memory,
    prompt: Sequence[int] | Tensor,
    options: SearchOptions = SearchOptions(),
    fusions: Sequence[Fusion] = (),
    begun: int = 0,
) -> list[list[Hypothesis]]:
    """As ``search``; sentences without a proper end get what the first attempt that reaches one finds.

    ``Hypothesis.retried`` names it. All attempts have full padding, if the memory was made without.
    """
    prompts = prompt if isinstance(prompt, Tensor) else torch.tensor([prompt])
    prompts = prompts.expand(memory.states.shape[0], -1)
    found = search(backbone, memory, prompts, options, fusions, begun)
    failed = [row for row, (best, *_) in enumerate(found) if not _ends_properly(backbone, best, options)]
    for first in range(0, len(failed), _TOGETHER):
        rows = failed[first : first + _TOGETHER]
        again = _retry(backbone, memory, rows, [found[row] for row in rows], prompts, options, fusions, begun)
        for row, hypotheses in zip(rows, again, strict=True):
            found[row] = hypotheses
    return found


def padded(memory: Memory, rows: Sequence[int]) -> Memory:
    """These sentences of a memory as the attempts hear them: with full padding."""
    index = torch.tensor(rows, device=memory.mask.device)
    if memory.with_full_padding is not None:
        return memory.with_full_padding(index)
    return Memory(memory.states[index], memory.mask[index], state_map=memory.state_map)


def _retry(
    backbone: Backbone,
    memory: Memory,
    rows: Sequence[int],
    found: list[list[Hypothesis]],
    prompts: Tensor,
    options: SearchOptions,
    fusions: Sequence[Fusion],
    begun: int,
) -> list[list[Hypothesis]]:
    """Go through the attempts with those sentences that need them.

    rows: sentences of the memory; found: their hypotheses so far, none of which ends properly; prompts: of all
    sentences of the memory
    """
    attempts: list[tuple[Retried, Sequence[Fusion]]] = []
    if memory.with_full_padding is not None:
        attempts.append(("full padding", fusions))
    if of_sentences(fusions, rows):
        attempts.append(("model alone", ()))
    if options.stop_loops:
        attempts.append(("no repeats", [NoRepeats(prompts.shape[1] - begun)]))

    found = list(found)
    whole, prompts = padded(memory, rows), prompts[rows]
    places = list(range(len(rows)))  # of the sentences that no attempt has ended yet
    for name, chosen in attempts:
        having_a_say = of_sentences(chosen, [rows[place] for place in places])
        again = search(backbone, padded(whole, places), prompts[places], options, having_a_say, begun)
        failed = []
        for place, hypotheses in zip(places, again, strict=True):
            ends = _ends_properly(backbone, hypotheses[0], options)
            # What the caller's fusions found last stands in for what never ends.
            if ends or name not in WITHOUT_FUSIONS:
                found[place] = [replace(hypothesis, retried=name) for hypothesis in hypotheses]
            if not ends:
                failed.append(place)
        places = failed
        if not places:
            break
    for place in places:
        found[place] = _cut(backbone, found[place], options)
    return found


def _ends_properly(backbone: Backbone, hypothesis: Hypothesis, options: SearchOptions) -> bool:
    return hypothesis.ended and is_usable(backbone, hypothesis, options)


def _cut(backbone: Backbone, hypotheses: list[Hypothesis], options: SearchOptions) -> list[Hypothesis]:
    """The best hypothesis up to the first round of its loop, or before its words become one; all as they are if it has
    none."""
    best = hypotheses[0]
    if not options.stop_loops or not best.tokens:
        return hypotheses
    loop = first_loop(best.tokens)
    kept = loop.after_first_round if loop is not None else len(best.tokens)
    while loops(backbone.target.decode(best.tokens[:kept])):
        kept -= 1
    if kept == len(best.tokens):
        return hypotheses
    return [replace(best, tokens=best.tokens[:kept], ended=False, retried="cut")]
