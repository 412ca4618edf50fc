"""Answers of the audio endpoints, in OpenAI's shapes and with what is npda's own beside them."""

from __future__ import annotations

import io
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from npda.explanation.records import Explanation
from npda.serving.requests.asking import Asked
from npda.writers import Result, Segment, write

MEDIA = {"text": "text/plain", "srt": "application/x-subrip", "vtt": "text/vtt"}
_TOKENS = 10  # audio tokens a second, as OpenAI counts them


def joined(segments: Sequence[Segment]) -> str:
    return " ".join(text for segment in segments if (text := segment.text.strip()))


def as_text(asked: Asked, segments: Sequence[Segment], name: str) -> str:
    """text, srt or vtt. name: of the recording"""
    if asked.format == "text":
        return joined(segments) + "\n"
    stream = io.StringIO()
    write([Result(name, segments)], asked.format, stream)
    return stream.getvalue()


def as_json(
    segments: Sequence[Segment], seconds: float, logprobs: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    found = {"logprobs": list(logprobs)} if logprobs is not None else {}
    return {"text": joined(segments), **found, "usage": duration(seconds)}


def as_verbose_json(
    asked: Asked,
    segments: Sequence[Segment],
    seconds: float,
    request_id: str,
    language: str,
    explanations: Sequence[Explanation | None] | None = None,
) -> dict[str, Any]:
    """language: of the text for translations, of the speech for transcripts; both as OpenAI has it"""
    parts = [_segment(place, segment) for place, segment in enumerate(segments)]
    for part, explanation in zip(parts, explanations or (), strict=explanations is not None):
        part["explanation"] = None if explanation is None else json.loads(explanation.to_json())
    stores = asked.way.stores
    return {
        "task": asked.task,
        "language": language,
        "duration": round(seconds, 3),
        "text": joined(segments),
        "segments": parts,
        "usage": duration(seconds),
        "request_id": request_id,
        "model": asked.way.model,
        "stores": stores if isinstance(stores, str) else list(stores),
    }


def _segment(place: int, segment: Segment) -> dict[str, Any]:
    """Times are of the whole recording. Silence is left out before, so that no_speech_prob is always 0."""
    data = segment.text.encode()
    return {
        "id": place,
        "seek": round(segment.start * 100),
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": 0.0,
        "avg_logprob": _finite(segment.avg_logprob),
        "compression_ratio": round(len(data) / len(zlib.compress(data)), 4) if data else 1.0,
        "no_speech_prob": 0.0,
        "stores": {name: round(weight, 4) for name, weight in segment.stores},
        "terms": [dict(term) for term in segment.terms],
        "retried": segment.retried,
        **({"partial": True} if segment.partial else {}),
    }


def duration(seconds: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": round(seconds, 3)}


def tokens(seconds: float, segments: Sequence[Segment]) -> dict[str, Any]:
    """Usage as the last event of a stream has it: ten tokens for a second of audio, and those that were written."""
    heard, written = math.ceil(seconds * _TOKENS), sum(len(segment.tokens) for segment in segments)
    return {
        "type": "tokens",
        "input_tokens": heard,
        "output_tokens": written,
        "total_tokens": heard + written,
        "input_token_details": {"audio_tokens": heard, "text_tokens": 0},
    }


def event(data: Mapping[str, Any]) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n"


def delta(segment: Segment, first: bool, place: int) -> dict[str, Any]:
    """The text of a segment, and beside it what npda knows of it."""
    text = segment.text.strip()
    about = {
        name: value for name, value in asdict_of(segment).items() if name not in ("text", "score", "nbest", "heard")
    }
    return {"type": "transcript.text.delta", "delta": text if first else f" {text}", "segment": {"id": place, **about}}


def asdict_of(segment: Segment) -> dict[str, Any]:
    found = asdict(segment)
    found["stores"] = {name: round(weight, 4) for name, weight in segment.stores}
    found["start"], found["end"] = round(segment.start, 3), round(segment.end, 3)
    return found


def _finite(number: float | None) -> float:
    """JSON has no infinity, and OpenAI's clients want a number."""
    return round(number, 4) if number is not None and math.isfinite(number) else 0.0
