"""README.md cards of what npda writes, as the Hugging Face hub shows them: front matter in YAML, then Markdown.

Names and licences come from elsewhere: what is shown of them is text, and never a heading, a link or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.terminal import printable

FILE = "README.md"
MARK = "<!-- npda renews this card whenever it writes here. Delete this line to keep your own text. -->"

_LETTERS = 200  # of a licence's name
_MOST = 1 << 20  # bytes of a card that are looked at
# To Markdown, and to the hub, which sets formulas and makes links of what looks like an address.
_MEANING = re.compile(r"[\\`*_{}\[\]<>&|~#!$@]|:(?=//)|(?<=www)\.", re.IGNORECASE)
# Licences that the hub knows by these names; it wants `other` and a name for all else.
_KNOWN = re.compile(
    r"apache-2\.0|mit|unlicense|bsd-[23]-clause|mpl-2\.0|a?gpl-3\.0|gpl-2\.0|lgpl-(2\.1|3\.0)|eupl-1\.[12]|odbl|pddl|"
    r"cc0-1\.0|cc-by-2\.0|cc-by(-nc)?(-sa|-nd)?-[34]\.0"
)


def text(value: str) -> str:
    """Text from elsewhere inside a paragraph or a table."""
    return _MEANING.sub(r"\\\g<0>", _line(value))


def code(value: str, in_table: bool = False) -> str:
    """A name from elsewhere as a code span."""
    line = _line(value)
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    space = " " if not line or line[0] in "` " or line[-1] in "` " else ""
    span = f"{fence}{space}{line}{space}{fence}"
    return span.replace("|", "\\|") if in_table else span


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: frozenset[str] = frozenset()) -> str:
    """Cells are Markdown already. numbers: columns that stand on the right"""
    rules = ["---:" if column in numbers else "---" for column in columns]
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, rules, *rows))


def check_licence(licence: str) -> str:
    """The name of a licence; InputError for what is no line of text."""
    if len(licence) > _LETTERS or not licence.isprintable():
        raise InputError(f"A licence is named in one line of at most {_LETTERS} letters, for example cc-by-4.0.")
    return licence


def licences(told: Iterable[str]) -> dict[str, str]:
    """What the front matter says of the licences that were told."""
    names = sorted({" ".join(licence.split()) for licence in told} - {""})
    if not names:
        return {}
    if len(names) == 1 and _KNOWN.fullmatch(names[0].lower()):
        return {"license": names[0].lower()}
    return {"license": "other", "license_name": "; ".join(names)}


def told_licence(card: Path) -> str:
    """The licence that the front matter of a card names; empty where there is none."""
    import yaml

    try:
        with open(card, "rb") as file:
            found = re.match(r"---\r?\n(.*?\r?\n)---\r?\n", file.read(_MOST).decode("utf-8", "replace"), re.DOTALL)
        front = yaml.safe_load(found[1]) if found else None
    except (OSError, yaml.YAMLError, RecursionError):
        return ""
    if not isinstance(front, dict):
        return ""
    licence = front.get("license_name") if front.get("license") == "other" else front.get("license")
    return _line(licence)[:_LETTERS] if isinstance(licence, str) else ""


def is_ours(card: Path) -> bool:
    """Whether a card may be written here: there is none, or one of npda that nobody has made his own."""
    try:
        with open(card, "rb") as file:
            return MARK.encode() in file.read(_MOST)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def write_card(card: Path, front: Mapping[str, Any], body: str) -> None:
    """Write a card, atomically, unless somebody has written their own text there."""
    import yaml

    if not is_ours(card):
        return
    head = yaml.safe_dump(dict(front), sort_keys=False, width=1_000)  # all but ASCII is escaped, line ends too
    with atomic_write(card) as temporary:
        temporary.write_text(f"---\n{head}---\n{MARK}\n\n{body.strip()}\n", encoding="utf-8")


def bytes_text(count: int) -> str:
    """1536 → 1.5 KB"""
    size, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}" if unit != "B" else f"{count} B"


def _line(value: str) -> str:
    return printable(" ".join(value.split()))
