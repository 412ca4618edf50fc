"""npda: text-only domain adaptation for end-to-end speech translation."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npda.decoding.beam import SearchOptions
    from npda.translator import Translation, Translator

__version__ = "0.1.0"
__all__ = ["SearchOptions", "Translation", "Translator"]


def __getattr__(name: str) -> object:
    """Import torch and transformers only when they are needed: ``npda --help`` answers at once."""
    if name == "SearchOptions":
        from npda.decoding.beam import SearchOptions

        return SearchOptions
    if name in {"Translation", "Translator"}:
        from npda import translator

        return getattr(translator, name)
    raise AttributeError(f"module 'npda' has no attribute {name!r}")
