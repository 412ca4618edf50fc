"""The speech of the embedded corpus: every sentence read by one of three espeak-ng voices."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, repeat
from pathlib import Path

import soundfile

from npda.audio import SAMPLE_RATE, frame_count
from npda.corpus.manifest import Utterance, write_manifest
from npda.corpus.mini.grammar import sentences
from npda.corpus.mini.layout import Mini
from npda.corpus.pairs import Pair, write_pairs
from npda.corpus.synthesis import Espeak, Synthesizer
from npda.io.cores import cores
from npda.io.progress import bar

VOICES = ("en-us", "en-us+f3", "en-us+m3")
# Brisk, so that a sentence takes little more than a hundred frames and a model is trained in minutes.
RATES = range(285, 316)
PITCHES = range(40, 61)


def record(directory: Path, splits: Sequence[tuple[str, str]], language: str, seed: int, progress: bool) -> None:
    """Write audio, manifests and text pairs of some splits into a directory. splits: (domain, split)"""
    corpus = Mini(directory)
    texts = {key: sentences(*key, language, seed) for key in splits}
    threads = cores()
    synthesizers = cycle([Espeak() for _ in range(threads)])
    with ThreadPoolExecutor(threads) as pool, bar(progress) as display:
        task = display.add_task("recording the embedded corpus", total=sum(map(len, texts.values())), note="")
        for (domain, split), pairs in texts.items():
            folder = corpus.audio(domain, split)
            folder.mkdir(parents=True)
            utterances = []
            for utterance in pool.map(_read_aloud, pairs, synthesizers, repeat(folder), repeat(seed)):
                utterances.append(utterance)
                display.advance(task)
            write_manifest(corpus.manifest(domain, split), utterances)
            write_pairs(corpus.text(domain, split), pairs)


def _read_aloud(pair: Pair, synthesizer: Synthesizer, folder: Path, seed: int) -> Utterance:
    """Record one sentence; its voice depends on the seed and its id alone."""
    rng = random.Random(f"{seed}-{pair.id}")
    voice, rate, pitch = rng.choice(VOICES), rng.choice(RATES), rng.choice(PITCHES)
    waveform = synthesizer.speak(pair.src_text, voice, rate, pitch)
    path = folder / f"{pair.id}.flac"
    soundfile.write(path, waveform, SAMPLE_RATE, subtype="PCM_16")
    return Utterance(
        id=pair.id,
        audio=str(path),
        n_frames=frame_count(len(waveform)),
        tgt_text=pair.tgt_text,
        src_text=pair.src_text,
        speaker=voice,
        src_lang="en",
        tgt_lang=pair.tgt_lang,
    )
