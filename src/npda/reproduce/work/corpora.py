"""The corpora of a recipe as files every stage reads alike: manifests and text pairs by split."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from npda.corpus import europarl, europarl_st, mini, mustc
from npda.corpus.cleaning import clean
from npda.corpus.leakage import drop_leaks, normalize
from npda.corpus.manifest import Utterance, read_manifest, write_manifest
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair, read_pairs, stream_pairs, write_pairs
from npda.corpus.sampling import sample_pairs
from npda.io.errors import InputError
from npda.reproduce.recipe.recipe import Corpus, Europarl, EuroparlST, Manifests, MiniCorpus, MustC, Talks, TextPairs
from npda.stages.plan import StageLog

SPLITS = ("train", "dev", "test")
_LARGEST_SEED = 1_000  # seeds a large text of the embedded corpus may be drawn with


def speech(directory: Path, split: str) -> Path:
    """The manifest of a split, in the directory of a corpus's stage."""
    return directory / f"{split}.tsv"


def text(directory: Path, split: str) -> Path:
    """The same sentences as text pairs; of train there may be more."""
    return directory / f"{split}.text.tsv"


def tested(directory: Path) -> Path:
    """What of a corpus is translated to judge systems: the manifest of its test, or of its dev if it has none."""
    test = speech(directory, "test")
    return test if test.is_file() else speech(directory, "dev")


def has_speech(corpus: Corpus) -> bool:
    return not isinstance(corpus, Europarl | TextPairs) and not (isinstance(corpus, MiniCorpus) and corpus.pairs)


def has_more_text(corpus: Corpus) -> bool:
    """Whether there is text beside what is spoken."""
    return isinstance(corpus, Manifests) and corpus.text is not None


def write_speech(directory: Path, corpus: Corpus, language: str, seed: int, log: StageLog) -> None:
    """Manifests and text pairs of all splits; audio stays where it is."""
    no_test = isinstance(corpus, Manifests) and corpus.test is None
    splits = {split: _utterances(corpus, language, split, seed) for split in (SPLITS[:2] if no_test else SPLITS)}
    for split, utterances in splits.items():
        write_manifest(speech(directory, split), utterances)
        write_pairs(text(directory, split), _pairs(utterances))
        log(f"{split}: {len(utterances)} utterances")
    if isinstance(corpus, Manifests) and corpus.text is not None:
        pairs = read_pairs(corpus.text)
        write_pairs(text(directory, "train"), pairs)
        log(f"train: {len(pairs)} pairs of text")


def write_text(
    directory: Path, corpus: Corpus, language: str, seed: int, held_out: Iterable[Pair], log: StageLog
) -> None:
    """Text pairs of a corpus without speech, or beside it, and without what gives away ``held_out``."""
    held_out = list(held_out)
    if isinstance(corpus, MiniCorpus):
        pairs = list(_drawn(corpus, language, seed, held_out))
    else:
        if isinstance(corpus, Europarl):
            source = clean(europarl.stream(corpus.root, language))
        else:
            assert isinstance(corpus, TextPairs | Manifests)
            source = stream_pairs(corpus.train if isinstance(corpus, TextPairs) else corpus.text or corpus.train)
        kept, report = drop_leaks(source, held_out)
        count = corpus.pairs if isinstance(corpus, Europarl) else None
        pairs = list(kept if count is None else sample_pairs(kept, count, seed, directory))
        log(f"{report.dropped} pairs dropped that occur in dev or test data, or nearly")
    write_pairs(text(directory, "train"), pairs)
    log(f"train: {len(pairs)} pairs")


def held_out(directory: Path) -> list[Pair]:
    """What no training text may hold: the dev and test sentences of a corpus."""
    files = (text(directory, split) for split in ("dev", "test"))
    return [pair for file in files if file.is_file() for pair in read_pairs(file)]


def _utterances(corpus: Corpus, language: str, split: str, seed: int) -> list[Utterance]:
    match corpus:
        case MiniCorpus():
            made = mini.prepare(language, seed)
            return read_manifest(made.manifest(corpus.domain, split))
        case MustC():
            return mustc.read(corpus.root, language, "tst-COMMON" if split == "test" else split)
        case EuroparlST():
            return europarl_st.read(corpus.root, corpus.source, language, split)
        case Manifests():
            utterances = read_manifest(getattr(corpus, split), check_audio=True)
            return [u for u in utterances if not u.tgt_lang or u.tgt_lang == language]
        case Talks():
            return _said_by(corpus, split)
        case _:
            raise InputError(f"A corpus of kind {corpus.kind!r} has no speech; it can only be large_text.")


def _said_by(corpus: Talks, split: str) -> list[Utterance]:
    """What the speakers of a split say."""
    utterances = read_manifest(corpus.manifest, check_audio=True)
    held_out = {"dev": corpus.dev, "test": corpus.test}
    speakers = {u.speaker for u in utterances}
    for name in (*corpus.dev, *corpus.test):
        if name not in speakers:
            raise InputError(f"{corpus.manifest}: no speaker there is called {name!r}; correct the recipe's speakers.")
    if both := set(corpus.dev) & set(corpus.test):
        raise InputError(f"{min(both)!r} cannot speak in dev and in test: correct the recipe's speakers.")
    trained_on = speakers - set(corpus.dev) - set(corpus.test)
    found = [u for u in utterances if u.speaker in held_out.get(split, trained_on)]
    if corpus.transcribe:
        return [replace(u, tgt_text=u.src_text, tgt_lang=u.src_lang) for u in found]
    return found


def _pairs(utterances: Iterable[Utterance]) -> Iterator[Pair]:
    return (Pair(u.src_text, u.tgt_text, u.id, u.tgt_lang) for u in utterances)


def _drawn(corpus: MiniCorpus, language: str, seed: int, held_out: list[Pair]) -> Iterator[Pair]:
    """Sentences of the grammar drawn with other seeds, none twice and none that is held out.

    Near-duplicates stay: in so small a language every sentence has some.
    """
    seen = {normalize(side) for pair in held_out for side in (pair.src_text, pair.tgt_text)}
    wanted = corpus.pairs or 0
    rng = random.Random(seed)
    for other in range(seed + 1, seed + _LARGEST_SEED):
        fresh = sentences(corpus.domain, "train", language, other)
        rng.shuffle(fresh)
        for pair in fresh:
            sides = {normalize(pair.src_text), normalize(pair.tgt_text)}
            if wanted and not sides & seen:
                seen |= sides
                wanted -= 1
                yield pair
        if not wanted:
            return
