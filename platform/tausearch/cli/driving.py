"""The commands that run something: search, resume, extend, train."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from tausearch.cli.options import (
    AddressOption,
    ConcurrentOption,
    CpusOption,
    DataRootOption,
    GpusOption,
    GpusOrAutoOption,
    JsonOption,
    NameOption,
    NoStoreOption,
    OwnConcurrentOption,
    OwnDataRootOption,
    OwnTrackingOption,
    PartialOption,
    SetOption,
    SpaceOption,
    StorageOption,
    StoreSizeOption,
    TimeBudgetOption,
    TrackingOption,
    VariantOption,
    app,
)
from tausearch.files import DEFAULT_STORAGE, DEFAULT_STORE_GIGABYTES, command_on, open_storage, storage_words
from trainables.errors import InputError


@app.command()
def search(
    benchmark: Annotated[str, typer.Argument(help="Name, such as digits; folder:PATH, parquet:PATH or MODULE:NAME.")],
    method: Annotated[str, typer.Argument(help="Method, such as ita-lora.")],
    trials: Annotated[int | None, typer.Option(help="Configurations to try [default: 12, or the whole grid].")] = None,
    algorithm: Annotated[str, typer.Option(help="tpe, gp, random or grid.")] = "tpe",
    scheduler: Annotated[
        str, typer.Option(help="Stop bad trials early, after task 3 or later: none, asha or median; not with gp.")
    ] = "none",
    concurrent: ConcurrentOption = None,
    cpus_per_trial: CpusOption = 1,
    gpus_per_trial: GpusOrAutoOption = "0",
    seed: Annotated[int, typer.Option(help="Of the algorithm, the trials and the validation split.")] = 0,
    name: NameOption = None,
    space: SpaceOption = None,
    set_: SetOption = None,
    backbone: Annotated[str | None, typer.Option(help="Backbone [default: the benchmark's].")] = None,
    weights: Annotated[Path | None, typer.Option(help="Local weights file of the backbone.")] = None,
    precision: Annotated[str, typer.Option(help="fp32, or bf16 autocast.")] = "fp32",
    tasks: Annotated[int | None, typer.Option(help="Number of tasks [default: the benchmark's].")] = None,
    classes_per_task: Annotated[int | None, typer.Option(help="Classes of a task, in place of --tasks.")] = None,
    class_order: Annotated[str, typer.Option(help="label, or the seed of a random order.", metavar="ORDER")] = "label",
    epochs: Annotated[int | None, typer.Option(help="Epochs of fine-tuning [default: the benchmark's].")] = None,
    variant: VariantOption = None,
    partial: PartialOption = False,
    data_root: DataRootOption = None,
    store_size: StoreSizeOption = DEFAULT_STORE_GIGABYTES,
    no_store: NoStoreOption = False,
    time_budget: TimeBudgetOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: TrackingOption = None,
    address: AddressOption = None,
    json: JsonOption = False,
) -> None:
    """Search the hyperparameters of METHOD on BENCHMARK, judged on a 10 % validation split."""
    import tausearch  # noqa: PLC0415  # torch and ray take seconds to import; --help must not
    from search_spaces import parse_assignment
    from trainables.data import reference

    ref = reference(benchmark).with_options(
        tasks=tasks,
        classes_per_task=classes_per_task,
        class_order=_class_order(class_order),
        epochs=epochs,
        variant=variant,
        partial=partial or None,
    )
    result = tausearch.search(
        str(ref),
        method,
        trials=trials,
        algorithm=algorithm,
        scheduler=scheduler,
        concurrent=concurrent,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial="auto" if gpus_per_trial == "auto" else _share(gpus_per_trial),
        seed=seed,
        name=name,
        space=space,
        overrides=dict(parse_assignment(text) for text in set_ or []),
        backbone=backbone,
        weights=weights,
        precision=precision,
        store_gigabytes=0 if no_store else store_size,
        data_root=data_root,
        storage=storage,
        tracking_uri=tracking_uri,
        address=address,
        time_budget=_seconds(time_budget),
        progress_to="stderr" if json else "stdout",
    )
    _show_search(result, storage, json)


@app.command()
def resume(
    name: Annotated[str, typer.Argument(help="Search to continue.")],
    concurrent: OwnConcurrentOption = None,
    time_budget: TimeBudgetOption = None,
    data_root: OwnDataRootOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: OwnTrackingOption = None,
    address: AddressOption = None,
    json: JsonOption = False,
) -> None:
    """Continue a search that was stopped or killed; nothing that was finished is run again."""
    _continue(name, None, concurrent, time_budget, data_root, storage, tracking_uri, address, json)


@app.command()
def extend(
    name: Annotated[str, typer.Argument(help="Search to extend.")],
    trials: Annotated[int, typer.Option(help="New total number of trials.")],
    concurrent: OwnConcurrentOption = None,
    time_budget: TimeBudgetOption = None,
    data_root: OwnDataRootOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: OwnTrackingOption = None,
    address: AddressOption = None,
    json: JsonOption = False,
) -> None:
    """Run more trials of a search, the algorithm told everything that is known."""
    _continue(name, trials, concurrent, time_budget, data_root, storage, tracking_uri, address, json)


@app.command()
def train(
    what: Annotated[
        list[str], typer.Argument(metavar="FILE | BENCHMARK METHOD", help="Best file, or what to look up.")
    ],
    seeds: Annotated[str, typer.Option(help="Seeds, one trial each.", metavar="0 1 2")] = "0 1 2",
    benchmark: Annotated[str | None, typer.Option(help="Judge the hyperparameters on another benchmark.")] = None,
    set_: SetOption = None,
    concurrent: ConcurrentOption = None,
    cpus_per_trial: CpusOption = 1,
    gpus_per_trial: GpusOption = "0",
    store_size: StoreSizeOption = DEFAULT_STORE_GIGABYTES,
    no_store: NoStoreOption = False,
    name: NameOption = None,
    data_root: DataRootOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: TrackingOption = None,
    address: AddressOption = None,
    json: JsonOption = False,
) -> None:
    """Train a chosen configuration on all training data and test it: the final run."""
    import tausearch  # noqa: PLC0415  # see search
    from search_spaces import parse_assignment
    from tausearch import report
    from tausearch.spec import read_spec

    result = tausearch.train(
        _best_of(what, storage),
        seeds=_whole_numbers(seeds),
        benchmark=benchmark,
        overrides=dict(parse_assignment(text) for text in set_ or []),
        name=name,
        concurrent=concurrent,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=_share(gpus_per_trial),
        store_gigabytes=0 if no_store else store_size,
        data_root=data_root,
        storage=storage,
        tracking_uri=tracking_uri,
        address=address,
        progress_to="stderr" if json else "stdout",
    )
    if json:
        trials = report.trials_as_dicts(result.trials)
        report.print_json(
            {"name": result.name, "summary": result.summary, "seeds": trials, **report.tracking_as_dict(result)}
        )
    else:
        report.show_final(
            result, read_spec(open_storage(storage, write=False).run(result.name)), storage_words(storage)
        )
    succeeded = all(trial.status == "complete" for trial in result.trials)
    _leave(result.interrupted, succeeded, f"the finished seeds are in: {command_on('status', result.name, storage)}")


def _seconds(duration: str | None) -> float | None:
    from tausearch.planning import parse_duration  # noqa: PLC0415  # see search

    return None if duration is None else parse_duration(duration)


def _share(text: str) -> float:
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"--gpus-per-trial must be a number, such as 0, 1, 1/3 or 0.25, got {text!r}") from None


def _class_order(text: str) -> int | None:
    if text == "label":
        return None
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"--class-order must be 'label' or a whole number, got {text!r}")
    return int(text)


def _whole_numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(f"--seeds must be whole numbers, got {text!r}") from None


def _best_of(what: list[str], storage: str):  # type: ignore[no-untyped-def]  # BestFile, imported late
    from tausearch.best import best_of_all, load_best  # noqa: PLC0415  # see search
    from trainables.data import reference

    if len(what) == 1:
        return load_best(what[0])
    if len(what) == 2:
        benchmark, method = what
        return best_of_all(open_storage(storage, write=False), str(reference(benchmark)), method)
    raise InputError(f"train needs a best file, or a benchmark and a method, got {' '.join(what)}")


def _continue(
    name: str,
    trials: int | None,
    concurrent: int | None,
    time_budget: str | None,
    data_root: str | None,
    storage: str,
    tracking_uri: str | None,
    address: str | None,
    json: bool,
) -> None:
    import tausearch  # noqa: PLC0415  # see search

    result = tausearch.resume(
        name,
        trials=trials,
        concurrent=concurrent,
        data_root=data_root,
        storage=storage,
        tracking_uri=tracking_uri,
        address=address,
        time_budget=_seconds(time_budget),
        progress_to="stderr" if json else "stdout",
    )
    _show_search(result, storage, json)


def _show_search(result, storage: str, json: bool) -> None:  # type: ignore[no-untyped-def]  # SearchResult, imported late
    from tausearch import report  # noqa: PLC0415  # see search
    from tausearch.spec import read_spec

    if json:
        best = None if result.best is None else result.best.model_dump(mode="json")
        trials = report.trials_as_dicts(result.trials)
        report.print_json({"name": result.name, "best": best, "trials": trials, **report.tracking_as_dict(result)})
    else:
        report.show_search(
            result, read_spec(open_storage(storage, write=False).run(result.name)), storage_words(storage)
        )
    advice = f"continue with: {command_on('resume', result.name, storage)}"
    if result.out_of_time:
        print(f"the time budget is used up; {advice}", file=sys.stderr)
    succeeded = result.out_of_time or any(trial.status == "complete" for trial in result.trials)
    _leave(result.interrupted, succeeded, advice)


def _leave(interrupted: bool, succeeded: bool, advice: str) -> None:
    if interrupted:
        print(f"interrupted; {advice}", file=sys.stderr)
        raise typer.Exit(130)
    if not succeeded:
        raise typer.Exit(1)
