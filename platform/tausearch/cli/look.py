"""The commands that read what runs left: status, compare, export, spaces, sync, ui."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tausearch.cli import completion, options, output
from tausearch.cli.options import app
from tausearch.presentation import counted, print_json, say_unreadable
from tausearch.runs import DEFAULT_STORAGE, Storage, StorageError, open_storage
from trainables.errors import InputError


@app.command()
def status(
    name: Annotated[
        str | None, typer.Argument(help="Run to show; all runs without it.", autocompletion=completion.runs)
    ] = None,
    protocols: Annotated[
        bool, typer.Option("--protocols", help="What the first task, the first three and all would have chosen.")
    ] = False,
    storage: options.Storage = DEFAULT_STORAGE,
    json: options.Json = False,
) -> None:
    """Show what runs, what is done, and the best so far."""
    if protocols and name is None:
        raise InputError("--protocols: needs the name of a search")
    from tausearch.runs import all_statuses, eligible, protocol_choices, read_status

    root = open_storage(storage, write=False)
    if name is None:
        statuses, faults = all_statuses(root)
        say_unreadable(*faults)
        if json:
            print_json([found.as_dict() for found in statuses])
        else:
            output.show_statuses(statuses)
        return
    found = read_status(root.run(name))
    choices = []
    if protocols:
        if found.spec.purpose == "final":
            raise InputError(f"--protocols: run {name!r} is a final run; only searches choose")
        competing = eligible(found.trials, found.spec.constraints)
        choices = protocol_choices(competing, found.spec.steps, found.spec.metrics)
    if json:
        correlations = {f"task_{k}": value for k, value in found.rank_correlations.items()}
        table = output.trials_as_dicts(found.trials)
        front = [trial.number for trial in found.front]
        plain = {"protocols": [asdict(each) for each in choices]} if protocols else {}
        more = {"rank_correlation": correlations, "pareto_front": front, **plain, "table": table}
        print_json({**found.as_dict(), **more})
    elif protocols:
        output.show_protocols(found, choices)
    else:
        output.show_status(found)


@app.command()
def replay(
    name: Annotated[str, typer.Argument(help="Search whose record to replay.", autocompletion=completion.runs)],
    algorithm: Annotated[str | None, typer.Option(help="tpe, gp, random or grid [default: all but grid].")] = None,
    scheduler: Annotated[str | None, typer.Option(help="none, asha or median [default: all].")] = None,
    trials: Annotated[int | None, typer.Option(help="Trials of a replay [default: half of the recorded].")] = None,
    seeds: Annotated[str, typer.Option(help="Of the algorithm, a replay each.", metavar="0 1 2")] = "0 1 2 3 4",
    storage: options.Storage = DEFAULT_STORAGE,
    json: options.Json = False,
) -> None:
    """Show what another algorithm would have chosen. Reads the record alone; nothing is trained."""
    from tausearch.cli.output import show_replays
    from tausearch.studies import replays_of  # Optuna takes a second to import; --help must not

    root, numbers = open_storage(storage, write=False), options.whole_numbers("--seeds", seeds)
    show_replays(replays_of(root, name, algorithm=algorithm, scheduler=scheduler, trials=trials, seeds=numbers), json)


@app.command()
def compare(
    benchmarks: Annotated[list[str] | None, typer.Argument(help="Benchmarks [default: all with a final run].")] = None,
    transfer: Annotated[
        bool, typer.Option("--transfer", help="Tuned here, judged there: a matrix per method.")
    ] = False,
    composition: Annotated[
        bool, typer.Option("--composition", help="What `edit` found: specialisation and unlearning.")
    ] = False,
    ablation: Annotated[bool, typer.Option("--ablation", help="By what is regularised, a method a line.")] = False,
    figure: Annotated[
        Path | None, typer.Option(help="Picture to draw [default: compare.png in the storage folder].")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    storage: options.Storage = DEFAULT_STORAGE,
    json: options.Json = False,
) -> None:
    """Put final runs beside the paper's results. Prints a table and draws a picture."""
    from tausearch import comparison  # matplotlib takes a second to import

    chosen = {"json": json, "csv": csv, "markdown": markdown, "latex": latex}
    forms: list[comparison.Form] = [form for form in comparison.FORMS if chosen.get(form)] or ["table"]
    if len(forms) > 1:
        raise InputError(f"--{' and --'.join(forms)}: choose one of them")
    shown = {
        "transfer": (transfer, comparison.show_transfer),
        "composition": (composition, comparison.show_edits),
        "ablation": (ablation, comparison.show_ablations),
    }
    tables = [name for name, (wanted, _) in shown.items() if wanted]
    if len(tables) > 1:
        raise InputError(f"--{' and --'.join(tables)}: choose one of them")
    if tables and figure is not None:
        raise InputError(f"--figure: draws methods by benchmark, so it does not go with --{tables[0]}")
    root = open_storage(storage, write=False)
    if tables:
        shown[tables[0]][1](root, benchmarks or [], forms[0])
    else:
        comparison.show_comparison(root, benchmarks or [], forms[0], figure)


