"""Where task vectors are read from: a final run of the storage folder, or a folder of exported vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tausearch.models.descriptions import About, read_about, with_accuracies
from tausearch.runs import ExperimentProtocol, Record, RunDirectory, RunSpec, Storage, read_spec
from trainables.composition import Origin, read_vector, vector_folders
from trainables.errors import InputError
from trainables.methods import METHODS
from trainables.metrics import TEST

_SEED = re.compile(r"seed_([0-9]{1,10})")
_TASKS = re.compile(r"(.+):([0-9]+(?:,[0-9]+)*)")


@dataclass(frozen=True)
class VectorSource:
    """Task vectors of several seeds of one method on one benchmark.

    Attributes:
        name: Of the run, or the path of the folder.
        benchmark: What the benchmark is called.
        methods: The methods that learned them.
        protocol: The protocol of the run that learned them.
        seeds: The seeds that left task vectors.
        folder: The folder with a folder `seed_<s>` for each seed.
        tasks: The tasks whose vectors to take, from 1; None for all.
        spec: The specification of the run; None for exported vectors.
        directory: The directory of the run; None for exported vectors.
    """

    name: str
    benchmark: str
    methods: tuple[str, ...]
    protocol: ExperimentProtocol
    seeds: tuple[int, ...]
    folder: Path
    tasks: tuple[int, ...] | None = None
    spec: RunSpec | None = None
    directory: RunDirectory | None = None

    @property
    def text(self) -> str:
        """The source as a user writes it."""
        return self.name if self.tasks is None else f"{self.name}:{','.join(map(str, self.tasks))}"

    def of_seed(self, seed: int) -> Path:
        """Return the folder of a seed's task vectors."""
        return self.folder / f"seed_{seed}"


def find_source(storage: Storage, text: str) -> VectorSource:
    """Find the task vectors that a user names.

    Args:
        storage: The storage root, in which a run is looked for first.
        text: Name of a run or path of a folder, with `:1,2` behind it for some of its tasks alone.

    Returns:
        Where they lie and what is known of them.

    Raises:
        InputError: If there is no such run or folder, or it has no task vectors.
    """
    found = _named(storage, text)
    match = _TASKS.fullmatch(text)
    if found is None and match:
        found = _named(storage, match[1])
        found = found and replace(found, tasks=tuple(int(task) for task in match[2].split(",")))
    if found is None:
        raise InputError(
            f"{text!r}: no run of that name in {storage.root}, and no folder of exported task vectors"
            f"{storage.near(text)}"
        )
    return found


def about_source(source: VectorSource) -> About:
    """Return the description of a source's task vectors, from the headers of their files.

    Raises:
        InputError: If a file cannot be read.
    """
    if source.spec is None or source.directory is None:
        return read_about(source.folder)
    first = source.of_seed(source.seeds[0])
    folders = vector_folders(first) if any(first.glob("task_*")) else []
    origins = [read_vector(folder).origin for folder in folders]
    about = About(
        benchmark=source.benchmark,
        protocol=source.protocol,
        runs=(source.name,),
        methods=source.methods,
        **_read_off([origin for origin in origins if origin.class_names]),
    )
    rows = {trial.seed: trial.final for trial in Record(source.directory.record).trials() if trial.seed in source.seeds}
    tasks = range(1, source.protocol.tasks + 1)
    measured = {seed: [row.get(TEST.accuracy(task)) for task in tasks] for seed, row in rows.items()}
    whole = {seed: [value for value in row if value is not None] for seed, row in measured.items() if None not in row}
    return with_accuracies(about, list(whole), list(whole.values()))


def _read_off(origins: Sequence[Origin]) -> dict[str, Any]:
    """Return what the vectors of one seed say of classes and transform."""
    if not origins:
        return {}
    names = tuple(name for origin in origins for name in origin.class_names)
    return {
        "class_names": names,
        "tasks": tuple(len(origin.classes) for origin in origins),
        "transform": origins[0].transform,
    }


def chosen_seeds(sources: Sequence[VectorSource], wanted: Sequence[int] | None) -> tuple[int, ...]:
    """Return the seeds to compose: those asked for, or all of the runs.

    Raises:
        InputError: If a seed left no task vectors, names why; or the sources have no seed in common.
    """
    seeds = tuple(wanted) if wanted is not None else _asked_for(sources[0])
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds must be one or more different numbers, got {','.join(map(str, seeds)) or 'none'}")
    for source in sources:
        for seed in seeds:
            if seed not in source.seeds:
                have = ",".join(map(str, source.seeds))
                raise InputError(
                    f"{source.name}: {_why_not(source, seed)}; compose those that have with --seeds {have}"
                )
    return seeds


def _asked_for(source: VectorSource) -> tuple[int, ...]:
    return source.seeds if source.spec is None else source.spec.seeds


def _why_not(source: VectorSource, seed: int) -> str:
    if source.spec is None or source.directory is None or seed not in source.spec.seeds:
        return f"has no seed {seed}"
    for trial in Record(source.directory.record).trials():
        if trial.seed == seed and trial.status != "complete":
            return f"seed {seed} has no result ({trial.status})"
    return f"seed {seed} has left no task vectors"


def _named(storage: Storage, text: str) -> VectorSource | None:
    path = Path(text).expanduser()
    if path.name == text and storage.run_exists(text):
        return source_of_run(storage.run(text))
    return _of_folder(path) if path.is_dir() else None


def source_of_run(directory: RunDirectory) -> VectorSource:
    """Return the task vectors that a final run has left.

    Raises:
        InputError: If it is no final run, or has left none.
    """
    spec = read_spec(directory)
    if spec.purpose != "final":
        raise InputError(f"run {spec.name!r}: is a search, which leaves no task vectors; train its best file first")
    entry = METHODS.get(spec.method)
    if entry is not None and not entry.capabilities.writes_artifacts:
        raise InputError(f"run {spec.name!r}: its method {spec.method!r} leaves no task vectors; {_composable()} do")
    done = {trial.seed for trial in Record(directory.record).trials() if trial.status == "complete"}
    seeds = tuple(seed for seed in spec.seeds if seed in done and (directory.artifacts / f"seed_{seed}").is_dir())
    if not seeds:
        raise InputError(f"run {spec.name!r}: no seed has finished and left task vectors")
    return VectorSource(
        spec.name, spec.benchmark, (spec.method,), spec.protocol, seeds, directory.artifacts, None, spec, directory
    )


def _composable() -> str:
    return ", ".join(name for name, entry in METHODS.items() if entry.capabilities.writes_artifacts)


def _of_folder(folder: Path) -> VectorSource:
    about = read_about(folder)
    seeds = sorted(int(match[1]) for path in folder.iterdir() if (match := _SEED.fullmatch(path.name)))
    if not seeds:
        raise InputError(f"{folder}: holds no task vectors, which lie in folders seed_0, seed_1, ...")
    return VectorSource(str(folder), about.benchmark, about.methods, about.protocol, tuple(seeds), folder)
