"""The command line: parse, call, print."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from tausearch.data_cli import DataRootOption, PartialOption, VariantOption, data_app
from tausearch.files import DEFAULT_STORAGE, DEFAULT_STORE_GIGABYTES, open_storage
from trainables.errors import InputError

app = typer.Typer(
    help="Find the hyperparameters with which a composable incremental learner does best.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")

StorageOption = Annotated[str, typer.Option("--storage", help="Folder that holds run directories.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConcurrentOption = Annotated[int | None, typer.Option(help="Trials at a time [default: as many as fit].")]
CpusOption = Annotated[int, typer.Option(help="CPU threads of a trial.")]
GpusOption = Annotated[float, typer.Option(help="Share of a GPU per trial: 0, 1 or 1/k.")]
GpusOrAutoOption = Annotated[str, typer.Option(help="Share of a GPU per trial: 0, 1, 1/k, or auto to measure it.")]
NameOption = Annotated[str | None, typer.Option(help="Name of the run [default: made from benchmark and method].")]
TrackingOption = Annotated[
    str | None,
    typer.Option(
        envvar="MLFLOW_TRACKING_URI",
        help="MLflow tracking URI [default: the run's own if it is continued, else SQLite in the storage folder].",
    ),
]
AddressOption = Annotated[str | None, typer.Option(help="Ray cluster to use [default: start Ray on this machine].")]
SpaceOption = Annotated[Path | None, typer.Option("--space", help="Search-space file over the method's own.")]
StoreSizeOption = Annotated[
    float, typer.Option("--store-size", help="Gigabytes that the pre-consolidation store may take.")
]
NoStoreOption = Annotated[bool, typer.Option("--no-store", help="Compute everything in every trial.")]
TimeBudgetOption = Annotated[
    str | None, typer.Option(help="Stop after this long, such as 90m or 12h; resume continues [default: no limit].")
]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Fix a hyperparameter: KEY=VALUE. Repeatable.")]


@app.command()
def search(
    benchmark: Annotated[str, typer.Argument(help="Name, such as digits; folder:PATH, parquet:PATH or MODULE:NAME.")],
    method: Annotated[str, typer.Argument(help="Method, such as ita-lora.")],
    trials: Annotated[int | None, typer.Option(help="Configurations to try [default: 12, or the whole grid].")] = None,
    algorithm: Annotated[str, typer.Option(help="tpe, gp, random or grid.")] = "tpe",
    scheduler: Annotated[
        str, typer.Option(help="Stop bad trials early, after task 3 or later: none, asha or median.")
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
        gpus_per_trial=_share(gpus_per_trial),
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
    concurrent: ConcurrentOption = None,
    time_budget: TimeBudgetOption = None,
    data_root: DataRootOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: TrackingOption = None,
    address: AddressOption = None,
    json: JsonOption = False,
) -> None:
    """Continue a search that was stopped or killed; nothing that was finished is run again."""
    _continue(name, None, concurrent, time_budget, data_root, storage, tracking_uri, address, json)


@app.command()
def extend(
    name: Annotated[str, typer.Argument(help="Search to extend.")],
    trials: Annotated[int, typer.Option(help="New total number of trials.")],
    concurrent: ConcurrentOption = None,
    time_budget: TimeBudgetOption = None,
    data_root: DataRootOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: TrackingOption = None,
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
    gpus_per_trial: GpusOption = 0.0,
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
        gpus_per_trial=gpus_per_trial,
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
        report.show_final(result, read_spec(_run_directory(storage, result.name)), _storage_words(storage))
    succeeded = all(trial.status == "complete" for trial in result.trials)
    _leave(result.interrupted, succeeded, result.name, storage, "the finished seeds are in: tausearch status")


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="Run to show; all runs without it.")] = None,
    storage: StorageOption = DEFAULT_STORAGE,
    json: JsonOption = False,
) -> None:
    """Show what runs, what is done, and the best so far."""
    from tausearch import report  # noqa: PLC0415  # see search
    from tausearch.status import all_statuses
    from tausearch.status import status as read_status

    root = open_storage(storage, write=False)
    if name is None:
        statuses = all_statuses(root)
        if json:
            report.print_json([found.as_dict() for found in statuses])
        else:
            report.show_statuses(statuses)
        return
    found = read_status(root.run(name))
    if json:
        correlations = {f"task_{k}": value for k, value in found.rank_correlations.items()}
        table = report.trials_as_dicts(found.trials)
        report.print_json({**found.as_dict(), "rank_correlation": correlations, "table": table})
    else:
        report.show_status(found)


@app.command()
def compare(
    benchmarks: Annotated[list[str] | None, typer.Argument(help="Benchmarks [default: all with a final run].")] = None,
    transfer: Annotated[
        bool, typer.Option("--transfer", help="Tuned here, judged there: a matrix per method.")
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(help="Picture to draw [default: compare.png in the storage folder].")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    storage: StorageOption = DEFAULT_STORAGE,
    json: JsonOption = False,
) -> None:
    """Put final runs beside the paper's results: a table and a picture."""
    from tausearch.compare import command  # noqa: PLC0415  # see search

    chosen = {"json": json, "csv": csv, "markdown": markdown, "latex": latex}
    forms: list[command.Form] = [form for form in command.FORMS if chosen.get(form)] or ["table"]
    if len(forms) > 1:
        raise InputError(f"--{' and --'.join(forms)}: choose one of them")
    if transfer and figure is not None:
        raise InputError("--figure: draws methods by benchmark, so it does not go with --transfer")
    root = open_storage(storage, write=False)
    if transfer:
        command.show_transfer(root, benchmarks or [], forms[0])
    else:
        command.show_comparison(root, benchmarks or [], forms[0], figure)


