"""Load a model from a final run or from an exported folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import torch
from torch import Tensor

from checked_input import ranges
from checked_input.fields import CheckedRequest, within
from checked_input.names import counted
from checked_input.ranges import text_fault
from tausearch.models.classifiers import of_adapter, of_composition, of_timm
from tausearch.models.descriptions import ModelDescription, has_description, read_description
from tausearch.models.evaluation import merging_rule
from tausearch.models.images import OfPixels
from tausearch.models.merge_configs import MergeConfig, keeping, require_tasks, tasks_called
from tausearch.models.model import Model
from tausearch.models.pools import backbone_of, device_of
from tausearch.models.sources import SEED_FOLDER, VectorSource, describe_source, find_source
from tausearch.runs import DEFAULT_STORAGE, RunDirectory, Storage, open_storage, read_spec
from trainables.backbones import Backbone, InputSpec
from trainables.composition import VectorPool, network_for, vector_folders
from trainables.data import BenchmarkRef, get_source
from trainables.data.transforms.normalisation import Images, Transform
from trainables.errors import InputError
from trainables.user_code import called, changed, digests_of, require_allowed, require_current

_LOADABLE_FORMS = ("vectors", "timm", "adapter")  # of an exported folder with several; vectors can be composed anew


@dataclass(frozen=True)
class ModelOptions(CheckedRequest):
    """What to load of a run or folder; see `load_model`."""

    seed: int | None = within(ranges.SEED, None)
    keep: Sequence[int | str] | None = within(ranges.TASKS, None)
    backbone_weights: str | Path | None = None
    device: str | None = None


def load_model(
    what: str | Path,
    *,
    seed: int | None = None,
    keep: Sequence[int | str] | None = None,
    backbone_weights: str | Path | None = None,
    device: str | None = None,
    storage: str | Path = DEFAULT_STORAGE,
) -> Model:
    """Load the model of a final run; the model's predictions on test images equal those of the run's own test.

    Args:
        what: Name of a final run, or a folder of a run, of exported vectors, of an exported adapter or timm model.
        seed: The seed of the run; by default its first.
        keep: Tasks to compose alone, with their classes alone: numbers, from 1, or names, or names of classes, whose
            tasks are taken whole. By default all, with the weights and the rule of an export.
        backbone_weights: Local weights file of the backbone, by default that of the run. Must be the same theta_0.
        device: The device that computes; by default the run's kind of device if this machine has one.
        storage: The storage root, the folder that holds the run directories.

    Returns:
        The model.

    Raises:
        InputError: If the run or folder does not exist or holds no model, the backbone differs from the run's, or an
            argument is of another type.
    """
    model = open_model(what, ModelOptions(seed, keep, backbone_weights, device), storage)
    for note in model.notes:
        warnings.warn(note, stacklevel=2)
    return model


def open_model(what: str | Path, options: ModelOptions, storage: str | Path) -> Model:
    """Load a model like `load_model`, but leave its notes to the caller."""
    root, text = open_storage(storage, write=False), str(what)
    if fault := text_fault(text):
        raise InputError(f"model {fault}")
    folder = Path(os.path.expanduser(text))
    is_run = root.run_exists(text)
    if not is_run and os.path.isfile(folder / "run.yaml"):  # the path of a run; a text may be too long for `is_file`
        run = _run_at(folder)
        root, text, is_run = Storage(run.path.parent), run.name, True
    if not is_run and os.path.isdir(folder):
        folder = _with_model(folder, options.seed)
        description = read_description(folder)
        if description.form != "vectors":
            return _exported(folder, description, options)
        text = str(folder)
    return _composed(find_source(root, text), options)


def _run_at(folder: Path) -> RunDirectory:
    """Return the run of a path; a link of another name, or `..`, is followed to the run's own folder."""
    named = RunDirectory(folder.absolute())
    try:
        read_spec(named)
    except InputError:
        return RunDirectory(folder.resolve())
    return named


def _with_model(folder: Path, seed: int | None) -> Path:
    """Return the folder with the description: this one, or one below in an export with several."""
    if has_description(folder):
        return folder
    for form in (*_LOADABLE_FORMS, "models"):  # of the last `_exported` says why it is none
        of_export = form != "models" or any(map(has_description, (folder / form, *(folder / form).glob("seed_*"))))
        if of_export and (folder / form).is_dir():
            return _with_model(folder / form, seed)
    seeds = [path for path in folder.iterdir() if SEED_FOLDER.fullmatch(path.name) and has_description(path)]
    seeds.sort(key=lambda path: int(path.name.removeprefix("seed_")))
    wanted = [path for path in seeds if seed is None or path.name == f"seed_{seed}"]
    if not wanted:
        raise InputError(f"{folder}: holds no model" + (f" of seed {seed}" if seeds else "; it has no model.json"))
    return wanted[0]


