"""What an operator decides when the server is started."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from npda.models.devices import Precision

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Settings:
    """models: folders of models by the names clients use, the first is the default;
    stores: folder of datastores that is only read; data: folder for everything the server writes;
    examples: folder with a clips.json, shown on the page; open: listen to other machines without a key
    """

    models: dict[str, Path]
    data: Path
    stores: Path | None = None
    examples: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    keys: tuple[Key, ...] = ()
    open: bool = False
    origins: tuple[str, ...] = ()  # of other sites that may call, for CORS
    source_language: str | None = None  # what is spoken, where a request does not say
    language: str | None = None  # what is written, where a request does not say
    device: str = "auto"
    precision: Precision = "auto"
    int8: bool = False
    batch: int = 8  # utterances decoded together
    queue: int = 64  # utterances that may wait; more are refused with 503
    timeout: float = 300.0  # seconds a request may take
    idle: float = 0.0  # minutes without a request after which a model is unloaded, 0 for never
    max_upload: int = 100 * MEGABYTE  # bytes of one upload
    max_text: int = 64 * MEGABYTE  # bytes of one file of sentences
    max_pairs: int = 200_000  # sentences in it
    max_jobs: int = 20  # jobs that may wait
    max_seconds: float = 2 * 3600.0  # of audio in one request
    remember: int = 256  # latest requests whose audio is kept in memory, so that they can be corrected
    live: int = 8  # connections for live captions at a time
    log_content: bool = False  # write what was said into the log
    reads_only: bool = False  # refuse to change stores, corrections and lists of terms


@dataclass(frozen=True)
class Key:
    """A key with a name, which stands in logs and with corrections, and what it may do."""

    name: str
    secret: str = field(repr=False)
    edits: bool = True  # may change stores and lists of terms; everyone may translate
