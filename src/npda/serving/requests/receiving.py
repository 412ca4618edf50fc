"""Uploads: received under limits into files that are always removed.

A part with a file goes to ``DATA/uploads`` piece by piece, under a name of our own; fields stay in memory and are
small. What all requests together may hold is limited too, so that no client can fill the disk.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from npda.serving.errors import Refusal
from npda.serving.settings import MEGABYTE, Settings

UPLOADS = "uploads"
BESIDE = 4 * MEGABYTE  # bytes of a body beside its file: other fields, and what separates them
_FIELD, _FIELDS = MEGABYTE, 100  # bytes of a field, and number of parts
_WRITE = MEGABYTE  # bytes that are written at a time
_PAUSE = 20.0  # seconds without a byte after which a client counts as gone
_GRACE, _SLOWEST = 60.0, 8 * 1024  # seconds, and bytes a second after them: who is slower holds a place for too long
FREE = 256 * MEGABYTE  # bytes of the disk that are never used
_TOGETHER = 16  # uploads of the largest size that may be held at once


def limited(receive: Receive, most: int) -> Receive:
    """As ``receive``, until a body is too large or comes too slowly: then a Refusal."""
    start, received, complete = time.monotonic(), 0, False

    async def next_message() -> Message:
        nonlocal received, complete
        if complete:
            return await receive()  # waits for the client to go
        left = start + _GRACE + received / _SLOWEST - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, min(_PAUSE, left))):
                message = await receive()
        except TimeoutError:
            raise Refusal(408, "The request came too slowly: send it again.", code="too_slow") from None
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > most:
                raise too_large(most)
        return message

    return next_message


def too_large(most: int) -> Refusal:
    return Refusal(
        413, f"An upload may have {most / MEGABYTE:.0f} MB at most here: send less, or compressed.", code="too_large"
    )


class Room:
    """How much all requests may hold at a time of something, such as bytes of uploads."""

    def __init__(self, size: float, what: str) -> None:
        self.left, self._what = size, what
        self._lock = threading.Lock()

    def take(self, amount: float) -> None:
        with self._lock:
            if amount <= self.left:
                self.left -= amount
                return
        raise Refusal(503, f"{self._what} just now: try again in a moment.", code="busy", headers={"Retry-After": "10"})

    def give_back(self, amount: float) -> None:
        with self._lock:
            self.left += amount

    @contextmanager
    def taken(self) -> Iterator[Share]:
        """A share that grows, and is given back whole."""
        share = Share(self)
        try:
            yield share
        finally:
            self.give_back(share.amount)


@dataclass
class Share:
    room: Room
    amount: float = 0.0

    def grow(self, amount: float) -> None:
        self.room.take(amount)
        self.amount += amount


@dataclass
class Upload:
    """A file that was sent. path: where it lies for as long as the request lasts; name: the client's, for sentences"""

    path: Path
    name: str
    kind: str
    size: int = 0


@dataclass
class Form:
    """fields: all values of each name, without a ``[]`` at its end; files: by the names of their fields"""

    fields: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, Upload] = field(default_factory=dict)

    def file(self, name: str = "file") -> Upload:
        if name not in self.files:
            raise Refusal(422, f"Send the file itself as the form field {name!r}, with a file name.", name, "missing")
        return self.files[name]

    def one(self, name: str) -> str | None:
        """The value of a field that may be given once. An empty one counts as none."""
        values = self.fields.get(name, [])
        if len(values) > 1:
            raise Refusal(422, f"Give {name} once, not {len(values)} times.", name)
        return values[0] if values and values[0] else None


