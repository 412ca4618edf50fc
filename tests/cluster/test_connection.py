"""Clusters that cannot be used, in a sentence each."""

from __future__ import annotations

import socket

import pytest

from npda.io.errors import InputError

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'npda[cluster]'")

from npda.cluster.connection import check_versions, connected, versions  # noqa: E402


def test_other_versions_are_named():
    check_versions(versions(), versions(), "here")
    theirs = {**versions(), "torch": "1.0", "npda": "0.0.1"}
    with pytest.raises(InputError, match=r"machine there has npda 0\.0\.1 instead of .*, torch 1\.0 instead of"):
        check_versions(versions(), theirs, "there")


@pytest.mark.parametrize("address", ["nowhere", "ray://127.0.0.1:1", "127.0.0.1:x"])
def test_what_is_no_address_is_refused(address: str):
    with pytest.raises(InputError, match=r"is not the address of a cluster: give HOST:PORT"), connected(address):
        pass


def test_an_address_where_nobody_listens_is_refused_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"No Ray cluster answers at {address} \("), connected(address):
            pass


@pytest.mark.slow
def test_a_cluster_of_another_version_is_refused(machines, monkeypatch):
    address = machines.address
    monkeypatch.setattr(ray, "__version__", "1.0.0")
    with pytest.raises(InputError, match=r"runs another version than this machine: .*1\.0\.0"), connected(address):
        pass
