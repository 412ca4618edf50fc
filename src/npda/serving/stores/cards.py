"""What people are shown of a store."""

from __future__ import annotations

from typing import Any

from npda.serving.engine.asks import StoreCard
from npda.serving.stores.versions import Version


def described(version: Version, model: str, corrections: int) -> StoreCard:
    """corrections: their keys, which lie over the store"""
    info, told = version.info, version.card
    sources: list[dict[str, Any]] = []
    for source in info.sources:
        card = told.sources.get(source.name)
        sources.append(
            {
                "name": source.name,
                "kind": source.kind,
                "sentences": source.sentences,
                "keys": source.keys,
                "skipped": source.skipped,
                "languages": list(source.languages),
                **(card.model_dump() if card else {"licence": "", "origin": "", "user": "", "added": None}),
            }
        )
    licences = sorted({source["licence"] for source in sources if source["licence"]})
    origins = sorted({source["origin"] for source in sources if source["origin"]})
    card = {
        "sources": sources,
        "licence": "; ".join(licences),
        "origin": "; ".join(origins),
        "languages": list(info.languages),
        "size_bytes": version.store.sizes()["total"],
        "corrections": corrections,
        "tuned": _tuned(version),
        "gain": _gain(version),
        "harm": _harm(version),
    }
    names = tuple(source.name for source in info.sources)
    return StoreCard(version.name, model, info.count, names, version.editable, card)


def overlay_card(name: str, model: str, keys: int) -> StoreCard:
    """Of a store that consists of corrections alone."""
    card = {
        "sources": [],
        "licence": "",
        "origin": "corrections",
        "languages": [],
        "size_bytes": 0,
        "corrections": keys,
        "tuned": None,
        "gain": None,
        "harm": None,
    }
    return StoreCard(name, model, keys, (), True, card)


def _tuned(version: Version) -> dict[str, Any] | None:
    """How it was tuned; None where k, λ and T come from the rule for stores that never were."""
    tuned, guard = version.tuned, version.guard
    if tuned is None:
        return None
    return {
        "k": tuned.k,
        "lambda": tuned.lambda_,
        "temperature": tuned.temperature,
        "way": tuned.way,
        "guarded": guard is not None,
        "keys": version.card.tuned_keys,
        "sentences": version.card.held_out or None,
    }


def _gain(version: Version) -> dict[str, float] | None:
    """BLEU and chrF of held-out sentences of the domain: of the model alone, and with the store."""
    tuned = version.tuned
    if tuned is None:
        return None
    return {
        "base_bleu": tuned.base_bleu,
        "bleu": tuned.bleu,
        **({"base_chrf": tuned.base_chrf} if tuned.base_chrf is not None else {}),
        **({"chrf": tuned.chrf} if tuned.chrf is not None else {}),
    }


def _harm(version: Version) -> dict[str, Any] | None:
    """The same of general sentences, where it was measured."""
    price = version.guard.price if version.guard is not None else None
    if price is None:
        return None
    return price.model_dump()
