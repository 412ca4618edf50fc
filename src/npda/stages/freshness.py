"""The one rule of when a result is stale: it counts if it was made from the same things by the same code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Origin:
    """What a result comes from.

    identity: of inputs, settings and needed results, in JSON
    code: digest of the code; empty for a result of version 0.1.0, which recorded none
    """

    identity: Any
    code: str

    def difference(self, wanted: Origin) -> Literal["", "other inputs", "other code"]:
        """Why a result of this origin is stale; nothing if it counts."""
        if self.identity != wanted.identity:
            return "other inputs"
        return "other code" if self.code and self.code != wanted.code else ""
