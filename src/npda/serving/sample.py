"""What a server shows that is given nothing else: the mini model, a store of parliament behind its gate, and clips.

model/     the model that comes with npda, with a counter-store of everyday talk beside it
stores/    parliament, made of the embedded corpus's text alone
examples/  clips of both domains
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from npda.corpus import mini
from npda.corpus.manifest import read_manifest
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair
from npda.datastore.card import renew_card
from npda.datastore.counter import FOLDER, STORE, build_counter
from npda.datastore.measured import Price
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.decoding.knn import tuned
from npda.decoding.knn.tuned import Tuned
from npda.decoding.knn.tuned_guard import FittedGuard, save_guard
from npda.demo.model import LANGUAGE, copy_model, open_model
from npda.demo.model import SHIPPED as MODEL
from npda.io.files import atomic_write
from npda.io.locks import locked
from npda.serving.examples import write_examples
from npda.translator import Translator

PARLIAMENT = "parliament"
_ANOTHER_SEED = 1_000  # draws everyday talk that the model has not been trained on

# What `npda demo` finds for these sentences in its two minutes, in a corpus that is always the same.
_TUNED = Tuned.model_validate(
    {"k": 8, "lambda": 0.98, "temperature": 10.0, "way": "text", "beam": 5, "length_penalty": 0.6, "end_weight": 0.0}
    | {"bleu": 83.68, "base_bleu": 11.85, "chrf": 91.88, "base_chrf": 32.01, "store": ""}
)
_SCALE = 32.926
_PRICE = Price(
    sentences=200, way="text", bleu=93.0, base_bleu=94.6, p_bleu=0.058, chrf=96.75, base_chrf=97.68, p_chrf=0.031
)
_GUARD = FittedGuard(
    slope=10.59, bias=0.0326, way="text", domain=0.975, general=1.0, counter="", store="", price=_PRICE
)


@dataclass(frozen=True)
class Sample:
    """Folders, as ``Settings`` has them."""

    model: Path
    stores: Path
    examples: Path


def make_sample(folder: Path, progress: bool = True) -> Sample:
    """Make what is not there yet; ten seconds for all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Sample(folder / "model", folder / "stores", folder / "examples")
    with locked(folder / "sample.lock"):
        copy_model(open_model(MODEL), made.model)
        if not (made.stores / PARLIAMENT / tuned.FILE).is_file():
            _make_stores(made, progress)
        if not made.examples.is_dir():
            splits = [(domain, "test") for domain in (PARLIAMENT, "general")]
            corpus = mini.prepare(LANGUAGE, progress=progress, only=splits)
            write_examples(
                made.examples, {domain: read_manifest(corpus.manifest(domain, "test")) for domain, _ in splits}
            )
    return made


def _make_stores(made: Sample, progress: bool) -> None:
    """The counter-store and parliament; the digests of both stand in what was tuned."""
    backbone = Translator.from_pretrained(made.model).backbone
    options = BuildOptions(progress=progress)
    home = made.model / FOLDER
    if not (home / STORE).is_dir():
        build_counter(
            backbone, _text("general", _ANOTHER_SEED), home, sentences("general", "dev", LANGUAGE, 0), options
        )
    path = made.stores / PARLIAMENT
    if not path.is_dir():
        Datastore.build_from(backbone, Source("debates", _text(PARLIAMENT), "text"), path, options)
    _tell(Datastore.open(path), Datastore.open(home / STORE))


def _tell(store: Datastore, counter: Datastore) -> None:
    """What was tuned comes last, and tells that the store is finished."""
    store = store.with_distance_scale(_SCALE)
    save_guard(store, _GUARD.model_copy(update={"store": store.digest, "counter": counter.digest}))
    known = _TUNED.model_copy(update={"store": store.digest})
    with atomic_write(store.path / tuned.FILE) as temporary:
        temporary.write_text(known.model_dump_json(indent=2, by_alias=True) + "\n", encoding="utf-8")
    renew_card(store.path)


def _text(domain: str, seed: int = 0) -> list[Pair]:
    """Sentences of a domain, without those that the model was trained on and those that tests translate."""
    known = [pair for split in ("train", "dev", "test") for pair in sentences("general", split, LANGUAGE, 0)]
    known += sentences("parliament", "test", LANGUAGE, 0)
    sources, targets = {pair.src_text for pair in known}, {pair.tgt_text for pair in known}
    found = sentences(domain, "train", LANGUAGE, seed)
    return [pair for pair in found if pair.src_text not in sources and pair.tgt_text not in targets]
