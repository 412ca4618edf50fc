"""Vocabularies of transformers in which a token names the language, as the decoder's target and as a source."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from npda.io.errors import InputError

_VOCABULARY = ("tokenizer.json", "sentencepiece.bpe.model")


class TaggedTokens:
    """`Tokens` of a multilingual model.

    tokenizer: of transformers, with a backend of the tokenizers library; size: of the output layer
    tags: names of a language, the usual one first → its token; before, after: what ``encode`` puts around a text
    """

    def __init__(
        self,
        tokenizer: Any,
        size: int,
        tags: Mapping[str, int],
        before: Sequence[int] = (),
        after: Sequence[int] = (),
    ) -> None:
        self.tokenizer = tokenizer
        self.pad: int = tokenizer.pad_token_id
        self.eos: int = tokenizer.eos_token_id
        self._size = size
        self._tags = dict(tags)
        self._before, self._after = list(before), list(after)
        self._special = {*tokenizer.all_special_ids, *self._tags.values()} - {tokenizer.unk_token_id}

    def __len__(self) -> int:
        return self._size

    def encode(self, text: str) -> list[int]:
        """An empty text is nothing, with nothing around it."""
        ids = self.tokenizer.encode(text.strip(), add_special_tokens=False, split_special_tokens=True)
        # Whoever writes </s> in a sentence does not end it; SentencePiece has these among its pieces.
        ids = [token for token in ids if token not in self._special]
        return [*self._before, *ids, *self._after] if ids else []

    def decode(self, ids: Sequence[int]) -> str:
        kept = [token for token in ids if token not in self._special]
        return str(self.tokenizer.decode(kept, skip_special_tokens=True)).strip()

    def digest(self) -> str:
        return self._digest

    @property
    def languages(self) -> tuple[str, ...]:
        """The usual name of every language that has a tag."""
        names: dict[int, str] = {}
        for name, tag in self._tags.items():
            names.setdefault(tag, name)
        return tuple(names.values())

    def is_tag(self, token: int) -> bool:
        return token in self._tags.values()

    def tag(self, language: str) -> int:
        """The token of a language."""
        if language not in self._tags:
            known = ", ".join(self.languages)
            raise InputError(f"The model has no tag for the language {language!r}; it has {known}.")
        return self._tags[language]

    @cached_property
    def _digest(self) -> str:
        model = json.loads(self.tokenizer.backend_tokenizer.to_str())["model"]
        content = [sorted(self.tokenizer.get_vocab().items()), model["vocab"], model.get("merges")]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_vocabulary(directory: Path) -> None:
    """Refuse a directory that transformers would open with next to no tokens, or whose format it cannot read here."""
    fast, published = (directory / name for name in _VOCABULARY)
    if fast.is_file():
        return
    if not published.is_file():
        raise InputError(f"{directory} has no vocabulary: neither {' nor '.join(_VOCABULARY)} is there.")
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise InputError(f"{published} cannot be read without the package protobuf: run `pip install protobuf`.")
