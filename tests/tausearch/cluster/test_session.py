"""Ray is started or joined, and a Ray that cannot run the trials is refused in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from ray._private.node import Node
from ray.exceptions import AuthenticationError

from tausearch.cluster import gpus_at, ray_session, require_room_at, session
from tausearch.runs import Resources
from trainables.errors import InputError

ADDRESS = "192.0.2.1:6379"
TRIAL = Resources(cpus_per_trial=4, gpus_per_trial=0.5)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Ray is asked for when it starts; nothing is started."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr("ray.init", lambda **wanted: found.append(wanted))
    monkeypatch.setattr("ray.shutdown", lambda: None)
    return found


@pytest.mark.parametrize(
    ("has", "words"),
    [
        ({"CPU": 3.0, "GPU": 1.0}, "a trial needs 4 CPU, the cluster has 3 in all"),
        ({"CPU": 4.0}, "a trial needs 0.5 GPU, the cluster has 0 in all"),
        ({"CPU": 3.0}, "a trial needs 4 CPU, the cluster has 3 in all"),  # CPUs first
        ({"CPU": 4.0, "GPU": 0.5}, None),
        ({"CPU": 4.0, "GPU": 0.5, session._PRIVATE: 1.0}, "another run's own"),
    ],
)
def test_a_cluster_must_be_shared_and_have_the_resources_of_one_trial(
    monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]], has: dict[str, float], words: str | None
) -> None:
    monkeypatch.setattr("ray.cluster_resources", lambda: has)
    with pytest.raises(InputError, match=words) if words else nullcontext(), ray_session([TRIAL], ADDRESS):
        assert words is None
    assert [each["address"] for each in asked] == [ADDRESS]


def test_a_cluster_whose_autoscaler_can_start_a_node_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]]
) -> None:
    waited, check = list[Any](), Mock()
    monkeypatch.setattr(session, "wait_for_node", lambda *how: waited.append(how))
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 4.0})
    with ray_session([TRIAL], ADDRESS, say=print, check=check):
        assert waited == [(TRIAL, "a trial needs 0.5 GPU, the cluster has 0 in all", print, check)]
    with pytest.raises(InputError, match="the cluster has 0 in all"), ray_session([TRIAL], None, say=print):
        pytest.fail("our own Ray has no autoscaler")
    with ray_session((), ADDRESS):  # a look
        assert len(waited) == 1


def test_each_kind_of_trials_is_waited_for_by_itself(
    monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]]
) -> None:
    """No single node need have the CPUs of one kind and the GPUs of another."""
    waited: list[Resources] = []
    has = {"CPU": 2.0}

    def wait(resources: Resources, *how: Any) -> None:
        waited.append(resources)
        has.update(CPU=10.0)

    monkeypatch.setattr(session, "wait_for_node", wait)
    monkeypatch.setattr("ray.cluster_resources", lambda: has)
    on_cpus, on_gpu, small = Resources(cpus_per_trial=8), Resources(gpus_per_trial=1), Resources(cpus_per_trial=10)
    with ray_session([on_cpus, on_gpu, small], ADDRESS, say=print):
        assert waited == [on_cpus, on_gpu]  # the first node to come has room for the third


AUTOSCALED = "Node status\nActive:\n 1 ray.head.default\nPending:\n (no pending nodes)\nRecent failures:\n"


@pytest.mark.parametrize("joined", [False, True])
def test_a_preview_refuses_a_cluster_that_is_too_small_and_starts_no_nodes(
    monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]], joined: bool
) -> None:
    monkeypatch.setattr(session, "require_reachable", lambda address: None)
    monkeypatch.setattr("ray.is_initialized", lambda: joined)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 4.0, "GPU": 0.25})
    monkeypatch.setattr(session, "ray_status", lambda: "")
    require_room_at(None, TRIAL)  # Ray of our own has what a trial needs
    with pytest.raises(InputError, match="a trial needs 0.5 GPU, the cluster has 0.25 in all"):
        require_room_at(ADDRESS, TRIAL)
    monkeypatch.setattr(session, "ray_status", lambda: AUTOSCALED)
    require_room_at(ADDRESS, TRIAL)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 4.0, "GPU": 0.5})
    monkeypatch.setattr(session, "ray_status", lambda: pytest.fail("there is room"))
    require_room_at(ADDRESS, TRIAL)
    assert [each["address"] for each in asked] == ([] if joined else [ADDRESS] * 3)


def test_our_own_ray_has_the_cpus_of_a_trial_even_beyond_the_machine(
    monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr("tausearch.cluster.session.local_cpus", lambda: 8)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 9.0, session._PRIVATE: 1.0})
    for cpus in (9, 2):
        with ray_session([Resources(cpus_per_trial=cpus)]):
            pass
    assert [each["num_cpus"] for each in asked] == [9, 8]
    assert {each["address"] for each in asked} == {"local"}  # a cluster that RAY_ADDRESS names is not joined


def test_our_own_ray_has_the_gpus_that_torch_finds_and_a_cluster_its_own(
    monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]], gpus: Callable[[int], None]
) -> None:
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 9.0, "GPU": 3.0})
    gpus(3)
    for address in (None, ADDRESS):
        with ray_session([Resources()], address):
            pass
    gpus(0)
    with ray_session([Resources()]):
        pass
    assert [each["num_gpus"] for each in asked] == [3, None, None]


def test_the_gpus_of_a_cluster_are_asked_for_by_joining_it_unless_it_is_joined(
    monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]], gpus: Callable[[int], None]
) -> None:
    gpus(1)
    monkeypatch.setattr(session, "require_reachable", lambda address: None)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 9.0, "GPU": 4.0})
    assert (gpus_at(None), asked) == (1, [])
    assert gpus_at(ADDRESS) == 4 and [each["address"] for each in asked] == [ADDRESS]
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    assert gpus_at(ADDRESS) == 4 and len(asked) == 1
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 9.0})
    assert gpus_at(ADDRESS) == 0


def test_our_own_ray_starts_no_process_that_it_does_not_need_and_is_whole_afterwards(
    monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 9.0})
    whole = [getattr(Node, name) for name in session._NEEDLESS]
    during: list[list[Any]] = []
    monkeypatch.setattr("ray.init", lambda **wanted: during.append([getattr(Node, name) for name in session._NEEDLESS]))
    for address in (ADDRESS, None):
        with ray_session([Resources()], address):
            assert [getattr(Node, name) for name in session._NEEDLESS] == whole
    assert during[0] == whole and not {*during[1]} & {*whole}
    assert [start(None, include_dashboard=False) for start in during[1]] == [None, None, None]


PRESTART, PRELOAD = "RAY_enable_worker_prestart", "RAY_preload_python_modules"


@pytest.fixture
def at_start(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, str | None]]:
    """The two variables as Ray finds them when it starts, on a machine with four CPUs."""
    found: list[tuple[str | None, str | None]] = []
    monkeypatch.setattr("ray.init", lambda **wanted: found.append((os.environ.get(PRESTART), os.environ.get(PRELOAD))))
    monkeypatch.setattr("ray.shutdown", lambda: None)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 9.0, "GPU": 1.0})
    monkeypatch.setattr("tausearch.cluster.session.local_cpus", lambda: 4)
    for name in (PRESTART, PRELOAD):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.mark.parametrize(
    ("resources", "processes", "ahead"),
    [
        (Resources(), 4, True),
        (Resources(), 5, True),
        (Resources(), 3, False),  # one of four processes would import torch for nobody
        (Resources(), 0, False),
        (Resources(cpus_per_trial=2), 4, False),
        (Resources(gpus_per_trial=0.5), 4, False),
        (None, 4, False),
    ],
)
def test_processes_are_started_ahead_where_each_cpu_gets_one(
    at_start: list[tuple[str | None, str | None]], resources: Resources | None, processes: int, ahead: bool
) -> None:
    with ray_session([resources] if resources else (), processes=processes):
        assert not {PRESTART, PRELOAD} & {*os.environ}  # a Ray that another starts later is another's business
    assert at_start == [("1", "tausearch.cluster.preload") if ahead else ("0", None)]


def test_processes_are_not_started_ahead_where_one_kind_of_trials_needs_more(
    at_start: list[tuple[str | None, str | None]],
) -> None:
    with ray_session([Resources(), Resources(cpus_per_trial=2)], processes=4):
        pass
    assert at_start == [("0", None)]


def test_a_cluster_and_who_has_set_the_variables_keep_their_own(
    monkeypatch: pytest.MonkeyPatch, at_start: list[tuple[str | None, str | None]]
) -> None:
    with ray_session([Resources()], ADDRESS, processes=4):
        pass
    monkeypatch.setenv(PRELOAD, "numpy")
    with ray_session([Resources()], processes=4):
        pass
    assert at_start == [(None, None), ("1", "numpy")] and os.environ[PRELOAD] == "numpy"


def test_a_setting_of_the_user_stays(monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]]) -> None:
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 9.0})
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    monkeypatch.setenv("TUNE_MAX_PENDING_TRIALS_PG", "")
    monkeypatch.delenv("TUNE_MAX_PENDING_TRIALS_PG")
    with ray_session([Resources()]):
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "1" and os.environ["TUNE_MAX_PENDING_TRIALS_PG"] == "1000"


def test_only_nodes_that_live_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True}, {"Alive": False}, {"Alive": True}])
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 6.0})
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(gcs_address="192.0.2.1:6379"))
    assert session.cluster_summary() == "joined the Ray at 192.0.2.1:6379 (nodes: 2, CPUs: 6)"
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 6.0, "GPU": 4.0})
    assert session.cluster_summary() == "joined the Ray at 192.0.2.1:6379 (nodes: 2, CPUs: 6, GPUs: 4)"


def test_an_address_is_reached_with_and_without_the_word_of_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Mock()
    monkeypatch.setattr("socket.create_connection", connect)
    for address in ("ray://192.0.2.1:10001", ADDRESS, "auto"):
        session.require_reachable(address)
    assert [call.args[0] for call in connect.call_args_list] == [("192.0.2.1", 10001), ("192.0.2.1", 6379)]


@pytest.mark.parametrize("host", ["head..node", "a" * 64])
def test_a_host_that_cannot_be_asked_for_is_refused_in_a_line(host: str) -> None:
    with pytest.raises(InputError, match=f"--address {host}:6379: no Ray cluster answers there"):
        session.require_reachable(f"{host}:6379")


@pytest.mark.parametrize("address", ["192.0.2.1", "192.0.2.1:65536", ":6379", "192.0.2.1:a", "192.0.2.1:²"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="--address must be auto, HOST:PORT or ray://HOST:PORT, got"):
        session.require_reachable(address)


@pytest.mark.parametrize(
    ("address", "error", "words"),
    [
        (
            "auto",
            AuthenticationError("no authentication token was found. See the manual"),
            r"no authentication token was found\).*copy its ~/.ray/auth_token",
        ),
        ("auto", ConnectionError("no port. See the manual"), r"\(no port\).*copy its ~/.ray/auth_token"),
        ("auto", RuntimeError("no port. See the manual"), r"--address auto: .* be joined there \(no port\)$"),
        (
            "auto",
            RuntimeError("Version mismatch: 3.11. Yours: 3.12"),
            r"^--address auto: Version mismatch.*Yours: 3.12$",
        ),
        (
            None,
            Exception("The current node timed out during startup.\nThe raylet failed."),
            r"on this machine \(The current node timed out during startup. The raylet failed.\); its logs",
        ),
    ],
)
def test_a_ray_that_cannot_be_reached_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, address: str | None, error: Exception, words: str
) -> None:
    def refuse(**_: object) -> None:
        raise error

    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(InputError, match=words) as caught, ray_session([TRIAL], address):
        pytest.fail("joined")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("quiet", "heard"), [(True, "after\n"), (False, "noise\nafter\n")])
def test_before_a_run_has_a_log_nothing_of_rays_start_is_on_the_screen(
    quiet: bool, heard: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        os.write(2, b"noise\n")
        raise RuntimeError("no")

    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(InputError), ray_session((), "auto", quiet=quiet):
        pytest.fail("joined")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == heard


TOKEN = """
import os
from tausearch.cluster import ray_session
from tausearch.runs import Resources
with ray_session([Resources()]):
    print(os.environ["RAY_AUTH_MODE"])
"""


@pytest.mark.slow
def test_a_ray_of_our_own_asks_for_a_token(tmp_path: Path) -> None:
    unset = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-c", TOKEN]
    done = subprocess.run(command, env={**unset, "HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["token"]
    assert len((tmp_path / ".ray" / "auth_token").read_text()) >= 32
