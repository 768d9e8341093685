"""What system tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ray.cluster_utils import Cluster


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster that outlives its drivers, as on several machines; joining it also takes less than starting Ray."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "object_store_memory": 100 * 2**20})
    try:
        yield cluster.address
    finally:
        cluster.shutdown()
