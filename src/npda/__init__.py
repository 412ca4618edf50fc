"""npda: text-only domain adaptation for end-to-end speech translation."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npda.datastore.store import Datastore
    from npda.decoding.beam import SearchOptions
    from npda.translator import Translation, Translator

__version__ = "0.2.0"
__all__ = ["Datastore", "SearchOptions", "Translation", "Translator"]

_HOMES = {
    "Datastore": "npda.datastore.store",
    "SearchOptions": "npda.decoding.beam",
    "Translation": "npda.translator",
    "Translator": "npda.translator",
}


def __getattr__(name: str) -> object:
    """Import torch and transformers only when they are needed: ``npda --help`` answers at once."""
    if name not in _HOMES:
        raise AttributeError(f"module 'npda' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
