"""A Ray cluster of several machines on this one, for benchmarks; it listens on loopback addresses only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_STORE = 100_000_000  # bytes of shared memory for each machine


@contextmanager
def small_cluster(machines: int, cpus: int = 1) -> Iterator[str]:
    """So many machines with so many processors each, and one without any for the driver. → the cluster's address"""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": _STORE, "include_dashboard": False, "node_ip_address": "127.0.0.2"}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for number in range(machines):
            cluster.add_node(num_cpus=cpus, object_store_memory=_STORE, node_ip_address=f"127.0.0.{3 + number}")
        yield str(cluster.address)
    finally:
        cluster.shutdown()
