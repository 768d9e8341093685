"""Compose the task vectors of final runs: checked, evaluated, kept, exported; and the paper's protocol of editing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tausearch.api.benchmarks import open_benchmark
from tausearch.api.requests import ComposeRequest, EditRequest, with_fields_of
from tausearch.models import (
    LINEAR,
    CompositionResult,
    EditResult,
    Form,
    MergeWeights,
    Pools,
    Rule,
    backbone_of,
    chosen_forms,
    edit_pools,
    evaluate,
    evaluations,
    export,
    find_source,
    make_pools,
    merge_weights_of,
    read_compositions,
    register,
    require_alike,
    try_to_record,
    uniform,
)
from tausearch.presentation import LongWork, say_unreadable
from tausearch.runs import RunDirectory, RunSpec, Storage, nothing_left, open_storage, read_trials, require_new_folder
from tausearch.tracking import Version, is_registered, register_model
from trainables.composition import RULES
from trainables.data import build_benchmark
from trainables.errors import InputError
from trainables.metrics import TEST

DEFAULT_DENSITY = 0.2  # what TIES keeps in its paper


@dataclass(frozen=True, repr=False)
class Composed:
    """A composition that has been evaluated.

    Attributes:
        result: Accuracies of each seed.
        file: Where they lie; None for exported vectors, which have no run to keep it in.
        exported: Form to the folder that it was written to.
        tracking_error: Why MLflow could not be written; None if it was, or there is no run.
        version: Of the benchmark's registered model in MLflow, if one was asked for.
        trained: Accuracies that the run itself had at its end, of the same seeds; None where vectors of no run, or of
            several, are composed.
    """

    result: CompositionResult
    file: Path | None
    exported: dict[str, str] = field(default_factory=dict)
    tracking_error: str | None = None
    version: Version | None = None
    trained: CompositionResult | None = None

    def __repr__(self) -> str:
        accuracy = self.result.summary()[TEST.final_accuracy].text()
        return f"<Composed {self.result.label} of {' + '.join(self.result.runs)}: {accuracy} %; {self.file}>"


@dataclass(frozen=True)
class Edited:
    """The paper's protocol on one run; see `Composed`."""

    result: EditResult
    file: Path | None
    tracking_error: str | None = None


@with_fields_of(ComposeRequest)
def compose(request: ComposeRequest) -> Composed:
    """Compose task vectors on theta_0 and evaluate on the test split of the final run.

    Takes the fields of `ComposeRequest`.

    Returns:
        Accuracy on each task, over the logits of all classes, of every seed.

    Raises:
        InputError: Before any work, if something in the request is wrong, or the vectors do not fit together.
    """
    rule, storage = _rule(request.rule, request.density), open_storage(request.storage, write=False)
    if request.export is not None:
        require_new_folder(storage, Path(request.export), "--export")
    elif request.forms and not request.register:
        raise InputError("--form: says what to export, so it goes with --export FOLDER or --register alone")
    pools = open_pools(storage, request.runs, request)
    merge_weights = merge_weights_of(
        pools.tasks,
        keep=request.keep,
        drop=request.drop,
        coefficient=request.coefficient,
        weights=request.weights,
    )
    forms = chosen_forms(request.forms, pools, merge_weights, rule)
    home = _home(pools)
    if request.register and home is None:
        raise InputError("--register: needs a final run of this storage; exported vectors have none")
    with nothing_left(None if request.export is None else Path(request.export)), LongWork() as work:
        tick = work.start(merge_weights.label, pools.tasks * len(pools.by_seed))
        result = evaluate(pools, merge_weights, rule, tick)
        exported = {}
        if request.export is not None:
            written = work.start("export", len(forms) * len(pools.by_seed))
            exported = export(Path(request.export), forms, pools, merge_weights, rule, result, written)
    if request.register:
        result = result.model_copy(update={"registered": forms if request.forms else _loadable(forms)})
    file, tracking_error = _keep(storage, home, result)
    version = None
    if request.register and home is not None:
        if file is None:
            raise InputError("--register: needs a run that can be written")
        if tracking_error is not None:
            raise InputError(f"--register: MLflow cannot be written ({tracking_error}); `sync` makes up for it")
        with _exported(pools, result) as folder:
            version = register(*home, storage, result, folder)
    return Composed(result, file, exported, tracking_error, version, _trained(pools, result))


@with_fields_of(EditRequest)
def edit(request: EditRequest) -> list[Edited]:
    """Run the paper's protocol on final runs: specialisation, and unlearning of each task in three readings.

    Takes the fields of `EditRequest`.

    Returns:
        What each run came to, in the order of the request.

    Raises:
        InputError: Before any work on a run, if something is wrong with it.
    """
    storage = open_storage(request.storage, write=False)
    opened = [open_pools(storage, [name], request) for name in request.runs]
    return [_edit(storage, pools) for pools in opened]


