"""What a demonstration found, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npda.decoding.knn.combiners import KnnOptions
from npda.demo.terms import TermUse
from npda.evaluation.similarity import Similarity
from npda.evaluation.tuning.objective import parameters
from npda.evaluation.tuning.search import Tuning
from npda.explanation.records import Evidence, Explanation, Word

BASE, NPDA, GUARDED, KNN_MT = "E2E-ST-Base", "NPDA-kNN-ST", "NPDA-kNN-ST, guarded", "kNN-MT"


@dataclass(frozen=True)
class SystemResult:
    """general, domain: BLEU on the two tests; p_vs_base: of its difference from the base model on the domain's test"""

    general: float
    domain: float
    p_vs_base: float | None = None

    def record(self) -> dict[str, float]:
        scores = {"general": round(self.general, 2), "domain": round(self.domain, 2)}
        return scores if self.p_vs_base is None else {**scores, "p_vs_base": round(self.p_vs_base, 4)}


@dataclass(frozen=True)
class CurvePoint:
    """A part of the domain's text: how much of it, how large its store, BLEU on the domain's test."""

    fraction: float
    pairs: int
    keys: int
    bleu: float


@dataclass(frozen=True)
class ExplainedExample:
    """A test sentence. word: the first that is new in the adapted translation; because: what the store had there"""

    said: str
    base: str
    adapted: str
    reference: str
    word: str
    because: Evidence | None

    def record(self) -> dict:
        neighbour = None
        if (e := self.because) is not None:
            neighbour = {
                "source": e.source_text,
                "target": e.target_text,
                "marked": marked(e)[1],
                "weight": round(e.weight, 3),
                "squared_distance": round(e.distance, 3),
            }
        return {
            "said": self.said,
            "base": self.base,
            "adapted": self.adapted,
            "reference": self.reference,
            "word": self.word,
            "because": neighbour,
        }


@dataclass(frozen=True)
class DemoReport:
    """systems: by name; tuning: of the text store on dev text, without a gate, as in the paper; guarded_tuning: the
    same behind its gate, which the store keeps; speech_tuning: as the first, on dev speech; speech_tuned: domain BLEU
    with that choice; knn_mt_tuning: of the speech store; greedy: domain BLEU of the paper's system with beam 1;
    similarity: by domain, on dev; seconds: by stage, those in recalled of an earlier run;
    total: seconds of this run, in which some stages went side by side;
    dropped: sentences left out because the model was trained on them; signature: of the scores;
    terms: what a list of terms does beside the guarded store
    """

    systems: dict[str, SystemResult]
    tuning: Tuning
    guarded_tuning: Tuning
    speech_tuning: Tuning
    speech_tuned: float
    knn_mt_tuning: Tuning
    greedy: float
    similarity: dict[str, Similarity]
    curve: tuple[CurvePoint, ...]
    explanations: tuple[Explanation, ...]
    seconds: dict[str, float]
    total: float
    recalled: tuple[str, ...]
    dropped: int
    sentences: dict[str, int]
    seed: int
    signature: str
    model: Path
    stores: dict[str, Path]
    page: Path
    why: Path
    terms: TermUse

    @property
    def best(self) -> KnnOptions:
        return self.tuning.best

    @property
    def text_tuning_loss(self) -> float:
        """BLEU lost by tuning on text instead of speech."""
        return self.speech_tuned - self.systems[NPDA].domain

    @property
    def price(self) -> float:
        """BLEU on everyday talk that the domain's store costs when it is left on behind its gate."""
        return self.systems[BASE].general - self.systems[GUARDED].general

    @property
    def price_unguarded(self) -> float:
        """The same without a gate, as in the paper."""
        return self.systems[BASE].general - self.systems[NPDA].general

    @property
    def examples(self) -> list[ExplainedExample]:
        return [example(explanation) for explanation in self.explanations]

    def record(self) -> dict:
        """For scripts."""
        general, domain = self.similarity["general"], self.similarity["parliament"]
        return {
            "systems": {name: system.record() for name, system in self.systems.items()},
            "similarity": {**_alike(domain), "general": _alike(general), "domain": _alike(domain)},
            "best": parameters(self.best),
            "seconds": {**self.seconds, "total": self.total},
            "text_tuning": {
                "loss": round(self.text_tuning_loss, 2),
                "speech_tuned": {**parameters(self.speech_tuning.best), "domain": round(self.speech_tuned, 2)},
            },
            "guarded": self.guarded_tuning.setting.record(),
            "price": round(self.price, 2),
            "price_unguarded": round(self.price_unguarded, 2),
            "terms": self.terms.record(),
            "search": {"beam": self.tuning.search.beam, "greedy": round(self.greedy, 2)},
            "curve": [
                {"fraction": p.fraction, "pairs": p.pairs, "keys": p.keys, "domain": round(p.bleu, 2)}
                for p in self.curve
            ],
            "examples": [example.record() for example in self.examples],
            "seed": self.seed,
            "sentences": self.sentences,
            "dropped": self.dropped,
            "recalled": list(self.recalled),
            "signature": self.signature,
            "model": str(self.model),
            "stores": {name: str(path) for name, path in self.stores.items()},
            "report": str(self.page),
        }


def _alike(found: Similarity) -> dict[str, float]:
    return {"cosine": round(found.cosine, 4), "squared_distance": round(found.squared_distance, 3)}


def example(explanation: Explanation) -> ExplainedExample:
    """What is said of a sentence in a line: the first new word, and the sentence of the store that weighed most."""
    spoken = [word for word in explanation.words if not word.end]
    word = next((word for word in spoken if word.new), None)
    return ExplainedExample(
        said=explanation.transcript,
        base=explanation.base_text,
        adapted=explanation.text,
        reference=explanation.reference,
        word=word.text if word is not None else "",
        because=_heaviest(word) if word is not None else None,
    )


def marked(evidence: Evidence) -> tuple[str, str, str]:
    """The target sentence before, at and after the place that speaks for the word; whole words, as people read."""
    text, start, end = evidence.target_text, evidence.start, evidence.end
    while start > 0 and not text[start - 1].isspace():
        start -= 1
    while end < len(text) and not text[end].isspace():
        end += 1
    return text[:start], text[start:end], text[end:]


def _heaviest(word: Word) -> Evidence | None:
    """The heaviest evidence for the word; evidence against it only where there is no other."""
    return next((e for e in word.evidence if e.agrees), next(iter(word.evidence), None))


def changed_first(base: Sequence[str], adapted: Sequence[str], count: int) -> list[int]:
    """Places of the first sentences that adaptation changed, filled up with others where too few did."""
    changed = [place for place, texts in enumerate(zip(base, adapted, strict=True)) if texts[0] != texts[1]]
    others = [place for place in range(len(base)) if base[place] == adapted[place]]
    return sorted((changed + others)[:count])
