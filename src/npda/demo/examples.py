"""What a demonstration leaves for the examples of help texts and guides: its model, and small files of every kind.

======================================  ====================================================================
model/                                  the model with its text encoder and its counter-store
data/speech.wav, data/debate.flac       a sentence of parliament that the store puts right; twelve in one recording
data/dev.tsv, data/test.tsv             manifests of parliament speech, with audio in data/audio
data/general.tsv, data/general-dev.tsv  the same of everyday talk
data/domain.tsv, data/domain-dev.tsv    sentence pairs of parliament; the first also as domain.en and domain.de
data/memory.tmx                         a translation memory of parliament
data/terms.csv, terms/                  a list of terms, and what was learnt of them
data/base.txt, data/adapted.txt         translations of data/test.tsv without and with the datastore
======================================  ====================================================================
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import soundfile

from npda import audio
from npda.corpus.manifest import Utterance, write_manifest
from npda.corpus.pairs import Pair, write_pairs
from npda.demo.corpus import DemoCorpus
from npda.demo.terms import LIST
from npda.io.files import write_lines

MODEL, DATA = "model", "data"
_PAIRS, _SPOKEN, _JOINED = 200, 20, 12
_PAUSE = 0.8  # seconds between the sentences of the long recording


def write_examples(out: Path, corpus: DemoCorpus, base: Sequence[str], adapted: Sequence[str]) -> None:
    """Write ``out/data`` in place of an older one; ``out/model`` is what the demonstration works with.

    base, adapted: translations of the test set of parliament, without and with the datastore
    """
    data = out / DATA
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    speech = corpus.speech
    _write_speech(data, "dev", speech["parliament", "dev"][:_SPOKEN])
    _write_speech(data, "test", speech["parliament", "test"][:_SPOKEN])
    _write_speech(data, "general", speech["general", "dev"][: 2 * _SPOKEN])
    _write_speech(data, "general-dev", speech["general", "test"][:_SPOKEN])
    _write_recordings(data, speech["parliament", "test"][:_SPOKEN], base, adapted)
    pairs = corpus.domain_text[:_PAIRS]
    write_pairs(data / "domain.tsv", pairs)
    write_pairs(data / "domain-dev.tsv", corpus.dev_text[:_SPOKEN])
    write_lines(data / "domain.en", [pair.src_text for pair in pairs])
    write_lines(data / "domain.de", [pair.tgt_text for pair in pairs])
    (data / "memory.tmx").write_text(_memory(pairs[:_SPOKEN]), encoding="utf-8")
    terms = [f"{term.source},{term.target},{term.like}" for term in LIST]
    write_lines(data / "terms.csv", ["source,target,like", *terms])
    write_lines(data / "base.txt", list(base[:_SPOKEN]))
    write_lines(data / "adapted.txt", list(adapted[:_SPOKEN]))


def _write_speech(data: Path, name: str, utterances: Sequence[Utterance]) -> None:
    """A manifest, and its audio beside it: the folder may be moved."""
    folder = data / "audio"
    folder.mkdir(exist_ok=True)
    written = []
    for utterance in utterances:
        clip = folder / f"{name}-{utterance.id}.flac"
        soundfile.write(clip, audio.load(utterance.audio), audio.SAMPLE_RATE, subtype="PCM_16")
        written.append(replace(utterance, audio=str(clip.absolute())))
    write_manifest(data / f"{name}.tsv", written)


def _write_recordings(data: Path, utterances: Sequence[Utterance], base: Sequence[str], adapted: Sequence[str]) -> None:
    clips = [audio.load(utterance.audio) for utterance in utterances]
    told = zip((utterance.tgt_text for utterance in utterances), base, adapted, strict=False)
    put_right = (place for place, (wanted, before, after) in enumerate(told) if before != wanted == after)
    pause = np.zeros(round(_PAUSE * audio.SAMPLE_RATE), dtype=np.float32)
    joined = np.concatenate([piece for clip in clips[:_JOINED] for piece in (clip, pause)])
    soundfile.write(data / "speech.wav", clips[next(put_right, 0)], audio.SAMPLE_RATE, subtype="PCM_16")
    soundfile.write(data / "debate.flac", joined, audio.SAMPLE_RATE, subtype="PCM_16")


def _memory(pairs: Sequence[Pair]) -> str:
    def side(language: str, text: str) -> str:
        return f'<tuv xml:lang="{language}"><seg>{escape(text)}</seg></tuv>'

    units = "\n".join(f"<tu>{side('en', pair.src_text)}{side('de', pair.tgt_text)}</tu>" for pair in pairs)
    header = '<header srclang="en" segtype="sentence" datatype="plaintext" adminlang="en"/>'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">{header}<body>\n{units}\n</body></tmx>\n'