class Uploads:
    """The folder for what is being received. What a server left there that died is removed."""

    def __init__(self, settings: Settings) -> None:
        self.folder, self.most = settings.data / UPLOADS, settings.max_upload
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._room = Room(_TOGETHER * self.most, "Too much is being uploaded")

    @asynccontextmanager
    async def form(self, request: Request, most: int | None = None) -> AsyncIterator[Form]:
        """Receive a multipart form; its files are there until the context ends. most: bytes of a file"""
        most = self.most if most is None else most
        kind, options = parse_options_header(request.headers.get("content-type", ""))
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise Refusal(
                415, "Send a form with a file (Content-Type: multipart/form-data, with a boundary).", code="no_form"
            )
        if int(request.headers.get("content-length") or 0) > most + BESIDE:
            raise too_large(most)
        if shutil.disk_usage(self.folder).free < FREE:
            raise Refusal(503, "The server's disk is full: try again later.", code="disk_full")
        with self._room.taken() as share:
            reader = _Reader(self.folder, most, share)
            try:
                try:
                    parser = MultipartParser(options[b"boundary"], reader.callbacks())
                    async for chunk in request.stream():
                        parser.write(chunk)
                        if reader.unwritten >= _WRITE:
                            await asyncio.to_thread(reader.flush)
                    parser.finalize()
                except (FormParserError, ValueError) as error:
                    raise Refusal(400, f"The form cannot be read: {_sentence(error)}.", code="bad_form") from None
                except ClientDisconnect:
                    raise Refusal(400, "The upload was broken off.", code="broken_off") from None
                if not reader.ended:
                    raise Refusal(400, "The form is cut off: its last boundary is missing.", code="bad_form")
                await asyncio.to_thread(reader.finish)
                yield reader.form
            finally:
                reader.remove()


class _Reader:
    """Takes a form apart as it comes."""

    def __init__(self, folder: Path, most: int, share: Share) -> None:
        self.form, self.ended, self.unwritten = Form(), False, 0
        self._folder, self._most, self._share = folder, most, share
        self._field, self._value = bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._part = self._beside = 0
        self._name = ""
        self._upload: Upload | None = None
        self._files: list[BinaryIO] = []
        self._waiting: list[tuple[BinaryIO, bytes]] = []

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._header,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finished,
        }

    def flush(self) -> None:
        """Write what has come."""
        waiting, self._waiting, self.unwritten = self._waiting, [], 0
        for file, data in waiting:
            file.write(data)

    def finish(self) -> None:
        self.flush()
        for file in self._files:
            file.close()

    def remove(self) -> None:
        for file in self._files:
            file.close()
        for upload in self.form.files.values():
            upload.path.unlink(missing_ok=True)

    def _begin(self) -> None:
        self._part += 1
        if self._part > _FIELDS:
            raise Refusal(422, f"A form may have {_FIELDS} fields at most.", code="too_many_fields")
        self._headers, self._value, self._field, self._upload = {}, bytearray(), bytearray(), None

    def _header(self) -> None:
        self._headers[bytes(self._field).lower()] = bytes(self._value)
        self._field, self._value = bytearray(), bytearray()

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        if b"name" not in options:
            raise Refusal(400, "A part of the form has no name.", code="bad_form")
        self._name = options[b"name"].decode("utf-8", "replace").removesuffix("[]")
        self._value = bytearray()
        if b"filename" in options:
            if self._name in self.form.files:
                raise Refusal(422, f"Send one file as {self._name[:60]!r}, not several.", "file")
            kind = self._headers.get(b"content-type", b"").decode("latin-1")
            path = self._folder / secrets.token_hex(16)
            self._upload = self.form.files[self._name] = Upload(path, shown(options[b"filename"]), kind)
            self._files.append(open(path, "xb"))  # noqa: SIM115  closed with the form

    def _data(self, data: bytes, start: int, end: int) -> None:
        size = end - start
        if self._upload is not None:
            self._upload.size += size
            if self._upload.size > self._most:
                raise too_large(self._most)
            self._share.grow(size)
            self._waiting.append((self._files[-1], data[start:end]))
            self.unwritten += size
            return
        self._beside += size
        if len(self._value) + size > _FIELD or self._beside > BESIDE:
            raise Refusal(413, f"The field {self._name[:60]!r} is too long.", self._name[:60], "too_large")
        self._value.extend(data[start:end])

    def _end(self) -> None:
        if self._upload is None:
            try:
                value = self._value.decode("utf-8")
            except UnicodeDecodeError:
                raise Refusal(422, f"The field {self._name[:60]!r} is not UTF-8.", self._name[:60]) from None
            self.form.fields.setdefault(self._name, []).append(value)

    def _finished(self) -> None:
        self.ended = True


def shown(name: bytes) -> str:
    """A client's file name as sentences may show it. It is never used as a path."""
    plain = re.split(r"[\\/]", name.decode("utf-8", "replace"))[-1]
    return "".join(c for c in plain if c.isprintable())[:80].strip() or "the file"


def _sentence(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error))[:200].rstrip(".") or "it is no multipart form"
