"""What a request to the audio endpoints asks for: fields of a form, checked one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from npda.corpus.languages import language_code
from npda.decoding.knn.steering import Chosen
from npda.io import limits
from npda.io.errors import InputError
from npda.serving.engine.asks import AUTO, Library, Way
from npda.serving.errors import Refusal
from npda.serving.requests.receiving import Form
from npda.serving.settings import Settings

Task = Literal["translate", "transcribe"]
Names = tuple[str, ...] | Literal["auto"]

ALIAS = "whisper-1"  # a name that many clients have built in: it means the default model
FORMATS = ("json", "text", "srt", "vtt", "verbose_json")
MOST_K = int(limits.K.most)
MOST_PAIRS, MOST_LETTERS = 500, 200  # of a request's own terms

# Fields of OpenAI's that cannot be served, each with what to do instead.
_NOT_SERVED = {
    "keywords": "words that are wanted can be given as `terms`",
    "languages": "say the one that is spoken as `language`",
    "known_speaker_names": "speakers are not told apart here",
    "known_speaker_references": "speakers are not told apart here",
}
_KNOWN = {
    *("file", "model", "language", "prompt", "response_format", "temperature", "timestamp_granularities", "include"),
    *("stream", "chunking_strategy", "stores", "terms", "k", "lambda", "target_language", "explain"),
}


@dataclass(frozen=True)
class Asked:
    """A request. named: the model as the client called it; terms: names of lists, or pairs for this request;
    ignored: fields that are known and make no difference
    """

    task: Task
    named: str
    way: Way
    terms: tuple[str, ...] | tuple[tuple[str, str], ...] = ()
    format: str = "json"
    stream: bool = False
    logprobs: bool = False
    explain: bool = False
    ignored: tuple[str, ...] = ()


def read_request(form: Form, task: Task, settings: Settings, library: Library | None) -> Asked:
    """Everything that can be checked without a model. Whatever cannot be honoured is refused."""
    _only_known(form)
    named = form.one("model")
    if named is None:
        raise Refusal(422, "Say which `model`: GET /v1/models lists them.", "model", "missing")
    model, stores = served(named, settings)
    if (given := _stores(form)) is not None:
        if stores is not None:
            raise Refusal(422, "Name stores in `model` or in `stores`, not in both.", "stores")
        stores = given
    stores = AUTO if stores is None else stores
    check_stores(stores, model, library)
    spoken, written = _language(form, "language"), _language(form, "target_language")
    if task == "transcribe":
        if written is not None and written != spoken:
            raise Refusal(
                422,
                "A transcript is in the language that is spoken: leave out target_language, or POST to "
                "/v1/audio/translations.",
                "target_language",
            )
        stores = () if stores == AUTO else stores
    format = _choice(form, "response_format", FORMATS, "json")
    ignored = ["prompt"] if form.one("prompt") else []
    if _number(form, "temperature", 0, 1):
        ignored.append("temperature")
    logprobs, stream = _logprobs(form, format), _flag(form, "stream")
    _check_times(form, format)
    explain = _flag(form, "explain")
    if explain and format != "verbose_json" and not stream:
        raise Refusal(422, "Explanations come with response_format verbose_json, or with stream.", "explain")
    if stream and format not in ("json", "text"):
        raise Refusal(
            422, f"Events carry plain text: leave out stream, or response_format {format}.", "response_format"
        )
    k, lambda_ = _number(form, "k", 1, MOST_K), _number(form, "lambda", 0, 1)
    if k is not None and k != int(k):
        raise Refusal(422, f"k is a whole number, not {k:g}.", "k")
    chosen = Chosen(None if k is None else int(k), lambda_)
    way = Way(model, spoken, written, stores, chosen)
    return Asked(task, named, way, _terms(form), format, stream, logprobs, explain, tuple(ignored))


def served(named: str, settings: Settings) -> tuple[str, Names | None]:
    """NAME or NAME+STORE+STORE → the model and the stores, None where the name tells of none."""
    default = next(iter(settings.models))
    names = {ALIAS: default, **{name: name for name in settings.models}}
    if named in names:
        return names[named], None
    for name in sorted(names, key=len, reverse=True):  # a served name may have a + in it
        if named.startswith(f"{name}+"):
            stores = named.removeprefix(f"{name}+").split("+")
            if stores in (["auto"], ["none"]):
                return names[name], AUTO if stores == ["auto"] else ()
            return names[name], tuple(dict.fromkeys(stores))
    known = ", ".join(settings.models)
    raise Refusal(404, f"There is no model {named[:100]!r} here; there is {known}.", "model", "model_not_found")


def check_stores(stores: Names, model: str, library: Library | None) -> None:
    """Every store that is named exists and is one of this model."""
    if stores == AUTO or not stores:
        return
    models = {card.name: card.model for card in library.cards()} if library is not None else {}
    for name in stores:
        if name not in models:
            known = ", ".join(sorted(models)) or "none"
            raise Refusal(404, f"There is no store {name[:100]!r} here; there is {known}.", "stores", "store_not_found")
        if models[name] not in ("", model):
            raise Refusal(422, f"The store {name} was made with {models[name]}, not with {model}.", "stores")


def _only_known(form: Form) -> None:
    for name in form.fields:
        plain = name.partition("[")[0]
        if plain in _NOT_SERVED:
            raise Refusal(422, f"{plain} cannot be served: {_NOT_SERVED[plain]}.", plain, "not_served")
        if plain not in _KNOWN or plain == "file":
            reason = "is no file: send it with a file name" if plain == "file" else "is no field of this endpoint"
            raise Refusal(422, f"{plain[:60]!r} {reason}.", plain[:60], "unknown_field")
    for name in form.files:
        if name != "file":
            raise Refusal(422, f"{name[:60]!r} must not be a file.", name[:60])
    if (strategy := form.one("chunking_strategy")) not in (None, "auto") or "chunking_strategy[type]" in form.fields:
        raise Refusal(
            422, f"Recordings are cut at their pauses: chunking_strategy may only be auto, not {strategy!r:.60}.",
            "chunking_strategy", "not_served",
        )  # fmt: skip


def _stores(form: Form) -> Names | None:
    """JSON list, comma-separated names or a repeated field."""
    names = []
    for value in form.fields.get("stores", []):
        parsed = _json(value, "stores") if value.lstrip().startswith("[") else value.split(",")
        if not isinstance(parsed, list) or not all(isinstance(name, str) for name in parsed):
            raise Refusal(422, "stores is a list of names, or auto, or none.", "stores")
        names += [name.strip() for name in parsed if name.strip()]
    if not form.fields.get("stores"):
        return None
    if names in (["none"], []):
        return ()
    if names == [AUTO]:
        return AUTO
    return tuple(dict.fromkeys(names))


def _terms(form: Form) -> tuple[str, ...] | tuple[tuple[str, str], ...]:
    """JSON list of pairs, names of lists, or what openai's client makes of a list of pairs: the texts one by one."""
    flat = form.fields.get("terms[]", [])
    values = [value for value in form.fields.get("terms", []) if value]
    if not values and not flat:
        return ()
    found: list[Any] = []
    for value in values:
        parsed = _json(value, "terms") if value.lstrip().startswith("[") else value.split(",")
        if not isinstance(parsed, list):
            raise Refusal(422, "terms is a list of pairs, or of names of lists.", "terms")
        found += parsed
    if len(flat) % 2:
        raise Refusal(422, "terms has a text that belongs to no pair.", "terms")
    found += [list(pair) for pair in zip(flat[::2], flat[1::2], strict=True)]
    if found and all(isinstance(name, str) and name.strip() for name in found):
        return tuple(dict.fromkeys(name.strip() for name in found))
    return pairs_of(found)


