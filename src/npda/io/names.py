"""Names a person may have mistyped."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """«unknown stage 'trian'; did you mean 'train'?», or which there are if none is near."""
    known = list(known)
    by_folded = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    if near:
        return f"unknown {kind} {name!r}; did you mean {by_folded[near[0]]!r}?"
    return f"unknown {kind} {name!r}; " + (f"there are {', '.join(known)}." if known else "there are none.")
