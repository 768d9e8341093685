"""Pools of task vectors from one or several sources, checked against the benchmark and the backbone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from checked_input.names import counted
from checked_input.text_files import shown
from tausearch.models.sources import VectorSource, chosen_seeds
from tausearch.presentation import command_on, tool
from tausearch.runs import ExperimentProtocol
from trainables.backbones import Backbone
from trainables.composition import ComposedNetwork, ReducedPool, VectorPool, network_for, vector_folders
from trainables.data import Benchmark, Removal, without
from trainables.errors import InputError, faults_of

MAX_PARAMETERS = 400_000_000  # of a backbone that only a file asks for: more than ViT-L, 1.6 GB


@dataclass(frozen=True)
class Pools:
    """The task vectors to compose, a pool for each seed, and the network that holds one composition at a time."""

    sources: tuple[VectorSource, ...]
    benchmark: Benchmark  # the benchmark, built for a final run
    backbone: Backbone  # theta_0
    by_seed: Mapping[int, VectorPool]  # seed to a pool with a task vector for each task
    network: ComposedNetwork

    @property
    def tasks(self) -> int:
        """Number of tasks, T."""
        return len(self.benchmark.tasks)

    @property
    def device(self) -> torch.device:
        """The device that computes."""
        return self.network.device

    @property
    def threads(self) -> int:
        """CPU threads of the run's own trials, on which their numbers depend."""
        spec = self.sources[0].spec
        return torch.get_num_threads() if spec is None else spec.resources.cpus_per_trial


def require_alike(sources: Sequence[VectorSource]) -> None:
    """Require the same benchmark, backbone and precision of all sources, so that they can be composed."""
    first = sources[0]
    for other in sources[1:]:
        pairs = {
            "benchmark": (other.benchmark, first.benchmark),
            "backbone": (other.protocol.weights_digest[:12], first.protocol.weights_digest[:12]),
            "precision": (other.protocol.precision, first.protocol.precision),
        }
        for what, (got, wanted) in pairs.items():
            if got != wanted:
                raise InputError(
                    f"{other.name} and {first.name} cannot be composed: their {what} is {got} and {wanted}"
                )


def make_pools(
    sources: Sequence[VectorSource],
    benchmark: Benchmark,
    backbone: Backbone,
    seeds: Sequence[int] | None,
    device: str | None = None,
) -> Pools:
    """Return a pool for each seed, each vector checked before any computation; one that does not fit is refused.

    Sources are of one benchmark, built for a final run, and of one backbone, see `require_alike`. `device` is by
    default the run's kind of device if this machine has one.
    """
    computes = device_of(device, sources[0])
    digest = sources[0].protocol.weights_digest
    count = len(benchmark.tasks)
    pools = {seed: _pool(sources, seed, count) for seed in chosen_seeds(sources, seeds)}
    vectors = (vector for pool in pools.values() for vector in pool)
    network = network_for(vectors, backbone, computes, sources[0].protocol.precision)
    classes = [task.classes for task in benchmark.tasks]
    names = [task.classes for task in benchmark.spec.named_tasks]
    for pool in pools.values():
        pool.require_fit(classes, network.theta_0, network.width, digest, names)
    return Pools(tuple(sources), benchmark, backbone, pools, network)


def _pool(sources: Sequence[VectorSource], seed: int, count: int) -> VectorPool:
    found: dict[int, tuple[str, Path]] = {}
    for source in sources:
        there = {int(folder.name.removeprefix("task_")): folder for folder in vector_folders(source.of_seed(seed))}
        for task in source.tasks or there:
            if task not in there:
                raise InputError(f"{source.name}: seed {seed} has no task vector of task {task}")
            if task in found:
                raise InputError(
                    f"task {task} is in {found[task][0]} and in {source.name}; take each task from one of them, as in"
                    f" {found[task][0]}:1,2 {source.name}:3"
                )
            found[task] = (source.name, there[task])
    missing = [task for task in range(1, count + 1) if task not in found]
    names = ", ".join(source.name for source in sources)
    if len(found) < count and len(sources) == 1 and sources[0].tasks is not None:
        some = f"`{_compose_command(sources[0])} --keep {','.join(map(str, sorted(found)))}`"
        raise InputError(f"{sources[0].text}: name the whole run, {names}; of some tasks alone: {some}")
    if missing or len(found) > count:
        has = f"has task vectors of the tasks {', '.join(map(str, sorted(found)))}"
        raise InputError(f"{names}: seed {seed} {has}, but the benchmark has {counted(count, 'task')}")
    return VectorPool(tuple(found[task][1] for task in sorted(found)))


def _compose_command(source: VectorSource) -> str:
    folder = None if source.directory is None else source.directory.path
    return f"{tool()} compose {source.name}" if folder is None else command_on("compose", source.name, folder.parent)


def reduced(pools: Pools, removal: Removal) -> Pools:
    """Return the pools with nothing of some classes; refuse a kind of task vectors that does not allow it."""
    by_seed = {seed: ReducedPool.of(pool, removal) for seed, pool in pools.by_seed.items()}
    return replace(pools, benchmark=without(pools.benchmark, removal), by_seed=by_seed)


def backbone_of(name: str, protocol: ExperimentProtocol, backbone_weights: str | Path | None = None) -> Backbone:
    """Return the backbone of a run, checked against the digest in its protocol. `name` stands in errors.

    The user's file `backbone_weights` takes precedence over that of the protocol.

    Raises:
        InputError: If the backbone does not exist, is too large to be built on a file's word, or has other weights.
    """
    path = backbone_weights or protocol.backbone_weights
    head = None if protocol.initial_head is None else Path(protocol.initial_head)
    backbone = Backbone(protocol.backbone, None if path is None else Path(path).absolute(), head)
    with faults_of(name):
        _ = backbone.input  # refuses an unknown one
    if backbone_weights is None and backbone.shape.parameters > MAX_PARAMETERS:
        raise InputError(
            f"{name}: asks for the backbone {backbone.name} of {backbone.shape.parameters:,} parameters; more than"
            f" {MAX_PARAMETERS:,} are not built for a file: name its weights yourself with --backbone-weights"
        )
    if backbone_weights is None and path is not None and not Path(path).exists():
        raise InputError(
            f"{name}: its backbone's weights {path}: there is no such file; name them with --backbone-weights, or take"
            " the folder `timm` of an export, which needs none"
        )
    if backbone.digest != protocol.weights_digest:
        raise InputError(
            f"{name}: was trained on other weights of {backbone.name}, with digest {protocol.weights_digest[:12]};"
            f" those here have {backbone.digest[:12]}"
        )
    return backbone


def device_of(asked: str | None, source: VectorSource | None = None) -> torch.device:
    """Return a device: as asked for, else the run's kind, or a GPU for exports; refuse one that is not here."""
    if asked is None:
        on_gpu = source is None or source.spec is None or source.spec.resources.gpus_per_trial > 0
        return torch.device("cuda" if on_gpu and torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(asked)
    except RuntimeError:
        raise InputError(f"--device must be cpu or cuda, got {shown(asked)}") from None
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"--device must be cpu or cuda, got {shown(asked)}")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= gpus:
        here = f"{counted(gpus, 'GPU')}, numbered from 0" if gpus else "no GPU"
        raise InputError(f"--device {asked}: this machine has {here}")
    return device
