"""A Ray cluster of several nodes on this machine, for tests that lose one of them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cua.cluster import connect_ray


@contextmanager
def ray_cluster(*cpus: int) -> Iterator[Any]:
    """A head without a CPU, and nodes with so many each; this process joins with none of its own."""
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for num_cpus in cpus:
            cluster.add_node(num_cpus=num_cpus)
        connect_ray(cluster.address)
        deadline = time.monotonic() + 60
        while ray.available_resources().get("CPU", 0.0) < sum(cpus):  # nodes are known before their CPUs are
            assert time.monotonic() < deadline, ray.available_resources()
            time.sleep(0.1)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def lose_node(cluster: Any, node: Any) -> None:
    """Take a node away at once, its workers too: those outlive it for a moment, long enough for one more step."""
    import psutil

    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    workers = raylet.children(recursive=True)
    cluster.remove_node(node, allow_graceful=False)
    for worker in workers:
        try:
            worker.kill()
        except psutil.NoSuchProcess:
            pass
    assert not psutil.wait_procs(workers, timeout=60)[1]
