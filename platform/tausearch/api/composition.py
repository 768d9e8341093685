"""Compose the task vectors of final runs: check, evaluate, save, export; and the paper's protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tausearch import models
from tausearch.api.benchmarks import open_benchmark
from tausearch.api.requests import ComposeRequest, EvaluateRequest, allow_named, with_fields_of
from tausearch.api.retraining import RetrainingPlan, plan_retraining
from tausearch.models import CompositionResult, EvaluationResult, MergeConfig, Pools, VectorSource
from tausearch.presentation import LongWork, command_on, notebook_cell, output_to, print_notices, tool
from tausearch.runs import (
    FinalSpec,
    RunDirectory,
    Storage,
    open_storage,
    read_trials,
    require_new_folder,
    require_writable_folder,
)
from tausearch.tracking import Version, is_registered, reason, register_model
from trainables.backbones import Backbone
from trainables.composition import choose_rule
from trainables.config import Purpose
from trainables.data import Benchmark, Removal, build_benchmark
from trainables.errors import Faults, InputError, faults_of
from trainables.metrics import TEST
from trainables.user_code import require_allowed, require_current

_OF_HARDWARE = 0.5  # points by which rounding, such as that of bf16, may change the accuracy of the same vectors


@dataclass(frozen=True, repr=False)
class Composed:
    """A composition that has been evaluated.

    Attributes:
        file: The file with the result; None for exported vectors, which have no run that stores it.
        exported: Form to the folder that it was written to.
        not_exported: Form to the reason why an export of all forms lacks it.
        tracking_error: Why MLflow could not be written; None if it was, or there is no run.
        version: The version of the benchmark's registered model in MLflow, if one was asked for.
        trained: Accuracies of the run itself at its end, of the same seeds; None for vectors without a run or of
            several runs, and for a removal, whose report has them.
    """

    result: CompositionResult
    file: Path | None
    exported: dict[str, str] = field(default_factory=dict)
    not_exported: dict[str, str] = field(default_factory=dict)
    tracking_error: str | None = None
    version: Version | None = None
    trained: CompositionResult | None = None

    def __repr__(self) -> str:
        return f"<Composed {self.in_words}; {self.file}>"

    @property
    def in_words(self) -> str:
        """The heading, the runs, and the mean accuracy on the test images."""
        accuracy = self.result.summary()[TEST.final_accuracy].text()
        return f"{self.result.heading} of {' + '.join(self.result.runs)}: {accuracy} %"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: accuracies on each task, or the report of what was taken out."""
        report, lines = self.result.removal, [self.in_words]
        if report is None:
            lines += filter(None, [models.still_answered_line(self.result)])
            tables = [models.accuracy_table(self.result, self.trained)]
            if (search := self.result.search) is not None:
                lines += filter(None, [models.chosen_by_line(search), models.no_gain_line(search)])
                tables.insert(0, models.rule_search_table(search))
            return notebook_cell(lines, tables)
        lines += filter(None, [models.MEMBERSHIP_NOTE, models.few_images(report)])
        for title, found in (("Left out", report.left_out), ("What remains", report.remains)):
            lines += [f"{title}: {line}" for line in found]
        return notebook_cell(lines, models.removal_tables(report, self.result.accuracies, self.result.task_names))


@dataclass(frozen=True)
class Evaluated:
    """The paper's protocol on one run; see `Composed`."""

    result: EvaluationResult
    file: Path | None
    tracking_error: str | None = None

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the protocol's table."""
        return notebook_cell([self.result.run], [models.evaluation_table(self.result)])


class Evaluations(list[Evaluated]):
    """The paper's protocol on several runs; a notebook shows the table of each."""

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the protocol's table of each run."""
        return "".join(each._repr_html_() for each in self)


