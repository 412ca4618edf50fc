"""How many terms are used, and what becomes of everything else: whisper-base from German into English.

    python -m benchmarks.terms --model DIR                   # an aligned whisper-base; dev
    python -m benchmarks.terms --model DIR --split test

NPDA_DATA says where pico-de-en is. The terms are the nouns that are most frequent in two texts, by a rule (``nouns``),
wanted is a word that the model hardly ever writes (``WANTED``); a noun of the rule that has none stops the benchmark.
Renderings are learnt from both texts as `npda terms` does it, or from one of them (--text tatoeba), and used on Tatoeba
and dialogue alike.

The sentences fall into three kinds: a term is said; none is said, but the reference has a rendering of one, as "order"
for "bestellen" (hard); neither (easy). Whisper's own way of being told words, its prompt, is given the wanted ones, for
the first two kinds.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import Line, Result, Skipped, arguments, report
from npda.corpus.manifest import Utterance, read_manifest
from npda.corpus.pairs import Pair, read_pairs
from npda.corpus.terms import Term
from npda.corpus.voices import voice
from npda.decoding.beam import SearchOptions, search
from npda.decoding.retry import search_with_retry
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import bleu
from npda.models.whisper import Whisper
from npda.terms.accuracy import term_accuracy
from npda.terms.ear import of_rows
from npda.terms.learning import LearnOptions, learn_terms
from npda.terms.phrases import Phrases, words
from npda.terms.termbase import Terms
from npda.terms.using import Searched, use_terms
from npda.translator import Translator

SPOKEN, WRITTEN = "de", "en"
DOMAINS = ("dialogue", "tatoeba")
COUNT = 30  # nouns of each text
BEAM = SearchOptions(n_best=5)  # all of the beam tells which terms may have been said
_PROMPT = 200  # tokens that Whisper is told beforehand, at most

_DETERMINER = re.compile(
    r"d(er|ie|as|e[nms])|(k?ein|[mds]ein|ihr|unser|eur)e?[mnrs]?|diese[mnrs]?|im|am|zu[mr]|vom|beim|[ia]ns",
    re.IGNORECASE,
)

# What is to be read for the nouns of the rule.
WANTED = {
    "Abholung": "pick-up service", "Adresse": "postal address", "Arbeit": "labour", "Auto": "automobile",
    "Bestellung": "purchase order", "Bett": "bunk", "Buch": "volume", "Fahrer": "chauffeur", "Fahrt": "journey",
    "Fehler": "blunder", "Film": "motion picture", "Frau": "lady", "Freund": "companion", "Geld": "cash",
    "Gesamtsumme": "grand total", "Haus": "residence", "Hilfe": "assistance", "Hund": "hound", "Jahr": "calendar year",
    "Kaffee": "espresso", "Katze": "feline", "Kind": "infant", "Kinder": "youngsters", "Kino": "picture house",
    "Leben": "existence", "Leute": "folks", "Lyft": "ride service", "Mann": "gentleman", "Moment": "instant",
    "Montag": "first weekday", "Mutter": "mama", "Mädchen": "lass", "Name": "full name", "Namen": "full name",
    "Nummer": "identifier", "Nähe": "vicinity", "Pizza": "flatbread", "Problem": "malfunction",
    "Quittung": "proof of payment", "Reparatur": "overhaul", "Reservierung": "advance booking",
    "Restaurant": "eatery", "Schule": "academy", "Schwester": "sibling", "Stadt": "metropolis",
    "Telefonnummer": "contact number", "Termin": "time slot", "Tickets": "admission passes", "Tisch": "dining table",
    "Vater": "papa", "Vorstellung": "performance", "Wasser": "tap water", "Welt": "globe", "Werkstatt": "garage",
    "Woche": "calendar week", "Zeit": "spare time", "Zimmer": "chamber",
}  # fmt: skip


def main() -> bool:
    parser = arguments(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="whisper-base, aligned for German")
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/terms"), help="folder for the learnt terms")
    parser.add_argument("--text", nargs="+", choices=DOMAINS, default=DOMAINS, help="to learn from")
    parser.add_argument("--attentive", action="store_true", help="listen to every utterance")
    parser.add_argument("--unprompted", action="store_true", help="leave Whisper's own prompt out")
    parser.add_argument("--speak", help="voice that reads terms aloud to learn them")
    parser.add_argument("--each", action="store_true", help="print every term and every change")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("terms", lambda: measure(options), options.json)


def measure(options: Any) -> Iterator[Result]:
    corpus = Path(os.environ.get("NPDA_DATA", "data")) / "pico-de-en"
    if not corpus.is_dir():
        yield Skipped("terms", f"there is no {corpus}: set NPDA_DATA")
        return
    listed = term_list([read_pairs(corpus / domain / "text.tsv.gz") for domain in DOMAINS])
    model = Translator.from_pretrained(options.model, SPOKEN).backbone
    assert isinstance(model, Whisper)
    speaker = voice(options.speak) if options.speak else None
    read = tuple(corpus / domain / "text.tsv.gz" for domain in options.text)
    how = LearnOptions(read, voice=speaker, language=WRITTEN, source_language=SPOKEN)
    started = time.perf_counter()
    learnt = learn_terms(model, listed, options.out, how)
    yield Line("seconds to learn a term", (time.perf_counter() - started) / len(listed), note=f"{len(listed)} terms")
    utterances = [u for domain in DOMAINS for u in read_manifest(corpus / domain / f"{options.split}.tsv")]
    kinds = kinds_of(learnt, utterances)
    unprompted = range(len(utterances)) if options.unprompted else kinds["easy"]
    found = translate(model, Terms(learnt, WRITTEN, attentive=options.attentive), utterances, unprompted)
    yield from judge(learnt, utterances, kinds, found, options)


@dataclass
class Outputs:
    """Translations in the order of the utterances, and the processor's time. prompted: with the terms in the prompt"""

    base: list[str]
    used: list[str]
    prompted: list[str]
    seconds: float = 0.0
    seconds_of_terms: float = 0.0