@app.command()
def export(
    benchmark: Annotated[str, typer.Argument(help="Benchmark.")],
    method: Annotated[str, typer.Argument(help="Method.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Best file to write.")] = None,
    adapters: Annotated[Path | None, typer.Option(help="Folder for the latest final run's task vectors.")] = None,
    storage: StorageOption = DEFAULT_STORAGE,
    json: JsonOption = False,
) -> None:
    """Write the best configuration found for METHOD on BENCHMARK to a file, and its task vectors to a folder."""
    from tausearch import report  # noqa: PLC0415  # see search
    from tausearch.export import export_adapters, export_best
    from trainables.data import reference

    root, ref = open_storage(storage, write=False), reference(benchmark)
    target = output or Path(f"{ref.slug}-{method}.best.yaml")
    best = export_best(root, str(ref), method, target)
    written = {"best_file": str(target)}
    if adapters is not None:
        written["adapters"] = str(export_adapters(root, best, adapters))
    if json:
        report.print_json(written)
    else:
        for kind, path in written.items():
            print(f"{kind.replace('_', ' ')}: {path}")


@app.command()
def spaces(
    method: Annotated[str | None, typer.Argument(help="Method; all methods without it.")] = None,
    benchmark: Annotated[str, typer.Option(help="Benchmark whose values to show.")] = "digits",
    space: SpaceOption = None,
    set_: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Show the search spaces: exactly what a search would use."""
    from search_spaces import METHODS_WITH_SPACE, parse_assignment  # noqa: PLC0415  # see search
    from tausearch import report
    from tausearch.spaces import space_of
    from trainables.data import reference

    benchmark = reference(benchmark).name
    overrides = dict(parse_assignment(text) for text in set_ or [])
    resolved = [space_of(each, benchmark, space, overrides) for each in ([method] if method else METHODS_WITH_SPACE)]
    if json:
        plain = [report.space_as_dict(found) for found in resolved]
        report.print_json(plain[0] if method else plain)
    elif method:
        report.show_space(resolved[0])
    else:
        report.show_spaces(resolved)


@app.command()
def store(
    clear: Annotated[bool, typer.Option("--clear", help="Remove every entry that no living trial uses.")] = False,
    storage: StorageOption = DEFAULT_STORAGE,
    json: JsonOption = False,
) -> None:
    """List the pre-consolidation store, what trials share, or clear it."""
    from tausearch import report  # noqa: PLC0415  # see search
    from trainables.preconsolidation.store import Store

    folder = open_storage(storage, write=False).store
    shared = Store(folder) if folder.is_dir() else None
    removed = shared.shrink(0) if shared and clear else []
    entries = shared.entries() if shared else []
    if json:
        report.print_json({"removed": len(removed), "entries": [report.entry_as_dict(entry) for entry in entries]})
    else:
        report.show_store(entries, removed if clear else None)


@app.command()
def sync(
    name: Annotated[str | None, typer.Argument(help="Run; all runs that no process drives without it.")] = None,
    storage: StorageOption = DEFAULT_STORAGE,
    tracking_uri: TrackingOption = None,
    json: JsonOption = False,
) -> None:
    """Bring MLflow up to date with the record: write what it lacks of a run, leave what it has."""
    from dataclasses import asdict  # noqa: PLC0415  # see search

    from tausearch import report
    from tausearch.runner import is_driven
    from tausearch.sync import sync as bring_up_to_date

    root = open_storage(storage, write=False)
    chosen = [root.run(name)] if name is not None else [run for run in root.runs() if not is_driven(run)]
    done = []
    for directory in chosen:
        done.append(bring_up_to_date(root, directory, tracking_uri))
        if not json:
            each = done[-1]
            print(f"{each.name}: {each.trials} trials, {each.tasks} tasks in MLflow, {each.written} of them new")
    if json:
        report.print_json([asdict(each) for each in done])


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="Port on loopback.", min=1, max=65535)] = 5000,
    storage: StorageOption = DEFAULT_STORAGE,
) -> None:
    """Open MLflow's pages on loopback, until Ctrl-C."""
    root = open_storage(storage, write=False)
    if not (root.root / "mlflow.db").exists():
        raise InputError(f"--storage {root.root}: has no runs yet")
    # Without the parameter MLflow opens on its pages for language models, which show no runs.
    page = f"http://127.0.0.1:{port}/#/experiments?workflowType=machine_learning"
    print(f"MLflow's pages: {page} (Ctrl-C ends them)", flush=True)
    os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"  # its job workers take memory and serve nothing here
    mlflow = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    stores = ["--backend-store-uri", root.mlflow_uri, "--artifacts-destination", str(root.mlflow_artifacts)]
    os.execv(sys.executable, [*mlflow, *stores])


def main() -> None:
    """Run the command line; every error that the user can mend is one line and exit code 2."""
    sys.argv[1:] = _join_seeds(sys.argv[1:])
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where MODULE:NAME is found; Ray hands the path on to its workers
    try:
        app(standalone_mode=True)
    except RuntimeError as error:
        if type(error).__name__ != "StorageError":
            raise
        print(f"tausearch: {error}", file=sys.stderr)
        sys.exit(1)
    except ValueError as error:
        if not {"InputError", "SpaceError"} & {kind.__name__ for kind in type(error).__mro__}:
            raise
        print(f"tausearch: {error}", file=sys.stderr)
        sys.exit(2)


def _join_seeds(arguments: list[str]) -> list[str]:
    """Let `--seeds 0 1 2` take several values, which the option parser does not."""
    if "--seeds" not in arguments:
        return arguments
    start = arguments.index("--seeds") + 1
    end = start
    while end < len(arguments) and arguments[end].lstrip("-").isdigit():
        end += 1
    return [*arguments[:start], " ".join(arguments[start:end]), *arguments[end:]] if end > start else arguments


def _seconds(duration: str | None) -> float | None:
    from tausearch.planning import parse_duration  # noqa: PLC0415  # see search

    return None if duration is None else parse_duration(duration)


def _share(text: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--gpus-per-trial must be a number or auto, got {text!r}") from None


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
    from tausearch.best import load_best  # noqa: PLC0415  # see search
    from tausearch.status import best_of_all
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
        report.show_search(result, read_spec(_run_directory(storage, result.name)), _storage_words(storage))
    if result.out_of_time:
        print(
            f"the time budget is used up; continue with: tausearch resume {result.name}{_storage_words(storage)}",
            file=sys.stderr,
        )
    succeeded = result.out_of_time or any(trial.status == "complete" for trial in result.trials)
    _leave(result.interrupted, succeeded, result.name, storage, "continue with: tausearch resume")


def _run_directory(storage: str, name: str):  # type: ignore[no-untyped-def]  # RunDirectory, imported late

    return open_storage(storage, write=False).run(name)


def _storage_words(storage: str) -> str:
    return "" if storage == DEFAULT_STORAGE else f" --storage {shlex.quote(storage)}"


def _leave(interrupted: bool, succeeded: bool, name: str, storage: str, advice: str) -> None:
    if interrupted:
        print(f"interrupted; {advice} {name}{_storage_words(storage)}", file=sys.stderr)
        raise typer.Exit(130)
    if not succeeded:
        raise typer.Exit(1)
