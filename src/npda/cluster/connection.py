"""The way into a Ray cluster, and one sentence for everything that can be wrong with it."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from npda import __version__
from npda.io.errors import InputError

NAMESPACE = "npda"
_PATIENCE = 5.0  # seconds for a cluster to answer a connection
_PACKAGES = ("ray", "torch", "faiss-cpu", "numpy")  # whose versions decide what is computed, or how it is sent


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Be a driver of the cluster at HOST:PORT, or at the one that runs on this machine, "auto"."""
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray: install it with `pip install 'npda[cluster]'`.") from None
    if ray.is_initialized():  # somebody around us has done it
        yield
        return
    options = _reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # we have our own sentences
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
            **options,
        )
    except ConnectionError:
        raise InputError(f"No Ray cluster answers at {address}: start one with `ray start --head`.") from None
    except (RuntimeError, ValueError) as error:
        raise InputError(_why(address, error)) from None
    try:
        yield
    finally:
        ray.shutdown()


def versions() -> dict[str, str]:
    """What has to be the same on all machines."""
    return {"npda": __version__, **{package: version(package) for package in _PACKAGES}}


def check_versions(ours: dict[str, str], theirs: dict[str, str], node: str) -> None:
    different = [f"{name} {theirs.get(name)} instead of {wanted}" for name, wanted in ours.items()
                 if theirs.get(name) != wanted]  # fmt: skip
    if different:
        raise InputError(f"The machine {node} has {', '.join(different)}: install the same versions everywhere.")


def original(error: Exception) -> Exception:
    """What a worker raised, without what Ray wraps around it."""
    return getattr(error, "cause", None) or error


def sentence(error: Exception, node: str) -> InputError | None:
    """A fault on another machine as a sentence; None for a fault of the program."""
    cause = original(error)
    if isinstance(cause, InputError):
        return InputError(str(cause))
    if isinstance(cause, OSError):
        place = f" at {cause.filename}" if cause.filename else ""
        return InputError(
            f"The machine {node} cannot go on{place}: {cause.strerror or cause}; what is finished is kept, start "
            "again when it can."
        )
    return None


def _reachable(address: str) -> dict[str, Any]:
    """Refuse an address at once where nobody listens: Ray would try for minutes."""
    if address == "auto":
        return {}
    host, colon, port = address.rpartition(":")
    if address.startswith("ray://") or not colon or not port.isdecimal():
        raise InputError(
            f"{address} is not the address of a cluster: give HOST:PORT, as `ray start` prints it, or auto."
        )
    try:
        with socket.create_connection((host, int(port)), _PATIENCE):
            pass
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"No Ray cluster answers at {address} ({reason}): start one with `ray start --head`, and this machine's "
            f"part of it with `ray start --address {address}`."
        ) from None
    # Ray looks for its own part of the cluster under the address by which others see this machine.
    return {"_node_ip_address": host} if _is_loopback(host) else {}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _why(address: str, error: Exception) -> str:
    text = " ".join(str(error).split())
    if "ersion mismatch" in text:
        return f"The cluster at {address} runs another version than this machine: {text.split('mismatch: ', 1)[-1]}"
    return f"The cluster at {address} cannot be used from this machine: {text[:300]}"