@app.command()
def export(
    what: Annotated[
        list[str], typer.Argument(metavar="RUN | BENCHMARK METHOD", help="Search or final run, or what to look up.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Best file to write.")] = None,
    adapters: Annotated[Path | None, typer.Option(help="Folder for the latest final run's task vectors.")] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    json: options.Json = False,
) -> None:
    """Write a best configuration, or task vectors, to disk. Those of a run, or the best of METHOD on BENCHMARK."""
    if len(what) > 2:
        raise InputError(f"export needs a run, or a benchmark and a method, got {' '.join(what)}")
    from tausearch.runs import read_spec  # pydantic takes a moment to import; --help must not

    root = open_storage(storage, write=False)
    if len(what) == 1 and root.run_exists(what[0]) and read_spec(root.run(what[0])).purpose == "final":
        written = _export_final(root, what[0], output, adapters)
    else:
        written = _export_search(root, what, output, adapters)
    if json:
        print_json(written)
    else:
        for kind, path in written.items():
            print(f"{kind.replace('_', ' ')}: {path}")


def _export_final(root: Storage, name: str, output: Path | None, adapters: Path | None) -> dict[str, str]:
    from tausearch.api import export_vectors  # torch takes seconds to import; --help must not

    if adapters is None or output is not None:
        raise InputError(f"run {name!r}: is a final run, of which task vectors alone are exported: --adapters FOLDER")
    export_vectors(root, name, adapters)
    return {"adapters": str(adapters)}


def _export_search(root: Storage, what: list[str], output: Path | None, adapters: Path | None) -> dict[str, str]:
    from tausearch.api import export_best  # torch takes seconds to import; --help must not
    from tausearch.studies import best_of_all, best_of_run
    from trainables.data import reference

    if len(what) == 1:
        stem, best = what[0], best_of_run(root, what[0])
    else:
        ref = reference(what[0])
        stem, best = f"{ref.slug}-{what[1]}", best_of_all(root, str(ref), what[1], say_unreadable)
    target = output or Path(f"{stem}.best.yaml")
    export_best(root, best, target, adapters)
    return {"best_file": str(target), **({} if adapters is None else {"adapters": str(adapters)})}


@app.command()
def spaces(
    method: Annotated[
        str | None, typer.Argument(help="Method; all methods without it.", autocompletion=completion.methods)
    ] = None,
    benchmark: Annotated[
        str, typer.Option(help='Whose values to show; of your own images with tasks: "folder:birds?tasks=5".')
    ] = "digits",
    backbone: options.Backbone = None,
    space: options.Space = None,
    set_: options.Set = None,
    json: options.Json = False,
) -> None:
    """Show the search spaces of the methods. A search would use exactly these."""
    from search_spaces import METHODS_WITH_SPACE, parse_assignments  # torch takes seconds to import; --help must not
    from tausearch.api import SearchRequest, space_for

    overrides = parse_assignments(set_ or [])
    resolved = [
        space_for(SearchRequest(benchmark, each, space=space, set=overrides, backbone=backbone))
        for each in (METHODS_WITH_SPACE if method is None else [method])
    ]
    if json:
        plain = [output.space_as_dict(found) for found in resolved]
        print_json(plain if method is None else plain[0])
    elif method is not None:
        output.show_space(resolved[0])
    else:
        output.show_spaces(resolved)


