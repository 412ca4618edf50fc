"""Work for the workers of a cluster, in a module that they can import."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any


class EndsOnce:
    """A task that ends its worker the first time, as the kernel would."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def __call__(self, backbone: Any, task: int) -> int:
        if task == 2:
            try:
                (self.marks / "ended").touch(exist_ok=False)
            except FileExistsError:
                return task * task
            os.kill(os.getpid(), signal.SIGKILL)
        return task * task


class Ends:
    def __call__(self, backbone: Any, task: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return task


class FullDisk:
    def __call__(self, backbone: Any, task: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "shards/00000/keys.npy")
