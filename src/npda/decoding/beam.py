"""Beam search over any backbone, for a batch of sentences at once.

Every quantity is a tensor over [sentences, beam]; nothing in the loop is done hypothesis by hypothesis. A sentence
leaves the batch as soon as it is decided, and what it gets does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from npda.corpus.wording import loops
from npda.decoding.candidates import best
from npda.decoding.fusion import Fusion, WeighingFusion, begin, length_penalties, new_search
from npda.decoding.loops import ends_in_loop, first_loop
from npda.io import limits
from npda.models.backbone import Backbone, Memory

_NEVER = -1.0e9  # a score below any real one, and finite: differences of it stay numbers
_LOOP_CHECK = 4  # steps from one look for loops to the next

# What it took to bring a sentence to its end, see ``npda.decoding.retry``; "no speech": nobody said any, and nothing
# was searched for
Retried = Literal["", "full padding", "model alone", "no repeats", "cut", "no speech"]


@dataclass(frozen=True)
class SearchOptions:
    """How to search; the defaults are the paper's."""

    beam: int = 5  # live hypotheses per sentence; 1 is greedy search
    length_penalty: float = 0.6  # α: a hypothesis counts log p / length^α, its end symbol included in the length
    max_length: int = 200  # tokens after the prompt, end symbol included
    n_best: int = 1  # hypotheses returned, at most ``beam``
    stop_loops: bool = True  # end the search for hypotheses that repeat themselves, see ``npda.decoding.loops``

    def __post_init__(self) -> None:
        limits.BEAM.check("beam", self.beam)
        limits.LENGTH_PENALTY.check("length_penalty", self.length_penalty)
        limits.MAX_LENGTH.check("max_length", self.max_length)
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best must be between 1 and the beam size {self.beam}, not {self.n_best}")


@dataclass(frozen=True)
class Hypothesis:
    """tokens: what follows the prompt, without the end symbol; score: log_prob / length^α; ended: by the end symbol

    Of a translation that was begun (see ``search``), tokens has all of it; score and log_prob are of what follows.
    retried: how it was found where a plain search did not end; scores of what was "cut" are those of the whole;
    stores: how much each store had to say, its mean weight by its name, where a fusion can tell
    """

    tokens: tuple[int, ...]
    score: float
    log_prob: float
    ended: bool
    retried: Retried = ""
    stores: tuple[tuple[str, float], ...] = ()


@torch.inference_mode()
def search(
    backbone: Backbone,
    memory: Memory,
    prompt: Sequence[int] | Tensor,
    options: SearchOptions = SearchOptions(),
    fusions: Sequence[Fusion] = (),
    begun: int = 0,
) -> list[list[Hypothesis]]:
    """The ``n_best`` hypotheses of every sentence of the memory, best first; fewer where all others were loops.

    None is empty. One that is all white space or holds a loop comes after all others, whatever its score.

    prompt: that all of them begin with, or of each its own, all equally long: [batch, n]
    begun: how many tokens at the end of the prompt are the beginning of the translation already
    """
    batch, beam = memory.states.shape[0], options.beam
    device = memory.states.device
    prompts = prompt.to(device) if isinstance(prompt, Tensor) else torch.tensor([prompt], device=device)
    prompted = prompts.shape[1]
    limit = max(1, min(options.max_length - begun, backbone.max_target - prompted))
    stream = backbone.start(memory, beam)
    prefixes = prompts[:, None].expand(batch, beam, -1)
    fed = prefixes  # what the decoder has not seen yet
    # All beams start alike: only the first may branch.
    live = torch.full((batch, beam), _NEVER, device=device)
    live[:, 0] = 0.0
    finished = _Finished(batch, beam, limit, backbone.target.pad, options.length_penalty, device)
    rules = _Rules(backbone, device)
    sentences = torch.arange(batch, device=device)  # which sentence of the batch each row of the search is
    for fusion in fusions:
        new_search(fusion)

    for length in range(1, limit + 1):
        states = stream.step(fed.flatten(0, 1))
        rows = sentences.repeat_interleave(beam)
        finish = [begin(fusion, states, prefixes.flatten(0, 1), rows) for fusion in fusions]
        log_probs = torch.log_softmax(rules.of_model(backbone.logits(states).float(), begun + length), dim=-1)
        for finish_fusion in finish:
            log_probs = finish_fusion(log_probs)
        rules.of_search(log_probs, begun + length)
        own = torch.full_like(live[:, 0], options.length_penalty)
        finished.judge_by(length_penalties(fusions, own, sentences), sentences)

        # Twice the beam: even if `beam` of the candidates end here, as many go on.
        width = min(2 * beam, log_probs.shape[1])
        scores, tokens = (found.view(-1, beam, width) for found in best(log_probs, width))
        candidates, places = (live[:, :, None] + scores).flatten(1).topk(2 * beam, dim=1)
        parents, tokens = places // width, tokens.flatten(1).gather(1, places)
        ends = tokens == backbone.target.eos
        grown = torch.cat([_pick(prefixes, parents), tokens[:, :, None]], dim=2)

        # Only what ends among the best `beam` is finished; at the limit everything is.
        done = ends | (length == limit)
        closing = torch.where(done, candidates, _NEVER)[:, :beam]
        finished.add(sentences, grown[:, :beam, prompted:], closing, length)
        live, order = torch.where(ends, _NEVER, candidates).topk(beam, dim=1)
        parents, prefixes = parents.gather(1, order), _pick(grown, order)

        if options.stop_loops and length % _LOOP_CHECK == 0:
            written = prefixes[:, :, prompted - begun :]
            going_on = torch.where(ends_in_loop(written.flatten(0, 1)).view_as(live), _NEVER, live)
            lost = (going_on.amax(dim=1) < _NEVER / 2) & finished.nothing(sentences)
            finished.add(
                sentences,
                written[:, :, begun:],
                live.masked_fill(~lost[:, None], _NEVER),
                length,
            )
            live = going_on

        undecided = finished.could_change(sentences, live.amax(dim=1), length)
        if length == limit or not bool(undecided.any()):
            break
        stream.reorder((parents + torch.arange(len(sentences), device=device)[:, None] * beam).flatten())
        if not bool(undecided.all()):
            kept = undecided.nonzero()[:, 0]
            stream.keep(kept)
            live, prefixes, sentences = live[kept], prefixes[kept], sentences[kept]
        fed = prefixes[:, :, -1:]

    return [
        _best(backbone, hypotheses, prompt, sentence, options, fusions, begun)
        for sentence, (hypotheses, prompt) in enumerate(
            zip(finished.hypotheses(backbone.target.eos), prompts.expand(batch, -1).tolist(), strict=True)
        )
    ]


