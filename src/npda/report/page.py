"""HTML pages from templates. A page needs nothing but itself: style, script and pictures are part of it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from npda.explanation.wording import clean, number, percent, recording, replaced, verdict, where
from npda.explanation.words import WORD_BEGIN

_HERE = Path(__file__).parent


def render(template: str, **values: Any) -> str:
    """The whole page. template: a file of ``templates/``; values: what it shows, escaped unless it is ``Markup``"""
    return "".join(pieces(template, **values))


def pieces(template: str, **values: Any) -> Iterator[str]:
    """The page bit by bit: a template that loops over an iterator shows each item as soon as it is there."""
    return _environment().get_template(template).generate(**values)


@cache
def static(name: str) -> Markup:
    """A file of ``static/``, to stand inside the page."""
    return Markup((_HERE / "static" / name).read_text(encoding="utf-8"))  # noqa: S704 (a file of the package)


def policy(script: str = "") -> str:
    """The Content-Security-Policy of a page. script: the only one that it holds, and the only one that may run."""
    # Texts come from outside. Should one ever slip through unescaped, the browser still runs only our own script.
    rules = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"
    if not script:
        return rules
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"{rules}; script-src 'sha256-{digest}'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(static=static, policy=policy, verdict=verdict, WORD_BEGIN=WORD_BEGIN)
    environment.filters.update(number=number, percent=percent, recording=recording, replaced=replaced, where=where)
    return environment


def _finalize(value: Any) -> Any:
    """Every text that a template shows goes through here: control characters are no HTML."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