def kinds_of(terms: Sequence[Term], utterances: Sequence[Utterance]) -> dict[str, list[int]]:
    """Numbers of the sentences of each kind."""
    renderings = Phrases((r.text, r.text) for term in terms for r in term.renderings or ())
    nothing = [""] * len(utterances)
    said = term_accuracy(terms, [u.src_text for u in utterances], nothing).holding
    others = sorted({*range(len(utterances))} - {*said})
    hard = [n for n in others if renderings.find(utterances[n].tgt_text)]
    return {"with a term": list(said), "hard": hard, "easy": sorted({*others} - {*hard})}


def translate(model: Whisper, terms: Terms, utterances: Sequence[Utterance], unprompted: Sequence[int]) -> Outputs:
    """In batches of one length, as `npda translate` makes them. unprompted: those that need no Whisper's prompt"""
    dev = DevSet(model, utterances, "speech", WRITTEN)
    assert len(dev) == len(utterances)
    found = Outputs([""] * len(dev), [""] * len(dev), [""] * len(dev))
    special, told = model.target.special, ", ".join(dict.fromkeys(term.target for term in terms.terms))
    hints = [special("startofprev"), *model.target.encode(told)[:_PROMPT]]
    with torch.inference_mode():
        for batch in dev.batches:
            started = time.process_time()
            memory = dev.memory(batch)
            best = search_with_retry(model, memory, batch.prompt, BEAM)
            texts = [model.target.decode(hypotheses[0].tokens) for hypotheses in best]
            translated = time.process_time()
            searched = Searched(model, memory, torch.tensor([batch.prompt] * len(best)), BEAM)
            placed = use_terms(terms, searched, best, range(len(best)), language=WRITTEN)
            done = time.process_time()
            found.seconds += translated - started
            found.seconds_of_terms += done - translated
            for place, text, ((_, put),) in zip(batch.places, texts, placed, strict=True):
                found.base[place], found.used[place], found.prompted[place] = text, put.text, text
            if rows := [row for row, place in enumerate(batch.places) if place not in unprompted]:
                prompted = search(model, of_rows(memory, torch.tensor(rows)), [*hints, *batch.prompt], BEAM)
                for row, (hypothesis, *_) in zip(rows, prompted, strict=True):
                    found.prompted[batch.places[row]] = model.target.decode(hypothesis.tokens)
    return found


