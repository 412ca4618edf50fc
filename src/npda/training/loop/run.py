"""The directory of a training run.

out/              the finished model
out/train/        settings.json: what defines the run; log.jsonl; checkpoints/; start/: vocabularies, CMVN
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from npda.io.card import FILE as CARD
from npda.io.card import is_ours
from npda.io.errors import InputError
from npda.io.locks import Lock
from npda.io.records import as_json, write_record
from npda.models.card import About, write_model_card
from npda.training.loop.checkpoints import Checkpoints, flush
from npda.training.loop.log import TrainingLog
from npda.training.loop.processes import running
from npda.training.loop.settings import TrainingSettings

_UNPUBLISHED = ".model-"


class Run:
    """A run in ``out``, new or continued; inside ``with``, no other process can train there.

    Whatever else would give another model belongs into ``description``: data, task, sizes. A directory that
    holds a run with other settings or another description is refused, as soon as it has a checkpoint to lose.
    """

    def __init__(
        self,
        out: str | Path,
        settings: TrainingSettings,
        description: Mapping[str, Any],
        about: About | None = None,
    ) -> None:
        """about: for the model's card; without it there is none"""
        self._about = about
        self.out = Path(out)
        self.directory = self.out / "train"
        self.start = self.directory / "start"
        self.checkpoints = Checkpoints(self.directory / "checkpoints")
        self.log = TrainingLog(self.directory / "log.jsonl")
        self._lock = Lock(self.directory / "lock")
        self._settings = self.directory / "settings.json"
        identity = {"settings": dataclasses.asdict(settings), "description": dict(description)}
        self._identity = as_json(identity)
        self._others = self._differences(settings.changeable())

    def __enter__(self) -> Run:
        """Keep others away, then write down what defines the run."""
        processes = running()
        if processes.is_main_process:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not self._lock.acquire():
                raise InputError(f"Another process is training in {self.out}; wait, or choose another directory.")
            self._claim()
        processes.wait_for_everyone()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _claim(self) -> None:
        """Remains of another run, that never got to a checkpoint, go."""
        if self._others:
            shutil.rmtree(self.start, ignore_errors=True)
        for remains in self.directory.glob(f"{_UNPUBLISHED}*"):
            shutil.rmtree(remains, ignore_errors=True)
        write_record(self._settings, self._identity)

    def publish(self, write: Callable[[Path], None], examples: int, dev: Mapping[str, float]) -> None:
        """Have the model written into a directory of its own, then move its files to ``out``.

        config.json comes last: a directory without one is not taken for a model. examples, dev: for the model's card
        """
        with TemporaryDirectory(dir=self.directory, prefix=_UNPUBLISHED) as temporary:
            model = Path(temporary)
            write(model)
            if self._about is not None and is_ours(self.out / CARD):
                write_model_card(model, self._about, self._identity["settings"], examples, dev)
            files = [path.relative_to(model) for path in model.rglob("*") if path.is_file()]
            for name in sorted(files, key=lambda name: (name == Path("config.json"), name)):
                (self.out / name).parent.mkdir(parents=True, exist_ok=True)
                flush(model / name)
                os.replace(model / name, self.out / name)

    def _differences(self, changeable: frozenset[str]) -> list[str]:
        """What differs from the run that lies here; an error when that one has a checkpoint."""
        if not self._settings.is_file():
            return []
        try:
            stored = json.loads(self._settings.read_text(encoding="utf-8"))
            stored = {**stored["settings"], **stored["description"]}
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._settings} is damaged ({error}); choose another directory.") from None
        wanted = {**self._identity["settings"], **self._identity["description"]}
        names = [n for n in dict.fromkeys([*wanted, *stored]) if n not in changeable and wanted.get(n) != stored.get(n)]
        if names and self.checkpoints.latest() is not None:
            described = "; ".join(f"{n} was {_short(stored.get(n))}, now {_short(wanted.get(n))}" for n in names)
            raise InputError(
                f"{self.out} holds a training run that was started differently ({described}): "
                "continue it as it began, choose another directory, or remove this one."
            )
        return names


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:12]}…"
