"""npda serve: translations for browsers and programs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.cli.options import (
    Device,
    Language,
    Partial,
    PartReplicas,
    Parts,
    Precision,
    Quiet,
    Ray,
    SourceLanguage,
    Verbose,
    shows_progress,
)
from npda.io.errors import InputError

if TYPE_CHECKING:
    from npda.serving.on_cluster import OnCluster
    from npda.serving.settings import Key, Settings

KEYS = "NPDA_API_KEY"  # in the environment, where no list of processes shows them
FOLDER, MINI = Path("runs/serve"), "mini"  # where the sample is made, and what its model is called
_SHORTEST = 12  # letters of a secret
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model directory, or NAME=DIRECTORY; repeat it for several. The first is the default."),
    ] = None,
    stores: Annotated[Path | None, typer.Option(help="Folder of datastores, which is only read.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for what the server keeps: stores, terms, corrections [default: runs/serve/data]."),
    ] = None,
    examples: Annotated[Path | None, typer.Option(help="Folder of clips to try, with a clips.json.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8765,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:SECRET[:translate]",
            help="A key; with :translate it cannot change stores and terms. Repeat it, or set NPDA_API_KEY "
            "(several with commas), which other users of the machine cannot see.",
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Let other machines in without a key.")] = False,
    origin: Annotated[
        list[str] | None, typer.Option(help="Another site whose pages may call, such as https://example.org.")
    ] = None,
    language: Language = None,
    source_language: SourceLanguage = None,
    idle: Annotated[float, typer.Option(min=0, help="Minutes until an unused model is unloaded; 0: never.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Utterances decoded together.")] = 8,
    queue: Annotated[int, typer.Option(min=1, help="Utterances that may wait; more are refused with 503.")] = 64,
    live: Annotated[int, typer.Option(min=0, help="Connections for live captions at a time.")] = 8,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds a request may take, and as long as it speaks.")] = 300,
    max_upload: Annotated[float, typer.Option(min=0.01, help="Megabytes of one upload.")] = 100,
    max_seconds: Annotated[float, typer.Option(min=1, help="Seconds of audio in one request.")] = 7200,
    int8: Annotated[bool, typer.Option("--int8", help="Compute with 8-bit integers: faster, less exact.")] = False,
    log_content: Annotated[bool, typer.Option("--log-content", help="Write what was said into the log.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Check all options, and stop.")] = False,
    ray: Ray = None,
    replicas: Annotated[int, typer.Option(min=1, max=1000, help="With --ray: servers that translate.")] = 1,
    max_replicas: Annotated[
        int | None, typer.Option(min=1, max=1000, help="With --ray: as many while requests wait [default: --replicas].")
    ] = None,
    replica_cpus: Annotated[
        float, typer.Option(min=0.01, max=1024, help="With --ray: processors of each of them, and of a part.")
    ] = 1,
    parts: Parts = None,
    part_replicas: PartReplicas = 1,
    partial: Partial = False,
    device: Device = "auto",
    precision: Precision = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Serve translations: a page for people, OpenAI's audio endpoints for programs, live captions for both.

    Without --model, it serves the shipped model with a store of parliament and clips to try; they are made on the first
    start. Stop it with Ctrl+C: what was accepted is finished first.

    Clients of OpenAI's API need its address, http://127.0.0.1:8765/v1. docs/serving.md is for those who keep it
    running, docs/api.md for those who write programs.

    With --ray the server runs on a cluster, several times if wanted, and only reads its stores: docs/scaling-out.md.

    Examples:

        npda serve

        npda serve --model runs/demo/model --stores runs/demo/stores

        npda serve --model debates=runs/demo/model --stores runs/demo/stores --data runs/debates --port 9000

        npda serve --model runs/demo/model --host 0.0.0.0 --api-key anna:a-long-secret \\
            --api-key guests:another-secret:translate
    """
    from npda.serving.access import check_binding
    from npda.serving.settings import MEGABYTE, Settings

    if model is None and stores is not None:
        raise InputError("--stores needs the --model that they were made with.")
    home = data or FOLDER / "data"
    models = {MINI: FOLDER / "model"} if model is None else _models(model)
    settings = Settings(
        models=models,
        data=home,
        stores=stores,
        examples=examples,
        host=host,
        port=port,
        keys=_keys(api_key or [], os.environ.get(KEYS, "")),
        open=open_,
        origins=tuple(_origin(one) for one in origin or ()),
        source_language=source_language,
        language=language,
        device=device,
        precision=precision,
        int8=int8,
        batch=batch,
        queue=queue,
        live=live,
        timeout=timeout,
        idle=idle,
        max_upload=round(max_upload * MEGABYTE),
        max_seconds=max_seconds,
        log_content=log_content,
    )
    on_cluster = _on_cluster(ray, replicas, max_replicas, replica_cpus, parts, part_replicas, partial)
    if on_cluster is not None and port == 0:
        raise InputError("A server on a cluster cannot take a free port: name one with --port.")
    check_binding(settings)
    _check_folders(settings, bool(model))
    if check:
        print("Nothing is wrong with these options.")
        return
    if model is None:
        from dataclasses import replace

        from npda.serving.sample import make_sample

        made = make_sample(FOLDER, shows_progress(quiet, verbose))
        settings = replace(settings, models={MINI: made.model}, stores=made.stores, examples=examples or made.examples)
    _run(settings, on_cluster, model is None, quiet)


