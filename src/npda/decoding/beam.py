"""Beam search over any backbone, for a batch of sentences at once.

Every quantity is a tensor over [sentences, beam]; nothing in the loop is done hypothesis by hypothesis. A sentence
leaves the batch as soon as it is decided, and what it gets does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from npda.decoding.candidates import best
from npda.decoding.fusion import Fusion, begin
from npda.models.backbone import Backbone, Memory

_NEVER = -1.0e9  # a score below any real one, and finite: differences of it stay numbers


@dataclass(frozen=True)
class SearchOptions:
    """How to search; the defaults are the paper's."""

    beam: int = 5  # live hypotheses per sentence; 1 is greedy search
    length_penalty: float = 0.6  # α: a hypothesis counts log p / length^α, its end symbol included in the length
    max_length: int = 200  # tokens after the prompt, end symbol included
    n_best: int = 1  # hypotheses returned, at most ``beam``

    def __post_init__(self) -> None:
        if self.beam < 1 or self.max_length < 1:
            raise ValueError("beam and max_length must be at least 1")
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best must be between 1 and the beam size {self.beam}, not {self.n_best}")


@dataclass(frozen=True)
class Hypothesis:
    """tokens: what follows the prompt, without the end symbol; score: log_prob / length^α; ended: not cut at a limit"""

    tokens: tuple[int, ...]
    score: float
    log_prob: float
    ended: bool


@torch.inference_mode()
def search(
    backbone: Backbone,
    memory: Memory,
    prompt: Sequence[int] | Tensor,
    options: SearchOptions = SearchOptions(),
    fusions: Sequence[Fusion] = (),
) -> list[list[Hypothesis]]:
    """The ``n_best`` hypotheses of every sentence of the memory, best first.

    prompt: that all of them begin with, or of each its own, all equally long: [batch, n]
    """
    batch, beam = memory.states.shape[0], options.beam
    device = memory.states.device
    prompts = prompt.to(device) if isinstance(prompt, Tensor) else torch.tensor([prompt], device=device)
    prompted = prompts.shape[1]
    limit = min(options.max_length, backbone.max_target - prompted)
    stream = backbone.start(memory, beam)
    prefixes = prompts[:, None].expand(batch, beam, -1)
    fed = prefixes  # what the decoder has not seen yet
    # All beams start alike: only the first may branch.
    live = torch.full((batch, beam), _NEVER, device=device)
    live[:, 0] = 0.0
    finished = _Finished(batch, beam, limit, backbone.target.pad, device)
    sentences = torch.arange(batch, device=device)  # which sentence of the batch each row of the search is

    for length in range(1, limit + 1):
        states = stream.step(fed.flatten(0, 1))
        rows = sentences.repeat_interleave(beam)
        finish = [begin(fusion, states, prefixes.flatten(0, 1), rows) for fusion in fusions]
        log_probs = torch.log_softmax(_allowed(backbone, states, length), dim=-1)
        for finish_fusion in finish:
            log_probs = finish_fusion(log_probs)

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
        finished.add(sentences, grown[:, :beam, prompted:], closing, length, options.length_penalty)
        live, order = torch.where(ends, _NEVER, candidates).topk(beam, dim=1)

        undecided = finished.could_change(sentences, live[:, 0], length, options.length_penalty)
        if length == limit or not bool(undecided.any()):
            break
        parents, prefixes = parents.gather(1, order), _pick(grown, order)
        stream.reorder((parents + torch.arange(len(sentences), device=device)[:, None] * beam).flatten())
        if not bool(undecided.all()):
            kept = undecided.nonzero()[:, 0]
            stream.keep(kept)
            live, prefixes, sentences = live[kept], prefixes[kept], sentences[kept]
        fed = prefixes[:, :, -1:]

    return finished.hypotheses(options.n_best, backbone.target.eos)


def _allowed(backbone: Backbone, states: Tensor, length: int) -> Tensor:
    """The model's scores of the token at this length, those it does not write far below. → [rows, vocabulary]"""
    logits = backbone.logits(states).float()
    rules = backbone.suppressed
    tokens = rules.always + rules.first if length == 1 else rules.always
    return logits.index_fill(-1, torch.tensor(tokens, device=logits.device), _NEVER) if tokens else logits


def _pick(rows: Tensor, index: Tensor) -> Tensor:
    """rows: [batch, beam, length], index: [batch, n] → [batch, n, length]"""
    return rows.gather(1, index[:, :, None].expand(-1, -1, rows.shape[2]))


class _Finished:
    """The best ``beam`` finished hypotheses of every sentence, best first."""

    def __init__(self, batch: int, beam: int, limit: int, pad: int, device: torch.device) -> None:
        self._scores = torch.full((batch, beam), _NEVER, device=device)
        self._log_probs = torch.full((batch, beam), _NEVER, device=device)
        self._lengths = torch.zeros(batch, beam, dtype=torch.long, device=device)
        self._tokens = torch.full((batch, beam, limit), pad, device=device)

    def add(self, sentences: Tensor, tokens: Tensor, log_probs: Tensor, length: int, alpha: float) -> None:
        """Merge what ends now. tokens: [live, beam, length]; log_probs: [live, beam], very low where nothing ends"""
        if not bool((log_probs > _NEVER / 2).any()):
            return
        beam = log_probs.shape[1]
        scores = torch.where(log_probs > _NEVER / 2, log_probs / length**alpha, _NEVER)
        padded = self._tokens.new_full((*tokens.shape[:2], self._tokens.shape[2]), 0)
        padded[:, :, :length] = tokens
        merged = torch.cat([self._scores[sentences], scores], dim=1)
        best, order = merged.topk(beam, dim=1)
        self._scores[sentences] = best
        self._log_probs[sentences] = torch.cat([self._log_probs[sentences], log_probs], dim=1).gather(1, order)
        lengths = torch.full_like(order, length)[:, :beam]
        self._lengths[sentences] = torch.cat([self._lengths[sentences], lengths], dim=1).gather(1, order)
        self._tokens[sentences] = _pick(torch.cat([self._tokens[sentences], padded], dim=1), order)

    def could_change(self, sentences: Tensor, best_live: Tensor, length: int, alpha: float) -> Tensor:
        """Whether a live hypothesis may still enter. best_live: [live] log-probabilities → [live] bool

        As transformers and fairseq do, a live hypothesis is judged at its present length. Greedy search ends with
        the first end symbol.
        """
        scores = self._scores[sentences]
        full = scores[:, -1] > _NEVER / 2
        if scores.shape[1] == 1:
            return ~full
        return ~full | (best_live / length**alpha > scores[:, -1])

    def hypotheses(self, n_best: int, eos: int) -> list[list[Hypothesis]]:
        rows = zip(
            self._tokens.tolist(),
            self._lengths.tolist(),
            self._scores.tolist(),
            self._log_probs.tolist(),
            strict=True,
        )
        return [
            [
                Hypothesis(tuple(t[: n - 1] if (ended := t[n - 1] == eos) else t[:n]), s, p, ended)
                for t, n, s, p in list(zip(tokens, lengths, scores, log_probs, strict=True))[:n_best]
                if s > _NEVER / 2
            ]
            for tokens, lengths, scores, log_probs in rows
        ]
