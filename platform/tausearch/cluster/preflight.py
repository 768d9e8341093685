"""Check every node of a cluster before the first trial, so that a long search does not fail later.

The processes of trials start meanwhile, which takes as long.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tausearch.cluster import node_probe
from tausearch.cluster.capacity import lack_of
from tausearch.cluster.watches import node_name
from tausearch.runs import DrivenDirectory, Resources
from trainables.errors import InputError

PACKAGES = ["ray", "torch", "tausearch"]
_IMPORTED = ["tausearch.cluster.preload", "sklearn.mixture"]  # by trials
_LACK = "{has:g} {kind}, a trial needs {wanted:g}"
_ANSWER_SECONDS = 180.0  # importing torch and timm from a cold network disk takes minutes

ray.cloudpickle.register_pickle_by_value(node_probe)  # works on a node without our package


@contextmanager
def nodes_checked(
    needs: Sequence[Resources], home: DrivenDirectory, needed: Sequence[str], say: Callable[[str], None]
) -> Iterator[NodeCheck]:
    """Check versions, storage, package, data and resources of every node that has CPUs while the block runs.

    A node without a GPU, beside others that have one, gets no trials that need it, and is not refused for that.

    Args:
        needs: The resources of a trial, of each kind of trials. A node that fits one of them is large enough.
        home: The folder of the driver, which every node must see and write. The driver has locked it.
        needed: Other files and folders that trials read.
        say: Prints a line for a person, about nodes on which the lock does not hold.

    Yields:
        The check, whose `require_fit` raises an error if a node is unfit.

    Raises:
        InputError: If no node has a CPU.
    """
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if not nodes:
        raise InputError("no node of the cluster has a CPU for a trial")
    token = f".preflight-{uuid4().hex[:12]}"
    (home.path / token).write_text(token)
    try:
        asked = _ask(nodes, home, token, list(needed))
        yield NodeCheck(nodes, asked, time.monotonic() + _ANSWER_SECONDS, needs, (home.path, token), say)
    finally:
        _remove(home.path, token)


@dataclass
class NodeCheck:
    """A check of nodes that is under way."""

    nodes: list[dict[str, Any]]  # the nodes that are asked
    asked: Mapping[Any, str]  # the probe that runs on each node, to the id of the node
    deadline: float  # the time by which the nodes have to answer, as `time.monotonic` gives it
    needs: Sequence[Resources]  # the resources of a trial, of each kind of trials
    files: tuple[Path, str]  # a folder, and the name of the driver's file there; that of each node begins with it
    say: Callable[[str], None]  # prints a line for a person
    passed: bool = False  # whether all nodes are fit

    def require_fit(self, seconds: float) -> bool:
        """Return whether all nodes are fit; False if some may still answer. Refuse unfit ones, a line each."""
        if self.passed or (reports := self._answers(seconds)) is None:
            return self.passed
        faults = {each["NodeID"]: fault for each in self.nodes if (fault := _problem(each, reports, *self.files))}
        _remove(*self.files)
        sound = [node for node in self.nodes if node["NodeID"] not in faults]
        if lines := (*faults.values(), *_too_small(sound, self.needs)):
            raise InputError(*lines)
        if line := _without_lock({node_name(node): reports[node["NodeID"]]["lock"] for node in self.nodes}):
            self.say(line)
        self.passed = True
        return True

    def _answers(self, seconds: float) -> dict[str, Any] | None:
        """Return node id to report or error, without nodes that did not answer in time; None if some still may."""
        left = max(0.0, self.deadline - time.monotonic())
        answered, silent = ray.wait(list(self.asked), num_returns=len(self.asked), timeout=min(seconds, left))
        if silent and seconds < left:
            return None
        reports: dict[str, Any] = {}
        for answer in answered:
            try:
                reports[self.asked[answer]] = ray.get(answer)
            except Exception as error:  # the node, its worker or Ray itself
                reports[self.asked[answer]] = error
        return reports


def _remove(folder: Path, token: str) -> None:
    for file in folder.glob(f"{token}*"):
        file.unlink(missing_ok=True)


def _without_lock(faults: Mapping[str, str]) -> str | None:
    """Return a line about the nodes on which the driver's lock does not hold; `faults` are by names of nodes."""
    nodes = [(name, fault) for name, fault in faults.items() if fault]
    if not nodes:
        return None
    (name, fault), more = nodes[0], f" and {len(nodes) - 1} more" if nodes[1:] else ""
    return (
        f"{name}{more}: file locks of this machine do not hold there ({fault}), so trials on several nodes may compute"
        " the same entry of the cache; drive each run from this machine alone"
    )