def compose_with(request: ComposeRequest) -> Composed:
    """Compose task vectors on theta_0 and evaluate on the test split of the final run.

    Returns:
        Accuracy on each task, over the logits of all classes, of every seed.

    Raises:
        InputError: Before any work, if something in the request is wrong, or the vectors do not fit together.
        RuntimeError: If a signal has stopped the training of `retrain_later`; the same call continues it.
    """
    parameters, storage = _rule_parameters(request), open_storage(request.storage, write=False)
    space = _rule_space(request)
    folder = None if request.export is None else Path(request.export)
    if folder is not None:
        require_new_folder(storage, folder, "--export")
    elif request.forms and not request.register:
        raise InputError("--forms: says what to export, so it goes with --export FOLDER or --register alone")
    pools = open_pools(find_sources(storage, request.runs), request)
    removal = None if request.forget is None else _removal(request, request.forget, pools)
    retraining = _retraining(request, pools, removal, storage)
    if removal is None:
        merge, left = _merge(request, pools), pools
    else:
        merge = models.removal_config(removal, retrained=retraining is not None)
        left = pools if retraining is not None else models.reduced(pools, removal)
    linear_merge, merge = merge, merge.merged_by(request.rule, parameters)
    models.require_mergeable(pools, merge, removal, retrained=retraining is not None)
    problems = models.impossible_forms(left, merge)
    forms = models.chosen_forms(request.forms, problems)
    if request.register:
        _require_registrable(pools, storage)
    if retraining is not None:
        left = _trained_again(retraining, request, storage)
    search = None
    with LongWork() as work:
        if space is not None:
            merge, search = _search_rule(request, pools, linear_merge, space, work)
        if removal is None:
            result = models.evaluate(pools, merge, work.start(merge.label, pools.tasks * len(pools.by_seed)), search)
        else:
            tick = work.start(merge.label, models.n_removal_steps(pools, removal))
            result = models.evaluate_removal(
                pools, removal, left, merge, tick, None if retraining is None else retraining.how
            )
    if request.register:
        # Without a wanted form whole networks are registered, or vectors of a method that has none.
        loadable: models.ExportForm = "timm" if "timm" in forms else "vectors"
        result = result.model_copy(update={"registered": forms if request.forms else (loadable,)})
    own = pools if retraining is None else left
    file, tracking_error = _save(storage, own, result)
    exported = {}
    if folder is not None:  # an export that fails, as on a full disk, costs no result
        with LongWork() as work:
            written = work.start("export", len(forms) * len(pools.by_seed))
            exported = models.export(folder, forms, left, result, written)
    if search is not None and file is not None:  # until here a kill costs no evaluation
        models.open_trial_cache(pools, merge).close()
    version = _register(storage, own, result, file, tracking_error) if request.register else None
    lacking = problems if exported and not request.forms else {}
    return Composed(result, file, exported, lacking, tracking_error, version, _trained(pools, result))


compose = with_fields_of(ComposeRequest, compose_with)


def evaluate_with(request: EvaluateRequest) -> list[Evaluated]:
    """Run the paper's protocol on final runs: specialisation, and unlearning of each task in three readings.

    Returns:
        The result of each run, in the order of the request.

    Raises:
        InputError: Before any work on a run, if something is wrong with it.
    """
    storage = open_storage(request.storage, write=False)
    opened = [open_pools([each], request) for each in find_sources(storage, request.runs)]
    return Evaluations(_evaluate(storage, pools) for pools in opened)


evaluate = with_fields_of(EvaluateRequest, evaluate_with)


def find_sources(storage: Storage, runs: Sequence[str]) -> list[VectorSource]:
    """Return what `find_source` finds for each run, and refuse code that has changed since this process imported it.

    A command does this once, when it starts.
    """
    sources = [models.find_source(storage, text) for text in runs]
    require_current(name for each in sources for name in (each.benchmark, each.protocol.backbone))
    return sources


def open_pools(sources: Sequence[VectorSource], request: EvaluateRequest) -> Pools:
    """Return the task vectors of some sources and the benchmark's test images, checked that they fit together.

    `request` gives the seeds, the device, and the places of datasets and backbone; its runs are not looked at.

    Raises:
        InputError: If something does not fit.
    """
    for source in sources:
        if source.reduced:
            raise InputError(
                f"{source.name}: was exported with --forget, so its classes are not those of the benchmark; it cannot"
                f" be composed or tested again (`{tool()} predict` reads it)"
            )
    models.require_alike(sources)
    first = sources[0]
    require_allowed([first.benchmark, first.protocol.backbone])
    models.device_of(request.device, first)  # refuses a wrong one before images are read
    backbone = models.backbone_of(first.name, first.protocol, request.backbone_weights)
    return models.make_pools(
        sources, _benchmark(sources, request, "final", backbone), backbone, request.seeds, request.device
    )


def _benchmark(
    sources: Sequence[VectorSource], request: EvaluateRequest, purpose: Purpose, backbone: Backbone
) -> Benchmark:
    """Return the benchmark of some vectors, with the test images ("final") or the validation images ("search").

    Raises:
        InputError: If a run learned another number of images, so that the split is another one now. Vectors that an
            earlier version exported say only how many test images each task had.
    """
    first = sources[0]
    own = None if first.spec is None else first.spec.data_root
    opened = open_benchmark(first.benchmark, request.data_root or own)
    built = build_benchmark(opened.source, purpose, first.protocol.split_seed, backbone.input)
    now = opened.facts_of(built)
    for each in sources if purpose == "final" else ():
        if each.images is not None:
            opened.require_images(each.name, each.images, now)
        elif each.test_images not in ((), now.evaluation_per_task):
            was, got = (",".join(map(str, numbers)) for numbers in (each.test_images, now.evaluation_per_task))
            raise InputError(
                f"{each.name}: its tasks had {was} test images, now they have {got}, perhaps some that the run learned;"
                " bring back the images that the run began with"
            )
    return built


