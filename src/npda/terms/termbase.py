"""Terms at work: put the wanted words into finished translations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from npda.corpus.terms import Term, read_terms
from npda.datastore.fingerprint import decoder_fingerprint, vocabulary_digest
from npda.io.errors import InputError
from npda.models.backbone import Backbone, Memory
from npda.terms.accuracy import alike
from npda.terms.agreement import Agreement, Observed, words_before
from npda.terms.ear import can_hear, transcripts
from npda.terms.phrases import Match, Phrases, spans, words
from npda.terms.record import TermFolder
from npda.terms.replacing import Change, Placed, replace

# Of the ear: how often it hears a term that was said, and one that was not.
_HITS, _FALSE_ALARMS = 0.95, 0.02


@dataclass(frozen=True)
class _Candidate:
    """A rendering that stands in a text. meanings: terms that may have been said, with purities, the likeliest first"""

    start: int
    end: int
    rendering: str
    meanings: tuple[tuple[int, float], ...]


class Terms:
    """A list of learnt terms.

    language: of the translations, a code, None if it is not known; attentive: whether the ear is asked about every
    sentence, also about those that hold no rendering
    """

    def __init__(
        self,
        terms: Sequence[Term],
        language: str | None = None,
        agreement: Agreement = Agreement(),
        attentive: bool = False,
    ) -> None:
        self.terms = tuple(terms)
        self.language = language
        self.attentive = attentive
        self._agreement = agreement
        meanings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        heard: defaultdict[str, list[int]] = defaultdict(list)
        for number, term in enumerate(self.terms):
            for rendering in term.renderings or ():
                if rendering.text != term.target:
                    meanings[rendering.text].append((number, rendering.purity))
            for source in term.sources:
                heard[source].append(number)
        likeliest = {text: tuple(sorted(found, key=lambda item: -item[1])) for text, found in meanings.items()}
        self._renderings = Phrases((text, (text, found)) for text, found in likeliest.items())
        self._targets = Phrases((term.target, number) for number, term in enumerate(self.terms))
        self._sources = Phrases(heard.items(), smart=True)

    @classmethod
    def open(
        cls,
        paths: Sequence[str | PathLike[str]],
        backbone: Backbone | None = None,
        language: str | None = None,
        attentive: bool = False,
    ) -> Terms:
        """Open folders and lists; of two lines about one term the later counts.

        backbone: folders that were learnt with another model are refused; language, attentive: see above
        """
        found: dict[tuple[str, bool], Term] = {}
        observed: list[Observed] = []
        for path in map(Path, paths):
            if path.is_dir():
                folder = TermFolder(path)
                by = folder.record()
                if backbone is not None:
                    known = decoder_fingerprint(backbone).digest, vocabulary_digest(backbone)
                    if known != (by.model, by.vocabulary):
                        raise InputError(f"The terms of {path} were learnt with another model: run `npda terms` again.")
                language = language or by.language or None
                terms = folder.terms()
                observed += folder.observed()
            else:
                terms = read_terms(path)
                if any(term.renderings is None for term in terms):
                    raise InputError(
                        f"{path} does not say how the model renders its terms: run "
                        f"`npda terms {path} --general TEXT --model MODEL --out FOLDER`, and give that folder."
                    )
            found.update({term.key: term for term in terms})
        return cls(list(found.values()), language, Agreement(observed), attentive)

    def listen(self, backbone: Backbone, memory: Memory, texts: Sequence[Sequence[str]]) -> dict[int, str]:
        """Transcripts of those sentences in which a term may have been said that is not certain, by their numbers.

        They are made with the terms as a hint. Since a hint makes the model hear what it names, another one without
        has to have the same terms; see ``confirmed``.
        memory: of the sentences; texts: of each sentence all hypotheses, best first
        """
        if not can_hear(backbone):
            return {}
        wanted = {
            row: named for row, of_one in enumerate(texts) if (named := self._uncertain(of_one)) or self.attentive
        }
        hinted = transcripts(backbone, memory, wanted) if wanted else {}
        unsure = {row: () for row, text in hinted.items() if wanted[row] and self._sources.find(text)}
        plain = transcripts(backbone, memory, unsure) if unsure else {}
        return {row: self.confirmed(text, plain[row]) if row in plain else text for row, text in hinted.items()}

    def confirmed(self, hinted: str, plain: str) -> str:
        """A transcript without the terms that another one does not have, if perhaps in another spelling."""
        there = [word.casefold() for word in words(plain)]
        for match in reversed(self._sources.find(hinted)):
            said = [word.casefold() for word in words(hinted[match.start : match.end])]
            if not all(any(alike(word, other) for other in there) for word in said):
                hinted = f"{hinted[: match.start]}…{hinted[match.end :]}"
        return hinted

    def place(
        self, texts: Sequence[Sequence[str]], heard: Mapping[int, str], language: str | None = None
    ) -> list[list[Placed]]:
        """Replace renderings in every text by what is wanted.

        texts: of each sentence its n best; heard: transcripts of some sentences by their numbers; language: of the
        texts
        """
        return [
            [
                replace(text, self._changes(text, self._candidates(text), heard.get(row)), language or self.language)
                for text in of_one
            ]
            for row, of_one in enumerate(texts)
        ]

    def lacking(self, placed: Placed, transcript: str) -> list[tuple[int, ...]]:
        """Terms that were heard and are not in the text; several where they sound alike."""
        there = {self.terms[match.value].target for match in self._targets.find(placed.text)}
        heard = dict.fromkeys(tuple(match.value) for match in self._sources.find(transcript))
        return [
            numbers
            for numbers in heard
            if not there & {self.terms[number].target for number in numbers}
            and any(self.terms[number].renderings for number in numbers)
        ]

    def _candidates(self, text: str) -> list[_Candidate]:
        """Renderings that are no part of a wanted word already."""
        there = self._targets.find(text)
        found = []
        for match in self._renderings.find(text):
            rendering, all_of_it = match.value
            meanings = tuple(item for item in all_of_it if not self._is_there(match, item[0], there))
            if meanings:
                found.append(_Candidate(match.start, match.end, rendering, meanings))
        return found

    def _meant(self, text: str) -> set[tuple[int, float]]:
        """Terms that may have been said, with purities."""
        return {meaning for candidate in self._candidates(text) for meaning in candidate.meanings}

    def _is_there(self, match: Match[object], number: int, there: Sequence[Match[int]]) -> bool:
        target = self.terms[number].target
        return any(
            self.terms[other.value].target == target and other.start < match.end and match.start < other.end
            for other in there
        )

    def _uncertain(self, texts: Sequence[str]) -> list[str]:
        """What the ear should listen for, in the order of the list: what it decides, and what the best text lacks.

        texts: the hypotheses of a sentence
        """
        best, *others = (self._meant(text) for text in texts)
        there = {self.terms[match.value].target for match in self._targets.find(texts[0])}
        numbers = {number for number, purity in best if believed(purity, True) != believed(purity, False)}
        known = {number for number, _ in best}
        for number, purity in {meaning for each in others for meaning in each}:
            if number not in known and self.terms[number].target not in there and believed(purity, True):
                numbers.add(number)
        return [source for number in sorted(numbers) for source in self.terms[number].sources]

    def _changes(self, text: str, candidates: Sequence[_Candidate], transcript: str | None) -> list[Change]:
        said: list[tuple[float, int]] = []  # where in the transcript, from 0 to 1, which term
        if transcript is not None:
            for match in self._sources.find(transcript):
                middle = (match.start + match.end) / 2 / len(transcript)
                said += [(middle, number) for number in match.value]
        meant = _matched(candidates, said, len(text)) if transcript is not None else {}
        changes = []
        for place, candidate in enumerate(candidates):
            heard = None if transcript is None else place in meant
            meanings = [m for m in candidate.meanings if m[0] == meant[place]] if heard else candidate.meanings
            number, purity = meanings[0]
            if believed(purity, heard):
                term = self.terms[number]
                start, left = self._left(text, candidate, term)
                changes.append(Change(start, candidate.end, term.sources[0], term.target, heard, left))
        return changes

    def _left(self, text: str, candidate: _Candidate, term: Term) -> tuple[int, tuple[str, ...]]:
        """Where a change begins: with an article or an adjective that changes too, and what they become."""
        if term.like and not term.plural:
            before = words_before(text, candidate.start)
            change = self._agreement.left(candidate.rendering, term.like, before)
            if change is not None:
                length, left = change
                return [span.start for span in spans(text) if span.end <= candidate.start][-length], left
        return candidate.start, ()


def believed(purity: float, heard: bool | None) -> bool:
    """Whether a rendering means its term, more likely than not. heard: the term; None if nobody has listened"""
    if heard is None:
        return purity >= 0.5
    hit, alarm = (_HITS, _FALSE_ALARMS) if heard else (1 - _HITS, 1 - _FALSE_ALARMS)
    return purity * hit >= (1 - purity) * alarm


def _matched(candidates: Sequence[_Candidate], said: Sequence[tuple[float, int]], length: int) -> dict[int, int]:
    """Which candidate is which of the terms that were heard: each of these is one, the nearest in relative place.

    → place of the candidate → term
    """
    options = sorted(
        (abs((candidate.start + candidate.end) / 2 / length - where), -purity, place, heard)
        for place, candidate in enumerate(candidates)
        for number, purity in candidate.meanings
        for heard, (where, term) in enumerate(said)
        if term == number
    )
    matched: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, place, heard in options:
        if place not in matched and heard not in taken:
            matched[place] = said[heard][1]
            taken.add(heard)
    return matched
