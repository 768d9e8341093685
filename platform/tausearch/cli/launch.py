"""The commands that start something: search, resume, extend, train."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from checked_input.text_files import shown
from tausearch.api import SearchRequest
from tausearch.cli import completion, output
from tausearch.cli.options import (
    WHOLE,
    AddressOption,
    AllowCodeOption,
    BackboneOption,
    CacheSizeOption,
    ConcurrentOption,
    ConstraintOption,
    CpusOption,
    DataRootOption,
    DryRunOption,
    GpusOption,
    GpusOrAutoOption,
    JsonOption,
    LabelColumnOption,
    NameOption,
    NoCacheOption,
    OwnConcurrentOption,
    OwnDataRootOption,
    OwnReevaluateOption,
    OwnReevaluateRunsOption,
    OwnTrackingOption,
    PartialOption,
    ReevaluateOption,
    ReevaluateRunsOption,
    ResumeIfExistsOption,
    SeedsConcurrentOption,
    SetOption,
    SkipBrokenOption,
    SpaceOption,
    StorageOption,
    TimeBudgetOption,
    TrackingOption,
    VariantOption,
    WarmStartOption,
    WithoutDamagedOption,
    app,
    seconds,
    whole_numbers,
)
from tausearch.presentation import print_json, say_loading
from tausearch.runs import DEFAULT_CACHE_SIZE, DEFAULT_STORAGE
from trainables.errors import InputError

if TYPE_CHECKING:  # torch and Ray take seconds to import; --help must not
    from tausearch.api import FinalResult, SearchResult
    from tausearch.execution import Preview
    from tausearch.runs import AnySpec, FinalSpec, RunResult, SearchSpec
    from tausearch.studies import BestFile

_SHARE = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}(/[0-9]{1,9})?")


@app.command()
def search(
    benchmark: Annotated[str, typer.Argument(help="Name, such as digits; folder:PATH, parquet:PATH or MODULE:NAME.")],
    method: Annotated[str, typer.Argument(help="Method, such as ita-lora.", autocompletion=completion.methods)],
    trials: Annotated[int | None, typer.Option(help="Configurations to try [default: 12, or the whole grid].")] = None,
    algorithm: Annotated[str, typer.Option(help="tpe, gp, random or grid.")] = SearchRequest.algorithm,
    scheduler: Annotated[
        str, typer.Option(help="Stop bad trials early, after task 3 or later: none, asha or median; not with gp.")
    ] = SearchRequest.scheduler,
    max_concurrent_trials: ConcurrentOption = None,
    cpus_per_trial: CpusOption = SearchRequest.cpus_per_trial,
    gpus_per_trial: GpusOrAutoOption = "0",
    seed: Annotated[
        int, typer.Option(help="Of the algorithm, the trials and the validation split.")
    ] = SearchRequest.seed,
    name: NameOption = None,
    resume_if_exists: ResumeIfExistsOption = False,
    space: SpaceOption = None,
    set_: SetOption = None,
    warm_start: WarmStartOption = None,
    constraint: ConstraintOption = None,
    reevaluate: ReevaluateOption = None,
    reevaluate_runs: ReevaluateRunsOption = None,
    backbone: BackboneOption = None,
    weights: Annotated[Path | None, typer.Option(help="Local weights file of the backbone.")] = None,
    precision: Annotated[str, typer.Option(help="fp32, or bf16 autocast.")] = SearchRequest.precision,
    tasks: Annotated[int | None, typer.Option(help="Number of tasks [default: the benchmark's].")] = None,
    classes_per_task: Annotated[int | None, typer.Option(help="Classes of a task, in place of --tasks.")] = None,
    class_order: Annotated[str, typer.Option(help="label, or the seed of a random order.", metavar="ORDER")] = "label",
    epochs: Annotated[int | None, typer.Option(help="Epochs of fine-tuning [default: the benchmark's].")] = None,
    variant: VariantOption = None,
    partial: PartialOption = False,
    skip_broken: SkipBrokenOption = False,
    label_column: LabelColumnOption = None,
    data_root: DataRootOption = None,
    cache_size: CacheSizeOption = DEFAULT_CACHE_SIZE,
    no_cache: NoCacheOption = False,
    time_budget: TimeBudgetOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: TrackingOption = None,
    address: AddressOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Search the hyperparameters of METHOD on BENCHMARK, judged on a 10 % validation split."""
    given = _fields(locals())
    say_loading()
    from tausearch import api  # torch and Ray take seconds to import; --help must not

    if given.pop("dry_run"):
        _show_preview(api.preview_search(**given), json)
    else:
        _show_search(api.search(**given), storage, json)


