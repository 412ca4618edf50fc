"""The card of a store, STORE/README.md: written with it, and anew whenever it is edited, compressed or tuned.

It does not belong to the store: no digest or checksum knows it, and a store without one is as good. Nothing in it names
the folder, so that equal stores have equal cards wherever they lie.
"""

from __future__ import annotations

import logging
from pathlib import Path

from npda.datastore.facts import described, measured
from npda.datastore.format import INFO, SourceInfo, StoreInfo, read_info
from npda.datastore.measured import GUARD, TUNED, GuardRecord, TunedRecord, read_measured
from npda.io import card
from npda.io.errors import InputError

logger = logging.getLogger(__name__)

_COLUMNS = ("source", "kind", "sentences", "keys", "left out", "languages", "licence")
_NUMBERS = frozenset(("sentences", "keys", "left out"))
_USE = """## How to use it
In this folder, with npda and the model whose decoder made the keys (MODEL):

```bash
npda translate talk.wav --model MODEL --store .
npda explain talk.wav --model MODEL --store . --html why.html
npda inspect . --verify
```

The sentences of all sources stand in the store as text, and `npda explain` shows them: share the store only with people
who may read them.
"""


def write_card(store: Path) -> None:
    """Write the card from what the store's own files say, unless somebody has written their own text there."""
    info = read_info(store)
    front = {
        "library_name": "npda",
        **card.licences(source.licence for source in info.sources),
        **({"language": list(info.languages)} if info.languages else {}),
        "tags": ["speech-translation", "domain-adaptation", "knn-mt", "datastore"],
    }
    card.write_card(store / card.FILE, front, _body(store, info))


def renew_card(store: Path) -> None:
    """Write the card after a change that has happened already, and that is not undone where this fails."""
    try:
        if (store / INFO).is_file():
            write_card(store)
    except InputError as error:
        logger.warning("The card of %s is not up to date: %s", store, error)


def _body(store: Path, info: StoreInfo) -> str:
    tuned, guard = read_measured(store / TUNED, TunedRecord), read_measured(store / GUARD, GuardRecord)
    languages = f" Its translations are in {card.text(', '.join(info.languages))}." if info.languages else ""
    parts = [
        "# A datastore for speech translation",
        f"{info.count:,} keys, made of {_named(info)}, steer the translation of speech towards this text.{languages} "
        f"It works with one model only: the {card.text(info.backbone.name)} model whose decoder has the digest "
        f"`{info.backbone.digest[:12]}`.",
        "## Sources",
        card.table(_COLUMNS, map(_row, info.sources), _NUMBERS),
        "## Gain and harm",
        card.table(("", ""), measured(tuned, guard)),
        *_remarks(info, tuned),
        "## Size and settings",
        card.table(("", ""), ((name, card.text(value)) for name, value in described(info))),
        _USE,
    ]
    return "\n\n".join(parts)


def _named(info: StoreInfo) -> str:
    return ", ".join(card.code(source.name) for source in info.sources) or "nothing"


def _row(source: SourceInfo) -> tuple[str, ...]:
    """As `npda inspect` shows it."""
    kind = f"{source.kind}, read by {card.code(source.voice, in_table=True)}" if source.voice else source.kind
    numbers = (f"{number:,}" for number in (source.sentences, source.keys, source.skipped))
    told = (card.text(", ".join(source.languages)), card.text(source.licence) or "not told")
    return (card.code(source.name, in_table=True), kind, *numbers, *told)


def _remarks(info: StoreInfo, tuned: TunedRecord | None) -> list[str]:
    if tuned is None:
        return []
    said = "Dev is what the store was tuned on: expect a little less of new sentences."
    if tuned.store != info.digest():
        said += " The store has changed since it was tuned."
    return [said]
