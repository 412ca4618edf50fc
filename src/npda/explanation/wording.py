"""How numbers, places and reasons are worded, in the terminal and on the page."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from npda.explanation.records import Evidence, Token, Word
from npda.explanation.words import END_PIECE, WORD_BEGIN
from npda.io.files import audio_piece
from npda.terms.replacing import Replacement


def clean(text: str) -> str:
    """Without control characters, which would steer a terminal and are no HTML; as long as before."""
    return "".join(" " if c in "\t\n\r" else "�" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def number(p: float) -> str:
    """A probability in as many figures as tell something."""
    if p == 0:
        return "0"
    if p < 0.001:
        return "<0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "<1 %"


def recording(name: str) -> str:
    """The name of the file, without the folder: a path would tell readers about the disk it came from."""
    path, offset, length = audio_piece(name)
    return path.name if length is None else f"{path.name}:{offset}:{length}"


def where(evidence: Evidence) -> str:
    """The store, and the source inside it."""
    return " · ".join(filter(None, (evidence.store, evidence.source)))


def replaced(done: Replacement) -> str:
    """Which word gave way to which, and why."""
    heard = {True: f", heard “{done.source}”", False: f", “{done.source}” was not heard", None: ""}[done.heard]
    return f"“{done.target}” for “{done.rendering}”{heard}"


def verdict(word: Word, tokens: Sequence[Token]) -> tuple[str, str]:
    """Who decided the word, and what the model alone would have done."""
    who = {"store": "The store decided.", "model": "The model decided.", "both": "Model and store agree."}
    changed = next((token for token in tokens if token.changed), None)
    if changed is None:
        return who[word.decided_by], "The model alone would have chosen the same."
    inside = "" if changed is tokens[0] else f", after “{_spoken(tokens, changed)}”"
    if changed.base_piece == END_PIECE:
        instead = f"The model alone would have ended the sentence here{inside}"
    elif changed.base_piece == WORD_BEGIN:
        instead = f"The model alone would have started another word{inside}"
    else:
        piece = changed.base_piece.removeprefix(WORD_BEGIN)
        instead = f"The model alone would have continued with “{piece}”{inside}"
    return who[word.decided_by], f"{instead} (p {number(changed.base_p)} against {number(changed.p_model)})."


def _spoken(tokens: Sequence[Token], until: Token) -> str:
    pieces = [token.piece for token in tokens[: tokens.index(until)]]
    return "".join(pieces).replace(WORD_BEGIN, "")
