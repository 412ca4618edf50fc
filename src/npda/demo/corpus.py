"""The sentences of a demonstration: both domains, without what the model has been trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from npda.corpus.manifest import Utterance, read_manifest
from npda.corpus.mini import Mini
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair, read_pairs
from npda.demo.model import Provenance

# Speech that is listened to; general/train besides, for who trains a model.
NEEDED = (
    ("general", "dev"),
    ("general", "test"),
    ("parliament", "train"),
    ("parliament", "dev"),
    ("parliament", "test"),
)

_ANOTHER_SEED = 1_000  # than that of any demonstration, for general text

S = TypeVar("S", Pair, Utterance)


@dataclass(frozen=True)
class DemoCorpus:
    """speech: by domain and split; domain_text, dev_text: the pairs of parliament's train and dev; general_text:
    everyday talk that is neither in these splits nor in the model's training; general_dev_text: the pairs of general's
    dev; dropped: how many sentences of these splits the model knew from its training, which another seed may have drawn
    again
    """

    speech: dict[tuple[str, str], list[Utterance]]
    domain_text: list[Pair]
    dev_text: list[Pair]
    general_text: list[Pair]
    general_dev_text: list[Pair]
    dropped: int

    def references(self, domain: str) -> list[str]:
        """The translations of a test set."""
        return [utterance.tgt_text for utterance in self.speech[domain, "test"]]


def read_corpus(corpus: Mini, made: Provenance) -> DemoCorpus:
    """Read what is to be translated, adapted with and tuned on. made: tells what the model was trained on"""
    training = sentences("general", "train", made.language, made.seed)
    sources, targets = {pair.src_text for pair in training}, {pair.tgt_text for pair in training}

    def fresh(found: list[S]) -> list[S]:
        return [s for s in found if s.src_text not in sources and s.tgt_text not in targets]

    spoken = {key: read_manifest(corpus.manifest(*key)) for key in NEEDED}
    kept = {key: fresh(found) for key, found in spoken.items()}
    heard = {u.src_text for found in spoken.values() for u in found}
    others = sentences("general", "train", made.language, _ANOTHER_SEED)
    return DemoCorpus(
        speech=kept,
        domain_text=fresh(read_pairs(corpus.text("parliament", "train"))),
        dev_text=fresh(read_pairs(corpus.text("parliament", "dev"))),
        general_text=[pair for pair in fresh(others) if pair.src_text not in heard],
        general_dev_text=fresh(read_pairs(corpus.text("general", "dev"))),
        dropped=sum(len(spoken[key]) - len(kept[key]) for key in NEEDED),
    )
