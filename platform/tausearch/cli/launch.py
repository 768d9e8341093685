"""The commands that start something: search, resume, extend, train. Each fills the request of its function in `api`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from tausearch import api, campaigns, execution, runs, studies
from tausearch.api import DriveRequest, ResumeRequest, SearchRequest, TrainRequest
from tausearch.cli import completion, options, output
from tausearch.cli.exit_codes import leave
from tausearch.cli.options import app
from tausearch.cli.sections import SectionedCommand
from tausearch.presentation import command_on, print_json, print_notices, resume_command, say_loading
from tausearch.runs import DEFAULT_CACHE_SIZE, DEFAULT_STORAGE, open_storage, storage_option
from trainables.errors import InputError
from trainables.user_code import allow_typed


@app.command(cls=SectionedCommand)
def search(
    benchmark: Annotated[
        str,
        typer.Argument(help="Name, such as digits; folder:PATH, parquet:PATH or MODULE:NAME. Several: digits,glyphs."),
    ],
    method: Annotated[
        str, typer.Argument(help="Method, such as ita-lora; or MODULE:NAME.", autocompletion=completion.methods)
    ],
    trials: Annotated[int | None, typer.Option(help="Configurations to try [default: 12, or the whole grid].")] = None,
    algorithm: Annotated[
        str, typer.Option(help="tpe, gp, random, grid, optuna:CLASS of a sampler, or MODULE:NAME.")
    ] = SearchRequest.algorithm,
    sampler_option: Annotated[
        list[str] | None, typer.Option(help="An argument of the sampler: KEY=VALUE. Repeatable.")
    ] = None,
    scheduler: Annotated[
        str,
        typer.Option(
            help="Stop bad trials early: none, asha or median, after task 3 or later; optuna:CLASS of a pruner, or"
            " MODULE:NAME. Not with gp."
        ),
    ] = SearchRequest.scheduler,
    pruner_option: Annotated[
        list[str] | None, typer.Option(help="An argument of the pruner: KEY=VALUE. Repeatable.")
    ] = None,
    max_concurrent_trials: options.Concurrent = None,
    cpus_per_trial: options.Cpus = SearchRequest.cpus_per_trial,
    gpus_per_trial: options.Gpus = None,
    seed: Annotated[
        int, typer.Option(help="Of the algorithm, the trials and the validation split.")
    ] = SearchRequest.seed,
    name: options.Name = None,
    resume_if_exists: options.ResumeIfExists = False,
    with_bounds: options.WithBounds = False,
    space: options.Space = None,
    set_: options.Set = None,
    warm_start: options.WarmStart = None,
    constraint: options.Constraint = None,
    objective: options.Objective = None,
    prefer: options.Prefer = None,
    across: options.Across = None,
    reevaluate: options.Reevaluate = None,
    reevaluate_runs: options.ReevaluateRuns = None,
    patience: options.Patience = None,
    target: options.Target = None,
    backbone: options.Backbone = None,
    backbone_weights: Annotated[Path | None, typer.Option(help="Local weights file of the backbone.")] = None,
    initial_head: Annotated[
        Path | None, typer.Option(help="Start heads at embeddings of the class names: a safetensors file.")
    ] = None,
    precision: Annotated[
        str, typer.Option(help="fp32, tf32 (GPUs only), bf16, or auto: bf16 on GPUs that have it, else fp32.")
    ] = SearchRequest.precision,
    tasks: Annotated[int | None, typer.Option(help="Number of tasks [default: the benchmark's].")] = None,
    classes_per_task: Annotated[int | None, typer.Option(help="Classes of a task, in place of --tasks.")] = None,
    class_order: Annotated[
        str | None,
        typer.Option(
            help="label, the seed of a random order, a,b,... or a file of names in order [default: label].",
            metavar="ORDER",
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(help="Classes of a task, with a name if you like. Repeatable.", metavar="[NAME=]a,b | FILE.yaml"),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of fine-tuning [default: the benchmark's].")] = None,
    variant: options.Variant = None,
    partial: options.Partial = False,
    skip_broken: options.SkipBroken = False,
    label_column: options.LabelColumn = None,
    data_root: options.DataRoot = None,
    cache_size: options.CacheSize = DEFAULT_CACHE_SIZE,
    no_cache: options.NoCache = False,
    time_budget: options.TimeBudget = None,
    storage: options.Storage = DEFAULT_STORAGE,
    callback: options.Callbacks = None,
    tracking: options.Trackers = None,
    tracking_uri: options.Tracking = None,
    address: options.Address = None,
    dry_run: options.DryRun = False,
    format: options.Format = "text",
) -> None:
    """Search the hyperparameters of a method on a benchmark. A 10 % validation split judges the trials."""
    request = options.drive_request_of(
        SearchRequest,
        locals(),
        sampler_options=options.assignments(sampler_option, "--sampler-option"),
        pruner_options=options.assignments(pruner_option, "--pruner-option"),
        gpus_per_trial=options.gpu_share(gpus_per_trial),
        set=options.assignments(set_),
        warm_start=options.names(warm_start),
        class_order=options.class_order(class_order),
        cache_size=0.0 if no_cache else cache_size,
    )
    say_loading()
    if dry_run:
        _show_preview(api.preview_search_with(request), format)
    else:
        _show_result(api.search_with(request), request, format)


@app.command(cls=SectionedCommand)
def resume(
    name: Annotated[str, typer.Argument(help="Search or final run to continue.", autocompletion=completion.runs)],
    patience: options.PatienceAsBefore = None,
    target: options.TargetAsBefore = None,
    max_concurrent_trials: options.ConcurrentAsBefore = None,
    gpus_per_trial: options.GpusAsBefore = None,
    time_budget: options.TimeBudget = None,
    data_root: options.DataRootAsBefore = None,
    storage: options.Storage = DEFAULT_STORAGE,
    callback: options.Callbacks = None,
    tracking: options.TrackersAsBefore = None,
    tracking_uri: options.TrackingAsBefore = None,
    address: options.Address = None,
    without_damaged: options.WithoutDamaged = False,
    with_bounds: options.WithBounds = False,
    allow_code: options.AllowCode = None,
    format: options.Format = "text",
) -> None:
    """Continue a run that was stopped or killed. Nothing that was finished is run again."""
    _continue(locals())


@app.command(cls=SectionedCommand)
def extend(
    name: Annotated[str, typer.Argument(help="Search to extend.", autocompletion=completion.runs)],
    trials: Annotated[int, typer.Option(help="New total number of trials.")],
    reevaluate: options.ReevaluateAsBefore = None,
    reevaluate_runs: options.ReevaluateRunsAsBefore = None,
    patience: options.PatienceAsBefore = None,
    target: options.TargetAsBefore = None,
    max_concurrent_trials: options.ConcurrentAsBefore = None,
    gpus_per_trial: options.GpusAsBefore = None,
    time_budget: options.TimeBudget = None,
    data_root: options.DataRootAsBefore = None,
    storage: options.Storage = DEFAULT_STORAGE,
    callback: options.Callbacks = None,
    tracking: options.TrackersAsBefore = None,
    tracking_uri: options.TrackingAsBefore = None,
    address: options.Address = None,
    without_damaged: options.WithoutDamaged = False,
    with_bounds: options.WithBounds = False,
    allow_code: options.AllowCode = None,
    format: options.Format = "text",
) -> None:
    """Run more trials of a search. The algorithm knows all earlier trials."""
    _continue(locals())


@app.command(cls=SectionedCommand)
def train(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE | SEARCH | BENCHMARK METHOD",
            help="Best file, search, or both names.",
            autocompletion=completion.runs,
        ),
    ],
    seeds: Annotated[str, typer.Option(help="Seeds, one trial each.", metavar="0,1,...")] = "0,1,2",
    class_orders: Annotated[
        str | None,
        typer.Option(help="Judge over these random class orders, too [default: the own].", metavar="0,1,..."),
    ] = None,
    benchmark: Annotated[str | None, typer.Option(help="Judge the hyperparameters on another benchmark.")] = None,
    save_curvature: Annotated[
        bool, typer.Option("--save-curvature", help="Save each task's curvature with its vector, for merging rules.")
    ] = False,
    set_: options.Set = None,
    max_concurrent_trials: options.ConcurrentSeeds = None,
    cpus_per_trial: options.Cpus = TrainRequest.cpus_per_trial,
    gpus_per_trial: options.Gpus = None,
    cache_size: options.CacheSize = DEFAULT_CACHE_SIZE,
    no_cache: options.NoCache = False,
    name: options.Name = None,
    resume_if_exists: options.ResumeIfExists = False,
    with_bounds: options.WithBounds = False,
    data_root: options.DataRoot = None,
    storage: options.Storage = DEFAULT_STORAGE,
    callback: options.Callbacks = None,
    tracking: options.TrackersOfTrain = None,
    tracking_uri: options.Tracking = None,
    address: options.Address = None,
    time_budget: options.TimeBudget = None,
    allow_code: options.AllowCode = None,
    dry_run: options.DryRun = False,
    format: options.Format = "text",
) -> None:
    """Train a chosen configuration on several seeds, and test it. This final run trains on all training data."""
    request = options.drive_request_of(
        TrainRequest,
        locals(),
        seeds=options.whole_numbers("--seeds", seeds),
        class_orders=None if class_orders is None else options.whole_numbers("--class-orders", class_orders),
        set=options.assignments(set_),
        gpus_per_trial=options.gpu_share(gpus_per_trial),
        cache_size=0.0 if no_cache else cache_size,
        best=_best_of(what, storage),
    )
    if dry_run:
        _show_preview(api.preview_train_with(request), format)
    else:
        _show_result(api.train_with(request), request, format)


def _best_of(what: list[str], storage: str) -> studies.BestFile:
    say_loading()
    from trainables.data import references, split_references  # torch takes seconds to import; --help must not

    if len(what) > 2:
        raise InputError(f"train needs a best file, or a benchmark and a method, or a search, got {' '.join(what)}")
    root = open_storage(storage, write=False)
    if len(what) == 2:
        benchmark, method = what
        allow_typed(*split_references(benchmark), method)
        try:
            named = ",".join(map(str, references(benchmark)))
        except InputError as error:
            if not root.run_exists(benchmark):
                raise
            alone = command_on("train", benchmark, root.root)
            raise InputError(f"train {benchmark} {method}: {benchmark} is a run; name it alone: {alone}") from error
        return studies.best_of_all(root, named, method, print_notices)
    file = Path(what[0])
    if not file.is_file() and root.run_exists(what[0]):
        return studies.best_of_run(root, what[0], print_notices)
    if not file.exists() and file.parent == Path() and not file.suffix:
        raise InputError(
            f"no run named {what[0]!r} in {root.root}, and no best file of that name{root.hint_for(what[0])}"
        )
    return studies.load_best(file)


def _continue(given: Mapping[str, Any]) -> None:
    """Continue a run; `given` are the parameters of `resume` or `extend`."""
    share = options.gpu_share(given["gpus_per_trial"], auto=False)
    request = options.drive_request_of(ResumeRequest, given, gpus_per_trial=share)
    say_loading()
    campaigns.say_campaign_of_extended(request)
    _show_result(api.resume_with(request), request, given["format"])


def _show_preview(found: execution.Preview, format: str) -> None:
    if format == "json":
        print_json(found.as_dict())
    else:
        output.show_preview(found)


def _show_result(result: api.SearchResult | api.FinalResult, request: DriveRequest, format: str) -> None:
    """Print the results of a run and end the command, with an error if nothing was chosen or a seed is missing."""
    storage = request.storage
    spec = runs.read_spec(open_storage(storage, write=False).run(result.name))
    complete = [trial.status == "complete" for trial in result.trials]
    if isinstance(result, api.SearchResult):
        plain, succeeded = output.search_as_dict(result, cast("runs.SearchSpec", spec)), result.best is not None
    else:
        plain, succeeded = output.final_as_dict(result), all(complete)
    if format == "json":
        print_json(plain)
        if isinstance(result, api.SearchResult) and not (result.best or result.out_of_time or result.signal):
            print(output.nothing_chosen(cast("runs.SearchSpec", spec), result.trials), file=sys.stderr)
    elif isinstance(result, api.SearchResult):
        output.show_search(result, cast("runs.SearchSpec", spec), storage_option(storage))
    else:
        output.show_final(result, cast("runs.FinalSpec", spec), storage_option(storage))
    if result.out_of_time:
        succeeded = any(complete)  # all of them is not to be expected
    command = resume_command(result.name, storage, spec.code, request.resume_options)
    leave(result.signal, result.out_of_time, command, succeeded)