@app.command()
def resume(
    name: Annotated[str, typer.Argument(help="Search or final run to continue.", autocompletion=completion.runs)],
    max_concurrent_trials: OwnConcurrentOption = None,
    time_budget: TimeBudgetOption = None,
    data_root: OwnDataRootOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: OwnTrackingOption = None,
    address: AddressOption = None,
    without_damaged: WithoutDamagedOption = False,
    allow_code: AllowCodeOption = None,
    json: JsonOption = False,
) -> None:
    """Continue a search or a final run that was stopped or killed; nothing that was finished is run again."""
    _continue(_fields(locals()), storage, json)


@app.command()
def extend(
    name: Annotated[str, typer.Argument(help="Search to extend.", autocompletion=completion.runs)],
    trials: Annotated[int, typer.Option(help="New total number of trials.")],
    reevaluate: OwnReevaluateOption = None,
    reevaluate_runs: OwnReevaluateRunsOption = None,
    max_concurrent_trials: OwnConcurrentOption = None,
    time_budget: TimeBudgetOption = None,
    data_root: OwnDataRootOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: OwnTrackingOption = None,
    address: AddressOption = None,
    without_damaged: WithoutDamagedOption = False,
    allow_code: AllowCodeOption = None,
    json: JsonOption = False,
) -> None:
    """Run more trials of a search, the algorithm told everything that is known."""
    _continue(_fields(locals()), storage, json)


@app.command()
def train(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE | SEARCH | BENCHMARK METHOD",
            help="Best file, search, or both names.",
            autocompletion=completion.runs,
        ),
    ],
    seeds: Annotated[str, typer.Option(help="Seeds, one trial each.", metavar="0 1 2")] = "0 1 2",
    class_orders: Annotated[
        str | None, typer.Option(help="Judge over these random class orders, too [default: the own].", metavar="0 1 2")
    ] = None,
    benchmark: Annotated[str | None, typer.Option(help="Judge the hyperparameters on another benchmark.")] = None,
    set_: SetOption = None,
    max_concurrent_trials: SeedsConcurrentOption = None,
    cpus_per_trial: CpusOption = SearchRequest.cpus_per_trial,
    gpus_per_trial: GpusOption = "0",
    cache_size: CacheSizeOption = DEFAULT_CACHE_SIZE,
    no_cache: NoCacheOption = False,
    name: NameOption = None,
    resume_if_exists: ResumeIfExistsOption = False,
    data_root: DataRootOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: TrackingOption = None,
    address: AddressOption = None,
    allow_code: AllowCodeOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Train a chosen configuration on all training data and test it: the final run."""
    options = dict(locals())
    options.pop("what")
    given = _fields(options)
    say_loading()
    from tausearch import api  # torch and Ray take seconds to import; --help must not

    if given.pop("dry_run"):
        _show_preview(api.preview_train(_best_of(what, storage), **given), json)
    else:
        _show_final(api.train(_best_of(what, storage), **given), storage, json)


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the options of a command, by their names there, into the fields of its request."""
    given = dict(options)
    given.pop("allow_code", None)  # reading it has allowed it
    given["progress_to"] = "stderr" if given.pop("json") else "stdout"
    if given.pop("no_cache", False):
        given["cache_size"] = 0.0
    read: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "set_": ("set", _assignments),
        "gpus_per_trial": ("gpus_per_trial", _share),
        "time_budget": ("time_budget", seconds),
        "class_order": ("class_order", _class_order),
        "class_orders": ("class_orders", _class_orders),
        "seeds": ("seeds", partial(whole_numbers, "--seeds")),
    }
    fields = {}
    for name, value in given.items():
        field, as_value = read.get(name, (name, lambda text: text))
        fields[field] = as_value(value)
    return fields


def _assignments(texts: list[str] | None) -> dict[str, Any]:
    from search_spaces import parse_assignments  # pydantic takes a moment to import

    return parse_assignments(texts or [])


