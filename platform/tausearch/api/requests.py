"""Requests: one class per command, whose fields are the arguments in Python and the options of the command line."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from checked_input import ranges
from checked_input.fields import MAY_BE_CODE, CheckedRequest, field_fault as field_fault, within
from checked_input.names import require_once
from tausearch.presentation import Stream, address_option
from tausearch.runs import DEFAULT_CACHE_SIZE, DEFAULT_STORAGE
from trainables.errors import InputError as InputError
from trainables.user_code import allow_typed, require_current

if TYPE_CHECKING:  # torch takes seconds to import, pydantic a tenth of one; to show the options must not
    from search_spaces import Scalar
    from tausearch.execution import DriveOptions
    from tausearch.studies import BestFile
    from tausearch.tracking import Callback

DEFAULT_SEEDS = (0, 1, 2)
Fields = ParamSpec("Fields")
Request = TypeVar("Request")
Result = TypeVar("Result")


def allow_named(request: CheckedRequest) -> None:
    """Allow the code that the fields of a request name, `MODULE:NAME`; refuse code that changed since its import."""
    from trainables.data import split_references  # torch takes seconds to import

    benchmarks = split_references(getattr(request, "benchmark", None) or "")
    values = (value for value in (getattr(request, "set", None) or {}).values() if isinstance(value, str))
    named = [*(getattr(request, name, None) for name in MAY_BE_CODE), *benchmarks, *values]
    allow_typed(*named)
    best, callbacks = getattr(request, "best", None), getattr(request, "callbacks", ())
    named += [each for each in callbacks if isinstance(each, str)]
    require_current(named if best is None else [*named, *best.user_code_names])


@dataclass(frozen=True, kw_only=True)
class DriveRequest(CheckedRequest):
    """The options of a command that runs trials, in a new run or a continued one.

    Attributes:
        max_concurrent_trials: Trials at a time; by default as many as fit the machine or cluster, at most a quarter
            of the trials where the algorithm learns from them. A continued run keeps its number.
        data_root: Folder of the published datasets; by default that of TAUSEARCH_DATA, or `./tausearch-data`, and for
            a continued run as before.
        storage: The storage root, the folder that holds the run directories; by default that of TAUSEARCH_STORAGE
            when tausearch was imported, or `./tausearch-runs`.
        callbacks: Objects that are told what happens, see `tausearch.Callback`; or names: `MODULE:NAME`, or what an
            installed package brings. A run that is continued needs them again.
        tracking: Where the run is tracked: "mlflow", "tensorboard", both with a comma between them, or "none"; by
            default by MLflow, for a continued run as before, and for a final run as its search.
        tracking_uri: MLflow tracking URI; by default a SQLite file in `storage`, and for a continued run as before.
        address: Address of a running Ray cluster; by default a Ray of our own is started on this machine.
        time_budget: Seconds after which all is stopped; `resume`, or the same command of a campaign, continues it.
        progress_to: Where progress is shown: "stdout", "stderr", or "nowhere".
    """

    max_concurrent_trials: int | None = within(ranges.CONCURRENT, None)
    data_root: str | Path | None = None
    storage: str | Path = DEFAULT_STORAGE
    callbacks: Sequence[Callback | str] = ()
    tracking: str | None = None
    tracking_uri: str | None = None
    address: str | None = None
    time_budget: float | None = within(ranges.TIME, None)
    progress_to: Stream = "stdout"

    @property
    def resume_options(self) -> str:
        """The options of cluster, callbacks and trackers for the command that continues the runs."""
        from tausearch.tracking import tracking_options  # pydantic takes a tenth of a second to import

        return address_option(self.address) + tracking_options(self.callbacks, self.tracking, self.tracking_uri)

    def drive_options(self) -> DriveOptions:
        """Return how the run is driven, with the callbacks that are named; a wrong one is an InputError."""
        from tausearch.execution import DriveOptions  # Ray takes seconds to import
        from tausearch.tracking import callbacks_of

        return DriveOptions(
            time_budget=self.time_budget,
            progress_to=self.progress_to,
            callbacks=callbacks_of(self.callbacks),
            resume_options=self.resume_options,
        )


@dataclass(frozen=True, kw_only=True)
class NewRunRequest(DriveRequest):
    """The options of every new run; see `DriveRequest` for the rest.

    Attributes:
        name: The run's name; by default benchmark, method and the next free number.
        set: Hyperparameters with a fixed value; in a final run it replaces the value of the best file.
        cpus_per_trial: Number of CPU threads of a trial.
        gpus_per_trial: Share of a GPU per trial: 1 or 1/k; 0 trains on the CPU; "auto" measures a pilot trial and
            chooses 1/k. By default the CPU where there is no GPU, else "auto" for the embedded backbone and 1 for
            others; a run that goes on keeps its share.
        cache_size: Bound on the size of the pre-consolidation cache, gigabytes; 0 for no cache.
        resume_if_exists: Whether to continue the run of this name if it has the same specification.
        with_bounds: Whether to run `probe` and `joint` afterwards, at the start of their spaces, on the same images,
            split and backbone (in a final run with the same seeds), where they were not measured yet.
    """

    name: str | None = None
    set: Mapping[str, Scalar] | None = None
    cpus_per_trial: int = within(ranges.THREADS, 1)
    gpus_per_trial: float | Literal["auto"] | None = None
    cache_size: float = within(ranges.GIGABYTES, DEFAULT_CACHE_SIZE)
    resume_if_exists: bool = False
    with_bounds: bool = False


@dataclass(frozen=True)
class SearchRequest(NewRunRequest):
    """A search; see `NewRunRequest` and `DriveRequest` for the rest.

    Attributes:
        benchmark: Name, `folder:PATH`, `parquet:PATH` or `MODULE:NAME`; options follow a `?`, as in
            `folder:birds?tasks=5`; see `trainables.data.BenchmarkRef`. Several with commas between them: then a trial
            is one configuration on all of them.
        method: Name of the method, ours or an installed package's, or `MODULE:NAME`.
        trials: How many configurations to try; by default 12, or the whole grid.
        algorithm: The search algorithm: "tpe", "gp", "random", "grid", a sampler of Optuna as `optuna:CLASS`, or one of
            the user's code as `MODULE:NAME` or by the name that an installed package gives it.
        sampler_options: Arguments of the algorithm's sampler, such as `{"n_startup_trials": 10}`.
        scheduler: Rule for stopping trials early: "none", "asha" or "median", which stop no trial before the third
            task; or a pruner, named like a sampler.
        pruner_options: Arguments of the scheduler's pruner.
        seed: The seed of the algorithm, of every trial, and of the validation split.
        space: A search-space file whose entries replace those of the method's own.
        warm_start: Configurations to try before the algorithm proposes any: "paper" for the paper's choices for the
            method on all of its datasets, names of searches for their best configurations, paths of best files.
        constraint: Bounds that a configuration must keep to be chosen, such as "forgetting <= 5": on a metric of a
            trial's rows, in every row that has it, or on "seconds", the time of the whole trial.
        objective: The metrics that the search aims at, by default "final_accuracy" alone; with several it keeps their
            front. More is better of accuracies and removability, less of forgetting, losses, seconds and bytes.
        prefer: With several objectives, how one point of the front is chosen: by default "knee", or by the best value
            of one of them.
        across: How the accuracies on several benchmarks become the value of a trial: "normalised" (the default), "rank"
            or "mean"; see `tausearch.runs.Scale`.
        reevaluate: How many of the best complete trials run again before one is chosen, by its fresh runs alone;
            0 for none. By default 3 of 12 trials or more on an embedded benchmark with its backbone, or on images
            of the user's own of which at most 100 validate; otherwise none.
        reevaluate_runs: How often each of them, every time with a fresh seed and validation split; by default twice.
        patience: Number of trials in a row without a gain after which the search ends; by default it does not. A gain
            exceeds the best by more than one validation image.
        target: The final accuracy, percent, at which the search ends, or the value of its one objective, in the unit of
            that; by default it does not.
        backbone: Name of the backbone; by default the benchmark's.
        backbone_weights: Local weights file of the backbone.
        initial_head: A safetensors file with an embedding of each class, under its name, at which heads start.
        precision: The precision of the backbone in fine-tuning and evaluation: "fp32", "tf32" (on GPUs alone), "bf16",
            or "auto": bf16 where trials run on GPUs that are known to have it, else fp32.
        tasks: Number of tasks; by default the benchmark's.
        classes_per_task: Number of classes of a task, in place of `tasks`.
        class_order: Seed of a random class order; or the names of all classes in order, as a list, as a text with
            commas between them, or as a file with one in each line; by default "label", the order of the labels.
        task: Which classes form a task, in place of the three above: a text for each task, `zebra,star` or
            `NAME=zebra,star`, in order; or one YAML file, a mapping of names to lists of classes or a list of such
            lists. Images of classes in no task are left out.
        epochs: Epochs of fine-tuning per task; by default the benchmark's.
        variant: Variant of a published dataset, such as the size of its images; see the page data of the documentation.
        partial: Whether to accept fewer images than were published.
        skip_broken: Whether to leave out images on disk that cannot be read, which the run then lists.
        label_column: Column of labels in Parquet files; by default found by its name.
    """

    benchmark: str
    method: str
    _: KW_ONLY
    trials: int | None = within(ranges.TRIALS, None)
    algorithm: str = "tpe"
    sampler_options: Mapping[str, Scalar] | None = None
    scheduler: str = "none"
    pruner_options: Mapping[str, Scalar] | None = None
    seed: int = within(ranges.SEED, 0)
    space: str | Path | None = None
    warm_start: Sequence[str | Path] | None = None
    constraint: Sequence[str] | None = None
    objective: Sequence[str] | None = None
    prefer: str | None = None
    across: str | None = None
    reevaluate: int | None = within(ranges.REEVALUATE, None)
    reevaluate_runs: int | None = within(ranges.ROUNDS, None)
    patience: int | None = within(ranges.TRIALS, None)
    target: float | None = within(ranges.VALUE, None)
    backbone: str | None = None
    backbone_weights: str | Path | None = None
    initial_head: str | Path | None = None
    precision: str = "fp32"
    tasks: int | None = within(ranges.TASKS, None)
    classes_per_task: int | None = within(ranges.CLASSES_PER_TASK, None)
    class_order: Sequence[str] | int | str | None = within(ranges.SEED, None)
    task: Sequence[str] | None = None
    epochs: int | None = within(ranges.EPOCHS, None)
    variant: str | None = None
    partial: bool = False
    skip_broken: bool = False
    label_column: str | None = None


@dataclass(frozen=True)
class ResumeRequest(DriveRequest):
    """A run to continue; see `DriveRequest` for the rest.

    Attributes:
        name: The name of the search or final run to continue.
        trials: The new total of a search that is extended; the algorithm knows all earlier trials.
        reevaluate: As in `search`; by default unchanged. A search that was made without can have it.
        reevaluate_runs: As in `search`; re-evaluations that have ended count.
        patience: As in `search`; by default unchanged. With `trials`, only later trials count.
        target: As in `search`; by default unchanged. With `trials`, only later trials count.
        gpus_per_trial: Share of a GPU per trial from now on, 0, 1 or 1/k; by default unchanged.
        without_damaged: Whether to move damaged files of the record aside and run their trials again.
        with_bounds: As in `search`; a run that was made without can have them.
    """

    name: str
    _: KW_ONLY
    trials: int | None = within(ranges.TRIALS, None)
    reevaluate: int | None = within(ranges.REEVALUATED, None)
    reevaluate_runs: int | None = within(ranges.ROUNDS, None)
    patience: int | None = within(ranges.TRIALS, None)
    target: float | None = within(ranges.VALUE, None)
    gpus_per_trial: float | None = None
    without_damaged: bool = False
    with_bounds: bool = False


@dataclass(frozen=True)
class TrainRequest(NewRunRequest):
    """A final run; see `NewRunRequest` and `DriveRequest` for the rest.

    Attributes:
        best: The chosen configuration, as returned by `load_best`.
        seeds: The seeds to train with, one trial for each.
        class_orders: Seeds of random class orders to judge over, all seeds with each; by default the benchmark's own
            order. Such a run leaves no task vectors.
        benchmark: Another benchmark to train and test on; by default that of the search.
        save_curvature: Whether the curvature of each task is saved with its vector, for merging rules that read it.
    """

    best: BestFile
    _: KW_ONLY
    seeds: Sequence[int] = within(ranges.SEED, DEFAULT_SEEDS)
    class_orders: Sequence[int] | None = within(ranges.SEED, None)
    benchmark: str | None = None
    save_curvature: bool = False


@dataclass(frozen=True)
class EvaluateRequest(CheckedRequest):
    """The paper's protocol on final runs, each on its own.

    Attributes:
        runs: Names of final runs, or folders of exported task vectors.
        seeds: The seeds to compose; by default all of the run.
        backbone_weights: Local weights file of the backbone; by default that of the run. It must be the same theta_0.
        data_root: Folder of the published datasets; by default that of the run.
        device: The device that computes, "cpu" or "cuda"; by default the run's kind of device if this machine has one.
        storage: The storage root, the folder that holds the run directories.
    """

    runs: Sequence[str]
    _: KW_ONLY
    seeds: Sequence[int] | None = within(ranges.SEED, None)
    backbone_weights: str | Path | None = None
    data_root: str | Path | None = None
    device: str | None = None
    storage: str | Path = DEFAULT_STORAGE

    def __post_init__(self) -> None:
        """Check every field; without a run, or with one that is named twice, it is an InputError, too."""
        super().__post_init__()
        if not self.runs:
            raise InputError("runs: name at least one run")
        require_once("run", [str(Path(run)) for run in self.runs])


@dataclass(frozen=True)
class ComposeRequest(EvaluateRequest):
    """One composition of the task vectors of final runs; see `EvaluateRequest` for the rest.

    Attributes:
        runs: One final run or folder of exported task vectors, or several of one benchmark and backbone that together
            have each task once: `ita-run:1,2 iel-run:3,4,5`.
        keep: Tasks to compose alone; their weights sum to 1. A task is its number, from 1, its own name, or one of its
            classes.
        drop: Tasks to unlearn, as in `keep`.
        coefficient: How to unlearn: "drop", "negate" or "subtract".
        forget: Classes to take out for good, by class name or task number (`task:2`, `class:2` where a text is both).
            The vectors of their tasks and their rows of the classifier are in no export.
        retrain_later: Whether `forget` also trains again what has learned from the images of these classes, in a final
            run of its own, which is composed and evaluated. A call that was stopped is continued by the same call.
        weights: A weight for each task, or for each task of `keep`; any numbers.
        rule: "linear", or a merging rule: "ties", "magnitude", "dare", "dare-ties", `MODULE:NAME`, or the name of one
            that an installed package brings. "fisher" and "regmean" need runs that were trained with `save_curvature`.
        density: Share of entries that a merging rule keeps; by default 0.2.
        set: Values of the rule's parameters.
        search: The number of values of the rule's other parameters to try on validation images. The best are composed,
            and tested once.
        search_seed: The seed of that search; by default 0.
        export: An empty or new folder for the composed models.
        forms: The forms to write: "adapter", "timm", "models", "vectors"; by default all possible ones. Only "timm" is
            registered by default, or "vectors" of a method without whole models.
        register: Whether to make the composition a version of MLflow's registered model of the benchmark.
    """

    keep: Sequence[int | str] | None = within(ranges.TASKS, None)
    drop: Sequence[int | str] | None = within(ranges.TASKS, None)
    coefficient: str | None = None
    forget: Sequence[str] | None = None
    retrain_later: bool = False
    weights: Sequence[float] | None = within(ranges.WEIGHT, None)
    rule: str = "linear"
    density: float | None = within(ranges.SHARE, None)
    set: Mapping[str, Scalar] | None = None
    search: int | None = within(ranges.TRIALS, None)
    search_seed: int | None = within(ranges.SEED, None)
    export: str | Path | None = None
    forms: Sequence[str] | None = None
    register: bool = False


@dataclass(frozen=True)
class FiguresRequest(EvaluateRequest):
    """The paper's figures of some runs; see `EvaluateRequest` for the rest.

    Attributes:
        runs: Any runs. Runs with task vectors are in all figures, other runs only in that of the time per task.
        output: The folder to write to; by default `figures` of the first run.
    """

    output: str | Path | None = None


def with_fields_of(
    request_of: Callable[Fields, Request], call: Callable[[Request], Result]
) -> Callable[Fields, Result]:
    """Return NAME, the function of a request's fields, for `NAME_with`, the function of the request."""

    @functools.wraps(call)
    def of_fields(*args: Fields.args, **kwargs: Fields.kwargs) -> Result:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{of_fields.__name__}() {error}") from None
        return call(request_of(*args, **kwargs))

    signature = inspect.signature(request_of).replace(return_annotation=inspect.signature(call).return_annotation)
    of_fields.__signature__ = signature  # type: ignore[attr-defined]  # what `help` and editors show
    of_fields.__name__ = of_fields.__qualname__ = call.__name__.removesuffix("_with")
    summary, _, rest = inspect.cleandoc(call.__doc__ or "").partition("\n\n")
    of_fields.__doc__ = f"{summary}\n\nArgs:\n{_arguments(request_of)}\n\n{rest}"
    return of_fields


def _arguments(request_of: Any) -> str:
    """Return what the docstrings of a request and its bases say of its fields, for the section `Args` of a function."""
    said: dict[str, str] = {}
    for kind in (each for each in inspect.getmro(request_of) if is_dataclass(each)):
        attributes = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2]
        for entry in re.split(r"\n(?=    \w)", attributes.rstrip()):
            said.setdefault(entry.partition(":")[0].strip(), entry)
    return "\n".join(said[each.name] for each in fields(request_of))
