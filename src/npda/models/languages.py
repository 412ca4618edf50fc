"""Whether a model of one language is asked for another."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, Literal

from npda.corpus.languages import language_code
from npda.io.errors import InputError
from npda.text import Vocabulary

Skill = Literal["write", "hear"]

logger = logging.getLogger(__name__)


def check_only(known: str, asked: str | None, skill: Skill) -> None:
    """Refuse another language than the only one a model can do, and what is no language at all.

    known: "" where the model does not say, as older ones; that is told once
    """
    if asked is None:
        return
    code = language_code(asked)
    if not known:
        _trusted(code, skill)
    elif _main(code) != _main(known):
        raise InputError(f"The model can {skill} {known} only, not {asked!r}: choose {known}, or another model.")


def check_spoken(backbone: Any, language: str) -> None:
    """Refuse a language that a model of ``npda train`` does not hear and read. Other families look for themselves."""
    if isinstance(backbone.source, Vocabulary):
        check_only(backbone.source.language, language, "hear")


def _main(code: str) -> str:
    """de-AT → de"""
    return code.replace("_", "-").partition("-")[0].lower()


@cache
def _trusted(code: str, skill: Skill) -> None:
    logger.warning(
        "The model does not say which languages it can %s, so npda cannot tell whether %s is one of them.", skill, code
    )
