"""A cluster of two machines on this one, for all tests here; it listens on loopback addresses only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from child_env import child_env

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

_TRIES = 5
_SMALL: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100_000_000}


def patiently(start: Callable[[], Any]) -> Any:
    """Ray gives a machine 30 seconds to start, which is not enough where much else runs."""
    for _ in range(_TRIES):
        try:
            return start()
        except Exception as error:
            if "timed out" not in str(error):
                raise
    return start()


@dataclass
class Machines:
    """address: of the cluster; the driver is on its first machine, which stays"""

    address: str
    cluster: Any
    added: int = 0

    def add(self, **options: Any) -> Any:
        self.added += 1
        machine = {**_SMALL, **options, "node_ip_address": f"127.0.0.{2 + self.added}"}
        return patiently(lambda: self.cluster.add_node(**machine))

    def kill(self, machine: Any) -> None:
        self.cluster.remove_node(machine, allow_graceful=False)


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    pytest.importorskip("ray", reason="needs Ray: pip install 'npda[cluster]'")
    from ray.cluster_utils import Cluster

    head = {**_SMALL, "num_cpus": 0, "include_dashboard": False, "node_ip_address": "127.0.0.2"}
    os.environ["PYTHONPATH"] = child_env()["PYTHONPATH"]  # workers import helpers of the tests
    cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
    try:
        found = Machines(str(cluster.address), cluster)
        found.add()
        yield found
    finally:
        cluster.shutdown()
