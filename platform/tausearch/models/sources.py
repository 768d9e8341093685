"""Sources of task vectors: a final run of the storage root, or a folder of exported vectors."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tausearch.models.descriptions import ModelDescription, read_description
from tausearch.presentation import command_on
from tausearch.runs import DataFacts, ExperimentProtocol, FinalSpec, Record, RunDirectory, Storage, finals_of, read_spec
from trainables.composition import read_vector, vector_folders
from trainables.errors import InputError
from trainables.methods import METHODS, known_method
from trainables.metrics import TEST

SEED_FOLDER = re.compile(r"seed_([0-9]{1,10})")
_TASKS = re.compile(r"(.+):([0-9]+(?:,[0-9]+)*)")


@dataclass(frozen=True)
class VectorSource:
    """Task vectors of several seeds on one benchmark."""

    name: str  # name of the run, or path of the folder
    benchmark: str
    methods: tuple[str, ...]
    protocol: ExperimentProtocol
    seeds: tuple[int, ...]  # the seeds with task vectors
    folder: Path  # the folder with a folder `seed_<s>` for each seed
    tasks: tuple[int, ...] | None = None  # the selected tasks, from 1; None for all
    spec: FinalSpec | None = None  # the specification of the run; None for exported vectors, as `directory`
    directory: RunDirectory | None = None
    reduced: bool = False  # whether they are the export of a composition without some classes
    test_images: tuple[int, ...] = ()  # number for each task, as exported vectors say it; empty where unknown
    images: DataFacts | None = None  # the images that were learned and tested; None where unknown

    @property
    def every_seed(self) -> tuple[int, ...]:
        """The seeds of the run, with or without task vectors; those of exported vectors."""
        return self.seeds if self.spec is None else self.spec.seeds

    @property
    def text(self) -> str:
        """The source as a user writes it."""
        return self.name if self.tasks is None else f"{self.name}:{','.join(map(str, self.tasks))}"

    def of_seed(self, seed: int) -> Path:
        """Return the folder of a seed's task vectors."""
        return self.folder / f"seed_{seed}"


def find_source(storage: Storage, text: str) -> VectorSource:
    """Return the source that a user names, a run or else a folder, or refuse it. The suffix `:1,2` selects tasks."""
    found = _named(storage, text)
    match = _TASKS.fullmatch(text)
    if found is None and match:
        found = _named(storage, match[1])
        found = found and replace(found, tasks=tuple(int(task) for task in match[2].split(",")))
    if found is None:
        finals = [spec.name for spec in storage.read_each(read_spec)[0] if spec.purpose == "final"]
        raise InputError(
            f"{text!r}: no run of that name in {storage.root}, and no folder of exported task vectors"
            f"{storage.hint_for(text, finals)}"
        )
    return found


def describe_source(source: VectorSource) -> ModelDescription:
    """Return the description of a run from the vectors' headers and the record, or that in an exported folder."""
    if source.spec is None or source.directory is None:
        return read_description(source.folder)
    first = source.of_seed(source.seeds[0])
    folders = vector_folders(first) if any(first.glob("task_*")) else []
    origins = [origin for origin in (read_vector(folder).origin for folder in folders) if origin.class_names]
    metrics = [TEST.accuracy(task) for task in range(1, source.protocol.tasks + 1)]
    finals = {trial.seed: trial.final for trial in Record(source.directory.record).trials()}
    return ModelDescription(
        benchmark=source.benchmark,
        protocol=source.protocol,
        runs=(source.name,),
        methods=source.methods,
        code_digests=source.spec.code_digests,
        accuracies={
            seed: tuple(row[metric] for metric in metrics)
            for seed, row in finals.items()
            if seed in source.seeds and all(metric in row for metric in metrics)
        },
        class_names=tuple(name for origin in origins for name in origin.class_names),
        tasks=tuple(len(origin.classes) for origin in origins),
        task_names=tuple(task.name for task in source.spec.tasks) if len(source.spec.tasks) == len(origins) else (),
        transform=origins[0].transform if origins else None,
        test_images=() if source.images is None else source.images.evaluation_per_task,
        images=source.images,
    )


def chosen_seeds(sources: Sequence[VectorSource], seeds: Sequence[int] | None) -> tuple[int, ...]:
    """Return the seeds to compose: the given ones in order, or all of the first source. Every source must have them."""
    chosen = sources[0].every_seed if seeds is None else tuple(sorted(seeds))
    for source in sources:
        for seed in chosen:
            if seed not in source.seeds:
                have = ",".join(str(each) for each in source.seeds if all(each in other.seeds for other in sources))
                instead = f"compose those that have with --seeds {have}" if have else "no seed is in every source"
                raise InputError(f"{source.name}: {_missing_reason(source, seed)}; {instead}")
    return chosen


def _missing_reason(source: VectorSource, seed: int) -> str:
    if source.spec is None or source.directory is None or seed not in source.spec.seeds:
        return f"has no seed {seed}"
    for trial in Record(source.directory.record).trials():
        if trial.seed == seed and trial.status != "complete":
            return f"seed {seed} has no result ({trial.status})"
    return f"seed {seed} has left no task vectors"


def _named(storage: Storage, text: str) -> VectorSource | None:
    path = Path(os.path.expanduser(text))
    if path.name == text and storage.run_exists(text):
        return source_of_run(storage.run(text))
    return _of_folder(path) if os.path.isdir(path) else None  # a name may be too long for `Path.is_dir`


def source_of_run(directory: RunDirectory) -> VectorSource:
    """Return a final run as a source; a search, or a run without task vectors, is an error."""
    spec = read_spec(directory)
    entry = known_method(spec.method)
    if entry is not None and not entry.capabilities.composable:
        others = ", ".join(name for name, entry in METHODS.items() if entry.capabilities.composable)
        raise InputError(f"run {spec.name!r}: its method {spec.method!r} leaves no task vectors; {others} do")
    if spec.purpose == "search":
        finals = finals_of(Storage(directory.path.parent), spec)
        train = command_on("train", spec.name, directory.path.parent)
        which = ", ".join(final.name for final in finals) or f"`{train}` makes one"
        raise InputError(f"run {spec.name!r}: is a search, which leaves no task vectors; its final runs do: {which}")
    done = {trial.seed for trial in Record(directory.record).trials() if trial.status == "complete"}
    seeds = tuple(seed for seed in spec.seeds if seed in done and (directory.artifacts / f"seed_{seed}").is_dir())
    if not seeds:
        no_vectors = done and spec.protocol.class_orders is None  # its method may be code that is not imported here
        why = (
            f"its method {spec.method!r} left no task vectors"
            if no_vectors
            else "no seed has finished and left task vectors"
        )
        raise InputError(f"run {spec.name!r}: {why}")
    about = (spec.name, spec.benchmark, (spec.method,), spec.protocol, seeds, directory.artifacts)
    return VectorSource(*about, spec=spec, directory=directory, images=spec.data)


def _of_folder(folder: Path) -> VectorSource:
    description = read_description(folder)
    seeds = sorted(int(match[1]) for path in folder.iterdir() if (match := SEED_FOLDER.fullmatch(path.name)))
    if not seeds:
        raise InputError(f"{folder}: holds no task vectors, which lie in folders seed_0, seed_1, ...")
    return VectorSource(
        name=str(folder) if "/" in str(folder) else f"./{folder}",  # without a slash it would be the name of a run
        benchmark=description.benchmark,
        methods=description.methods,
        protocol=description.protocol,
        seeds=tuple(seeds),
        folder=folder,
        reduced=description.removal is not None,
        test_images=description.test_images,
        images=description.images,
    )
