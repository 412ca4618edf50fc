"""The rows of the table. share: of the time that all of them have"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from tests.faults import audio, concurrency, corrupting, disk, fuzzing, killing, options, recipes, texts
from tests.faults.verdicts import Cases
from tests.faults.world import World


class Trials(NamedTuple):
    share: float
    cases: Callable[[World, Random], Cases]
    cheap: Callable[[World, Random], Cases] | None = None  # where all of them would take long to begin with


ROWS = {
    "audio": Trials(2, audio.cases),
    "tables": Trials(1, texts.tables),
    "memories": Trials(1, texts.memories),
    "glossaries": Trials(1, texts.glossaries),
    "options": Trials(2, options.cases),
    "recipes": Trials(1, recipes.cases),
    "stores": Trials(4, corrupting.stores),
    "models": Trials(3, corrupting.models),
    "again": Trials(2, killing.again, partial(killing.again, cheap=True)),
    "kills": Trials(5, killing.cases, partial(killing.cases, cheap=True)),
    "disk": Trials(5, disk.cases, partial(disk.cases, cheap=True)),
    "small disks": Trials(2, disk.mounted, partial(disk.mounted, cheap=True)),
    "together": Trials(2, concurrency.cases),
    "fuzzing": Trials(3, fuzzing.cases),
    "guided": Trials(3, fuzzing.guided),
}
