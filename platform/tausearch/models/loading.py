"""From the name of a final run, or a folder that was exported of one, to a model that predicts."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import torch

from search_spaces.bounds import text_fault
from tausearch.models.classifiers import of_adapter, of_composition
from tausearch.models.descriptions import ABOUT_FILE, About, describes, read_about
from tausearch.models.evaluation import Rule
from tausearch.models.merge_weights import weighing_of
from tausearch.models.model import Model
from tausearch.models.pools import backbone_of, device_of
from tausearch.models.sources import VectorSource, about_source, find_source
from tausearch.runs import DEFAULT_STORAGE, Storage, open_storage
from trainables.backbones import Backbone
from trainables.composition import ComposedNetwork, VectorPool, network_for, vector_folders
from trainables.data import BenchmarkRef, get_source
from trainables.data.transforms import Transform
from trainables.errors import InputError

_FORMS = ("vectors", "timm", "adapter")  # of an exported folder with several; vectors can be composed anew
_SEED = re.compile(r"seed_([0-9]{1,10})")


def load_model(
    what: str | Path,
    *,
    seed: int | None = None,
    tasks: Sequence[int] | None = None,
    backbone_weights: str | Path | None = None,
    device: str | None = None,
    storage: str | Path = DEFAULT_STORAGE,
) -> Model:
    """Load the model that a final run has left: what it predicts for the test images is what the run was tested with.

    Args:
        what: Name of a final run, or a folder: of a run, of exported vectors, of an exported adapter or timm model.
        seed: The seed of the run; by default its first.
        tasks: Tasks to compose alone, from 1; the model then knows their classes alone. By default all.
        backbone_weights: Local weights file of the backbone; by default that of the run. It must be the same theta_0.
        device: The device that computes; by default the kind that the run had, where this machine has one.
        storage: The storage root, the folder that holds the run directories.

    Returns:
        The model.

    Raises:
        InputError: If there is no such run or folder, it holds no model, or the backbone is another than it was.
    """
    model = open_model(
        what,
        seed=seed,
        tasks=tasks,
        backbone_weights=backbone_weights,
        device=device,
        storage=storage,
    )
    for note in model.notes:
        warnings.warn(note, stacklevel=2)
    return model


def open_model(
    what: str | Path,
    *,
    seed: int | None = None,
    tasks: Sequence[int] | None = None,
    backbone_weights: str | Path | None = None,
    device: str | None = None,
    storage: str | Path = DEFAULT_STORAGE,
) -> Model:
    """Do what `load_model` says, and leave it to the caller to say the model's notes."""
    root, text = open_storage(storage, write=False), str(what)
    if fault := text_fault(text):
        raise InputError(f"model {fault}")
    folder = Path(text).expanduser()
    is_run = root.run_exists(text)
    if not is_run and (folder / "run.yaml").is_file():  # the path of a run
        root, text, is_run = Storage(folder.absolute().parent), folder.absolute().name, True
    if not is_run and folder.is_dir():
        folder = _with_model(folder, seed)
        about = read_about(folder)
        if about.form != "vectors":
            return _exported(folder, about, seed, tasks, backbone_weights, device)
        text = str(folder)
    return _composed(find_source(root, text), seed, tasks, backbone_weights, device)


def _with_model(folder: Path, seed: int | None) -> Path:
    """Return the folder that says what it holds: this one, or one below it where an export has several."""
    if describes(folder):
        return folder
    for form in _FORMS:
        if (folder / form).is_dir():
            return _with_model(folder / form, seed)
    seeds = sorted(path for path in folder.iterdir() if _SEED.fullmatch(path.name) and describes(path))
    wanted = [path for path in seeds if seed is None or path.name == f"seed_{seed}"]
    if not wanted:
        raise InputError(f"{folder}: holds no model" + (f" of seed {seed}" if seeds else "; it has no model.json"))
    return wanted[0]


def _composed(
    source: VectorSource,
    seed: int | None,
    tasks: Sequence[int] | None,
    backbone_weights: str | Path | None,
    device: str | None,
) -> Model:
    about = about_source(source)
    transform, notes = _transform(about, source)
    count, chosen = len(about.tasks), _seed_of(source, seed)
    kept = tuple(sorted(tasks or source.tasks or range(1, count + 1)))
    _require_tasks(kept, count)
    weights, rule = about.weights, Rule(about.rule, about.density or 1.0)
    if len(kept) < count or not weights:  # another composition than was exported
        weights, rule = weighing_of(count, keep=kept).weights, Rule()
    backbone, pool = _backbone(about, backbone_weights), VectorPool(tuple(vector_folders(source.of_seed(chosen))))
    where = device_of([source]) if device is None else torch.device(device)
    network = network_for(pool, backbone, where, about.protocol.precision)
    classes = _require_fit(pool, about, network, source, chosen)
    network.compose(pool, weights, pool.head(), rule.of_seed(chosen))
    rows = torch.tensor([row for task in kept for row in classes[task - 1]])
    return Model(
        module=of_composition(network, pool.head(), rows).requires_grad_(False).eval(),
        classes=tuple(about.class_names[row] for row in rows.tolist()),
        transform=transform,
        about=about,
        tasks=kept,
        seed=chosen,
        device=where,
        notes=tuple(notes),
        cpu_threads=None if source.spec is None else source.spec.resources.cpus_per_trial,
    )


