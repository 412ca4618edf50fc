"""Short sentences that can carry any noun, for terms that no text holds."""

from __future__ import annotations

from collections.abc import Sequence

# The last of each is the bare term, which goes with any part of speech.
_FRAMES = {
    "de": ("Hier ist von {} die Rede.", "Wir sprechen über {}.", "Das Wort ist {}.", "Es geht um {}.", "{}."),
    "en": ("This is about {}.", "We talk about {}.", "The word is {}.", "They asked me about {}.", "{}."),
    "es": ("Se trata de {}.", "Hablamos de {}.", "La palabra es {}.", "Me preguntaron por {}.", "{}."),
    "fr": ("Il s'agit de {}.", "Nous parlons de {}.", "Le mot est {}.", "On m'a parlé de {}.", "{}."),
}
_ANY = ("{}.", "{}?", "{}!")


def carriers(sources: Sequence[str], language: str | None) -> list[str]:
    """Sentences with each way to say a term. language: that is spoken"""
    frames = _FRAMES.get(language or "", _ANY)
    return [frame.format(source) for source in sources for frame in frames]
