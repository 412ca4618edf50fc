"""Servers as processes of their own, and clients that keep them busy."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import psutil

TIMEOUT = 600.0  # seconds


@dataclass(frozen=True)
class Served:
    """A server that listens. fields: of every request"""

    url: str
    process: psutil.Process
    fields: Mapping[str, str]

    def worked(self) -> float:
        """Seconds of the processor so far."""
        times = self.process.cpu_times()
        return times.user + times.system


@dataclass(frozen=True)
class Load:
    """What so many clients found. seconds: by the clock, for all requests; worked: of the server's processor time;
    latencies: of every request, in seconds"""

    seconds: float
    worked: float
    latencies: tuple[float, ...]

    @property
    def throughput(self) -> float:
        """Requests a second."""
        return len(self.latencies) / self.seconds

    @property
    def work(self) -> float:
        """Seconds of the processor for a request."""
        return self.worked / len(self.latencies)


@contextmanager
def serving(module: str, *arguments: object, threads: int, fields: Mapping[str, str]) -> Iterator[Served]:
    """``python -m MODULE …``, which tells its address on standard output."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert process.stdout is not None
        found = next((m for line in process.stdout if (m := re.search(r"http://\S+:\d+", line))), None)
        if found is None:
            raise RuntimeError(f"{module} did not start: {process.wait()}")
        yield Served(found[0].replace("localhost", "127.0.0.1"), psutil.Process(process.pid), fields)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT)


def load(served: Served, clips: Sequence[bytes], clients: int) -> Load:
    """All clips, each as a request; a client sends its next one when the last was answered."""
    return asyncio.run(_load(served, clips, clients))


async def _load(served: Served, clips: Sequence[bytes], clients: int) -> Load:
    waiting, latencies = list(reversed(clips)), []
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=served.url, timeout=TIMEOUT, limits=limits) as client:

        async def one() -> None:
            while waiting:
                clip, started = waiting.pop(), time.perf_counter()
                answer = await client.post(
                    "/v1/audio/translations", files={"file": ("clip.wav", clip)}, data=dict(served.fields)
                )
                answer.raise_for_status()
                latencies.append(time.perf_counter() - started)

        started, worked = time.perf_counter(), served.worked()
        await asyncio.gather(*(one() for _ in range(clients)))
        return Load(time.perf_counter() - started, served.worked() - worked, tuple(latencies))