def _on_cluster(
    ray: str | None,
    replicas: int,
    most: int | None,
    cpus: float,
    parts: int | None,
    part_replicas: int,
    partial: bool,
) -> OnCluster | None:
    if ray is None:
        if (replicas, most, cpus, parts, part_replicas, partial) != (1, None, 1, None, 1, False):
            raise InputError(
                "--replicas, --max-replicas, --replica-cpus, --parts, --part-replicas and --partial are for a cluster: "
                "give --ray ADDRESS too."
            )
        return None
    if most is not None and most < replicas:
        raise InputError(f"--max-replicas {most} is less than --replicas {replicas}.")
    from npda.cluster.search import SearchOnCluster
    from npda.serving.on_cluster import OnCluster

    return OnCluster(ray, SearchOnCluster(parts, part_replicas, partial, cpus), replicas, most, cpus)


def _run(settings: Settings, on_cluster: OnCluster | None, is_sample: bool, quiet: bool) -> None:
    from npda.serving.app import create_app
    from npda.serving.listening import listen
    from npda.serving.logs import write_json_logs

    def tell(port: int) -> None:
        if quiet:
            return
        shown = "localhost" if settings.host in ("127.0.0.1", "::1", "0.0.0.0", "::") else settings.host  # noqa: S104 (only shown)
        print(f"npda serves {', '.join(settings.models)} on http://{shown}:{port}", flush=True)
        if is_sample:
            print(
                "Open it and click an example: the store of parliament changes words. Ctrl+C ends it.",
                flush=True,
            )

    write_json_logs()
    if on_cluster is not None:
        from npda.serving.on_cluster import serve_on

        serve_on(on_cluster, settings, tell)
        return
    listen(create_app(settings), settings.host, settings.port, tell)


def _models(given: list[str]) -> dict[str, Path]:
    """NAME=DIRECTORY, or a directory, which is called by its last part."""
    found: dict[str, Path] = {}
    for one in given:
        name, equals, place = one.partition("=")
        if not equals:
            name, place = Path(one).resolve().name, one
        if not _NAME.fullmatch(name):
            raise InputError(
                f"A model cannot be called {name!r}: use letters, digits, points, hyphens and underscores, as in "
                f"--model NAME={place or 'DIRECTORY'}."
            )
        if name in found:
            raise InputError(f"Two models are called {name}: give them names, as in --model NAME={place}.")
        found[name] = Path(place)
    return found


def _keys(given: list[str], environment: str) -> tuple[Key, ...]:
    from npda.serving.settings import Key

    keys: list[Key] = []
    for one in [*given, *(part.strip() for part in environment.split(",") if part.strip())]:
        name, colon, rest = one.partition(":")
        secret, _, right = rest.partition(":")
        if not colon or not _NAME.fullmatch(name) or right not in ("", "translate"):
            raise InputError("A key is NAME:SECRET or NAME:SECRET:translate; the secret has no colon or comma in it.")
        if len(secret) < _SHORTEST or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise InputError(
                f"The secret of the key {name} needs at least {_SHORTEST} letters or digits, and no spaces."
            )
        if any(key.name == name or key.secret == secret for key in keys):
            raise InputError(f"The key {name} is given twice: every key needs its own name and secret.")
        keys.append(Key(name, secret, right != "translate"))
    return tuple(keys)


def _origin(given: str) -> str:
    if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d+)?/?", given):
        raise InputError(f"{given} is not an origin: give a scheme and a host, such as https://example.org.")
    return given.rstrip("/")


def _check_folders(settings: Settings, own: bool) -> None:
    """What can be seen without loading anything."""
    from npda.models.hub import model_directory

    for name, place in settings.models.items() if own else ():
        if not (model_directory(place) / "config.json").is_file():
            raise InputError(f"{place} is not a model directory ({name}): it has no config.json.")
    if settings.stores is not None and not settings.stores.is_dir():
        raise InputError(f"There is no folder {settings.stores}; build stores into it with `npda build`.")
    if settings.data.exists() and not settings.data.is_dir():
        raise InputError(f"{settings.data} is a file; give a folder with --data.")
    if settings.examples is not None and not (settings.examples / "clips.json").is_file():
        raise InputError(f"{settings.examples} has no clips.json.")
