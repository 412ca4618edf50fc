"""Whisper's vocabulary as a decoder target and as the source of its text path."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property

from transformers import WhisperTokenizer

from npda.io.errors import InputError

# Blanks to be filled in: nobody says them, but Whisper writes them when it is misled. OpenAI suppresses "_" alone.
_BLANKS = ("__", "____", "Ġ_", "Ġ__")
_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")


class WhisperTokens:
    """`Tokens` of a Whisper model. size: of its output layer

    ``pad`` is not Whisper's own, which is its end symbol too: nobody would learn to end.
    """

    def __init__(self, tokenizer: WhisperTokenizer, size: int) -> None:
        self.tokenizer = tokenizer
        self._size = size
        self._special: dict[str, int] = tokenizer.get_added_vocab()
        self.eos = self.special("endoftext")
        self.pad = self.special("startofprev")

    def __len__(self) -> int:
        return self._size

    def encode(self, text: str) -> list[int]:
        """As Whisper writes a sentence: with a space before it, except in scripts without."""
        text = text.strip()
        if not text:
            return []
        lead = "" if unicodedata.east_asian_width(text[0]) in "WF" else " "
        # Whoever writes <|endoftext|> in a sentence means these characters.
        return self.tokenizer.encode(lead + text, add_special_tokens=False, split_special_tokens=True)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True)).strip()

    def digest(self) -> str:
        return self._digest

    @cached_property
    def blanks(self) -> tuple[int, ...]:
        """Tokens that are nothing but underscores."""
        name = self.tokenizer.convert_ids_to_tokens
        # What a vocabulary lacks is given the number of another token.
        return tuple(id_ for blank in _BLANKS if name(id_ := self.tokenizer.convert_tokens_to_ids(blank)) == blank)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages it hears; none for the English models."""
        return tuple(found[1] for token in self._special if (found := _LANGUAGE.fullmatch(token)))

    def language(self, code: str) -> int:
        """The tag of a language."""
        if code not in self.languages:
            raise InputError(f"This Whisper model does not know the language {code!r}; give a code such as de or fr.")
        return self.special(code)

    def special(self, name: str) -> int:
        """The token <|name|>."""
        token = f"<|{name}|>"
        if token not in self._special:
            raise InputError(f"The tokenizer has no {token}: its files are not those of a Whisper model.")
        return self._special[token]

    @cached_property
    def _digest(self) -> str:
        model = json.loads(self.tokenizer.backend_tokenizer.to_str())["model"]
        content = [sorted(self.tokenizer.get_vocab().items()), model["merges"]]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()