def _best(
    backbone: Backbone,
    hypotheses: list[Hypothesis],
    prompt: list[int],
    sentence: int,
    options: SearchOptions,
    fusions: Sequence[Fusion],
    begun: int,
) -> list[Hypothesis]:
    """The ``n_best`` of a sentence's finished hypotheses, those that are of use first, with what was begun."""
    prompt, beginning = prompt[: len(prompt) - begun], tuple(prompt[len(prompt) - begun :])
    whole = [replace(h, tokens=beginning + h.tokens) if begun else h for h in hypotheses]
    usable, others = [], []
    for hypothesis in whole:
        if len(usable) < options.n_best:
            (usable if is_usable(backbone, hypothesis, options) else others).append(hypothesis)
    return [_weighed(hypothesis, prompt, sentence, fusions) for hypothesis in (usable + others)[: options.n_best]]


def _weighed(hypothesis: Hypothesis, prompt: list[int], sentence: int, fusions: Sequence[Fusion]) -> Hypothesis:
    """The hypothesis with what its stores had to say."""
    telling = [fusion for fusion in fusions if isinstance(fusion, WeighingFusion)]
    if not telling:
        return hypothesis
    written = hypothesis.tokens if hypothesis.ended else hypothesis.tokens[:-1]
    prefix = np.array([*prompt, *written], np.int64)
    stores = {name: weight for fusion in telling for name, weight in fusion.weights(prefix, sentence).items()}
    return replace(hypothesis, stores=tuple(stores.items()))


def is_usable(backbone: Backbone, hypothesis: Hypothesis, options: SearchOptions) -> bool:
    """Whether it has text and no loop, neither of tokens nor of words: commas, capitals and where a word is split do
    not break a loop, nor is a phrase ever too long for one."""
    text = backbone.target.decode(hypothesis.tokens).strip()
    return bool(text) and not (options.stop_loops and (first_loop(hypothesis.tokens) is not None or loops(text)))


