"""Text read aloud into files: FLAC clips, and a manifest of them.

A clip is named by what is said and by whom. So a clip that is there is the right one, whatever was interrupted or
changed in between, and a sentence that occurs twice is spoken once.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import soundfile

from npda.audio import SAMPLE_RATE, frame_count
from npda.corpus.manifest import Utterance, write_manifest
from npda.corpus.pairs import Pair
from npda.corpus.voices import Voice
from npda.io.cores import cores
from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.progress import bar

AUDIO = "audio"
_WINDOW = 256  # pairs handed to the threads at once


@dataclass(frozen=True)
class SpokenText:
    """What became of a text. silent: sentences of which the voice made no sound, for instance of dots alone"""

    manifest: Path
    sentences: int
    silent: int
    seconds: float  # of speech


def synthesize(
    pairs: Iterable[Pair], voice: Voice, out: Path, name: str, total: int | None = None, progress: bool = True
) -> SpokenText:
    """Read a text aloud into ``out/audio`` and write ``out/NAME.tsv``; clips that are there are not made again."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give a directory.")
    pairs = iter(pairs)
    found: list[Utterance] = []
    taken: set[str] = set()
    count = 0
    with bar(progress) as display:
        task = display.add_task(f"speaking {name}", total=total, note="")
        while window := list(islice(pairs, _WINDOW)):
            for number, clip in enumerate(clips(window, voice, out / AUDIO), start=count + 1):
                if clip is not None:
                    found.append(_with_id(clip, f"{name}-{number:06}", taken))
                display.advance(task)
            count += len(window)
    if not found:
        raise InputError(f"{voice.name} made no sound of any of the {count} sentences of {name}: try another voice.")
    manifest = out / f"{name}.tsv"
    write_manifest(manifest, found)
    return SpokenText(manifest, len(found), count - len(found), round(sum(u.n_frames for u in found) / 100, 1))


def clips(pairs: Sequence[Pair], voice: Voice, folder: Path) -> Iterator[Utterance | None]:
    """The pairs spoken, in their order, each as a FLAC file of the folder; None where there is nothing to hear."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(cores()) as pool:
        yield from pool.map(lambda pair: _clip(pair, voice, folder), pairs)


def _clip(pair: Pair, voice: Voice, folder: Path) -> Utterance | None:
    said = hashlib.sha256(f"{voice.name}\0{pair.src_text}".encode()).hexdigest()
    path = folder / f"{said[:24]}.flac"
    frames = _frames(path)
    if not frames:
        samples = voice.speak(pair.src_text)
        if not (frames := frame_count(len(samples))):
            return None
        content = io.BytesIO()  # libsndfile does not say why it cannot write a file
        soundfile.write(content, samples, SAMPLE_RATE, format="FLAC", subtype="PCM_16")
        with atomic_write(path) as temporary:
            temporary.write_bytes(content.getvalue())
    spoken = {"speaker": voice.name, "src_lang": voice.language, "tgt_lang": pair.tgt_lang}
    return Utterance(pair.id, str(path.absolute()), frames, pair.tgt_text, pair.src_text, **spoken)


def _frames(path: Path) -> int:
    """Of a clip that is there; 0 for one that is not, or is damaged."""
    try:
        return frame_count(soundfile.info(path).frames) if path.is_file() else 0
    except soundfile.SoundFileError:
        return 0


def _with_id(utterance: Utterance, otherwise: str, taken: set[str]) -> Utterance:
    """With the pair's own id, unless it has none or another has it already."""
    chosen = utterance.id if utterance.id.strip() and utterance.id not in taken else otherwise
    taken.add(chosen)
    return replace(utterance, id=chosen)
