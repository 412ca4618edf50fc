"""What npda finds on this machine, and whether the model that comes with it translates as it should."""

from __future__ import annotations

import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from npda import __version__
from npda.io.cores import cores
from npda.io.files import cache_dir

LIBRARIES = ("torch", "transformers", "faiss-cpu", "numpy", "soundfile", "av", "sentencepiece", "sacrebleu")
SAID, KNOWN = "The first session with the secretary is tomorrow.", "Die erste Sitzung mit der Sekretärin ist morgen."
_VOICE, _RATE, _PITCH = "en-us", 300, 50


@dataclass(frozen=True)
class Extra:
    """An optional part. missing: packages it needs that are not there"""

    name: str
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Machine:
    """python, npda: versions; libraries: theirs; accelerator: "" where there is none; free: bytes where caches lie"""

    npda: str
    python: str
    system: str
    cores: int
    accelerator: str
    libraries: Mapping[str, str]
    extras: tuple[Extra, ...]
    cache: Path
    free: int


@dataclass(frozen=True)
class Sample:
    """What the shipped model makes of a sentence that is read to it."""

    said: str
    known: str
    found: str

    @property
    def is_right(self) -> bool:
        return self.found == self.known


def examine() -> Machine:
    """Look around; nothing is changed."""
    import torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    cache = cache_dir()
    there = next(folder for folder in (cache, *cache.parents) if folder.is_dir())
    return Machine(
        __version__,
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
        cores(),
        str(accelerator) if accelerator is not None else "",
        {name: _version(name) for name in LIBRARIES},
        tuple(extras()),
        cache,
        shutil.disk_usage(there).free,
    )


def extras(package: str = "npda") -> Iterator[Extra]:
    """The optional parts of a package, and what each one lacks."""
    for name in distribution(package).metadata.get_all("Provides-Extra") or []:
        yield Extra(name, tuple(sorted(set(_missing(package, name)))))


def _missing(package: str, extra: str) -> Iterator[str]:
    for line in requires(package) or []:
        need = Requirement(line)
        if need.marker is None or need.marker.evaluate({"extra": ""}) or not need.marker.evaluate({"extra": extra}):
            continue
        if re.sub(r"[-_.]+", "-", need.name).lower() == package:
            for inner in need.extras:
                yield from _missing(package, inner)
        elif not _version(need.name):
            yield need.name


def _version(name: str) -> str:
    """ "" for what is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def try_model() -> Sample:
    """Read a sentence aloud, and translate it with the model that comes with the package, on the processor."""
    from npda.corpus.synthesis import Espeak
    from npda.translator import Translator

    directory = Path(sys.modules["npda"].__file__ or "").parent / "pretrained" / "mini-en-de"
    translator = Translator.from_pretrained(directory, device="cpu")
    return Sample(SAID, KNOWN, translator.translate(Espeak().speak(SAID, _VOICE, _RATE, _PITCH)).text)
