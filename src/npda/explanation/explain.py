"""Translate one utterance with a datastore, and write down how every token came about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch

from npda.audio import load
from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.retrieval.overlaid import Overlaid
from npda.datastore.retrieval.protocol import ExplainableRetriever, Retriever
from npda.datastore.store import Datastore
from npda.decoding.beam import Hypothesis, SearchOptions
from npda.decoding.knn.combiners import interpolate, knn_distribution
from npda.decoding.knn.fusion import Asked, NeighbourFusion
from npda.decoding.retry import WITHOUT_FUSIONS, padded, search_with_retry
from npda.explanation.records import BaseWord, Decider, Evidence, Explanation, Neighbour, Token, Word
from npda.explanation.words import Pieces, kept_words
from npda.models.backbone import Backbone, Memory
from npda.models.features import features_of
from npda.models.inputs import hear_batch
from npda.terms.termbase import Terms
from npda.terms.using import Searched, use_terms


@torch.inference_mode()
def hear(backbone: Backbone, name: str, language: str | None = None) -> Memory:
    """Read an audio file and encode it, a batch of one. language: target language, for models with several"""
    features = features_of(backbone, load(name), name)
    return hear_batch(backbone, [features], torch.tensor([backbone.prompt(language)]))


@torch.inference_mode()
def explain(
    backbone: Backbone,
    memory: Memory,
    fusion: NeighbourFusion,
    options: SearchOptions = SearchOptions(),
    language: str | None = None,
    audio: str = "",
    transcript: str = "",
    reference: str = "",
    terms: Terms | None = None,
) -> Explanation:
    """Search with and without the stores, then go once more through what was found with them.

    memory: of one utterance; fusion: over retrievers that are explainable; language: target language, for models with
    several;
    audio, transcript, reference: to be shown with the rest; terms: to be put in afterwards
    """
    if memory.states.shape[0] != 1:
        raise ValueError(f"one utterance at a time can be explained, not {memory.states.shape[0]}")
    prompt = backbone.prompt(language)
    ((base, *_),) = search_with_retry(backbone, memory, prompt, options)
    whole = options if terms is None else replace(options, n_best=options.beam)
    found = search_with_retry(backbone, memory, prompt, whole, [fusion])
    (adapted, *_), placed = found[0], None
    if terms is not None:
        searched = Searched(backbone, memory, torch.tensor([prompt]), whole, [fusion])
        (((adapted, placed), *_),) = use_terms(terms, searched, found, [0], language=language)
    if adapted.retried:
        memory = padded(memory, [0])
    pieces = Pieces(backbone.target)
    produced = [*adapted.tokens, backbone.target.eos] if adapted.ended else [*adapted.tokens]
    with_stores = adapted.retried not in WITHOUT_FUSIONS
    tokens = _tokens(backbone, memory, prompt, produced, fusion, pieces, with_stores)
    words, base_words = _words(tokens, base, pieces)
    text = backbone.target.decode(adapted.tokens)
    return Explanation(
        audio=audio,
        text=text,
        base_text=backbone.target.decode(base.tokens),
        log_prob=adapted.log_prob,
        signature="|".join([str(fusion), f"beam:{options.beam}", *(f"store:{s.digest[:8]}" for s in _stores(fusion))]),
        words=words,
        base_words=base_words,
        tokens=tokens,
        transcript=transcript,
        reference=reference,
        stores=tuple(name for retriever in fusion.retrievers for name in _names_of(retriever)),
        retried=adapted.retried,
        placed=placed,
    )


def _tokens(
    backbone: Backbone,
    memory: Memory,
    prompt: Sequence[int],
    produced: Sequence[int],
    fusion: NeighbourFusion,
    pieces: Pieces,
    with_stores: bool,
) -> tuple[Token, ...]:
    """with_stores: whether the stores steered; if not, λ is 0, and their neighbours are shown all the same"""
    device = memory.states.device
    fed = torch.tensor([[*prompt, *produced[:-1]]], device=device)
    states = backbone.states(memory, fed)[0, len(prompt) - 1 :]
    log_probs = torch.log_softmax(backbone.logits(states).float(), dim=-1)
    p_model = log_probs.exp()
    retrievers = [cast(ExplainableRetriever, retriever) for retriever in fusion.retrievers]
    prefix, queries, sentence = fed.cpu().numpy(), states.float().cpu().numpy(), np.zeros(1, np.int64)

    tokens = []
    for row, token in enumerate(produced):
        here = log_probs[row : row + 1]
        asked = Asked(queries[row : row + 1], prefix[:, : len(prompt) + row], sentence)
        said = fusion.say(states[row : row + 1], here, asked)
        p_knn = knn_distribution(said.weights, said.values, log_probs.shape[-1])
        lambda_ = float(said.lambda_) if with_stores and bool(p_knn.any()) else 0.0
        p = interpolate(here, p_knn, lambda_).exp()
        base_token = int(p_model[row].argmax())
        of_model, of_store = float(p_model[row, token]), float(p_knn[0, token])
        # Two tokens may be the store's favourites alike, so equality decides and not argmax.
        favoured = lambda_ > 0 and of_store == float(p_knn.max())
        neighbours = [
            _neighbour(retrievers[store], pieces, int(id_), float(distance), float(weight))
            for store, id_, distance, weight in zip(
                said.stores, said.ids[0], said.distances[0], said.weights[0], strict=True
            )
            if id_ >= 0
        ]
        tokens.append(
            Token(
                token=token,
                piece=pieces.piece(token),
                p_model=of_model,
                p_knn=of_store,
                lambda_=lambda_,
                p=float(p[0, token]),
                base_token=base_token,
                base_piece=pieces.piece(base_token),
                base_p=float(p_model[row, base_token]),
                decided_by=_decider(token == base_token, favoured, (1 - lambda_) * of_model, lambda_ * of_store),
                neighbours=tuple(sorted(neighbours, key=lambda n: -n.weight)),
                opened=tuple(float(share) for share in said.opened[0]),
            )
        )
    return tuple(tokens)


def _decider(models_choice: bool, stores_choice: bool, from_model: float, from_store: float) -> Decider:
    if models_choice and stores_choice:
        return "both"
    if models_choice or stores_choice:
        return "model" if models_choice else "store"
    return "model" if from_model >= from_store else "store"


def _neighbour(retriever: ExplainableRetriever, pieces: Pieces, id_: int, distance: float, weight: float) -> Neighbour:
    entry = retriever.neighbour_info(id_)
    # A store may hold no sentences: then the token stands for itself.
    text = entry.target_text or pieces.text([entry.token])
    spans = pieces.spans(entry.target_text)
    start, end = (len(text) if entry.target_text else 0), len(text)
    if entry.position < len(spans) and spans[entry.position][0] == entry.token:
        start, end = spans[entry.position][1:]
    return Neighbour(
        distance=distance,
        weight=weight,
        token=entry.token,
        piece=pieces.piece(entry.token),
        source_text=entry.source_text,
        target_text=text,
        position=entry.position,
        start=start,
        end=end,
        source=entry.source,
        store=_store_name(retriever, id_),
    )


def _stores(fusion: NeighbourFusion) -> list[Datastore]:
    return [store for retriever in fusion.retrievers for store in _stores_of(retriever)]


def _stores_of(retriever: Retriever) -> list[Datastore]:
    if isinstance(retriever, JoinedRetriever):
        return retriever.stores
    if isinstance(retriever, LocalRetriever):
        return [retriever.store]
    if isinstance(retriever, Overlaid):
        return [retriever.base] if retriever.base is not None else []
    return [retriever] if isinstance(retriever, Datastore) else []


def _names_of(retriever: Retriever) -> list[str]:
    if isinstance(retriever, Overlaid):
        return [retriever.name]
    return [store.path.name for store in _stores_of(retriever)]


def _store_name(retriever: ExplainableRetriever, id_: int) -> str:
    """The name only: a path would tell the readers of a page about the disk it came from."""
    if isinstance(retriever, JoinedRetriever):
        return retriever.locate(id_)[0].path.name
    names = _names_of(retriever)
    return names[0] if names else ""


def _words(tokens: Sequence[Token], base: Hypothesis, pieces: Pieces) -> tuple[tuple[Word, ...], tuple[BaseWord, ...]]:
    ids = [token.token for token in tokens]
    ranges = pieces.words(ids)
    texts = [pieces.text(ids[first : last + 1]) for first, last in ranges]
    ended = bool(tokens) and pieces.is_end(ids[-1])
    spoken = texts[:-1] if ended else texts
    base_texts = [pieces.text(base.tokens[first : last + 1]) for first, last in pieces.words(base.tokens)]
    in_base, in_adapted = kept_words(base_texts, spoken)
    words = []
    for place, (text, (first, last)) in enumerate(zip(texts, ranges, strict=True)):
        part = tokens[first : last + 1]
        end = ended and place == len(texts) - 1
        words.append(
            Word(
                text=text,
                end=end,
                first=first,
                last=last,
                p_model=math.prod(token.p_model for token in part),
                p_knn=math.prod(token.p_knn for token in part),
                p=math.prod(token.p for token in part),
                decided_by=_deciders(part),
                new=not end and not in_adapted[place],
                evidence=merge(part),
            )
        )
    return tuple(words), tuple(BaseWord(t, kept) for t, kept in zip(base_texts, in_base, strict=True))


def _deciders(tokens: Sequence[Token]) -> Decider:
    found = {token.decided_by for token in tokens}
    return "store" if "store" in found else "model" if "model" in found else "both"


def merge(tokens: Sequence[Token]) -> tuple[Evidence, ...]:
    """The neighbours of a word's tokens; those that follow each other in a sentence are one."""
    places: dict[tuple, list[tuple[Token, Neighbour]]] = {}
    for offset, token in enumerate(tokens):
        for n in token.neighbours:
            occurrence = (n.store, n.source, n.source_text, n.target_text, n.position - offset)
            places.setdefault(occurrence, []).append((token, n))
    evidence = [
        Evidence(
            distance=min(n.distance for _, n in found),
            weight=sum(n.weight for _, n in found) / len(tokens),
            agrees=all(n.token == token.token for token, n in found),
            source_text=source_text,
            target_text=target_text,
            start=min(n.start for _, n in found),
            end=max(n.end for _, n in found),
            source=source,
            store=store,
        )
        for (store, source, source_text, target_text, _), found in places.items()
    ]
    return tuple(sorted(evidence, key=lambda e: (-e.weight, e.distance)))
