"""Logs that machines read: a JSON object a line, with the id of the request it belongs to."""

from __future__ import annotations

import json
import logging
import secrets
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

REQUEST: ContextVar[str] = ContextVar("request", default="")  # the id of the request that is being answered

requests = logging.getLogger("npda.serving.requests")


def new_id() -> str:
    """Of a request. It cannot be guessed, for who has it may correct what was translated."""
    return f"req_{secrets.token_hex(12)}"


class JsonLines(logging.Formatter):
    """time, level, logger, message and, where there are any, request, error and what ``data`` holds."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := REQUEST.get():
            line["request"] = request
        line |= getattr(record, "data", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def write_json_logs(stream: TextIO = sys.stderr, level: int = logging.INFO) -> None:
    """All logs of npda and of the server below it go to one stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("npda", "uvicorn"):
        logging.getLogger(name).setLevel(level)


def log_request(message: str, **data: Any) -> None:
    requests.info(message, extra={"data": data})
