"""A cluster that starts nodes by itself is waited for; one without an autoscaler is refused at once."""

from __future__ import annotations

import sys
from subprocess import CalledProcessError, TimeoutExpired
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tausearch.cluster import waiting
from tausearch.cluster.waiting import on_its_way, starts_nodes, wait_for_node
from tausearch.runs import Resources
from trainables.errors import InputError

STATUS = """======== Autoscaler status: 2026-11-25 19:09:40.490092 ========
Node status
---------------------------------------------------------------
Active:
{active}
Pending:
{pending}
Recent failures:
 (no failures)

Resources
---------------------------------------------------------------
Total Usage:
 0.0/2.0 CPU
"""
STATIC = STATUS.format(active=f" 1 node_{'5f' * 28}", pending=" (no pending nodes)")
IDLE = STATUS.format(active=" 1 head", pending=" (no pending nodes)")
STARTING = STATUS.format(active=f" 1 node_{'5f' * 28}\n 1 ray.head.default", pending=" gpu, 1 launching")
TRIAL = Resources(cpus_per_trial=2, gpus_per_trial=0.5)
LACK = "a trial needs 0.5 GPU, the cluster has 0 in all"


def test_nodes_of_an_autoscaler_have_types_with_names() -> None:
    assert [starts_nodes(each) for each in (STATIC, IDLE, STARTING, "")] == [False, True, True, False]
    assert [on_its_way(each) for each in (STATIC, IDLE, STARTING, "")] == [False, False, True, False]


@pytest.mark.parametrize("error", [FileNotFoundError(), CalledProcessError(1, "ray"), TimeoutExpired("ray", 60)])
def test_a_status_that_cannot_be_read_says_nothing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = SimpleNamespace(gcs_address="192.0.2.1:6379")
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get_runtime_context=lambda: joined))
    monkeypatch.setattr("subprocess.run", Mock(side_effect=error))
    assert waiting.ray_status() == ""


class FakeRay:
    """A Ray whose node is there after some looks; a look takes 50 s."""

    def __init__(self, looks: int, patch: pytest.MonkeyPatch) -> None:
        self.looks, self.wanted, self.cancelled, self.clock = looks, {}, False, 0.0  # type: ignore[var-annotated]
        patch.setitem(sys.modules, "ray", self)  # type: ignore[arg-type]
        patch.setattr(waiting.time, "monotonic", lambda: self.clock)

    def remote(self, function: object) -> Any:
        def options(**wanted: float) -> Any:
            self.wanted = wanted
            return SimpleNamespace(remote=lambda: "there")

        return SimpleNamespace(options=options)

    def wait(self, tasks: list[str], timeout: float) -> tuple[list[str], list[str]]:
        self.looks, self.clock = self.looks - 1, self.clock + 50.0
        return (tasks, []) if self.looks < 0 else ([], tasks)

    def cancel(self, task: str) -> None:
        self.cancelled = True


def waited(statuses: list[str], looks: int, patch: pytest.MonkeyPatch) -> tuple[FakeRay, list[str]]:
    """Wait while `ray status` says one text after another, the last one for ever."""
    fake, said = FakeRay(looks, patch), list[str]()
    patch.setattr(waiting, "ray_status", lambda: statuses.pop(0) if len(statuses) > 1 else statuses[0])
    try:
        wait_for_node(TRIAL, LACK, said.append, lambda: None)
    except InputError as error:
        said.append(f"refused: {error}")
    return fake, said


def test_a_node_that_comes_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, said = waited([IDLE, IDLE, STARTING], 9, monkeypatch)
    assert said == [f"{LACK}: waiting until its autoscaler has started a node that fits a trial"]
    assert fake.looks == -1 and fake.wanted == {"num_cpus": 2, "num_gpus": 0.5} and not fake.cancelled


def test_no_cluster_is_waited_for_that_starts_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, said = waited([STATIC], 9, monkeypatch)
    assert said == [f"refused: {LACK}"] and fake.looks == 9
    fake, said = waited([IDLE, STARTING, IDLE], 99, monkeypatch)
    assert said[1:] == [f"refused: {LACK}, and its autoscaler starts no node that fits a trial"]
    assert fake.cancelled and fake.clock == 200.0  # the node was seen at 50 s


def test_a_check_between_two_looks_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(99, monkeypatch)
    monkeypatch.setattr(waiting, "ray_status", lambda: STARTING)
    with pytest.raises(KeyboardInterrupt):
        wait_for_node(TRIAL, LACK, print, Mock(side_effect=[None, KeyboardInterrupt]))
    assert fake.clock == 100.0
