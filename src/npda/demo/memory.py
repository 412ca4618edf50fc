"""What a demonstration has found out so far, so that a killed one goes on where it was and a second one is quick."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.models.backbone import Backbone

T = TypeVar("T")

_MARK = "demo.json"  # whose results these are
_DECIDING = (
    "*.py",
    "corpus/*.py",
    "datastore/**/*.py",
    "decoding/**/*.py",
    "evaluation/**/*.py",
    "demo/*.py",
    "explanation/*.py",
    "models/**/*.py",
)
_RESULTS, _STORES = "results", "stores"


class Memory:
    """Results and datastores in a directory, all of one model, one corpus and one version of the code.

    identity: of all these; what was found under another one is thrown away
    seconds: of every stage, also of one that an earlier run has done; recalled: their names
    """

    def __init__(self, out: Path, identity: dict[str, Any]) -> None:
        self._results, self._stores = out / _RESULTS, out / _STORES
        self.seconds: dict[str, float] = {}
        self.recalled: list[str] = []
        self._inside = 0.0  # seconds of stages that were done in the middle of the present one
        mark = out / _MARK
        wanted = json.dumps(identity, indent=2, ensure_ascii=False) + "\n"
        if mark.is_file():
            if mark.read_text(encoding="utf-8") != wanted:
                mark.unlink()
                for directory in (self._results, self._stores):
                    shutil.rmtree(directory, ignore_errors=True)
        elif taken := next((d for d in (self._results, self._stores) if d.exists()), None):
            raise InputError(f"{taken} is there already and not of the demonstration: choose another --out.")
        with atomic_write(mark) as temporary:
            temporary.write_text(wanted, encoding="utf-8")
        self._earlier = {path.stem for path in self._results.glob("*.json")}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """A stage that knows by itself whether it is done."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = round(time.perf_counter() - start, 1)

    def recall(self, stage: str, kind: Any, work: Callable[[], T]) -> T:
        """The result of a stage: as an earlier run left it, or by doing the work. kind: its type"""
        path = self._results / f"{stage}.json"
        adapter = TypeAdapter(dict[str, Any])
        result = TypeAdapter(kind)
        if path.is_file():
            try:
                kept = adapter.validate_json(path.read_bytes())
                value = result.validate_python(kept["result"])
                self.seconds[stage] = float(kept["seconds"])
                if stage in self._earlier:  # and not by a process beside this one
                    self.recalled.append(stage)
                return value
            except (ValidationError, KeyError, ValueError, TypeError):
                pass  # damaged: done again
        start, outside = time.perf_counter(), self._inside
        self._inside = 0.0
        value = work()
        spent = time.perf_counter() - start
        self.seconds[stage] = round(spent - self._inside, 1)
        self._inside = outside + spent
        kept = {"seconds": self.seconds[stage], "result": result.dump_python(value, mode="json")}
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(kept, ensure_ascii=False) + "\n", encoding="utf-8")
        return value

    def store(
        self, name: str, backbone: Backbone, sentences: list[Pair] | list[Utterance], progress: bool
    ) -> Datastore:
        """The datastore of these sentences, built unless it is there. They are read or heard, by what they are."""
        path = self._stores / name
        if not path.exists():
            kind = "speech" if isinstance(sentences[0], Utterance) else "text"
            path.parent.mkdir(parents=True, exist_ok=True)
            Datastore.build_from(backbone, Source(name, sentences, kind), path, BuildOptions(progress=progress))
        return Datastore.open(path, backbone)


def code_digest() -> str:
    """Changes with the sources that results depend on: those of other code are not to be shown as this one's."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for source in sorted(source for pattern in _DECIDING for source in package.glob(pattern)):
        digest.update(str(source.relative_to(package)).encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]
