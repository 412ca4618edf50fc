"""A list of terms at work in the demonstration: learnt from everyday text, used beside parliament's store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from npda.corpus.terms import Term
from npda.terms.accuracy import term_accuracy

# Words with one meaning in both domains. Where the gender changes, the last word takes the articles of the new one.
LIST = (
    Term(("colleague",), "Mitarbeiter"),
    Term(("doctor",), "Mediziner"),
    Term(("letter",), "Schreiben", "report"),
    Term(("neighbour",), "Anwohner"),
    Term(("policeman",), "Ordnungshüter"),
    Term(("teacher",), "Lehrkraft", "secretary"),
)
_EXAMPLES = 2  # of each domain


@dataclass(frozen=True)
class Listed:
    """A test sentence, translated with the guarded store. text: as it was found; placed: with the list's words in it;
    targets: those words"""

    text: str
    placed: str
    targets: tuple[str, ...]

    @property
    def agrees_anew(self) -> bool:
        """Whether other words have changed with the nouns."""
        pairs = zip(self.text.split(), self.placed.split(), strict=False)
        return sum(before != after for before, after in pairs) > len(self.targets)


@dataclass(frozen=True)
class TermExample:
    said: str
    found: Listed

    def record(self) -> dict:
        return {"said": self.said, "without": self.found.text, "with": self.found.placed}


@dataclass(frozen=True)
class TermUse:
    """What the list does on both tests.

    said: occurrences of its terms; before, used: of these, written as wanted without the list and with it;
    sentences: that hold none; changed: of these, how many are not as they were; path: folder of what was learnt
    """

    said: int
    before: int
    used: int
    sentences: int
    changed: int
    examples: tuple[TermExample, ...]
    path: Path

    @property
    def share(self) -> float:
        return self.used / max(1, self.said)

    def record(self) -> dict:
        return {
            "list": {term.source: term.target for term in LIST},
            "said": self.said,
            "before": self.before,
            "used": self.used,
            "sentences_without": self.sentences,
            "changed_without": self.changed,
            "examples": [example.record() for example in self.examples],
        }


def count_use(found: Mapping[str, Sequence[Listed]], said: Mapping[str, Sequence[str]], path: Path) -> TermUse:
    """found, said: translations and transcripts of the tests by domain; path: of what was learnt"""
    sources = [source for domain in found for source in said[domain]]
    listed = [each for of_domain in found.values() for each in of_domain]
    used = term_accuracy(LIST, sources, [each.placed for each in listed])
    others = sorted({*range(len(sources))} - {*used.holding})
    examples = []
    for domain, of_domain in found.items():
        changed = [TermExample(*both) for both in zip(said[domain], of_domain, strict=True) if both[1].targets]
        # One whose article or adjective has changed too comes first.
        examples += sorted(changed, key=lambda each: not each.found.agrees_anew)[:_EXAMPLES]
    return TermUse(
        said=used.said,
        before=term_accuracy(LIST, sources, [each.text for each in listed]).exact,
        used=used.exact,
        sentences=len(others),
        changed=sum(listed[place].text != listed[place].placed for place in others),
        examples=tuple(examples),
        path=path,
    )
