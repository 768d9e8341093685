"""Nodes that cannot run trials are named before the first trial, each with what it lacks."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tausearch.cluster import node_probe, nodes_checked, preflight
from tausearch.cluster.node_probe import probe_node
from tausearch.runs import Resources, RunDirectory, driver_lock
from trainables.errors import InputError

LOCK = Path("/no/such/lock")
NEEDS = Resources(cpus_per_trial=2, gpus_per_trial=0.5, max_concurrent_trials=None)


def node(number: int, cpus: float = 2, alive: bool = True, gpus: float = 0.5) -> dict[str, Any]:
    about = {
        "NodeID": f"{number}" * 10,
        "NodeManagerHostname": f"host{number}",
        "NodeManagerAddress": f"192.0.2.{number}",
    }
    has = {"CPU": cpus, "GPU": gpus} if cpus else {}
    return {**about, "Alive": alive, "Resources": {kind: count for kind, count in has.items() if count}}  # as Ray does


def report(**changes: str) -> dict[str, str]:
    here = {"python": platform.python_version(), **{name: version(name) for name in preflight.PACKAGES}}
    return {**here, "import": "", "storage": "", "lock": "", "missing": "", **changes}


def looked_at(
    patch: pytest.MonkeyPatch, folder: Path, nodes: list[dict[str, Any]], answers: dict[str, Any]
) -> list[str]:
    """Let nodes be looked at that answer so; returns the lines said. None is a node that does not answer in time."""
    home, lines = RunDirectory(folder), list[str]()
    able = [each for each in nodes if each["Alive"] and each["Resources"]]

    def ask(asked: list[dict[str, Any]], here: RunDirectory, token: str, needed: list[str]) -> dict[str, Any]:
        assert asked == able and here == home and (folder / token).read_text() == token
        assert needed == ["/data"]
        found = {each["NodeID"]: answers.get(each["NodeManagerHostname"], report()) for each in asked}
        for each in asked:
            if answers.get(each["NodeManagerHostname"]) != "elsewhere":
                (folder / f"{token}-{each['NodeID']}").touch()
        return {name: report() if each == "elsewhere" else each for name, each in found.items() if each is not None}

    patch.setattr(preflight.ray, "nodes", lambda: nodes)
    patch.setattr(preflight, "_ask", ask)
    patch.setattr(preflight.NodeCheck, "_answers", lambda check, seconds: check.asked if seconds else None)
    patch.setattr(node_probe, "SETTLE_SECONDS", 0.0)
    with nodes_checked([NEEDS], home, ["/data"], lines.append) as check:
        assert not check.require_fit(0.0) and lines == []  # some have not answered
        assert check.require_fit(1.0) and list(folder.iterdir()) == []
        assert check.require_fit(0.0)
    return lines


@pytest.fixture
def asked_nodes(monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], dict[str, Any]]:
    """The waits for two nodes, in seconds, and the clock. The second node never answers."""
    waits, clock = list[float](), {"now": 100.0}

    def wait(asked: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        waits.append(timeout)
        clock["now"] += timeout
        return asked[:1], asked[1:]

    monkeypatch.setattr(preflight.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(preflight.ray, "wait", wait)
    monkeypatch.setattr(preflight.ray, "get", lambda answer: f"report of {answer}")
    return waits, clock


def test_a_node_that_never_answers_is_waited_for_from_the_asking_on(
    asked_nodes: tuple[list[float], dict[str, Any]],
) -> None:
    waits, clock = asked_nodes
    nodes = {"a": "node 1", "b": "node 2"}
    answers = preflight.NodeCheck([], nodes, 110.0, [NEEDS], (Path(), "driver"), print)._answers
    assert answers(0.0) is None and answers(4.0) is None and waits == [0.0, 4.0]
    clock["now"] = 109.0
    assert answers(5.0) == {"node 1": "report of a"} and waits[2:] == [1.0]
    assert answers(0.0) == {"node 1": "report of a"}  # also where nobody waits: no process may ever start


def test_nodes_that_have_all_are_fit_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked_at(monkeypatch, tmp_path, [node(1), node(2), node(3, cpus=0), node(4, alive=False)], {}) == []
    assert list(tmp_path.iterdir()) == []


def test_nodes_without_the_lock_of_this_machine_are_fit_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = {f"host{number}": report(lock="No locks available") for number in (2, 3)}
    [line] = looked_at(monkeypatch, tmp_path, [node(1), node(2), node(3)], without)
    assert line.startswith("node host2 (192.0.2.2, Ray's 22222222) and 1 more: file locks of this machine do not hold")
    assert "(No locks available)" in line


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "did not answer within 180 s"),
        (ValueError("first\nthe worker died"), r"cannot run a task \(the worker died\)"),
        (report(python="3.12.0"), "has python 3.12.0, this machine has"),
        (report(torch=""), r"has torch \(none\), this machine has"),
        (report(**{"import": "sklearn (gone)"}), r"cannot import sklearn \(gone\); install tausearch there"),
        (
            report(storage="No such file"),
            r"does not see the run directory .* \(No such file\); --storage must be shared",
        ),
        ("elsewhere", "writes to another .* than this machine; --storage must be shared"),
        (report(missing="/data"), "does not see /data, which trials read"),
    ],
)
def test_a_node_that_cannot_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any, said: str) -> None:
    with pytest.raises(InputError, match=rf"^node host2 \(192.0.2.2, Ray's 22222222\): {said}"):
        looked_at(monkeypatch, tmp_path, [node(1), node(2)], {"host2": answer})
    assert list(tmp_path.iterdir()) == []


def test_every_node_that_cannot_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError) as caught:
        looked_at(monkeypatch, tmp_path, [node(1, cpus=1), node(2), node(3, gpus=0.25)], {})
    few_cpus, few_gpus = caught.value.args
    assert "(192.0.2.1, " in few_cpus and "has 1 CPU, a trial needs 2; ask for less, or start this node" in few_cpus
    assert "(192.0.2.3, " in few_gpus and "has 0.25 GPU, a trial needs 0.5; ask for less" in few_gpus
    with pytest.raises(InputError, match="no node of the cluster has a CPU"):
        looked_at(monkeypatch, tmp_path, [node(1, cpus=0)], {})


def test_a_node_without_a_gpu_is_refused_only_if_no_node_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at(monkeypatch, tmp_path, [node(1, cpus=1, gpus=0), node(2)], {})
    with pytest.raises(InputError, match="^node host1 .*: does not see /data"):  # it is looked at all the same
        looked_at(monkeypatch, tmp_path, [node(1, gpus=0), node(2)], {"host1": report(missing="/data")})
    with pytest.raises(InputError) as caught:
        looked_at(monkeypatch, tmp_path, [node(1, gpus=0), node(2, gpus=0)], {})
    assert ["has 0 GPU, a trial needs 0.5" in line for line in caught.value.args] == [True, True]


def test_a_node_that_fits_one_kind_of_trials_is_large_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide, on_gpu = Resources(cpus_per_trial=16), Resources(gpus_per_trial=1)
    nodes = [node(1, cpus=16, gpus=0), node(2, cpus=4, gpus=1), node(3, cpus=4, gpus=0)]
    assert list(preflight._too_small(nodes[:2], [wide, on_gpu])) == []
    [line] = preflight._too_small(nodes, [wide, on_gpu])
    assert line.startswith("node host3") and "has 4 CPU, a trial needs 16; ask for less" in line
    [line] = preflight._too_small(nodes[1:2], [wide, on_gpu])
    assert line == "no node fits a trial of 16 CPU and 0 GPU; ask for less"


def test_a_node_with_a_fault_is_named_once_though_it_is_too_small_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = preflight.NodeCheck([node(1, cpus=1)], {}, 0.0, [NEEDS], (tmp_path, "driver"), print)
    monkeypatch.setattr(check, "_answers", lambda seconds: {})
    with pytest.raises(InputError, match=r"^node host1 .* did not answer within 180 s$"):
        check.require_fit(0.0)


def probed(
    folder: Path,
    packages: Sequence[str] = (),
    modules: Sequence[str] = (),
    needed: Sequence[str] = (),
    *,
    lock: Path = LOCK,
    drivers: str = "",
) -> dict[str, str]:
    """What this machine answers to a driver in another environment."""
    of_files = (str(folder), "driver", "node", str(lock))
    return probe_node(*of_files, list(packages), list(modules), list(needed), drivers)


def test_a_node_that_has_all(tmp_path: Path) -> None:
    (tmp_path / "driver").write_text("driver")
    report = probed(tmp_path, ["numpy", "no-such-package"], ["json"], [str(tmp_path)])
    assert report == {
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "no-such-package": "",
        "import": "",
        "storage": "",
        "lock": "No such file or directory",
        "missing": "",
    }
    assert (tmp_path / "node").read_text() == "node"
    weights = str(tmp_path / "driver")
    assert probed(tmp_path, needed=[weights])["missing"] == "", "a file is there, too"


def test_what_a_node_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_probe, "SETTLE_SECONDS", 0.0)
    data = str(tmp_path / "data")
    needed = [str(tmp_path), data, str(tmp_path / "weights")]
    report = probed(tmp_path, modules=["no_such_module", "neither"], needed=needed)
    assert report["missing"] == data and report["storage"] == "No such file or directory"
    assert report["import"] == "no_such_module (ModuleNotFoundError: No module named 'no_such_module')"
    assert not (tmp_path / "node").exists()  # it would be taken for a node that sees the folder
    (tmp_path / "driver").write_text("another run's")
    assert probed(tmp_path)["storage"] == "it holds something else there"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "driver").write_text("driver")
    (tmp_path / "node").mkdir()  # in the way of the file
    report = probed(tmp_path)
    assert report["storage"] == "it cannot write there: Is a directory"


def test_a_file_that_shows_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(seconds: float) -> None:
        (tmp_path / "driver").write_text("driver")  # as a network file system shows it after a while

    monkeypatch.setattr(node_probe.time, "sleep", sleep)
    assert probed(tmp_path)["storage"] == ""


def test_an_answer_that_shows_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = node(1)
    file = tmp_path / f"driver-{there['NodeID']}"
    monkeypatch.setattr(preflight.time, "sleep", lambda seconds: file.touch())
    assert preflight._problem(there, {there["NodeID"]: report()}, tmp_path, "driver") is None


def test_a_lock_that_holds_and_one_that_does_not(tmp_path: Path) -> None:
    home = RunDirectory(tmp_path)
    (tmp_path / "driver").write_text("driver")
    with driver_lock(home):
        assert probed(tmp_path, lock=home.lock_file)["lock"] == ""
    report = probed(tmp_path, lock=home.lock_file)
    assert report["lock"] == "the lock is not seen"


def test_packages_in_another_place_and_another_view_of_the_disk_are_another_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = node_probe.environment()
    for owner, name, other in ((node_probe.sys, "prefix", "/other"), (Path, "readlink", lambda path: "mnt:[1]")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, other)
            assert node_probe.environment() != ours != ""


def test_a_driver_has_imported_what_its_own_environment_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "driver").write_text("driver")
    ours = node_probe.environment()
    assert probed(tmp_path, modules=["no_such_module"], drivers=ours)["import"] == ""
    assert "no_such_module" in probed(tmp_path, modules=["no_such_module"], drivers=f"{ours} elsewhere")["import"]
    monkeypatch.setattr(node_probe, "environment", lambda: "")  # as on a system that is not Linux
    assert "no_such_module" in probed(tmp_path, modules=["no_such_module"], drivers="")["import"]