def open_pools(storage: Storage, runs: Sequence[str], request: EditRequest) -> Pools:
    """Find the task vectors of some runs, their benchmark and their backbone, and check that they fit together.

    Args:
        storage: The storage root.
        runs: As a user names them; see `tausearch.models.find_source`.
        request: Says which seeds, and where datasets and backbone lie.

    Returns:
        The task vectors of every seed, with the benchmark's test images.

    Raises:
        InputError: If something does not fit.
    """
    if not runs:
        raise InputError("runs: name at least one run")
    sources = [find_source(storage, text) for text in runs]
    require_alike(sources)
    first = sources[0]
    own = None if first.spec is None else first.spec.data_root
    opened = open_benchmark(first.benchmark, request.data_root or own)
    backbone = backbone_of(first.name, first.protocol, request.backbone_weights)
    benchmark = build_benchmark(opened.source, "final", first.protocol.split_seed, backbone.input)
    return make_pools(sources, benchmark, backbone, request.seeds)


def register_again(spec: RunSpec, directory: RunDirectory, storage: Storage) -> None:
    """Register what the run's files say was registered and MLflow lacks; may raise whatever MLflow raises.

    It is composed anew, from the same task vectors with the same weights.

    Raises:
        InputError: If task vectors, images or the backbone are no longer where they were.
    """
    for result in read_compositions(directory):
        if result.registered and not is_registered(spec, storage, result.label):
            pools = open_pools(storage, result.runs, EditRequest(result.runs, seeds=result.seeds))
            with _exported(pools, result) as folder:
                register_model(spec, storage, result.label, folder)


def _rule(name: str, density: float | None) -> Rule:
    if name == LINEAR:
        if density is not None:
            raise InputError("--density: says what a merging rule keeps, so it does not go with --rule linear")
        return Rule()
    if name not in RULES:
        raise InputError(f"unknown rule {name!r}; allowed: {', '.join((LINEAR, *RULES))}")
    if density is not None and not 0 < density <= 1:
        raise InputError(f"--density must be above 0 and at most 1, got {density:g}")
    return Rule(name, DEFAULT_DENSITY if density is None else density)


def _edit(storage: Storage, pools: Pools) -> Edited:
    with LongWork() as work:
        tick = work.start(f"edit {pools.sources[0].text}", evaluations(pools.tasks, len(pools.by_seed)))
        result = edit_pools(pools, tick)
    return Edited(result, *_keep(storage, _home(pools), result))


def _trained(pools: Pools, result: CompositionResult) -> CompositionResult | None:
    source, tasks = pools.sources[0], range(1, pools.tasks + 1)
    if len(pools.sources) > 1 or source.directory is None or source.spec is None or source.protocol.class_orders:
        return None
    try:
        rows = {trial.seed: trial.final for trial in read_trials(source.spec, source.directory)}
        accuracies = tuple(tuple(rows[seed][TEST.accuracy(task)] for task in tasks) for seed in result.seeds)
    except (InputError, KeyError):  # a damaged record, or one without these seeds, costs the comparison alone
        return None
    whole = uniform(pools.tasks)
    return result.model_copy(update={"label": whole.label, "weights": whole.weights, "accuracies": accuracies})


def _home(pools: Pools) -> tuple[RunSpec, RunDirectory] | None:
    """Return the run that keeps what is found out: the first that it is of."""
    for source in pools.sources:
        if source.directory is not None and source.spec is not None:
            return source.spec, source.directory
    return None


def _keep(
    storage: Storage, home: tuple[RunSpec, RunDirectory] | None, result: CompositionResult | EditResult
) -> tuple[Path | None, str | None]:
    """Write a result to its run and to MLflow; returns its file, and why MLflow could not be written."""
    if home is None:
        return None, None
    spec, directory = home
    try:
        file = result.save(directory)
    except OSError as error:  # who may only read sees what came of the work all the same
        say_unreadable(f"{directory.compositions}: cannot be written ({error.strerror}); what is shown is not kept")
        return None, None
    return file, try_to_record(spec, directory, storage, result)


def _loadable(forms: Sequence[Form]) -> tuple[Form, ...]:
    """Return the form that is registered where none was named: whole networks, or vectors where there are none."""
    return ("timm" if "timm" in forms else "vectors",)


@contextmanager
def _exported(pools: Pools, result: CompositionResult) -> Iterator[Path]:
    """Yield a folder with what was composed, for as long as the block runs."""
    forms, merge_weights = result.registered or (), MergeWeights(result.label, result.weights)
    rule = Rule(result.rule) if result.density is None else Rule(result.rule, result.density)
    with LongWork() as work, TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        export(
            model, forms, pools, merge_weights, rule, result, work.start("register", len(forms) * len(pools.by_seed))
        )
        yield model
