"""A cluster whose head is gone: it is said once, with the command that continues the run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ray.exceptions import AuthenticationError

from tausearch.cluster import head_watch as head_module
from tausearch.cluster import head_watched, ray_session, session
from tausearch.runs import Resources
from trainables.errors import InputError


def test_a_head_that_does_not_answer_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_module, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(head_module, "_EVERY", 0.05)
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
    monkeypatch.setattr(head_module, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(head_module, "_EVERY", 1.0)
    answers = iter([False, True, False, True, False, False, True])
    monkeypatch.setattr(head_module, "_answers", lambda address: next(answers))
    said: list[str] = []

    class Never(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return False

    head_module._watch("192.0.2.1:1", said.append, "tausearch resume s", Never())
    assert len(said) == 1 and list(answers) == [True]


def test_a_ray_of_another_run_is_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.init", lambda **_: None)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 2.0, session._PRIVATE: 1.0})
    resources = Resources(cpus_per_trial=1, gpus_per_trial=0, max_concurrent_trials=None)
    with pytest.raises(InputError, match="another run's own"), ray_session(resources, "auto"):
        pytest.fail("joined")
    with ray_session(resources):
        pass


def test_a_token_that_is_missing_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise AuthenticationError("no authentication token was found. See the manual")

    monkeypatch.setattr("ray.init", refuse)
    resources = Resources(cpus_per_trial=1, gpus_per_trial=0, max_concurrent_trials=None)
    words = "no authentication token was found.*copy its ~/.ray/auth_token"
    with pytest.raises(InputError, match=words) as caught, ray_session(resources, "auto"):
        pytest.fail("joined")
    assert "\n" not in str(caught.value)


def test_a_ray_that_does_not_start_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise Exception("The current node timed out during startup.\nThe raylet failed.")

    monkeypatch.setattr("ray.init", fail)
    resources = Resources(cpus_per_trial=1, gpus_per_trial=0, max_concurrent_trials=None)
    words = (
        r"cannot be started on this machine \(The current node timed out during startup. The raylet failed.\); its logs"
    )
    with pytest.raises(InputError, match=words), ray_session(resources):
        pytest.fail("started")


TOKEN = """
import os
from tausearch.cluster import ray_session
from tausearch.runs import Resources
with ray_session(Resources(cpus_per_trial=1, gpus_per_trial=0, max_concurrent_trials=None)):
    print(os.environ["RAY_AUTH_MODE"])
"""


@pytest.mark.slow
def test_a_ray_of_our_own_asks_for_a_token(tmp_path: Path) -> None:
    unset = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-c", TOKEN]
    done = subprocess.run(command, env={**unset, "HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["token"]
    assert len((tmp_path / ".ray" / "auth_token").read_text()) >= 32
