"""A cluster whose head is gone, and a raylet that has died, are noticed and told once."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.cluster import head_watched, nodes_watched, raylet_watched, watches


def test_a_head_that_does_not_answer_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(watches, "_EVERY", 0.05)
    said: list[str] = []
    head = socket.create_server(("127.0.0.1", 0))
    port = head.getsockname()[1]
    with head_watched(f"ray://127.0.0.1:{port}", said.append, "tausearch resume s"):
        for _ in range(6):  # for longer than it may be silent, the head answers
            head.accept()[0].close()
        assert not said
        (watcher,) = (thread for thread in threading.enumerate() if thread.name == "cluster-head")
        head.close()
        watcher.join(120)  # having said it, it is done
        assert not watcher.is_alive()
    assert len(said) == 1
    assert f"127.0.0.1:{port}, does not answer" in said[0] and said[0].endswith("tausearch resume s")


def test_silence_is_counted_anew_after_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(watches, "_EVERY", 1.0)
    answers = iter([False, True, False, True, False, False, True])
    monkeypatch.setattr(watches, "_answers", lambda address: next(answers))
    said: list[str] = []

    class Never(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return False

    watches._watch_head("192.0.2.1:1", said.append, "tausearch resume s", Never())
    assert len(said) == 1 and list(answers) == [True]


@pytest.mark.parametrize("error", [ConnectionRefusedError(), TimeoutError(), OSError(113, "No route to host")])
def test_a_head_that_cannot_be_reached_does_not_answer(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("socket.create_connection", fail)
    assert not watches._answers("192.0.2.1:6379")


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A child of this process that is called what Ray calls its own."""
    monkeypatch.setattr(watches, "_EVERY", 0.02)
    monkeypatch.setattr(watches, "GRACE_SECONDS", 0.1)
    sleep = shutil.copy(shutil.which("sleep") or "sleep", tmp_path / "raylet")
    with subprocess.Popen([sleep, "1000"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("reaped", [True, False])
def test_the_death_of_one_of_two_raylets_is_told(running: subprocess.Popen[bytes], reaped: bool) -> None:
    told = threading.Event()
    with subprocess.Popen(running.args) as other, raylet_watched(told.set):
        assert not told.wait(0.3)
        other.kill()
        if reaped:
            other.wait()
        assert told.wait(60)


def test_a_raylet_that_goes_after_the_block_is_in_order(running: subprocess.Popen[bytes]) -> None:
    told = threading.Event()
    with raylet_watched(told.set):
        running.kill()  # Ray's own shutdown follows at once
    assert not told.wait(0.5)


def test_the_death_of_another_child_is_not_told(running: subprocess.Popen[bytes]) -> None:
    told = threading.Event()
    with subprocess.Popen(["sleep", "1000"]) as other, raylet_watched(told.set):
        other.kill()
        assert not told.wait(0.5)


def test_a_head_that_is_given_by_its_own_address_is_not_asked_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(watches, "_head_address", lambda: "192.0.2.9:9")
    monkeypatch.setattr(watches, "_EVERY", 0.0)

    class Once(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return len(asked) == 1

    monkeypatch.setattr(watches, "_answers", lambda address: asked.append(address) is None)
    for address in ("192.0.2.1:1", None):
        asked.clear()
        watches._watch_head(address, print, "tausearch resume s", Once())
        assert asked == [address or "192.0.2.9:9"]


def test_a_head_has_no_address_before_this_process_has_joined_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    assert watches._head_address() is None  # Ray's own answer is an error


def test_the_head_of_the_cluster_that_this_process_has_joined_may_be_on_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(gcs_address="192.0.2.1:6379"))
    assert watches._head_address() == "192.0.2.1:6379"


def node(number: int, *, alive: bool = True) -> dict[str, Any]:
    address = f"192.0.2.{number}"
    return {"NodeID": f"{number}" * 56, "Alive": alive, "NodeManagerHostname": "w", "NodeManagerAddress": address}


def test_a_node_that_leaves_or_joins_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = map(node, (1, 2, 3))
    seen = iter([[one, two], [one, two], [one, node(2, alive=False)], OSError("no head"), [one, three], [one, three]])

    def nodes() -> list[dict[str, Any]]:
        found = next(seen, [one, three])
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(watches, "_NODES_EVERY", 0.001)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(nodes=nodes))
    said: list[str] = []
    told = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            told.set()

    with nodes_watched(say):
        assert told.wait(60)
    assert said == [
        "node w (192.0.2.2, Ray's 22222222) has left the cluster; its trials go on from their last task once a"
        " node has room",
        "node w (192.0.2.3, Ray's 33333333) has joined the cluster",
    ]
    assert not any(thread.name == "cluster-nodes" for thread in threading.enumerate())


def test_nodes_of_a_head_that_did_not_answer_at_first_have_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([[], [node(1)], [node(1), node(2)]])
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(nodes=lambda: next(seen)))
    said: list[str] = []

    class Twice(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return bool(said)

    watches._watch_nodes(said.append, Twice())
    assert said == ["node w (192.0.2.2, Ray's 22222222) has joined the cluster"]