def register_again(spec: FinalSpec, directory: RunDirectory, storage: Storage) -> None:
    """Compose and register anew what MLflow lacks of a run's registered compositions. May raise any error of MLflow."""
    faults = Faults()
    lost = [
        result
        for result in models.read_compositions(directory)
        if result.registered and not is_registered(spec, storage, result.label)
    ]
    for result in lost:
        with faults, faults_of(result.label):
            request = EvaluateRequest(result.runs, seeds=result.seeds)
            pools = open_pools(find_sources(storage, result.runs), request)
            _require_measured(pools, result)
            with _exported(pools, result) as folder:
                register_model(spec, storage, result.label, folder)
    faults.raise_all()


def _require_measured(pools: Pools, result: CompositionResult) -> None:
    """Refuse vectors that give other accuracies than a result; another device may answer a few images otherwise."""
    merge = MergeConfig(result.label, result.weights, result.rule, result.rule_parameters)
    with LongWork() as work:
        left = _without_forgotten(pools, result)
        now = models.evaluate(left, merge, work.start(result.label, left.tasks * len(left.by_seed)))
    for seed, before, after in zip(result.seeds, result.accuracies, now.accuracies, strict=True):
        for task, was, got, images in zip(result.tasks, before, after, now.test_images, strict=True):
            if abs(got - was) > max(_OF_HARDWARE, 100.5 / images):  # or an image, on the edge between two classes
                raise InputError(
                    f"{', '.join(result.runs)} gave {was:.2f} % on task {task} with seed {seed} and now give {got:.2f}"
                    " %, so it is not registered again; compose it again with --register"
                )


def _merge(request: ComposeRequest, pools: Pools) -> MergeConfig:
    tasks = pools.benchmark.spec.named_tasks
    return models.merge_config_of(
        pools.tasks,
        keep=None if request.keep is None else models.tasks_called("keep", request.keep, tasks),
        drop=None if request.drop is None else models.tasks_called("drop", request.drop, tasks),
        coefficient=request.coefficient,
        weights=request.weights,
        adds_up=pools.network.adds_up,
    )


def _removal(request: ComposeRequest, forget: Sequence[str], pools: Pools) -> Removal:
    options = {"keep": request.keep, "drop": request.drop, "weights": request.weights}
    for name in (name for name, value in options.items() if value is not None):
        raise InputError(f"--forget and --{name}: choose one of them")
    if request.coefficient is not None:
        raise InputError("--coefficient: says how to unlearn, so it goes with --drop alone")
    return models.removal_of(forget, pools.benchmark.spec)


def _retraining(
    request: ComposeRequest, pools: Pools, removal: Removal | None, storage: Storage
) -> RetrainingPlan | None:
    """Return the plan of `--retrain-later`; None if it was not asked for, or no task has to be trained again."""
    if not request.retrain_later:
        return None
    if removal is None:
        raise InputError("--retrain-later: goes with --forget, which says without which classes")
    plan = plan_retraining(pools, removal, storage, request.data_root, on_cpu=request.device == "cpu")
    if plan is None:
        print_notices("no task that is left has learned from the forgotten images: nothing is trained")
    return plan


def _trained_again(plan: RetrainingPlan, request: ComposeRequest, storage: Storage) -> Pools:
    """Train what is left to train; returns the vectors of the new run."""
    source = models.find_source(storage, plan.run())
    seeds = tuple(plan.before.by_seed)
    options = EvaluateRequest(
        [source.name],
        seeds=seeds,
        backbone_weights=request.backbone_weights,
        data_root=request.data_root,
        device=request.device,
    )
    return replace(open_pools([source], options), network=plan.before.network)  # one network is in memory


def _rule_space(request: ComposeRequest) -> models.RuleSpace | None:
    """Return what `--search` searches; None without it."""
    if request.search is None:
        if request.search_seed is not None:
            raise InputError("--search-seed: goes with --search N alone")
        return None
    if request.forget is not None:
        raise InputError("--search and --forget: choose one of them")
    return models.rule_space(request.rule, _rule_options(request), request.search, request.search_seed or 0)


def _search_rule(
    request: ComposeRequest, pools: Pools, linear_merge: MergeConfig, space: models.RuleSpace, work: LongWork
) -> tuple[MergeConfig, models.RuleSearch]:
    """Choose the parameters of the rule; the test images are not among what the search is given."""
    if not any(weight > 0 for weight in linear_merge.weights):
        raise InputError("--search: needs a task of positive weight, whose accuracy it can raise")
    images = replace(pools, benchmark=_benchmark(pools.sources, request, "search", pools.backbone))
    n_evaluations = (space.trials + 1) * pools.tasks * len(pools.by_seed)
    return models.search_rule(images, linear_merge, space, work.start(f"search of {space.rule}", n_evaluations))