def _share(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        if not _SHARE.fullmatch(text):
            raise ValueError
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"--gpus-per-trial must be a number, such as 0, 1, 1/3 or 0.25, got {shown(text)}") from None


def _class_order(text: str) -> int | None:
    if text == "label":
        return None
    if not WHOLE.fullmatch(text):
        raise InputError(f"--class-order must be 'label' or a whole number, got {shown(text)}")
    return int(text)


def _class_orders(text: str | None) -> list[int] | None:
    return None if text is None else whole_numbers("--class-orders", text)


def _best_of(what: list[str], storage: str) -> BestFile:
    from tausearch.api import allow_typed  # torch takes seconds to import
    from tausearch.presentation import say_unreadable
    from tausearch.runs import open_storage
    from tausearch.studies import best_of_all, best_of_run, load_best
    from trainables.data import reference

    if len(what) == 1:
        root = open_storage(storage, write=False)
        name = Path(what[0])
        if not name.is_file() and root.run_exists(what[0]):
            return best_of_run(root, what[0])
        if not name.exists() and name.parent == Path() and not name.suffix:
            raise InputError(
                f"no run named {what[0]!r} in {root.root}, and no best file of that name{root.near(what[0])}"
            )
        return load_best(name)
    if len(what) == 2:
        benchmark, method = what
        allow_typed(benchmark)
        return best_of_all(open_storage(storage, write=False), str(reference(benchmark)), method, say_unreadable)
    raise InputError(f"train needs a best file, or a benchmark and a method, or a search, got {' '.join(what)}")


def _continue(fields: dict[str, Any], storage: str, json: bool) -> None:
    say_loading()
    from tausearch import api  # torch and Ray take seconds to import

    result = api.resume(**fields)
    if isinstance(result, api.SearchResult):
        _show_search(result, storage, json)
    else:
        _show_final(result, storage, json)


def _show_preview(found: Preview, json: bool) -> None:

    if json:
        print_json(found.as_dict())
    else:
        output.show_preview(found)


def _show_final(result: FinalResult, storage: str, json: bool) -> None:
    from tausearch.presentation import storage_words

    if json:
        trials = output.trials_as_dicts(result.trials)
        content = {"name": result.name, "summary": result.summary, "seeds": trials}
        print_json({**content, **output.tracking_as_dict(result)})
    else:
        output.show_final(result, cast("FinalSpec", _spec_of(result.name, storage)), storage_words(storage))
    _leave(result, all(trial.status == "complete" for trial in result.trials), storage)


def _show_search(result: SearchResult, storage: str, json: bool) -> None:
    from tausearch.presentation import storage_words

    if json:
        best = None if result.best is None else result.best.model_dump(mode="json")
        trials = output.trials_as_dicts(result.trials)
        reevaluated = {} if result.reevaluation is None else {"reevaluation": result.reevaluation.as_dict()}
        content = {"name": result.name, "best": best, "trials": trials, **reevaluated}
        print_json({**content, **output.tracking_as_dict(result)})
    else:
        output.show_search(result, cast("SearchSpec", _spec_of(result.name, storage)), storage_words(storage))
    _leave(result, result.best is not None, storage)


def _spec_of(name: str, storage: str) -> AnySpec:
    from tausearch.runs import open_storage, read_spec

    return read_spec(open_storage(storage, write=False).run(name))


def _leave(result: RunResult, succeeded: bool, storage: str) -> None:
    """End the command: say how to go on if the run was stopped, and exit as that or its trials ask for."""
    from tausearch.presentation import code_words, command_on

    code = code_words(_spec_of(result.name, storage).benchmark)
    advice = f"continue with: {command_on('resume', result.name, storage)}{code}"
    if result.signal is not None:
        how = "interrupted" if result.signal == signal.SIGINT else "stopped by SIGTERM"
        print(f"{how}; {advice}", file=sys.stderr)
        raise typer.Exit(128 + result.signal)  # as a shell reports a process that a signal has ended
    if result.out_of_time:
        print(f"the time budget is used up; {advice}", file=sys.stderr)
        succeeded = any(trial.status == "complete" for trial in result.trials)  # all of them is not to be expected
    if not succeeded:
        raise typer.Exit(1)
