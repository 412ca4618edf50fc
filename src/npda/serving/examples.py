"""Clips that the page offers from the start: a folder with recordings and a clips.json that tells what is said."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import soundfile
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from npda import audio
from npda.corpus.manifest import Utterance
from npda.io.errors import InputError
from npda.io.files import atomic_directory

FILE = "clips.json"

# Sentences of the embedded corpus whose words mean something else in parliament, and some that stay as they are.
CHOSEN: Mapping[str, Sequence[str]] = {
    "parliament": ("parliament-test-00043", "parliament-test-00004", "parliament-test-00001"),
    "general": ("general-test-00079", "general-test-00001", "general-test-00003"),
}


def _plain(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", name):
        raise ValueError("a clip lies in the folder itself, under a name of letters, digits, dots and hyphens")
    return name


class Example(BaseModel):
    """A clip. file: its name in the folder; transcript, reference: what is said, and how people translate it"""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    file: Annotated[str, AfterValidator(_plain)]
    transcript: str = ""
    reference: str = ""
    domain: str = ""

    def told(self) -> dict[str, str]:
        return {**self.model_dump(exclude={"file"}), "url": f"/examples/{quote(self.file)}"}


_CLIPS = TypeAdapter(list[Example])


def read_examples(folder: Path | None) -> list[Example]:
    """What clips.json lists; nothing where there is no folder."""
    if folder is None:
        return []
    path = folder / FILE
    try:
        return _CLIPS.validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path} is not a list of clips: {place}: {first['msg']}.") from None


def write_examples(folder: Path, speech: Mapping[str, Sequence[Utterance]]) -> None:
    """Write the chosen sentences of both domains. speech: the test sets of the embedded corpus, by domain"""
    with atomic_directory(folder) as made:
        clips = []
        for domain, ids in CHOSEN.items():
            known = {utterance.id: utterance for utterance in speech[domain]}
            for utterance in (known[id] for id in ids if id in known):
                file = f"{utterance.id}.flac"
                soundfile.write(made / file, audio.load(utterance.audio), audio.SAMPLE_RATE, subtype="PCM_16")
                said, meant = utterance.src_text, utterance.tgt_text
                clips.append(
                    Example(
                        name=utterance.id, title=said, file=file, transcript=said, reference=meant, domain=domain
                    ).model_dump()
                )
        (made / FILE).write_text(json.dumps(clips, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
