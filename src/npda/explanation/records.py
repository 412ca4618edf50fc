"""What there is to say about a translation, as plain data that goes to JSON and back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from npda.decoding.beam import Retried
from npda.io.errors import InputError
from npda.terms.replacing import Placed

Decider = Literal["model", "store", "both"]


@dataclass(frozen=True)
class Neighbour:
    """A key near the decoder's state: a stored sentence reached this point and continued with ``token``.

    distance: squared L2; weight: its share in p_kNN; token, piece: the value; position: of that token in the target
    sentence, in tokens from 0; start, end: the same in characters of ``target_text``, equal where the token has none
    (the end symbol); source: its name in the store; store: the store's
    """

    distance: float
    weight: float
    token: int
    piece: str
    source_text: str
    target_text: str
    position: int
    start: int
    end: int
    source: str
    store: str


@dataclass(frozen=True)
class Token:
    """One produced token. p = λ·p_kNN + (1 − λ)·p_model (eq. 5), λ is 0 where no neighbour was found.

    base_token, base_piece, base_p: what the model alone holds most likely after the same beginning;
    decided_by: who holds this token most likely, or, where neither does, who gave more to p;
    opened: how far the gate of each of the explanation's ``stores`` was open, 1 without a guard
    """

    token: int
    piece: str
    p_model: float
    p_knn: float
    lambda_: float
    p: float
    base_token: int
    base_piece: str
    base_p: float
    decided_by: Decider
    neighbours: tuple[Neighbour, ...]
    opened: tuple[float, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the model alone would have gone on with something else."""
        return self.token != self.base_token


@dataclass(frozen=True)
class Evidence:
    """A place in a sentence of the store that speaks for a word, or for another one in its stead.

    weight: its share in p_kNN, averaged over the word's tokens, so that all evidence of a word adds up to 1;
    distance: that of its nearest token; start, end: characters of ``target_text``;
    agrees: every token it proposes is the word's own
    """

    distance: float
    weight: float
    agrees: bool
    source_text: str
    target_text: str
    start: int
    end: int
    source: str
    store: str


@dataclass(frozen=True)
class Word:
    """A word of the translation, or its end (``end``, with an empty text).

    first, last: its tokens; p_model, p_knn, p: the products of theirs; decided_by: the store as soon as it decided
    a token; new: the base translation does not have the word at this place; evidence: heaviest first
    """

    text: str
    end: bool
    first: int
    last: int
    p_model: float
    p_knn: float
    p: float
    decided_by: Decider
    new: bool
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class BaseWord:
    """A word of the base translation. kept: it is in the adapted one too, at this place"""

    text: str
    kept: bool


@dataclass(frozen=True)
class Explanation:
    """One utterance: what the base model makes of it, what store and model make of it together, and why.

    audio: the input as it was named; log_prob: the sum of the tokens' log p; transcript, reference: where known;
    signature: the settings, such as ``k:16|λ:0.7|T:10|beam:5|store:3f2a91c0``; stores: the names of those that could
    steer, in the order of ``opened``; retried: how the text was found where a plain search did not end, see
    ``npda.decoding.retry`` (the log_prob of what was "cut" is that of the whole);
    placed: the text with the wanted terms in it, None where no list was given
    """

    audio: str
    text: str
    base_text: str
    log_prob: float
    signature: str
    words: tuple[Word, ...]
    base_words: tuple[BaseWord, ...]
    tokens: tuple[Token, ...]
    transcript: str = ""
    reference: str = ""
    stores: tuple[str, ...] = ()
    retried: Retried = ""
    placed: Placed | None = None

    @property
    def openness(self) -> dict[str, float]:
        """How far the gate of each store was open, on average over the tokens."""
        rows = [token.opened for token in self.tokens if len(token.opened) == len(self.stores)]
        return {name: sum(row[i] for row in rows) / len(rows) for i, name in enumerate(self.stores) if rows}

    def to_json(self) -> str:
        """One line; a file name that is not UTF-8 loses the bytes that are not."""
        line = json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)
        return line.encode("utf-8", "replace").decode("utf-8")

    @classmethod
    def from_json(cls, line: str | bytes) -> Explanation:
        try:
            return _ADAPTER.validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "JSON"
            raise InputError(f"This is not an explanation by `npda explain --json`: {place}: {first['msg']}.") from None


_ADAPTER = TypeAdapter(Explanation)
