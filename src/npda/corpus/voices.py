"""Voices by name: synthesisers that read a domain's text aloud when there are no recordings of it.

espeak:en-us        espeak-ng, which comes with npda; espeak:en-us+f3 is a variant, espeak:en-us@300 speaks 300 words
                    a minute. The same text always gives the same samples.
pico:de-DE          the program pico2wave, if it is installed (Debian: libttspico-utils)
piper:MODEL.onnx    the package piper-tts or the program piper, if installed, with a voice downloaded for it. Its random
                    variation is switched off, as far as the installed one lets it be.
"""

from __future__ import annotations

import importlib.util
import io
import shutil
import subprocess
import sys
import tempfile
import wave
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import soundfile
import soxr

from npda.audio import SAMPLE_RATE
from npda.corpus.synthesis import Espeak
from npda.io.errors import InputError

PICO_LANGUAGES = ("en-US", "en-GB", "de-DE", "es-ES", "fr-FR", "it-IT")
_SECONDS = 120  # that a program may take for one text
_EXAMPLES = "espeak:en-us, pico:de-DE and piper:MODEL.onnx are the ways to name one"


class Voice(Protocol):
    """A voice that reads text aloud. name: as given; language: two letters, or "" where that is not known"""

    name: str
    language: str

    def speak(self, text: str) -> np.ndarray:
        """[samples] float32 at 16 kHz. Several threads may ask at once."""
        ...


def voice(name: str) -> Voice:
    """The voice of a name such as espeak:en-us; one that cannot speak here is refused, saying what to install."""
    engine, _, which = name.partition(":")
    engines = {"espeak": EspeakVoice, "pico": PicoVoice, "piper": PiperVoice}
    if engine not in engines or not which:
        raise InputError(f"There is no voice {name!r}: {_EXAMPLES}.")
    return engines[engine](which)


class EspeakVoice:
    """espeak-ng. which: a language, where wished with +variant and with @words a minute"""

    def __init__(self, which: str) -> None:
        speaker, at, rate = which.partition("@")
        if at and not (rate.isascii() and rate.isdigit() and len(rate) < 4):
            raise InputError(f"espeak:{which}: the words a minute after @ are a whole number such as 175.")
        self.name = f"espeak:{which}"
        self.language = speaker.partition("+")[0].partition("-")[0]
        self._espeak = Espeak()
        self._speaker, self._rate = speaker, int(rate or 175)
        self.speak("a")  # refuses a voice or a rate that it does not have

    def speak(self, text: str) -> np.ndarray:
        return self._espeak.speak(text, self._speaker, self._rate)


class PicoVoice:
    """SVOX Pico. which: one of its six languages"""

    def __init__(self, which: str) -> None:
        if which not in PICO_LANGUAGES:
            raise InputError(f"pico speaks {', '.join(PICO_LANGUAGES)}, not {which!r}.")
        self.name, self.language, self._which = f"pico:{which}", which[:2], which
        self._program = _program("pico2wave")
        if self._program is None:
            raise InputError(
                "The voice pico needs the program pico2wave: install it (Debian and Ubuntu: libttspico-utils), or take "
                "espeak, which comes with npda."
            )

    def speak(self, text: str) -> np.ndarray:
        # Angle brackets are its markup.
        plain = text.translate({ord("<"): " ", ord(">"): " "})
        with tempfile.TemporaryDirectory(prefix="npda-pico-") as folder:
            file = Path(folder, "speech.wav")
            return _run([str(self._program), "-l", self._which, "-w", str(file), "--", plain], "", file)


class PiperVoice:
    """Piper. which: the .onnx file of one of its voices, with its .onnx.json beside it"""

    def __init__(self, which: str) -> None:
        self.name, self.language, self._model = f"piper:{which}", "", Path(which)
        for file in (self._model, Path(f"{which}.json")):
            if not file.is_file():
                raise InputError(f"piper:{which}: there is no file {file}; download a voice, both its files.")
        self._program = _program("piper")
        if self._program is None and not self._has_package:
            raise InputError(
                "The voice piper needs the package piper-tts or the program piper: pip install piper-tts, or take "
                "espeak, which comes with npda."
            )

    def speak(self, text: str) -> np.ndarray:
        if self._has_package:
            return self._with_package(text)
        with tempfile.TemporaryDirectory(prefix="npda-piper-") as folder:
            file = Path(folder, "speech.wav")
            still = ["--noise_scale", "0", "--noise_w", "0"]
            command = [str(self._program), "--model", str(self._model), "--output_file", str(file), *still]
            return _run(command, " ".join(text.split()) + "\n", file)

    @cached_property
    def _has_package(self) -> bool:
        """Whether the model can be loaded once for all texts, instead of by a program for each."""
        if importlib.util.find_spec("piper") is None:
            return False
        import piper  # pyright: ignore[reportMissingImports]

        return hasattr(piper, "PiperVoice") and hasattr(piper.PiperVoice, "synthesize_wav")

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        from piper import PiperVoice, SynthesisConfig  # pyright: ignore[reportMissingImports]

        return PiperVoice.load(str(self._model)), SynthesisConfig(noise_scale=0.0, noise_w_scale=0.0)

    def _with_package(self, text: str) -> np.ndarray:
        speaker, settings = self._loaded
        content = io.BytesIO()
        with wave.open(content, "wb") as file:
            speaker.synthesize_wav(text, file, syn_config=settings)
        content.seek(0)
        return _samples(content)


def _program(name: str) -> str | None:
    """On the path, or beside the Python that runs, where pip puts programs of packages."""
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    return shutil.which(name) or beside


def _run(command: Sequence[str], given: str, file: Path) -> np.ndarray:
    """What a program wrote into a file. given: for its standard input"""
    try:
        done = subprocess.run(  # noqa: S603 (a program found by its name, no shell, the text as its argument)
            command, input=given.encode(), capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{command[0]} was still speaking after {_SECONDS} s; shorten the text: {given}") from None
    if done.returncode != 0 or not file.is_file():
        said = " ".join(done.stderr.decode(errors="replace").split())[-300:]
        raise InputError(f"{command[0]} failed to speak ({said or f'exit code {done.returncode}'}).")
    return _samples(file)


def _samples(file: Path | io.BytesIO) -> np.ndarray:
    """[samples] float32 at 16 kHz, mono; empty where nothing was said"""
    try:
        samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError) as error:
        raise InputError(f"The voice produced something that is not audio ({error}).") from None
    mono = samples.mean(axis=1) if len(samples) else np.empty(0, np.float32)
    return mono if rate == SAMPLE_RATE or not len(mono) else soxr.resample(mono, rate, SAMPLE_RATE)
