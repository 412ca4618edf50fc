"""Chromium without a window, spoken to over a pipe (DevTools protocol): how wide a page really is on a phone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 300.0  # seconds
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync",
          "--disable-background-networking", "--disable-dev-shm-usage", "--remote-debugging-pipe")  # fmt: skip


class Browser:
    """One tab. Use it as a context manager."""

    def __enter__(self) -> Browser:
        assert PROGRAM is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        inward, self._out = os.pipe()
        self._in, outward = os.pipe()

        def pipes() -> None:
            """Chromium reads from 3 and writes to 4; by way of high numbers, so that none overwrites another."""
            high = [os.dup2(fd, place) for fd, place in ((inward, 100), (outward, 101))]
            for fd, place in zip(high, (3, 4), strict=True):
                os.dup2(fd, place)

        command = [PROGRAM, *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=quiet, stderr=quiet, preexec_fn=pipes, close_fds=False)
        os.close(inward)
        os.close(outward)
        self._reader = os.fdopen(self._in, "rb")
        self._rest, self._number, self._session, self._events = b"", 0, "", set()
        # A browser that hangs is killed, and the next answer is missing.
        self._watch = threading.Timer(PATIENCE, self._process.kill)
        self._watch.start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.cancel()
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        self._reader.close()
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": parameters, **session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = self._reader.read1(1 << 16)
            assert piece, "the browser has gone"
            self._rest += piece
        message, self._rest = self._rest.split(b"\0", 1)
        received = json.loads(message)
        self._events.add(received.get("method"))
        return received

    def open(self, page: Path, width: int, dark: bool = False) -> None:
        """Show a page on a screen of so many CSS pixels."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self._events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._receive()

    def value(self, expression: str) -> Any:
        """What a line of JavaScript gives."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self, path: Path, height: int | None = None) -> None:
        """As PNG. height: from the top; None: the whole page"""
        width, whole = (self.value(f"document.documentElement.{side}") for side in ("clientWidth", "scrollHeight"))
        clip = {"x": 0, "y": 0, "width": width, "height": height or whole, "scale": 1}
        answer = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))