def _ask(nodes: list[dict[str, Any]], home: DrivenDirectory, token: str, needed: list[str]) -> dict[Any, str]:
    """Start the probe on all nodes at once; returns each probe to the id of its node."""
    probe = ray.remote(num_cpus=0, max_retries=0, max_calls=1)(node_probe.probe_node)
    asked = {}
    for node in nodes:
        here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        call = probe.options(scheduling_strategy=here)
        files = (str(home.path), token, _answer_file(token, node), str(home.lock_file))
        asked[call.remote(*files, PACKAGES, _IMPORTED, needed, node_probe.environment())] = node["NodeID"]
    return asked


def _too_small(nodes: Sequence[dict[str, Any]], needs: Sequence[Resources]) -> Iterator[str]:
    """Yield a line for each node that is too small for all kinds of trials, and for each kind that no node fits.

    Nodes without a GPU count for trials that need one if none has one.
    """
    on_gpu = any(node["Resources"].get("GPU") for node in nodes)
    lacks = [[lack_of(need, node["Resources"], _LACK) for need in needs] for node in nodes]
    for node, of_node in zip(nodes, lacks, strict=True):
        gets_none = on_gpu and not node["Resources"].get("GPU")
        asked = [lack for need, lack in zip(needs, of_node, strict=True) if not (gets_none and need.gpus_per_trial)]
        if asked and all(asked):
            yield (
                f"{node_name(node)}: has {asked[0]}; ask for less, or start this node's Ray with --num-cpus=0 so that"
                " it gets no trials"
            )
    if len(needs) > 1:
        for need, of_need in zip(needs, zip(*lacks, strict=True), strict=False):
            if all(of_need):
                yield f"no node fits a trial of {need.cpus_per_trial} CPU and {need.gpus_per_trial:g} GPU; ask for less"


def _problem(node: dict[str, Any], reports: dict[str, Any], folder: Path, token: str) -> str | None:
    name = node_name(node)
    report = reports.get(node["NodeID"])
    if report is None:
        return f"{name}: did not answer within {_ANSWER_SECONDS:g} s"
    if isinstance(report, Exception):
        return f"{name}: cannot run a task ({str(report).strip().splitlines()[-1]})"
    here = {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}}
    for package, ours in here.items():
        if report[package] != ours:
            return f"{name}: has {package} {report[package] or '(none)'}, this machine has {ours}; make them the same"
    if report["import"]:
        return f"{name}: cannot import {report['import']}; install tausearch there (make setup)"
    if report["storage"]:
        return f"{name}: does not see the run directory {folder} ({report['storage']}); --storage must be shared"
    if not _sees(folder / _answer_file(token, node)):
        return f"{name}: writes to another {folder} than this machine; --storage must be shared"
    if report["missing"]:
        return f"{name}: does not see {report['missing']}, which trials read; put it at the same path on every node"
    return None


def _answer_file(token: str, node: dict[str, Any]) -> str:
    return f"{token}-{node['NodeID']}"


def _sees(file: Path) -> bool:
    deadline = time.monotonic() + node_probe.SETTLE_SECONDS
    while not file.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