def _composed(source: VectorSource, options: ModelOptions) -> Model:
    description = describe_source(source)
    require_allowed(description.code)
    require_current(description.code)
    transform, notes = _transform(description, source)
    count, seed = len(description.tasks), source.seeds[0] if options.seed is None else options.seed
    if seed not in source.seeds:
        have = ", ".join(map(str, source.seeds))
        raise InputError(f"{source.name}: has no task vectors of seed {seed}; allowed: {have}")
    own = source.tasks or range(1, count + 1)
    tasks = tuple(sorted(own if options.keep is None else tasks_called("keep", options.keep, description.named_tasks)))
    require_tasks("keep", tasks, count)
    if other := set(tasks) - set(own):
        raise InputError(f"--keep: task {min(other)} is none of {source.text}")
    if options.keep is None and source.tasks is None and description.weights:
        merge = MergeConfig("exported", description.weights, description.rule, description.rule_parameters)
    else:
        whole = [task for task in tasks if description.removal is None or description.weights[task - 1]]
        merge = keeping(count, whole or tasks)  # a vector that has been taken out has no share
    backbone = backbone_of(", ".join(description.runs), description.protocol, options.backbone_weights)
    pool = VectorPool(tuple(vector_folders(source.of_seed(seed))))
    device = device_of(options.device, source)
    network = network_for(pool, backbone, device, description.protocol.precision)
    if len(pool) != count:
        raise InputError(
            f"{source.name}: seed {seed} has {counted(len(pool), 'task vector')} of {counted(count, 'task')}"
        )
    classes = [range(start, stop) for start, stop in pairwise([0, *accumulate(description.tasks)])]
    pool.require_fit(
        classes,
        network.theta_0,
        network.width,
        description.protocol.weights_digest,
        class_names=description.classes_by_task,
    )
    network.compose(pool, merge.weights, pool.head(), merging_rule(merge, seed))
    rows = torch.tensor([row for task in tasks for row in classes[task - 1]])
    return Model(
        module=of_composition(network, pool.head(), rows).requires_grad_(False).eval(),
        classes=tuple(description.class_names[row] for row in rows.tolist()),
        transform=OfPixels(transform),
        about=description,
        tasks=tasks,
        seed=seed,
        device=device,
        notes=(*notes, *_code_notes(source, description, merge)),
        cpu_threads=None if source.spec is None else source.spec.resources.cpus_per_trial,
    )


def _exported(folder: Path, description: ModelDescription, options: ModelOptions) -> Model:
    """Load an adapter or a timm model, whose tasks cannot be taken apart."""
    if description.form == "models":
        beside = [form for form in _LOADABLE_FORMS if (folder.absolute().parent.parent / form).is_dir()]
        instead = f"; load {' or '.join(f'`{form}`' for form in beside)} of the export" if beside else ""
        raise InputError(f"{folder}: holds the parts of a composition{instead}")
    if options.keep is not None:
        raise InputError(f"--keep: {folder} is one composed model; task vectors alone can be composed anew")
    match = SEED_FOLDER.fullmatch(folder.absolute().name)
    seed = None if match is None else int(match[1])
    device = device_of(options.device)
    if options.seed is not None and options.seed != seed:
        raise InputError(f"--seed {options.seed}: {folder} is of another seed")
    if description.form == "timm":
        module = of_timm(
            folder, description.protocol.backbone, description.class_names, device, description.protocol.precision
        )
    else:
        backbone = backbone_of(", ".join(description.runs), description.protocol, options.backbone_weights)
        module = of_adapter(folder, backbone, description.class_names, device, description.protocol.precision)
    tasks = tuple(range(1, len(description.tasks) + 1))
    transform = OfPixels(_described_transform(description))
    return Model(module, description.class_names, transform, description, tasks, seed, device)


def _transform(description: ModelDescription, source: VectorSource) -> tuple[Transform, tuple[str, ...]]:
    """Return the transform of test images, with a note if it is the benchmark's own code; refuse what must not run."""
    if not description.class_names:
        raise InputError(f"{source.name}: does not name its classes; train the run again")
    if description.transform is not None:
        return _described_transform(description), ()
    lacks = f"{source.name}: its transform is code of the benchmark {description.benchmark}"
    if not BenchmarkRef.parse(description.benchmark).in_code:
        raise InputError(f"{source.name}: does not say its transform; train the run again")
    try:
        opened = get_source(description.benchmark)
    except InputError as error:
        raise InputError(f"{lacks}, which cannot be used ({error})") from error
    reads = Backbone(description.protocol.backbone).input
    return _OwnTransform(lacks, opened.transforms(reads)[1], reads), (lacks,)


@dataclass(frozen=True)
class _OwnTransform:
    """A transform of the user's code; it was made for the benchmark's images, and these may be others."""

    where: str
    transform: Transform
    reads: InputSpec

    def __call__(self, images: Images, generator: torch.Generator | None = None) -> Tensor:
        made = called(f"{self.where}, which", lambda: self.transform(images, generator))
        wanted = (len(images), self.reads.channels, self.reads.size, self.reads.size)
        if not isinstance(made, Tensor) or tuple(made.shape) != wanted:
            got = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise InputError(f"{self.where}; it must make {wanted} of these images, got {got}")
        return made


def _code_notes(source: VectorSource, description: ModelDescription, merge: MergeConfig) -> list[str]:
    """Return a note for each name of the user's code that composes the model and has changed since its test."""
    images = () if description.transform is not None else (description.benchmark,)
    now = digests_of((merge.rule, description.protocol.backbone, *images))
    return [
        f"{source.name}: the code of {name} has changed since the test; the accuracies are of the earlier code"
        for name in changed(description.code_digests, now)
    ]


def _described_transform(description: ModelDescription) -> Transform:
    if description.transform is None:
        raise InputError(
            f"{', '.join(description.runs)}: its transform is the benchmark's own code; load the run instead"
        )
    reads, makes = Backbone(description.protocol.backbone).input, description.transform
    if (makes.channels, makes.size) != (reads.channels, reads.size):
        raise InputError(
            f"{', '.join(description.runs)}: its transform makes {makes.channels} x {makes.size} x {makes.size}"
            f" of an image, but {description.protocol.backbone} reads {reads.channels} x {reads.size} x {reads.size}"
        )
    return makes.build()