def judge(
    terms: Sequence[Term],
    utterances: Sequence[Utterance],
    kinds: dict[str, list[int]],
    found: Outputs,
    options: Any,
) -> Iterator[Result]:
    sources, references = [u.src_text for u in utterances], [u.tgt_text for u in utterances]
    base, used, prompted = (term_accuracy(terms, sources, h) for h in (found.base, found.used, found.prompted))
    said, hard, easy = kinds.values()
    others = sorted(hard + easy)
    yield Line("terms used, %", 100 * used.exact / used.said, 65, note=f"{used.exact} of {used.said} occurrences")
    yield Line("… but for an ending, %", 100 * used.fuzzy / used.said)
    yield Line("… without a list, %", 100 * base.exact / base.said)
    if not options.unprompted:
        yield Line("… named in Whisper's prompt, %", 100 * prompted.exact / prompted.said)
    for kind, numbers in kinds.items():
        for name, texts in (("", found.used), (", Whisper's prompt", found.prompted)):
            if name and (options.unprompted or kind == "easy"):
                continue
            changed = 100 * sum(texts[n] != found.base[n] for n in numbers) / max(1, len(numbers))
            bar = {"hard": 5.0, "easy": 0.0}.get(kind) if not name else None
            yield Line(f"{kind}: changed, %{name}", changed, bar, most=True, note=f"of {len(numbers)} sentences")
    rest = without(terms, references)
    for name, texts in (("without terms", found.base), ("with terms", found.used), ("prompt", found.prompted)):
        if options.unprompted and name == "prompt":
            continue
        texts = without(terms, texts)
        yield Line(f"BLEU of the rest, {name}", bleu([texts[n] for n in said], [rest[n] for n in said]).value)
    for name, texts in (("without terms", found.base), ("with terms", found.used)):
        score = bleu([texts[n] for n in others], [references[n] for n in others]).value
        yield Line(f"BLEU of sentences that hold none, {name}", score)
    ratio = 1 + found.seconds_of_terms / found.seconds
    yield Line("time with terms / without", ratio, 1.25, most=True, note=f"{found.seconds:.1f} s without")
    if options.each:
        for term, counts in sorted(used.by_term.items()):
            print("   ", term, *counts)
        for n in [*sorted(said), *hard, *easy]:
            if n in said or found.used[n] != found.base[n]:
                print(
                    "   ", "said" if n in said else "NOT SAID", "|", sources[n], "|", found.base[n], "|", found.used[n]
                )


def without(terms: Sequence[Term], texts: Sequence[str]) -> list[str]:
    """The texts without all words that a term is or may be rendered with."""
    listed = [(text, text) for term in terms for text in (term.target, *(r.text for r in term.renderings or ()))]
    phrases, found = Phrases(listed), []
    for text in texts:
        for match in reversed(phrases.find(text)):
            text = text[: match.start] + text[match.end :]
        found.append(text)
    return found


def term_list(texts: Sequence[Sequence[Pair]]) -> list[Term]:
    """The most frequent nouns of every text, and what is wanted for them."""
    found = list(dict.fromkeys(noun for pairs in texts for noun in nouns(pairs)[:COUNT]))
    if lacking := [noun for noun in found if noun not in WANTED]:
        sys.exit(f"The rule finds nouns for which nothing is wanted: {', '.join(lacking)}.")
    return [Term((noun,), WANTED[noun]) for noun in found]


def nouns(pairs: Sequence[Pair]) -> list[str]:
    """Words of four letters or more, the most frequent first, that have a capital inside sentences, follow a
    determiner three times in ten, and are not the same word in half of their translations, as names are."""
    counts, determined, kept = Counter[str](), Counter[str](), Counter[str]()
    for pair in pairs:
        source, target = words(pair.src_text), set(words(pair.tgt_text)[1:])
        for before, word in pairwise(source):
            if len(word) > 3 and word.isalpha() and word.istitle():
                counts[word] += 1
                determined[word] += _DETERMINER.fullmatch(before) is not None
                kept[word] += word in target
    return [w for w, count in counts.most_common() if determined[w] >= 0.3 * count and kept[w] < 0.5 * count]


if __name__ == "__main__":
    sys.exit(not main())