def _rule_parameters(request: ComposeRequest) -> Mapping[str, float]:
    """Check a rule and its parameters; returns the value of each."""
    allow_named(request)
    return choose_rule(request.rule, _rule_options(request)).parameters


def _rule_options(request: ComposeRequest) -> dict[str, Any]:
    """Return the values of the rule's parameters that the request gives."""
    given: dict[str, Any] = dict(request.set or {})
    if request.density is not None:
        if request.rule == models.LINEAR:
            raise InputError("--density: says what a merging rule keeps, so it does not go with --rule linear")
        if "density" in given:
            raise InputError("--density and --set density: choose one of them")
        given["density"] = request.density
    return given


def _evaluate(storage: Storage, pools: Pools) -> Evaluated:
    with LongWork() as work:
        tick = work.start(f"evaluate {pools.sources[0].text}", models.n_evaluations(pools.tasks, len(pools.by_seed)))
        result = models.evaluate_pools(pools, tick)
    return Evaluated(result, *_save(storage, pools, result))


def _trained(pools: Pools, result: CompositionResult) -> CompositionResult | None:
    source, tasks = pools.sources[0], range(1, pools.tasks + 1)
    if (
        result.removal is not None
        or len(pools.sources) > 1
        or source.directory is None
        or source.spec is None
        or source.protocol.class_orders
    ):
        return None
    try:
        rows = {trial.seed: trial.final for trial in read_trials(source.spec, source.directory)}
        accuracies = tuple(tuple(rows[seed][TEST.accuracy(task)] for task in tasks) for seed in result.seeds)
    except (InputError, KeyError):  # a damaged record, or one without these seeds, costs the comparison alone
        return None
    whole = models.uniform(pools.tasks)
    return result.model_copy(update={"label": whole.label, "weights": whole.weights, "accuracies": accuracies})


def _run_of(pools: Pools) -> tuple[FinalSpec, RunDirectory] | None:
    """Return the run that stores the results: the first source that is a run."""
    for source in pools.sources:
        if source.directory is not None and source.spec is not None:
            return source.spec, source.directory
    return None


def _save(
    storage: Storage, pools: Pools, result: CompositionResult | EvaluationResult
) -> tuple[Path | None, str | None]:
    """Write a result to its run and to MLflow; returns its file, and why MLflow could not be written."""
    run = _run_of(pools)
    if run is None:
        return None, None
    spec, directory = run
    try:
        file = result.save(directory)
    except OSError as error:  # a user who may only read still sees the result
        print_notices(f"{directory.compositions}: cannot be written ({error.strerror}); what is shown is not kept")
        return None, None
    if isinstance(result, CompositionResult):
        print_notices(*models.code_change_lines(directory, result))
    return file, models.try_to_log(spec, directory, storage, result)


def _require_registrable(pools: Pools, storage: Storage) -> None:
    """Refuse `--register` for vectors of no run, or of a run that cannot be written or that MLflow does not have."""
    run = _run_of(pools)
    if run is None:
        raise InputError("--register: needs a final run of this storage; exported vectors have none")
    spec, directory = run
    if "mlflow" not in spec.trackers:
        first = f"{command_on('runs sync', spec.name, storage.root)} --tracking mlflow"
        raise InputError(f"--register: MLflow does not have {spec.name}; first: {first}")
    require_writable_folder(directory.compositions, "--register")


def _register(
    storage: Storage, pools: Pools, result: CompositionResult, file: Path | None, tracking_error: str | None
) -> Version:
    run = _run_of(pools)
    if run is None or file is None:
        raise InputError("--register: needs a run that can be written")
    spec, directory = run
    if tracking_error is None:
        with _exported(pools, result) as folder:
            try:
                with output_to(directory.log_file):
                    return register_model(spec, storage, result.label, folder)
            except Exception as error:  # of MLflow, SQLAlchemy or requests, depending on the URI
                tracking_error = reason(error)
    sync = command_on("runs sync", spec.name, storage.root)
    raise InputError(
        f"--register: MLflow cannot be written ({tracking_error}); compose it again, or for its first version: {sync}"
    )


@contextmanager
def _exported(pools: Pools, result: CompositionResult) -> Iterator[Path]:
    """Yield a folder with the registered forms of a composition, for as long as the block runs."""
    forms = result.registered or ()
    pools = _without_forgotten(pools, result)
    with LongWork() as work, TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        models.export(model, forms, pools, result, work.start("register", len(forms) * len(pools.by_seed)))
        yield model


def _without_forgotten(pools: Pools, result: CompositionResult) -> Pools:
    """Return what a result composes of its sources: after `--forget` the tasks and classes that are left."""
    if result.removal is None or result.removal.retrained is not None:
        return pools
    return models.reduced(pools, Removal(pools.benchmark.spec.task_classes, result.removal.forgotten))
