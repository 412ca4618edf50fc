"""BLEU with stores left on, on the embedded corpus: one store of parliament, then four stores of several topics.

Every seed draws other sentences for text, tuning and test; the model is the shipped one. Parliament's text is cut into
two stores; the third holds everyday talk, the fourth image captions (``NPDA_DATA``/multi30k-en-de; without it, more
everyday talk). All are tuned on text. Bars: parliament with one guarded store at least plain NPDA − 1, general at least
base − 0.7; with four stores within 1 of that.

    python -m benchmarks.stores_on --seeds 0,1,2,3,4
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from benchmarks.harness import Line, Result, arguments, report, sizes
from npda.corpus import mini
from npda.corpus.mini.grammar import DOMAINS, sentences
from npda.corpus.pairs import Pair, read_pairs
from npda.datastore.counter import find_counter
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.demo.corpus import DemoCorpus, read_corpus
from npda.demo.demo import run_demo
from npda.demo.model import SHIPPED, open_model
from npda.demo.results import BASE, GUARDED, NPDA
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import bleu
from npda.evaluation.tuning.guard import Guarding
from npda.evaluation.tuning.save import gated
from npda.evaluation.tuning.search import tune
from npda.translator import Translator

_DEV = 200  # sentences of every topic that tuning may see
_PAIRS = 2_500  # of the two other topics
_OTHER_SEED = 2_000  # of everyday talk that is in no other set

Scores = dict[str, float]  # by domain


def of_seed(seed: int, out: Path) -> dict[str, Scores]:
    """BLEU of all systems on both tests."""
    demo = run_demo(out / str(seed), seed, progress=False)
    found: dict[str, Scores] = {
        name: {"general": demo.systems[name].general, "parliament": demo.systems[name].domain}
        for name in (BASE, NPDA, GUARDED)
    }
    translator = Translator.from_pretrained(demo.model)
    made = open_model(SHIPPED).made
    corpus = read_corpus(mini.prepare("de", seed, progress=False), made)
    stores = [_tuned(translator, corpus, name, *text, out / str(seed)) for name, text in _topics(corpus).items()]
    fusion = translator.steered_by(stores)
    found["four stores"] = {
        domain: bleu(
            [
                str(t)
                for t in translator.translate_all((u.audio for u in corpus.speech[domain, "test"]), fusions=[fusion])
            ],
            corpus.references(domain),
        ).value
        for domain in DOMAINS
    }
    return found


def _topics(corpus: DemoCorpus) -> dict[str, tuple[list[Pair], list[Pair]]]:
    """Text and dev text by the store's name."""
    text, middle = corpus.domain_text, len(corpus.domain_text) // 2
    known = {pair.src_text for pair in corpus.general_text + corpus.general_dev_text}
    known |= {u.src_text for spoken in corpus.speech.values() for u in spoken}
    talk = [pair for pair in sentences("general", "train", "de", _OTHER_SEED) if pair.src_text not in known]
    topics = {
        "parliament-a": (text[:middle], corpus.dev_text),
        "parliament-b": (text[middle:], corpus.dev_text),
        "everyday": (talk[: _PAIRS - _DEV], talk[_PAIRS - _DEV : _PAIRS]),
    }
    captions = Path(os.environ.get("NPDA_DATA", "")) / "multi30k-en-de"
    if os.environ.get("NPDA_DATA") and captions.is_dir():
        topics["captions"] = (
            read_pairs(captions / "train.tsv.gz")[:_PAIRS],
            read_pairs(captions / "dev.tsv.gz")[:_DEV],
        )
    else:
        topics["more-everyday"] = (talk[_PAIRS : 2 * _PAIRS - _DEV], talk[2 * _PAIRS - _DEV : 2 * _PAIRS])
    return topics


def _tuned(
    translator: Translator, corpus: DemoCorpus, name: str, text: list[Pair], dev: list[Pair], out: Path
) -> Datastore:
    path, backbone, search = out / "several" / name, translator.backbone, SearchOptions()
    if not path.exists():
        Datastore.build(translator, text, path, name, BuildOptions(progress=False))
    store = Datastore.open(path, backbone)
    if not (path / "knn.json").exists():
        counter = find_counter(backbone, translator.directory)
        assert counter is not None  # the demonstration has built it
        guarding = Guarding(store, counter.store, DevSet(backbone, counter.held_out, "text"), search)
        tuning = tune(backbone, store, dev, "text", search, guarding=guarding, progress=False)
        gated(tuning, guarding).save(store)
    return Datastore.open(path, backbone)


def measure(seeds: list[int], out: Path) -> Iterator[Result]:
    found: list[dict[str, Scores]] = []
    for seed in seeds:
        found.append(of_seed(seed, out))
        for name, scores in found[-1].items():
            yield Line(
                f"seed {seed}: {name}, parliament", scores["parliament"], note=f"general {scores['general']:.2f}"
            )
    mean = {name: {domain: fmean(scores[name][domain] for scores in found) for domain in DOMAINS} for name in found[0]}
    for name, scores in mean.items():
        yield Line(f"mean: {name}, parliament", scores["parliament"], note=f"general {scores['general']:.2f}")
    one, four, base = mean[GUARDED], mean["four stores"], mean[BASE]
    yield Line("guarded − plain NPDA, parliament", one["parliament"] - mean[NPDA]["parliament"], bar=-1)
    yield Line("guarded − base, general", one["general"] - base["general"], bar=-0.7)
    for domain in DOMAINS:
        yield Line(f"four stores − one, {domain}", four[domain] - one[domain], bar=-1)


def main() -> bool:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=sizes, default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=Path("runs/stores-on"))
    given = parser.parse_args()
    return report("stores left on", lambda: measure(list(given.seeds), given.out), given.json)


if __name__ == "__main__":
    sys.exit(not main())
