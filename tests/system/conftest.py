"""What system tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from tests.support.drivers.searches import run_here


@pytest.fixture
def call(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The command line in this process and the test's own folder: for a command that nobody kills."""
    return partial(run_here, cwd=tmp_path, capture=capfd)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster that outlives its drivers, as on several machines."""
    head = {"num_cpus": 4, "object_store_memory": 100 * 2**20, "include_log_monitor": False}  # nobody reads its lines
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()