class _Rules:
    """Which tokens may not be written at which place."""

    def __init__(self, backbone: Backbone, device: torch.device) -> None:
        always, first = backbone.suppressed.always, backbone.suppressed.first
        self._always = torch.tensor(always, dtype=torch.long, device=device)
        self._first = torch.tensor([*always, *first], dtype=torch.long, device=device)
        self._not_empty = torch.tensor([*always, *first, backbone.target.eos], dtype=torch.long, device=device)

    def of_model(self, logits: Tensor, length: int) -> Tensor:
        """Without what the model suppresses, which takes no part in its softmax. logits: [rows, vocabulary]"""
        tokens = self._first if length == 1 else self._always
        return logits.index_fill(-1, tokens, _NEVER) if len(tokens) else logits

    def of_search(self, log_probs: Tensor, length: int) -> None:
        """After the fusions, which may give mass back to what is suppressed; nor may a hypothesis be empty."""
        log_probs.index_fill_(-1, self._not_empty if length == 1 else self._always, _NEVER)


def _pick(rows: Tensor, index: Tensor) -> Tensor:
    """rows: [batch, beam, length], index: [batch, n] → [batch, n, length]"""
    return rows.gather(1, index[:, :, None].expand(-1, -1, rows.shape[2]))


class _Finished:
    """The best ``beam`` finished hypotheses of every sentence, best first: by log p / length^α, α of the sentence."""

    def __init__(self, batch: int, beam: int, limit: int, pad: int, alpha: float, device: torch.device) -> None:
        self._alphas = torch.full((batch,), alpha, device=device)
        self._log_probs = torch.full((batch, beam), _NEVER, device=device)
        self._lengths = torch.ones(batch, beam, dtype=torch.long, device=device)
        self._tokens = torch.full((batch, beam, limit), pad, device=device)

    def judge_by(self, alphas: Tensor, sentences: Tensor) -> None:
        """From now on these sentences have other length penalties. alphas, sentences: [live]"""
        self._alphas[sentences] = alphas.to(self._alphas)

    def add(self, sentences: Tensor, tokens: Tensor, log_probs: Tensor, length: int) -> None:
        """Merge what ends now. tokens: [live, beam, length]; log_probs: [live, beam], very low where nothing ends"""
        if not bool((log_probs > _NEVER / 2).any()):
            return
        beam = log_probs.shape[1]
        padded = self._tokens.new_full((*tokens.shape[:2], self._tokens.shape[2]), 0)
        padded[:, :, :length] = tokens
        log_probs = torch.cat([self._log_probs[sentences], log_probs], dim=1)
        lengths = torch.cat([self._lengths[sentences], torch.full_like(log_probs[:, beam:], length).long()], dim=1)
        order = _scores(log_probs, lengths, self._alphas[sentences]).topk(beam, dim=1).indices
        self._log_probs[sentences] = log_probs.gather(1, order)
        self._lengths[sentences] = lengths.gather(1, order)
        self._tokens[sentences] = _pick(torch.cat([self._tokens[sentences], padded], dim=1), order)

    def nothing(self, sentences: Tensor) -> Tensor:
        """Whether a sentence has no finished hypothesis at all. → [live] bool"""
        return self._log_probs[sentences].amax(dim=1) < _NEVER / 2

    def could_change(self, sentences: Tensor, best_live: Tensor, length: int) -> Tensor:
        """Whether a live hypothesis may still enter. best_live: [live] log-probabilities → [live] bool

        As transformers and fairseq do, a live hypothesis is judged at its present length. Greedy search ends with
        the first end symbol. Nothing comes of a sentence whose live hypotheses all loop.
        """
        alphas = self._alphas[sentences]
        scores = _scores(self._log_probs[sentences], self._lengths[sentences], alphas)
        full, alive = (scores > _NEVER / 2).all(dim=1), best_live > _NEVER / 2
        if scores.shape[1] == 1:
            return ~full & alive
        return (~full | (best_live / length**alphas > scores.amin(dim=1))) & alive

    def hypotheses(self, eos: int) -> list[list[Hypothesis]]:
        scores, order = _scores(self._log_probs, self._lengths, self._alphas).sort(dim=1, descending=True, stable=True)
        rows = zip(
            _pick(self._tokens, order).tolist(),
            self._lengths.gather(1, order).tolist(),
            scores.tolist(),
            self._log_probs.gather(1, order).tolist(),
            strict=True,
        )
        return [
            [
                Hypothesis(tuple(t[: n - 1] if (ended := t[n - 1] == eos) else t[:n]), s, p, ended)
                for t, n, s, p in zip(tokens, lengths, scores, log_probs, strict=True)
                if s > _NEVER / 2
            ]
            for tokens, lengths, scores, log_probs in rows
        ]


def _scores(log_probs: Tensor, lengths: Tensor, alphas: Tensor) -> Tensor:
    """log p / length^α. log_probs, lengths: [sentences, n]; alphas: [sentences] → [sentences, n]"""
    return torch.where(log_probs > _NEVER / 2, log_probs / lengths ** alphas[:, None], _NEVER)
