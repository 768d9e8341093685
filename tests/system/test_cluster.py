"""Several nodes, each a raylet of its own on this machine: which are refused, and what becomes of a lost one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
import timm
from ray.cluster_utils import Cluster
from ray.util.placement_group import PlacementGroup, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tausearch.campaigns import CampaignRequest, plan_campaign, run_campaign
from tausearch.cluster import cluster_capacity, placement_of, trials_that_fit
from tausearch.runs import Resources
from tests.support.drivers.campaigns import Tables, assert_all_is_there, assert_no_run_loses_anything, tables
from tests.support.drivers.searches import train_workers
from tests.support.drivers.services import wait_until
from tests.support.drivers.trials import HOLD, HeldTrial

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
SHARE = 1 / 7  # in Ray's units of a ten-thousandth, seven rounded shares must not be more than a GPU
NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
TABLE = """
campaign: nodes
benchmarks: [digits]
methods: [ita-lora, ita-ia3]
search: {algorithm: grid, trials: 4}
train: {seeds: [0, 1]}
cells: [{method: ita-ia3, search: null}]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One node with one CPU; tests add more and take them away."""
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        yield cluster
    finally:
        cluster.shutdown()


def alive(cluster: Cluster) -> set[str]:
    """Return the ids of the nodes that Ray takes for alive; one of an earlier test may be among them for a while."""
    return {node["NodeID"] for node in cluster.global_state.node_table() if node["Alive"]}


def end(process: subprocess.Popen[bytes]) -> None:
    """End a raylet and all that it started; politely, so that the cluster hears of it at once."""
    family = [child for child in psutil.Process(process.pid).children(recursive=True)]
    for each in family:
        with suppress(psutil.NoSuchProcess):  # a child of one that has just ended may be gone already
            each.terminate()
    _, stubborn = psutil.wait_procs(family, timeout=60)
    for each in stubborn:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.kill()
    process.wait(120)


@contextmanager
def other_machine(cluster: Cluster, setup: str, **environment: str) -> Iterator[None]:
    """A raylet with two CPUs in a mount namespace of its own, in which `setup` has changed what is on the disk."""
    allowed = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if allowed.returncode:
        pytest.skip(f"a second machine is a mount namespace here, which is not permitted: {allowed.stderr.decode()}")
    start = f"{Path(sys.executable).with_name('ray')} start --block --address={cluster.address} --num-cpus=2"
    memory = f"--object-store-memory={NODE['object_store_memory']}"
    before = alive(cluster)
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", f"{setup} && exec {start} {memory}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        wait_until(lambda: process.poll() is not None or bool(alive(cluster) - before), 240, "the second node")
        assert process.poll() is None, process.communicate()
        yield
    finally:
        end(process)
        wait_until(lambda: alive(cluster) <= before, 240, "Ray to notice that the node is gone")


def another_version(site: Path) -> str:
    """What `pip install --target` would leave there: the package and its metadata, before all others on the path."""
    for package in (ROOT / "platform" / "tausearch", ROOT / "trainables", ROOT / "search_spaces"):
        shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    (site / "tausearch-0.0.9.dist-info").mkdir()
    (site / "tausearch-0.0.9.dist-info" / "METADATA").write_text("Name: tausearch\nVersion: 0.0.9\n")
    return str(site)


def test_nodes_that_cannot_run_a_trial_are_refused_and_those_without_cpus_are_not_asked(
    call: Callable[..., str], cluster: Cluster, tmp_path: Path
) -> None:
    storage = tmp_path / "tausearch-runs"
    storage.mkdir()
    search = ["search", "digits", "finetune", "--trials", "2", "--cpus-per-trial", "2", "--name", "s"]
    idle = cluster.add_node(**NODE | {"num_cpus": 0})
    try:
        with (
            other_machine(cluster, f"mount -t tmpfs none '{storage}'"),
            other_machine(cluster, "true", PYTHONPATH=another_version(tmp_path / "site")),
            other_machine(cluster, f"mount -t tmpfs none '{Path(timm.__file__).parent}'"),
        ):
            said = call(*search, "--address", cluster.address, code=2)
    finally:
        cluster.remove_node(idle)
    assert not (storage / "s").exists() and not (storage / "mlflow.db").exists()
    lines = said.strip().splitlines()
    assert said.startswith("tausearch: node ") and len(lines) == 4
    for why in (
        "has 1 CPU, a trial needs 2",
        f"does not see the run directory {storage / 's'} (No such file or directory)",
        f"has tausearch 0.0.9, this machine has {version('tausearch')}",
        "cannot import tausearch.cluster.preload (ModuleNotFoundError",
    ):
        assert sum(why in line for line in lines) == 1, (why, lines)


def raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def lose_a_node_and_let_one_join(cluster: Cluster, lost: Any, root: Path, driver: Future[Any]) -> Tables:
    """kill -9 a node with a trial on it, and wait until a trial runs on one that joins; returns the tables between."""

    def in_the_middle() -> bool:
        assert not driver.done(), driver.result()
        trials = list(chain.from_iterable(tables(root, "nodes").values()))
        under_way = sum(trial.status == "running" and trial.tasks_done >= 2 for trial in trials)
        return under_way >= 2 and bool(train_workers(raylet(lost)))

    wait_until(in_the_middle, 400, "two trials in the middle, one on the node that will be lost")
    cluster.remove_node(lost, allow_graceful=False)
    before = tables(root, "nodes")
    joined = cluster.add_node(**NODE)
    wait_until(lambda: driver.done() or bool(train_workers(raylet(joined))), 300, "a trial on the node that joined")
    assert not driver.done(), driver.result()
    return before


def test_trials_of_a_lost_node_go_on_elsewhere_and_a_node_that_joins_is_used(cluster: Cluster, tmp_path: Path) -> None:
    root = tmp_path / "tausearch-runs"
    (tmp_path / "nodes.yaml").write_text(TABLE)
    request = CampaignRequest(tmp_path / "nodes.yaml", storage=root, address=cluster.address)
    lost = [cluster.add_node(**NODE) for _ in range(2)][1]
    (tmp_path / HOLD).touch()
    with ThreadPoolExecutor(1) as pool:
        driver = pool.submit(run_campaign, plan_campaign(request), HeldTrial)
        try:
            before = lose_a_node_and_let_one_join(cluster, lost, root, driver)
        finally:
            (tmp_path / HOLD).unlink()
        driver.result()
    after = tables(root, "nodes")
    assert {trial.status for table in after.values() for trial in table} == {"complete"}
    assert all([row["task"] for row in trial.rows] == [1, 2, 3, 4, 5] for table in after.values() for trial in table)
    assert_no_run_loses_anything(before, after)
    assert_all_is_there(root, "nodes", cells=2)


@pytest.fixture
def joined(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # Ray makes up no GPU where all are hidden
    ray.init(address=cluster.address, log_to_driver=False)
    yield
    ray.shutdown()


def on_one_gpu(group: PlacementGroup) -> str:
    """Return the only GPU that a trial in this group would see."""
    strategy = PlacementGroupSchedulingStrategy(group)
    task = ray.remote(ray.get_gpu_ids).options(num_cpus=1, num_gpus=SHARE, scheduling_strategy=strategy)
    (gpu,) = ray.get(task.remote(), timeout=120)
    return str(gpu)


def test_shares_of_gpus_fit_as_counted_on_one_gpu_each_while_nodes_leave_and_join(
    cluster: Cluster, joined: None
) -> None:
    """The GPUs exist for Ray alone."""
    resources, before = Resources(gpus_per_trial=SHARE), alive(cluster)
    two_gpus = NODE | {"num_gpus": 2, "num_cpus": 14}
    stays, leaves = cluster.add_node(**NODE | {"num_gpus": 1, "num_cpus": 7}), cluster.add_node(**two_gpus)
    groups = [placement_of(resources.model_dump())() for _ in range(22)]

    def placed() -> dict[str, list[PlacementGroup]]:
        found: dict[str, list[PlacementGroup]] = {}
        for group in groups:
            about = placement_group_table(group)
            if about["state"] == "CREATED":
                found.setdefault(about["bundles_to_node_id"][0], []).append(group)
        return found

    def fit(*nodes: tuple[Any, int]) -> bool:
        count = {node: len(there) for node, there in placed().items()}
        return count == {node.node_id: shares for node, shares in nodes}

    def counted() -> int:
        return trials_that_fit(resources, *cluster_capacity())

    try:
        wait_until(lambda: fit((stays, 7), (leaves, 14)), 60, "21 shares on three GPUs")
        assert counted() == 21
        assert Counter(map(on_one_gpu, placed()[leaves.node_id])) == {"0": 7, "1": 7}
        cluster.remove_node(leaves)
        wait_until(lambda: fit((stays, 7)), 60, "the shares of the lost node to wait")
        assert counted() == 7
        joins = cluster.add_node(**two_gpus)
        wait_until(lambda: fit((stays, 7), (joins, 14)), 60, "14 shares on the node that joined")
        assert counted() == 21
        cluster.remove_node(joins)
    finally:
        for group in groups:
            remove_placement_group(group)
        cluster.remove_node(stays)
    wait_until(lambda: alive(cluster) <= before, 240, "Ray to notice that the nodes are gone")


WAITING = """
import sys
from tausearch.cluster import cluster_capacity, gpus_at, ray_session, waiting
from tausearch.runs import Resources
nodes = "Active:\\n 1 ray.head.default\\nPending:\\n gpu, 1 launching\\nRecent failures:\\n"
waiting.ray_status = lambda: "Node status\\n" + nodes  # of an autoscaler, which is not here
print(gpus_at(sys.argv[1]))
with ray_session([Resources(gpus_per_trial=0.5)], sys.argv[1], say=lambda line: print(line, flush=True)):
    print(cluster_capacity())
print(gpus_at(sys.argv[1]))
"""


def test_a_gpu_that_comes_later_is_waited_for(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU exists for Ray alone."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # Ray makes up no GPU where all are hidden
    out, before = tmp_path / "out.txt", alive(cluster)
    with out.open("w") as file:
        process = subprocess.Popen([sys.executable, "-c", WAITING, cluster.address], stdout=file, stderr=file)
    wait_until(lambda: "waiting until" in out.read_text() or process.poll() is not None, 240, "the line")
    node = cluster.add_node(**NODE | {"num_gpus": 1})
    try:
        assert process.wait(240) == 0, out.read_text()
    finally:
        cluster.remove_node(node)
        wait_until(lambda: alive(cluster) <= before, 240, "Ray to notice that the node is gone")
    lack = "a trial needs 0.5 GPU, the cluster has 0 in all"
    line = f"{lack}: waiting until its autoscaler has started a node that fits a trial"
    before_it, waited, capacity, after_it = out.read_text().splitlines()  # tests before may have left nodes with CPUs
    assert (before_it, waited, after_it) == ("0", line, "1.0") and capacity.endswith(", 1.0)")
