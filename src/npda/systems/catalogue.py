"""The systems of the paper: what each trains on, what it starts from, what it tunes, how it decodes.

A direction adapts a translator of a general corpus to a domain. Models and systems are named here once and mean
something in every direction: "base" is trained on the general speech of whichever direction is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Of a direction: speech comes with transcripts and translations, text with translations.
Data = Literal["general speech", "domain speech", "domain text", "large text"]
Wanted = Data | Literal["most text"]  # the large text, or the domain's where there is no larger one

Kind = Literal["speech", "pretrained", "recogniser", "alignment", "joint", "text", "language model"]


@dataclass(frozen=True)
class TrainedModel:
    """How a model comes to be.

    start: the model it goes on from; vocabulary: the model whose vocabularies it shares;
    encoder: the model whose encoder it keeps, frozen; variant: of the alignment, by default what suits the base;
    tunes: the parameters that move, by their name in npda.training.tasks.tuned_parameters;
    length, learning_rate: times those of the recipe; gated: with adaptive feature selection;
    copies: a pre-trained model that can transcribe learns to read by writing down the general text
    """

    kind: Kind
    data: tuple[Wanted, ...]
    start: str | None = None
    vocabulary: str | None = None
    encoder: str | None = None
    tunes: str = "all"
    variant: str | None = None
    length: float = 1.0
    learning_rate: float = 1.0
    gated: bool = False
    copies: bool = True


MODELS: dict[str, TrainedModel] = {
    "base": TrainedModel("speech", ("general speech",)),
    "specific": TrainedModel("speech", ("domain speech",)),
    "fine-tuned": TrainedModel("speech", ("domain speech",), start="base", length=0.4, learning_rate=0.25),
    "lna-d": TrainedModel("speech", ("domain speech",), start="base", tunes="lna-d", length=0.3, learning_rate=0.5),
    "adapters": TrainedModel(
        "speech", ("domain speech",), start="base", tunes="adapters", length=0.3, learning_rate=0.5
    ),
    "aligned": TrainedModel("alignment", ("general speech",), start="base"),
    "aligned by both terms": TrainedModel("alignment", ("general speech",), start="base", variant="full"),
    "aligned without MSE": TrainedModel("alignment", ("general speech",), start="base", variant="no-mse"),
    "aligned by MSE only": TrainedModel("alignment", ("general speech",), start="base", variant="mse-only"),
    "aligned by embedding only": TrainedModel("alignment", ("general speech",), start="base", variant="embedding-only"),
    "aligned by logits": TrainedModel("alignment", ("general speech",), start="base", variant="logits"),
    "aligned without copying": TrainedModel("alignment", ("general speech",), start="base", copies=False),
    "aligned in domain": TrainedModel("alignment", ("domain speech",), start="fine-tuned"),
    "joint": TrainedModel("joint", ("general speech", "most text"), start="aligned", length=0.5, learning_rate=0.25),
    "language model": TrainedModel("language model", ("most text",), vocabulary="base"),
    "recogniser": TrainedModel("recogniser", ("general speech",), vocabulary="base"),
    "text translator": TrainedModel("text", ("general speech", "most text"), vocabulary="base"),
    "text translator with own vocabulary": TrainedModel("text", ("general speech", "most text")),
    "gated recogniser": TrainedModel("recogniser", ("general speech",), start="recogniser", gated=True),
    "gated": TrainedModel(
        "speech", ("general speech",), encoder="gated recogniser", tunes="decoder", vocabulary="base"
    ),
}


def meant(wanted: Wanted, large: bool) -> Data:
    """Which data that is in a direction with a large text, or without one."""
    if wanted == "most text":
        return "large text" if large else "domain text"
    return wanted


@dataclass(frozen=True)
class Store:
    """A datastore: made from which data, through which way into the decoder; what is done to it afterwards.

    variant: how it is searched or combined, see npda.systems.variants; guarded: behind a gate, beside a counter-store
    """

    data: Data
    way: Literal["speech", "text", "spoken"]  # spoken: a voice reads the text aloud
    variant: Literal["vanilla", "guarded", "adaptive", "pca", "pruned", "skipping", "fast"] = "vanilla"


@dataclass(frozen=True)
class System:
    """How speech becomes text.

    model: of MODELS; store: searched at every step; language_model: its score is added at every step;
    recogniser: writes down what ``model`` then translates; baseline: the system it is tested against
    """

    name: str
    model: str
    store: Store | None = None
    language_model: str | None = None
    recogniser: str | None = None
    baseline: str | None = "E2E-ST-Base"

    def models(self) -> tuple[str, ...]:
        """All models it decodes with."""
        return tuple(name for name in (self.model, self.language_model, self.recogniser) if name is not None)

    def data(self, large: bool) -> frozenset[Data]:
        """Everything it has seen, the models it was trained from included: the ticks of the paper's tables.

        large: whether there is a large text
        """
        seen: set[Data] = {self.store.data} if self.store is not None else set()
        todo = list(self.models())
        while todo:
            model = MODELS[todo.pop()]
            seen.update(meant(wanted, large) for wanted in model.data)
            todo += [name for name in (model.start, model.encoder) if name is not None]
        return frozenset(seen)


_DOMAIN_TEXT = Store("domain text", "text")
_DOMAIN_SPEECH = Store("domain speech", "speech")

_ALL = (
    System("E2E-ST-Base", "base", baseline=None),
    System("E2E-ST-SP", "specific"),
    System("E2E-ST-FT", "fine-tuned"),
    System("LNA-D", "lna-d"),
    System("Adapter Tuning", "adapters"),
    System("AFS", "gated"),
    System("kNN-MT", "base", _DOMAIN_SPEECH),
    System("Shallow Fusion", "base", language_model="language model"),
    System("E2E-JT-ST-MT", "joint"),
    System("NPDA-kNN-ST", "aligned", _DOMAIN_TEXT),
    System("NPDA-kNN-ST, guarded", "aligned", Store("domain text", "text", "guarded")),
    System("NPDA-kNN-ST+", "aligned", Store("large text", "text"), baseline="E2E-ST-FT"),
    System("NPDA-kNN-ST++", "aligned in domain", Store("large text", "text"), baseline="E2E-ST-FT"),
    System("Cascade-ST", "text translator", recogniser="recogniser"),
    System("Cascade-ST*", "text translator with own vocabulary", recogniser="recogniser"),
    System("NPDA-kNN-ST CE + MSE", "aligned by both terms", _DOMAIN_TEXT, baseline="NPDA-kNN-ST"),
    System("NPDA-kNN-ST w/o MSE", "aligned without MSE", _DOMAIN_TEXT, baseline="NPDA-kNN-ST"),
    System("NPDA-kNN-ST MSE only", "aligned by MSE only", _DOMAIN_TEXT, baseline="NPDA-kNN-ST"),
    System("NPDA-kNN-ST embedding only", "aligned by embedding only", _DOMAIN_TEXT, baseline="NPDA-kNN-ST"),
    System("NPDA-kNN-ST logits", "aligned by logits", _DOMAIN_TEXT, baseline="NPDA-kNN-ST"),
    System("NPDA-kNN-ST w/o copying", "aligned without copying", _DOMAIN_TEXT, baseline="NPDA-kNN-ST"),
    System("Spoken text", "base", Store("domain text", "spoken")),
    System("Adaptive kNN", "aligned", Store("domain text", "text", "adaptive"), baseline="NPDA-kNN-ST"),
    System("Efficient kNN (PCA)", "aligned", Store("domain text", "text", "pca"), baseline="NPDA-kNN-ST"),
    System("Efficient kNN (pruned)", "aligned", Store("domain text", "text", "pruned"), baseline="NPDA-kNN-ST"),
    System("Efficient kNN (skipping)", "aligned", Store("domain text", "text", "skipping"), baseline="NPDA-kNN-ST"),
    System("Fast kNN-MT", "aligned", Store("domain text", "text", "fast"), baseline="NPDA-kNN-ST"),
)

SYSTEMS: dict[str, System] = {system.name: system for system in _ALL}
