"""Whose keys are these: digests of the weights and of the vocabulary."""

from __future__ import annotations

from npda.datastore.format import BackboneInfo, ModelFingerprint, StoreInfo
from npda.io.errors import InputError
from npda.models.backbone import Backbone


def decoder_fingerprint(backbone: Backbone) -> BackboneInfo:
    """The decoder alone: it makes the states that are searched for, whatever encoder it attends to."""
    return BackboneInfo(name=type(backbone).__name__, digest=backbone.decoder_digest())


def model_fingerprint(backbone: Backbone) -> ModelFingerprint:
    """Everything by which a store knows its model again."""
    return ModelFingerprint(
        backbone=decoder_fingerprint(backbone),
        vocabulary=vocabulary_digest(backbone),
        vocabulary_size=len(backbone.target),
        dim=backbone.dim,
    )


def vocabulary_digest(backbone: Backbone) -> str:
    return backbone.target.digest()


def check_belongs(store: str, info: StoreInfo, backbone: Backbone, language: str | None = None) -> None:
    """Refuse a store whose keys or values mean something else to this model, or are of other languages only.

    language: into which the model translates
    """
    if info.state_dim != backbone.dim:
        raise InputError(
            f"{store} has keys of {info.state_dim} dimensions, the model's decoder states have {backbone.dim}: "
            "build a datastore with this model."
        )
    if info.vocabulary != vocabulary_digest(backbone):
        raise InputError(f"{store} was built with another target vocabulary: build a datastore with this model.")
    if info.backbone.digest != decoder_fingerprint(backbone).digest:
        raise InputError(
            f"{store} was built with another model ({info.backbone.name} {info.backbone.digest[:12]}): "
            "its decoder has other weights; build a datastore with this model."
        )
    if language is not None and info.languages and language not in info.languages:
        raise InputError(
            f"{store} holds translations into {', '.join(info.languages)}, none into {language}: "
            f"build a datastore of {language}, or choose another language."
        )