@app.command()
def sync(
    name: Annotated[str | None, typer.Argument(help="Run; all runs that no process drives without it.")] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    tracking_uri: options.TrackingAsBefore = None,
    allow_code: options.AllowCode = None,
    json: options.Json = False,
) -> None:
    """Bring MLflow up to date with the record. Writes what MLflow lacks of a run, and leaves what it has."""
    from tausearch.api import sync_run  # torch takes seconds to import; --help must not
    from tausearch.runs import is_driven
    from tausearch.tracking import checked_uri

    checked_uri(tracking_uri)
    root = open_storage(storage, write=False)
    chosen = [root.run(name)] if name is not None else [run for run in root.runs() if not is_driven(run)]
    done, failed = [], 0
    for directory in chosen:
        try:
            each = sync_run(root, directory, tracking_uri)
        except (InputError, StorageError) as error:
            if name is not None:
                raise
            say_unreadable(error)  # the others have servers of their own
            failed += 1
            continue
        done.append(each)
        if not json:
            trials, tasks = counted(each.trials, "trial"), counted(each.tasks, "task")
            print(f"{each.name}: {trials}, {tasks} in MLflow, {each.written} of them new")
    if json:
        print_json([asdict(each) for each in done])
    if name is None:
        _sync_tables(root, tracking_uri)
    if failed:
        raise typer.Exit(1)


def _sync_tables(root: Storage, tracking_uri: str | None) -> None:
    """Tag the runs that stand in the tables of campaigns."""
    from tausearch.campaigns import all_standings, track_tables

    standings, faults = all_standings(root)
    say_unreadable(*faults)
    for standing in standings:
        try:
            track_tables(root, standing, tracking_uri)
        except InputError as error:
            say_unreadable(error)


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="Port on loopback.", min=1, max=65535)] = 5000,
    optuna: Annotated[bool, typer.Option("--optuna", help="Open optuna-dashboard on the searches instead.")] = False,
    storage: options.Storage = DEFAULT_STORAGE,
) -> None:
    """Open MLflow's pages on this machine. They are served on loopback, until Ctrl-C."""
    root = open_storage(storage, write=False)
    if optuna:
        _open_dashboard(root, port)
        return
    if not root.mlflow_file.exists():
        raise InputError(f"--storage {root.root}: {_tracked_elsewhere(root) or 'has no runs yet'}")
    _require_free(port)
    # Without the parameter MLflow opens on its pages for language models, which show no runs.
    page = f"http://127.0.0.1:{port}/#/experiments?workflowType=machine_learning"
    print(f"MLflow's pages: {page} (Ctrl-C ends them)", flush=True)
    os.environ["PYTHONWARNINGS"] = "ignore::DeprecationWarning"
    os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"  # its job workers take memory and serve nothing here
    mlflow = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    stores = ["--backend-store-uri", root.mlflow_uri, "--artifacts-destination", str(root.mlflow_artifacts)]
    os.execv(sys.executable, [*mlflow, *stores])


def _open_dashboard(root: Storage, port: int) -> None:
    from tausearch.studies import dashboard_of  # Optuna takes a second to import; --help must not

    serve, faults = dashboard_of(root)
    say_unreadable(*faults)
    _require_free(port)
    print(f"optuna-dashboard: http://127.0.0.1:{port}/ (Ctrl-C ends it)", flush=True)
    serve(host="127.0.0.1", port=port)


def _tracked_elsewhere(root: Storage) -> str | None:
    from tausearch.runs import read_spec  # pydantic takes a moment to import; --help must not

    specs, faults = root.read_each(read_spec)
    say_unreadable(*faults)
    uris = sorted({spec.tracking_uri for spec in specs if spec.tracking_uri is not None})
    return f"its runs are tracked at {', '.join(uris)}" if uris else None


def _require_free(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise InputError(
            f"--port {port}: cannot be had ({os.strerror(error.errno or 0)}); choose another --port"
        ) from error