def pairs_of(found: list[Any]) -> tuple[tuple[str, str], ...]:
    """Pairs of words, checked."""
    if len(found) > MOST_PAIRS:
        raise Refusal(422, f"A request may bring {MOST_PAIRS} terms at most: keep a list on the server.", "terms")
    pairs = []
    for pair in found:
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(word, str) for word in pair)):
            raise Refusal(422, 'terms are pairs such as [["cabinet", "Kabinett"]], or names of lists.', "terms")
        source, target = (" ".join(word.split()) for word in pair)
        if not source or not target or max(len(source), len(target)) > MOST_LETTERS:
            raise Refusal(422, f"Both sides of a term have 1 to {MOST_LETTERS} letters.", "terms")
        pairs.append((source, target))
    return tuple(pairs)


def _json(value: str, name: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise Refusal(422, f"{name} is not JSON.", name) from None


def _language(form: Form, name: str) -> str | None:
    return language_of(form.one(name), name)


def language_of(given: str | None, name: str) -> str | None:
    """The code of a language that a field names."""
    if given is None:
        return None
    try:
        return language_code(given[:60])
    except InputError as error:
        raise Refusal(422, str(error), name, "unknown_language") from None


def _choice(form: Form, name: str, choices: tuple[str, ...], default: str) -> str:
    given = form.one(name) or default
    if given not in choices:
        raise Refusal(422, f"{name} is one of {', '.join(choices)}, not {given[:60]!r}.", name)
    return given


def _number(form: Form, name: str, least: float, most: float) -> float | None:
    given = form.one(name)
    if given is None:
        return None
    number = _or_none(float, given)
    if number is None or not math.isfinite(number) or not least <= number <= most:
        raise Refusal(422, f"{name} is a number from {least:g} to {most:g}, not {given[:40]!r}.", name)
    return number


def _or_none(kind: Callable[[str], float], given: str) -> float | None:
    try:
        return kind(given)
    except ValueError:
        return None


def _flag(form: Form, name: str) -> bool:
    given = (form.one(name) or "false").lower()
    if given not in ("true", "false", "1", "0"):
        raise Refusal(422, f"{name} is true or false, not {given[:40]!r}.", name)
    return given in ("true", "1")


def _logprobs(form: Form, format: str) -> bool:
    wanted = {part for value in form.fields.get("include", []) for part in value.split(",") if part}
    if wanted - {"logprobs"}:
        raise Refusal(422, f"include may be logprobs, not {min(wanted - {'logprobs'})[:60]!r}.", "include")
    if wanted and format != "json":
        raise Refusal(422, "logprobs come with response_format json alone.", "include")
    return bool(wanted)


def _check_times(form: Form, format: str) -> None:
    wanted = {part for value in form.fields.get("timestamp_granularities", []) for part in value.split(",") if part}
    if "word" in wanted:
        raise Refusal(
            422, "Times are known by segment, not by word: leave out timestamp_granularities, or ask for segment.",
            "timestamp_granularities", "not_served",
        )  # fmt: skip
    if wanted - {"segment"}:
        raise Refusal(422, "timestamp_granularities may be segment.", "timestamp_granularities")
    if wanted and format != "verbose_json":
        raise Refusal(422, "Times come with response_format verbose_json.", "timestamp_granularities")
