"""The commands that keep and tidy up what lies in the storage folder: note, rename, delete, sync, replay, cache, ui."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from checked_input.names import counted
from checked_input.ranges import text_fault
from tausearch import api, campaigns, runs, studies
from tausearch.cli import completion, options, output
from tausearch.presentation import command_on, print_json, print_notices
from tausearch.runs import DEFAULT_STORAGE, Storage, StorageError, open_storage
from trainables.errors import InputError

runs_app = typer.Typer(
    help="Note, rename, delete, sync or replay runs; the cache; MLflow's pages.", no_args_is_help=True
)
RunArgument = Annotated[str, typer.Argument(help="Search or final run.", autocompletion=completion.runs)]


@runs_app.command()
def note(
    name: RunArgument,
    text: Annotated[str | None, typer.Argument(help="What to note; '' removes the note [default: show it].")] = None,
    storage: options.Storage = DEFAULT_STORAGE,
) -> None:
    """Note something of a run. `status` shows the note; the run may be running."""
    directory = open_storage(storage, write=False).run(name)
    runs.read_spec(directory)
    if text is None:
        print(directory.note or f"{name} has no note")
        return
    words = " ".join(text.split())
    if words and (fault := text_fault(words)):
        raise InputError(f"note {fault}")
    try:
        if words:
            runs.replace_text(directory.note_file, words + "\n")
        else:
            directory.note_file.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{directory.note_file}: cannot be written ({error.strerror})") from error


@runs_app.command()
def rename(
    name: RunArgument,
    new: Annotated[str, typer.Argument(help="Its name from now on.")],
    storage: options.Storage = DEFAULT_STORAGE,
    allow_code: options.AllowCode = None,
) -> None:
    """Rename a run. Final runs of its choices, and warm starts, learn the new name, so none of them may be driven."""
    root = open_storage(storage, write=False)
    if (campaign := campaigns.campaign_of(root, name)) is not None:
        raise InputError(f"run {name!r}: belongs to campaign {campaign!r}, which knows it by this name")
    pointed = api.rename_run(root, name, new)
    also = f", also as the source of {', '.join(pointed)}" if pointed else ""
    tracked = [each for each in (new, *pointed) if _is_in_mlflow(runs.read_spec(root.run(each)))]
    commands = "; ".join(command_on("runs sync", each, storage) for each in tracked)
    print(f"{name} is called {new}{also}{commands and f'. MLflow learns it from: {commands}'}")


@runs_app.command()
def delete(
    names: Annotated[list[str], typer.Argument(help="Runs to delete.", autocompletion=completion.runs)],
    yes: options.Yes = False,
    storage: options.Storage = DEFAULT_STORAGE,
) -> None:
    """Delete runs and all their files. Their entries in MLflow stay. After an interruption the same command goes on."""
    from rich.filesize import decimal

    from tausearch.execution import bytes_of

    root = open_storage(storage, write=False)
    rests = [name for name in names if api.finish_deletion(root.run(name))]
    for name in rests:
        print(f"deleted the rest of {name}")
    names = [name for name in names if name not in rests]
    if not names:
        return
    specs = {name: runs.read_spec(root.run(name)) for name in names}
    for name in names:
        if (campaign := campaigns.campaign_of(root, name)) is not None:
            raise InputError(
                f"run {name!r}: belongs to campaign {campaign!r}, whose table needs it; if you do not want the"
                f" table any more, first: {command_on('campaign delete', campaign, storage)}"
            )
    options.require_answer(yes)
    for name, spec in specs.items():
        what = f"{spec.purpose} {name}: {spec.method} on {spec.benchmark}, {decimal(bytes_of(root.run(name).path))}"
        if stay := [final.name for final in runs.finals_of(root, spec) if final.name not in names]:
            what += f" (final runs that stay without their search: {', '.join(stay)})"
        if yes or typer.confirm(f"delete {what}?"):
            api.delete_run(root.run(name))
            print(f"deleted {what}")


@runs_app.command()
def sync(
    name: Annotated[str | None, typer.Argument(help="Run; all runs that no process drives without it.")] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    tracking: options.TrackersAsBefore = None,
    tracking_uri: options.TrackingAsBefore = None,
    allow_code: options.AllowCode = None,
    format: options.Format = "text",
) -> None:
    """Bring best files, figures and trackers up to date with the record. Results are written again, too."""
    from tausearch.tracking import checked_tracking, checked_uri  # pydantic takes a moment to import; --help must not

    tracking_uri = checked_uri(tracking_uri)  # its password goes into no file
    checked_tracking(tracking)
    root = open_storage(storage, write=False)
    chosen = [root.run(name)] if name is not None else [run for run in root.runs() if not runs.is_driven(run)]
    if not chosen and format == "text":
        print(f"no runs in {root.root} to bring up to date")
    done, failed = [], 0
    for directory in chosen:
        try:
            each = api.sync_run(root, directory, tracking_uri, tracking)
        except (InputError, StorageError) as error:
            if name is not None:
                raise
            run = repr(directory.name)
            print_notices(error if run in str(error) else f"run {run}: {error}")  # others have other servers
            failed += 1
            continue
        done.append(each)
        if format == "text":
            trials, tasks = counted(each.trials, "trial"), counted(each.tasks, "task")
            there = ", not in MLflow" if each.tracking_uri is None else f" in MLflow, {each.written} of them new"
            print(f"{each.name}: {trials}, {tasks}{there}")
    if format == "json":
        print_json([asdict(each) for each in done])
    if name is None:
        failed += _sync_tables(root, tracking_uri)
    if failed:
        raise typer.Exit(1)


def _sync_tables(root: Storage, tracking_uri: str | None) -> int:
    """Tag the runs that stand in the tables of campaigns; returns how many campaigns failed."""
    statuses, faults = campaigns.all_campaign_statuses(root)
    print_notices(*faults)
    failed = len(faults)
    for status in statuses:
        try:
            campaigns.track_tables(root, status, tracking_uri)
        except InputError as error:
            print_notices(error)
            failed += 1
    return failed


@runs_app.command()
def replay(
    name: Annotated[str, typer.Argument(help="Search whose record to replay.", autocompletion=completion.runs)],
    algorithm: Annotated[str | None, typer.Option(help="tpe, gp, random or grid [default: all but grid].")] = None,
    scheduler: Annotated[str | None, typer.Option(help="none, asha or median [default: all].")] = None,
    trials: Annotated[int | None, typer.Option(help="Trials of a replay [default: half of the recorded].")] = None,
    seeds: Annotated[str, typer.Option(help="Of the algorithm, a replay each.", metavar="0,1,...")] = "0,1,2,3,4",
    storage: options.Storage = DEFAULT_STORAGE,
    format: options.Format = "text",
) -> None:
    """Show what another algorithm would have chosen. Reads the record alone; nothing is trained."""
    root, numbers = open_storage(storage, write=False), options.whole_numbers("--seeds", seeds)
    found = studies.replays_of(root, name, algorithm=algorithm, scheduler=scheduler, trials=trials, seeds=numbers)
    if format == "json":
        print_json(found.as_dict())
    else:
        output.show_replays(found)


@runs_app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove every entry that no living trial uses.")] = False,
    storage: options.Storage = DEFAULT_STORAGE,
    format: options.Format = "text",
) -> None:
    """List or clear the pre-consolidation cache. Trials share its entries on disk."""
    from trainables.preconsolidation.cache import Cache

    folder = open_storage(storage, write=False).cache
    shared = Cache(folder) if folder.is_dir() else None
    try:
        removed = shared.shrink(0) if shared and clear else []
    except OSError as error:
        raise InputError(f"{folder}: cannot be cleared ({error.strerror})") from error
    entries = shared.entries() if shared else []
    if format == "json":
        print_json({"removed": len(removed), "entries": [output.entry_as_dict(entry) for entry in entries]})
    else:
        output.show_cache(entries, removed if clear else None)


@runs_app.command()
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
    print(f"MLflow's server starts, which takes some seconds; its pages: {page} (Ctrl-C ends it)", flush=True)
    os.environ["PYTHONWARNINGS"] = "ignore::DeprecationWarning"
    os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"  # its job workers take memory and serve nothing here
    mlflow = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    stores = ["--backend-store-uri", root.mlflow_uri, "--artifacts-destination", str(root.mlflow_artifacts)]
    os.execv(sys.executable, [*mlflow, *stores])


def _open_dashboard(root: Storage, port: int) -> None:
    serve, faults = studies.dashboard_of(root)
    print_notices(*faults)
    _require_free(port)
    print(f"optuna-dashboard: http://127.0.0.1:{port}/ (Ctrl-C ends it)", flush=True)
    serve(host="127.0.0.1", port=port)


def _tracked_elsewhere(root: Storage) -> str | None:
    specs, faults = root.read_each(runs.read_spec)
    print_notices(*faults)
    uris = sorted({spec.tracking_uri for spec in specs if spec.tracking_uri is not None and _is_in_mlflow(spec)})
    if uris:
        return f"its runs are tracked at {', '.join(uris)}"
    return "its runs are not tracked by MLflow" if specs and not any(map(_is_in_mlflow, specs)) else None


def _is_in_mlflow(spec: runs.RunSpec) -> bool:
    return "mlflow" in spec.trackers


def _require_free(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise InputError(
            f"--port {port}: cannot be used ({os.strerror(error.errno or 0)}); choose another --port"
        ) from error
