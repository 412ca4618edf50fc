"""A folder of learnt terms: the list, how it was learnt, and the sentences that the model translated for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from npda.corpus.manifest import split_row
from npda.corpus.terms import Term, read_terms, write_terms
from npda.io.errors import InputError
from npda.io.files import read_lines, write_lines
from npda.io.records import write_record
from npda.terms.agreement import Observed

LIST, RECORD, AGREEMENT = "terms.tsv", "terms.json", "agreement.tsv"
READ, SPOKEN, AUDIO = "read.tsv", "spoken.tsv", "audio"
_COLUMNS = ("rendering", "like", "before", "after", "times")


class LearntBy(BaseModel):
    """All of ``terms.json``.

    model: digest of its decoder; vocabulary: of its target; general: digests of the text; voice: that read aloud;
    read: whether the model was to read, "" if that was left to the text;
    language, source_language: codes, "" where they are unknown; sentences: translated for each term; learnt: renderings
    of every term as they were learnt, by which those that a person has changed are known
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    model: str
    vocabulary: str
    general: tuple[str, ...] = ()
    voice: str = ""
    read: str = ""
    language: str = ""
    source_language: str = ""
    sentences: int = 0
    learnt: dict[str, str] = {}

    def alike(self, other: LearntBy) -> bool:
        """Whether terms learnt in one way need not be learnt in the other."""
        return self.model_copy(update={"learnt": {}}) == other.model_copy(update={"learnt": {}})


@dataclass(frozen=True)
class TermFolder:
    """What lies in a folder of terms."""

    path: Path

    def exists(self) -> bool:
        return (self.path / RECORD).is_file()

    def check(self) -> None:
        """Refuse a folder of something else; what an interrupted run has left is none."""
        ours = {LIST, RECORD, AGREEMENT, READ, SPOKEN, AUDIO}
        if self.path.exists() and not (self.path.is_dir() and {each.name for each in self.path.iterdir()} <= ours):
            raise InputError(f"{self.path} exists and holds no terms: choose another folder.")

    def record(self) -> LearntBy:
        path = self.path / RECORD
        if not path.is_file():
            raise InputError(f"{self.path} holds no terms: make it with `npda terms`.")
        try:
            return LearntBy.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.strerror
            raise InputError(f"{path} is damaged ({reason}): delete it and run `npda terms` again.") from None

    def terms(self) -> list[Term]:
        path = self.path / LIST
        if not path.is_file():
            raise InputError(f"{self.path} has no {LIST} yet: run `npda terms` again, it goes on where it stopped.")
        return read_terms(path)

    def observed(self) -> list[Observed]:
        """What changes before words whose gender is another."""
        path = self.path / AGREEMENT
        found = []
        for number, line in enumerate(read_lines(path)[1:] if path.is_file() else (), start=2):
            row = split_row(path, number, line, len(_COLUMNS))
            if not (row[4].isascii() and row[4].isdigit()):
                raise InputError(f"{path}, line {number}: {row[4]!r} is not a count.")
            found.append(Observed(row[0], row[1], tuple(row[2].split()), tuple(row[3].split()), int(row[4])))
        return found

    def write(self, terms: Sequence[Term], observed: Sequence[Observed], by: LearntBy) -> None:
        """The list before its record: a record without its terms would be taken for their being learnt."""
        rows = [(o.rendering, o.like, " ".join(o.before), " ".join(o.after), str(o.times)) for o in observed]
        write_lines(self.path / AGREEMENT, ["\t".join(row) for row in (_COLUMNS, *rows)])
        write_terms(self.path / LIST, terms)
        write_record(self.path / RECORD, by.model_dump(mode="json"))
