"""Text to speech: espeak-ng from the espeakng-loader wheel, spoken into memory through ctypes."""

import _ctypes
import ctypes
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Protocol

import espeakng_loader
import numpy as np
import soxr

from npda.audio import SAMPLE_RATE
from npda.io.errors import InputError

# From espeak-ng's speak_lib.h.
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_POS_CHARACTER = 1
_RATE, _PITCH = 1, 3

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int16), ctypes.c_int, ctypes.c_void_p)


class Synthesizer(Protocol):
    """Whoever can read a text aloud."""

    def speak(self, text: str, voice: str, rate: int, pitch: int) -> np.ndarray:
        """[samples] float32 at 16 kHz. rate: words a minute; pitch: 0 to 99, 50 being the voice's own."""
        ...


class Espeak:
    """espeak-ng. What it says depends on the arguments alone, not on what it said before.

    A voice is a language, with a variant where wished: "en-us", "en-gb", "en-us+f3". One text is spoken at a
    time; several threads speak at once with an Espeak each.
    """

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="espeak-", ignore_cleanup_errors=True)
        _link_data(Path(espeakng_loader.get_data_path()), Path(self._home.name))
        # The library keeps its state in global variables: a copy of the file has its own.
        self._library = shutil.copy(espeakng_loader.get_library_path(), self._home.name)
        self._lock = threading.Lock()
        self.voices = frozenset(file.name for file in Path(self._home.name, "lang").iterdir())
        self.variants = frozenset(file.name for file in Path(self._home.name, "voices", "!v").iterdir())

    def speak(self, text: str, voice: str = "en-us", rate: int = 175, pitch: int = 50) -> np.ndarray:
        """Read a text aloud: [samples] float32 at 16 kHz. rate: 80 to 450 words a minute; pitch: 0 to 99."""
        self._check(text, voice, rate, pitch)
        with self._lock:
            # The library carries the phase of its pitch flutter, its gain control and its noise from one text
            # to the next and has no call to reset them. Loading it anew for every text does, in less than
            # a millisecond, and makes the speech a function of the arguments.
            library = ctypes.CDLL(self._library)
            try:
                native_rate, samples = self._synthesize(library, text, voice, rate, pitch)
            finally:
                library.espeak_Terminate()
                _unload(library)
        return soxr.resample(samples.astype(np.float32) / 32768, native_rate, SAMPLE_RATE)

    def _check(self, text: str, voice: str, rate: int, pitch: int) -> None:
        language, plus, variant = voice.partition("+")
        if language not in self.voices or (plus and variant not in self.variants):
            raise InputError(f"espeak-ng has no voice {voice!r}; en-us, en-gb and en-us+f3 are voices it has.")
        if not text.strip():
            raise InputError("There is no text to speak.")
        if not (80 <= rate <= 450 and 0 <= pitch <= 99):
            raise InputError(f"Speech needs a rate of 80 to 450 and a pitch of 0 to 99, not {rate} and {pitch}.")

    def _synthesize(self, library: ctypes.CDLL, text: str, voice: str, rate: int, pitch: int) -> tuple[int, np.ndarray]:
        """Run a freshly loaded library; returns its sample rate and [samples] int16."""
        chunks: list[bytes] = []

        @_Callback
        def collect(samples, count, _events) -> int:
            if samples and count > 0:
                chunks.append(ctypes.string_at(samples, 2 * count))
            return 0

        native_rate = library.espeak_Initialize(
            _AUDIO_OUTPUT_SYNCHRONOUS, 0, self._home.name.encode(), _INITIALIZE_DONT_EXIT
        )
        if native_rate <= 0:
            raise RuntimeError("espeak-ng cannot be initialised; install espeakng-loader again")
        # The noise of breathy voices is seeded with the clock otherwise.
        library.espeak_ng_SetRandSeed(ctypes.c_long(1))
        library.espeak_SetSynthCallback(collect)
        if library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise RuntimeError(f"espeak-ng does not accept the voice {voice!r}")
        library.espeak_SetParameter(_RATE, rate, 0)
        library.espeak_SetParameter(_PITCH, pitch, 0)
        content = text.encode() + b"\0"
        status = library.espeak_Synth(
            content, ctypes.c_size_t(len(content)), 0, _POS_CHARACTER, 0, _CHARS_UTF8, None, None
        )
        if status != 0 or library.espeak_Synchronize() != 0:
            raise RuntimeError(f"espeak-ng failed to speak {text!r}")
        return native_rate, np.frombuffer(b"".join(chunks), dtype=np.int16)


def _link_data(data: Path, home: Path) -> None:
    """Lay out espeak-ng's data under a short path, with its voices by lower-case name in one folder.

    Where Python lies deep, the wheel's path is longer than the 160 characters the library allows for. And it
    lower-cases the name of a voice: with the wheel's mixed-case files it reads every voice file there is
    before it finds one, which takes longer than the speaking.
    """
    for entry in data.iterdir():
        if entry.name != "lang":
            _link(entry, home / entry.name)
    voices = home / "lang"
    voices.mkdir()
    files = sorted(file for file in (data / "lang").rglob("*") if file.is_file())
    for file in files:
        _link(file, voices / file.name.lower())
    for file in files:
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(" ")
            alias = voices / (value.split() or [""])[0].lower()
            if key == "language" and not alias.exists():
                _link(file, alias)


def _link(source: Path, target: Path) -> None:
    try:
        target.symlink_to(source)
    except OSError:
        # Windows lets only some users make links.
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def _unload(library: ctypes.CDLL) -> None:
    if sys.platform == "win32":
        _ctypes.FreeLibrary(library._handle)
    else:
        _ctypes.dlclose(library._handle)