def _seed_of(source: VectorSource, seed: int | None) -> int:
    if seed is not None and seed not in source.seeds:
        have = ", ".join(map(str, source.seeds))
        raise InputError(f"{source.name}: has no task vectors of seed {seed}; allowed: {have}")
    return source.seeds[0] if seed is None else seed


def _require_fit(
    pool: VectorPool, about: About, network: ComposedNetwork, source: VectorSource, seed: int
) -> list[range]:
    """Make sure that the vectors are those of the tasks and the backbone; returns the classes of each task."""
    if len(pool) != len(about.tasks):
        raise InputError(f"{source.name}: seed {seed} has {len(pool)} task vectors of {len(about.tasks)} tasks")
    ends = [0, *accumulate(about.tasks)]
    classes = [range(start, stop) for start, stop in pairwise(ends)]
    pool.require_fit(classes, network.theta_0, network.width, about.protocol.weights_digest)
    for folder, vector, names in zip(pool.folders, pool, about.classes_by_task, strict=True):
        if vector.origin.class_names not in ((), names):
            raise InputError(f"{folder}: names other classes than {ABOUT_FILE}")
    return classes


def _exported(
    folder: Path,
    about: About,
    seed: int | None,
    tasks: Sequence[int] | None,
    backbone_weights: str | Path | None,
    device: str | None,
) -> Model:
    """Load an adapter or a timm model, of which only the whole is there."""
    if about.form == "models":
        raise InputError(f"{folder}: holds the parts of a composition; load `vectors`, `timm` or `adapter` beside it")
    if tasks is not None:
        raise InputError(f"--tasks: {folder} is one composed model; task vectors alone can be composed anew")
    said = _SEED.fullmatch(folder.absolute().name)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if seed is not None and (said is None or int(said[1]) != seed):
        raise InputError(f"--seed {seed}: {folder} is of another seed")
    if about.form == "timm":
        from trainables.composition.checkpoints import read_timm_folder  # imports timm, which takes two seconds

        module = read_timm_folder(folder, about.protocol.backbone, len(about.class_names), where)
    else:
        backbone = _backbone(about, backbone_weights)
        module = of_adapter(folder, backbone, len(about.class_names), where, about.protocol.precision)
    everything = tuple(range(1, len(about.tasks) + 1))
    number = None if said is None else int(said[1])
    return Model(module, about.class_names, _written_down(about), about, everything, number, where)


def _backbone(about: About, weights: str | Path | None) -> Backbone:
    """Return theta_0 as it is on this machine, if it is the one that was learned on."""
    return backbone_of(", ".join(about.runs), about.protocol, weights)


def _transform(about: About, source: VectorSource) -> tuple[Transform, list[str]]:
    """Return the transform of test images, and a line that says so where it is the benchmark's own code.

    Raises:
        InputError: If the vectors do not name their classes, or the code is not allowed to run.
    """
    if not about.class_names:
        raise InputError(f"{source.name}: does not name its classes; train the run again")
    if about.transform is not None:
        return _written_down(about), []
    lacks = f"{source.name}: its transform is code of the benchmark {about.benchmark}"
    if not BenchmarkRef.parse(about.benchmark).is_module:
        raise InputError(f"{source.name}: does not say its transform; train the run again")
    try:
        opened = get_source(about.benchmark)
    except InputError as error:
        raise InputError(f"{lacks}, which cannot be used ({error})") from error
    return opened.transforms(Backbone(about.protocol.backbone).input)[1], [lacks]


def _require_tasks(tasks: Sequence[int], count: int) -> None:
    unknown = [task for task in tasks if not 1 <= task <= count]
    if unknown:
        raise InputError(f"--tasks: there is no task {unknown[0]}; allowed: 1 to {count}")
    if not tasks or len(set(tasks)) < len(tasks):
        raise InputError(f"--tasks must be different tasks, got {','.join(map(str, tasks))!r}")


def _written_down(about: About) -> Transform:
    if about.transform is None:
        raise InputError(f"{', '.join(about.runs)}: its transform is the benchmark's own code; load the run instead")
    reads, makes = Backbone(about.protocol.backbone).input, about.transform
    if (makes.channels, makes.size) != (reads.channels, reads.size):
        raise InputError(
            f"{', '.join(about.runs)}: its transform makes {makes.channels} x {makes.size} x {makes.size} of an image,"
            f" but {about.protocol.backbone} reads {reads.channels} x {reads.size} x {reads.size}"
        )
    return makes.build()
