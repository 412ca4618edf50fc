"""Learning how a model renders the terms of a list."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from npda.corpus.terms import PLURAL, SEPARATOR, Rendering, Term
from npda.corpus.voices import Voice
from npda.datastore.fingerprint import decoder_fingerprint, vocabulary_digest
from npda.decoding.beam import SearchOptions
from npda.io.digests import short_digest
from npda.io.errors import InputError
from npda.models.backbone import Backbone
from npda.terms.agreement import Observed
from npda.terms.agreement_learning import learn_agreement
from npda.terms.carriers import carriers
from npda.terms.general import General, SearchedText, gather
from npda.terms.outputs import Outputs, Translate, reading, speaking
from npda.terms.record import AUDIO, READ, SPOKEN, LearntBy, TermFolder
from npda.terms.renderings import Learnt, Sources, learn_renderings

logger = logging.getLogger(__name__)

_FEW = 3  # contexts of a term below which it is put into carriers as well
_OTHERS = 2_000  # sentences without any term that a few terms are learnt beside
_SEARCH = SearchOptions(max_length=80)
_PLAIN_OTHERS = 2_000  # sentences without terms that are read, for a text without translations


@dataclass(frozen=True)
class LearnOptions:
    """How to learn.

    general: text that holds the terms; read: let the model translate it by the text path, by default if the text has no
    translations; sentences: to be read for each term; voice: that reads carriers aloud; language: of the
    translations, source_language: that is spoken
    """

    general: tuple[Path, ...] = ()
    read: bool | None = None
    sentences: int = 24
    voice: Voice | None = None
    language: str | None = None
    source_language: str | None = None
    progress: bool = True


def learn_terms(backbone: Backbone, listed: Sequence[Term], out: Path, options: LearnOptions) -> list[Term]:
    """Learn what is not learnt yet, and keep all of the list in the folder ``out``.

    A term in the folder is not learnt again as long as model and text are the same. Renderings that a person has
    changed there, or brings along with the list, stay in any case.
    """
    folder, by = TermFolder(out), _by(backbone, options)
    folder.check()
    known, record = _known(folder, by)
    observed = folder.observed() if folder.exists() and folder.record().alike(by) else []
    known.update({term.key: term for term in listed if term.renderings})
    lacking = list(dict.fromkeys(term.sources for term in listed if term.key not in known))
    learnt = dict(zip(lacking, _learn(backbone, lacking, folder, options), strict=True)) if lacking else {}
    numbers = {(term.sources, term.plural) for term in listed}
    terms = []
    for term in listed:
        if (before := known.get(term.key)) is not None:
            terms.append(replace(term, renderings=before.renderings, contexts=before.contexts))
            continue
        terms.append(rendered(term, learnt[term.sources], numbers))
        record[_name(term)] = _text(terms[-1])
    observed += _agreement(backbone, terms, {(seen.rendering, seen.like) for seen in observed}, folder, options)
    kept = {name: text for term in terms if (text := record.get(name := _name(term))) is not None}
    folder.write(terms, observed, by.model_copy(update={"learnt": kept}))
    return terms


def learn_few(
    terms: Sequence[Sources], text: SearchedText | None, translate: Translate | None, source_language: str | None
) -> list[Learnt]:
    """Learn some terms from text with translations and, where it holds few of them, from short sentences as well.

    text, translate: None where there is no such text, or nobody who translates the sentences
    """
    general = text.gather(terms, others=_OTHERS) if text is not None else None
    counts, pairs = [0] * len(terms), []
    if general is not None:
        counts = _counts(general, len(terms))
        pairs = [(source, target) for source, target, _ in general.holding] + list(general.others)
    few = [sources for sources, count in zip(terms, counts, strict=True) if count < _FEW]
    if few and translate is not None:
        said = [sentence for sources in few for sentence in carriers(sources, source_language)]
        pairs += [pair for pair in zip(said, translate(said), strict=True) if pair[1]]
    return learn_renderings(terms, pairs, general.shares if general is not None else None)


def rendered(term: Term, found: Learnt, numbers: Collection[tuple[Sources, bool]]) -> Term:
    """A term with its renderings. found: of its sources; numbers: sources of its list, and whether plural"""
    alike = (term.sources, not term.plural) in numbers
    renderings = of_number(found.renderings, term.plural) if alike else found.renderings
    return replace(term, renderings=renderings, contexts=found.contexts)


def of_number(renderings: Sequence[Rendering], plural: bool) -> tuple[Rendering, ...]:
    """Those that look like a plural of another one, or the others: of a term whose plural sounds the same."""
    texts = [rendering.text for rendering in renderings]
    return tuple(r for r in renderings if any(_is_plural(r.text, text) for text in texts) == plural)


def _is_plural(word: str, of: str) -> bool:
    """teachers of teacher, Häuser of Haus, cities of city"""
    long, short = (unicodedata.normalize("NFD", each).replace("\u0308", "") for each in (word, of))
    stem = short[:-1] if short.endswith("y") else short
    return len(short) < len(long) <= len(short) + 3 and long.startswith(stem)


def _known(folder: TermFolder, by: LearntBy) -> tuple[dict[tuple[str, bool], Term], dict[str, str]]:
    """Terms that need not be learnt, and as what they were learnt."""
    if not folder.exists():
        return {}, {}
    before = folder.record()
    rows = folder.terms()
    if not before.alike(by):
        rows = [term for term in rows if _text(term) != before.learnt.get(_name(term))]
    return {term.key: term for term in rows}, dict(before.learnt)


def _learn(backbone: Backbone, terms: Sequence[Sources], folder: TermFolder, options: LearnOptions) -> list[Learnt]:
    general = gather(options.general, terms)
    pairs = [(source, target) for source, target, _ in general.holding if target]
    pairs += [pair for pair in general.others if pair[1]]
    if options.read and not backbone.reads:
        raise InputError(
            "The model has no text path, so it cannot read: train one with `npda align`, or do not ask for it."
        )
    if options.voice is not None:
        said = [sentence for sources in terms for sentence in carriers(sources, options.source_language)]
        translate = speaking(backbone, options.voice, folder.path / AUDIO, _SEARCH, options.language)
        pairs += Outputs(folder.path / SPOKEN).of(said, translate, "hearing terms", options.progress)
    if options.read or (options.read is None and not pairs and backbone.reads):
        counts = _counts(general, len(terms))
        few = [sources for sources, count in zip(terms, counts, strict=True) if count < _FEW]
        sentences = _chosen(general, len(terms), options.sentences)
        sentences += [sentence for sources in few for sentence in carriers(sources, options.source_language)]
        if not any(target for _, target in general.others):
            sentences += [source for source, _ in general.others[:_PLAIN_OTHERS]]
        translate = reading(backbone, _SEARCH, options.language)
        pairs += Outputs(folder.path / READ).of(sentences, translate, "reading terms", options.progress)
    if not pairs:
        raise InputError(
            "The model cannot read, and the general text has no translations: give sentence pairs (a TSV), or a voice "
            "that reads the terms aloud (--speak espeak:en-us)."
        )
    return learn_renderings(terms, pairs, general.shares)


def _agreement(
    backbone: Backbone,
    terms: Sequence[Term],
    known: Collection[tuple[str, str]],
    folder: TermFolder,
    options: LearnOptions,
) -> list[Observed]:
    """For terms whose target has another gender than their renderings. known: renderings with words like the target"""
    lacking = [
        term
        for term in terms
        if term.like and not term.plural and not any((r.text, term.like) in known for r in term.renderings or ())
    ]
    if lacking and not backbone.reads:
        logger.warning("The model cannot read, so that articles stay as they are: the column like is not used.")
        return []
    translate = reading(backbone, _SEARCH, options.language)

    def read(sentences: Sequence[str]) -> dict[str, str]:
        return dict(Outputs(folder.path / READ).of(sentences, translate, "reading articles", options.progress))

    return learn_agreement(lacking, partial(gather, options.general), read, options.source_language) if lacking else []


def _counts(general: General, terms: int) -> list[int]:
    """Sentences that hold each term."""
    counts = [0] * terms
    for _, _, held in general.holding:
        for term in held:
            counts[term] += 1
    return counts


def _chosen(general: General, terms: int, most: int) -> list[str]:
    """Sentences to be translated: for each term the first few that hold it."""
    counts, chosen = [0] * terms, []
    for source, _, held in general.holding:
        if any(counts[term] < most for term in held):
            chosen.append(source)
            for term in held:
                counts[term] += 1
    return chosen


def _by(backbone: Backbone, options: LearnOptions) -> LearntBy:
    return LearntBy(
        model=decoder_fingerprint(backbone).digest,
        vocabulary=vocabulary_digest(backbone),
        general=tuple(short_digest(path) for path in options.general),
        voice=options.voice.name if options.voice is not None else "",
        language=options.language or "",
        source_language=options.source_language or "",
        read="" if options.read is None else str(options.read),
        sentences=options.sentences,
    )


def _name(term: Term) -> str:
    return f"{term.source} ({PLURAL})" if term.plural else term.source


def _text(term: Term) -> str:
    return f" {SEPARATOR} ".join(rendering.text for rendering in term.renderings or ())
