"""How many terms are used, and what becomes of everything else, on the embedded corpus with the shipped model.

    python -m benchmarks.mini_terms                 # the general test set of seed 0
    python -m benchmarks.mini_terms --seed 3        # of another seed, of which the model knows no sentence

The terms are the fifteen nouns that are most frequent in the general training text and are no adjectives too. What is
wanted for them has another gender in four cases. References that have it are made by the grammar, from a lexicon with
the wanted nouns in it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.harness import Line, Result, arguments, report
from benchmarks.parliament import shipped
from npda.corpus import mini
from npda.corpus.manifest import Utterance, read_manifest
from npda.corpus.mini import grammar, lexicon
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair, write_pairs
from npda.corpus.terms import Term
from npda.decoding.beam import SearchOptions
from npda.decoding.retry import search_with_retry
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import bleu
from npda.io.files import write_lines
from npda.terms.accuracy import term_accuracy
from npda.terms.learning import LearnOptions, learn_terms
from npda.terms.phrases import words
from npda.terms.termbase import Terms
from npda.terms.using import Searched, use_terms

COUNT = 15
BEAM = SearchOptions(n_best=5)  # all of the beam tells which terms may have been said

# What is to be read for the nouns of the rule, as the lexicon writes nouns, and a word that is like it.
WANTED = {
    "bill": ("Faktura f", ""), "brother": ("Blutsbruder m / Blutsbrüder", ""), "colleague": ("Mitarbeiter m", ""),
    "daughter": ("Mädel n", "girl"), "doctor": ("Mediziner m", ""), "father": ("Papa m", ""),
    "mother": ("Mama f", ""), "neighbour": ("Anwohner m", ""), "paper": ("Tageblatt n", "house"),
    "policeman": ("Ordnungshüter m", ""), "report": ("Gutachten n", ""), "secretary": ("Bürokraft f", ""),
    "sister": ("Schwesterherz n", "girl"), "teacher": ("Lehrkraft f", "secretary"), "uncle": ("Oheim m", ""),
}  # fmt: skip


def main() -> bool:
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the corpus that is translated")
    parser.add_argument(
        "--plain", action="store_true", help="learn from sentences without translations, which it reads"
    )
    parser.add_argument("--each", action="store_true", help="print what is not as it should be")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("mini-terms", lambda: measure(options), options.json)


def measure(options: Any) -> Iterator[Result]:
    text = sentences("general", "train")
    listed, model = term_list(text), shipped()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("text.txt" if options.plain else "text.tsv")
        write_lines(path, [pair.src_text for pair in text]) if options.plain else write_pairs(path, text)
        started = time.perf_counter()
        how = LearnOptions((path,), source_language="en", language="de", progress=False)
        learn_terms(model, listed, Path(folder) / "terms", how)
        yield Line(
            "seconds to learn a term", (time.perf_counter() - started) / len(listed), note=f"{len(listed)} terms"
        )
        terms = Terms.open([Path(folder) / "terms"], model)
    known = {pair.src_text for pair in text}
    corpus = mini.prepare("de", options.seed, progress=False, only=[("general", "test")])
    utterances = [u for u in read_manifest(corpus.manifest("general", "test")) if u.src_text not in known]
    yield from judge(terms, utterances, wanted_references(options.seed), model, options.each)


def judge(
    terms: Terms, utterances: list[Utterance], references: dict[str, str], model: Any, each: bool
) -> Iterator[Line]:
    dev = DevSet(model, utterances, "speech")
    base, used, times = [""] * len(dev), [""] * len(dev), [0.0, 0.0]
    with torch.inference_mode():
        for batch in dev.batches:
            started = time.process_time()
            memory = dev.memory(batch)
            found = search_with_retry(model, memory, batch.prompt, BEAM)
            translated = time.process_time()
            searched = Searched(model, memory, torch.tensor([batch.prompt] * len(found)), BEAM)
            placed = use_terms(terms, searched, found, range(len(found)))
            times = [times[0] + translated - started, times[1] + time.process_time() - translated]
            for place, (best, *_), ((_, put),) in zip(batch.places, found, placed, strict=True):
                base[place], used[place] = model.target.decode(best.tokens), put.text
    sources, old = [u.src_text for u in utterances], [u.tgt_text for u in utterances]
    accuracy = term_accuracy(terms.terms, sources, used)
    said = set(accuracy.holding)
    with_, without = sorted(said), [n for n in range(len(used)) if n not in said]
    share = 100 * accuracy.exact / accuracy.said
    yield Line("terms used, %", share, 95, note=f"{accuracy.exact} of {accuracy.said} occurrences")
    before = bleu([base[n] for n in with_], [old[n] for n in with_]).value
    wanted = [references.get(source, text) for source, text in zip(sources, old, strict=True)]
    after = bleu([used[n] for n in with_], [wanted[n] for n in with_]).value
    yield Line("BLEU with a term, to references that have it", after, note=f"{before:.2f} before, to the usual ones")
    scores = [bleu([texts[n] for n in without], [old[n] for n in without]).value for texts in (base, used)]
    lost = abs(scores[1] - scores[0])
    changed = sum(base[n] != used[n] for n in without)
    note = f"{scores[0]:.2f} before, {changed} of {len(without)} changed"
    yield Line("BLEU without a term, changed by", lost, 0.1, most=True, note=note)
    yield Line("time with terms / without", 1 + times[1] / times[0], 1.25, most=True)
    if each:
        for n in range(len(used)):
            if used[n] != (wanted if n in said else base)[n]:
                print("   ", sources[n], "|", base[n], "|", used[n], "|", wanted[n])


def term_list(text: list[Pair]) -> list[Term]:
    """The most frequent nouns, and what is wanted for them."""
    general = lexicon.load_lexicon("general")
    nouns = {
        noun.en.singular for members in general.classes.values() for noun in members if isinstance(noun, lexicon.Noun)
    }
    nouns -= general.adjectives.keys()
    counts = Counter(word for pair in text for word in set(words(pair.src_text)) & nouns)
    found = [noun for noun, _ in counts.most_common(COUNT)]
    if lacking := [noun for noun in found if noun not in WANTED]:
        sys.exit(f"The rule finds nouns for which nothing is wanted: {', '.join(lacking)}.")
    return [
        Term((noun,), WANTED[noun][0].split(" m")[0].split(" f")[0].split(" n")[0], WANTED[noun][1]) for noun in found
    ]


def wanted_references(seed: int) -> dict[str, str]:
    """English sentences of the general test set → their translations with the wanted nouns."""
    read = lexicon.read_yaml

    def with_wanted(name: str) -> dict[str, Any]:
        data = read(name)
        for noun, (german, _) in WANTED.items():
            if noun in data.get("nouns", {}) and name != "parliament.yaml":
                data["nouns"][noun]["de"] = german
        return data

    def forget() -> None:
        grammar.frames.cache_clear()
        grammar._draw_all.cache_clear()

    forget()
    try:
        with mock.patch.object(lexicon, "read_yaml", with_wanted):
            return {pair.src_text: pair.tgt_text for pair in sentences("general", "test", seed=seed)}
    finally:
        forget()


if __name__ == "__main__":
    sys.exit(not main())
