"""The commands that keep and tidy up what lies in the storage folder: export, sync, note, rename, delete, cache."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from checked_input.bounds import text_fault
from tausearch.cli import completion, options, output
from tausearch.cli.options import app
from tausearch.presentation import counted, print_json, say_unreadable
from tausearch.runs import DEFAULT_STORAGE, Storage, StorageError, open_storage
from trainables.errors import InputError
from trainables.user_code import allow_typed, file_name

RunArgument = Annotated[str, typer.Argument(help="Search or final run.", autocompletion=completion.runs)]


@app.command()
def export(
    what: Annotated[
        list[str], typer.Argument(metavar="RUN | BENCHMARK METHOD", help="Search or final run, or what to look up.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Best file to write.")] = None,
    adapters: Annotated[Path | None, typer.Option(help="Folder for the latest final run's task vectors.")] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    allow_code: options.AllowCode = None,
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
        raise InputError(f"run {name!r}: is a final run; only its task vectors can be exported: --adapters FOLDER")
    export_vectors(root, name, adapters)
    return {"adapters": str(adapters)}


def _export_search(root: Storage, what: list[str], output: Path | None, adapters: Path | None) -> dict[str, str]:
    from tausearch.api import export_best  # torch takes seconds to import; --help must not
    from tausearch.studies import best_of_all, best_of_run
    from trainables.data import reference

    if len(what) == 1:
        stem, best = what[0], best_of_run(root, what[0])
    else:
        allow_typed(*what)
        ref = reference(what[0])
        stem, best = f"{ref.slug}-{file_name(what[1])}", best_of_all(root, str(ref), what[1], say_unreadable)
    target = output or Path(f"{stem}.best.yaml")
    export_best(root, best, target, adapters)
    return {"best_file": str(target), **({} if adapters is None else {"adapters": str(adapters)})}


@app.command()
def sync(
    name: Annotated[str | None, typer.Argument(help="Run; all runs that no process drives without it.")] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    tracking: options.TrackersAsBefore = None,
    tracking_uri: options.TrackingAsBefore = None,
    allow_code: options.AllowCode = None,
    json: options.Json = False,
) -> None:
    """Bring best files, figures and trackers up to date with the record. Results are written again, too."""
    from tausearch.api import sync_run  # torch takes seconds to import; --help must not
    from tausearch.runs import is_driven
    from tausearch.tracking import checked_tracking, checked_uri

    checked_uri(tracking_uri)
    checked_tracking(tracking)
    root = open_storage(storage, write=False)
    chosen = [root.run(name)] if name is not None else [run for run in root.runs() if not is_driven(run)]
    done, failed = [], 0
    for directory in chosen:
        try:
            each = sync_run(root, directory, tracking_uri, tracking)
        except (InputError, StorageError) as error:
            if name is not None:
                raise
            say_unreadable(error)  # the others have servers of their own
            failed += 1
            continue
        done.append(each)
        if not json:
            trials, tasks = counted(each.trials, "trial"), counted(each.tasks, "task")
            there = ", not in MLflow" if each.tracking_uri is None else f" in MLflow, {each.written} of them new"
            print(f"{each.name}: {trials}, {tasks}{there}")
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
def note(
    name: RunArgument,
    text: Annotated[str | None, typer.Argument(help="What to note; '' removes the note [default: show it].")] = None,
    storage: options.Storage = DEFAULT_STORAGE,
) -> None:
    """Note something of a run. `status` shows the note; the run may be running."""
    from tausearch.runs import read_spec, replace_text  # pydantic takes a moment to import; --help must not

    directory = open_storage(storage, write=False).run(name)
    read_spec(directory)
    if text is None:
        print(directory.note)
    elif words := " ".join(text.split()):
        if fault := text_fault(words):
            raise InputError(f"note {fault}")
        replace_text(directory.note_file, words + "\n")
    else:
        directory.note_file.unlink(missing_ok=True)


@app.command()
def rename(
    name: RunArgument,
    new: Annotated[str, typer.Argument(help="Its name from now on.")],
    storage: options.Storage = DEFAULT_STORAGE,
    allow_code: options.AllowCode = None,
) -> None:
    """Rename a run. Other runs of the storage folder that name it learn the new name."""
    from tausearch.api import rename_run
    from tausearch.campaigns import campaign_of  # torch takes seconds to import; --help must not
    from tausearch.presentation import command_on

    root = open_storage(storage, write=False)
    if (campaign := campaign_of(root, name)) is not None:
        raise InputError(f"run {name!r}: belongs to campaign {campaign!r}, which knows it by this name")
    pointed = rename_run(root, name, new)
    also = f"; {', '.join(pointed)} name it as their source" if pointed else ""
    print(f"{name} is called {new}{also}. MLflow learns it from: {command_on('sync', new, storage)}")


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(help="Runs to delete.", autocompletion=completion.runs)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    storage: options.Storage = DEFAULT_STORAGE,
) -> None:
    """Delete runs and all their files. Their entries in MLflow stay."""
    from rich.filesize import decimal

    from tausearch.api import delete_run, size_of
    from tausearch.campaigns import campaign_of  # torch takes seconds to import; --help must not
    from tausearch.runs import read_spec

    root = open_storage(storage, write=False)
    specs = {name: read_spec(root.run(name)) for name in names}
    for name in names:
        if (campaign := campaign_of(root, name)) is not None:
            raise InputError(
                f"run {name!r}: belongs to campaign {campaign!r}, whose table needs it; if you do not want the"
                f" table any more, remove {root.campaign(campaign).path} first"
            )
    if not yes and not sys.stdin.isatty():
        raise InputError("delete asks first, and there is no terminal to answer; --yes deletes without asking")
    for name, spec in specs.items():
        what = f"{spec.purpose} {name}: {spec.method} on {spec.benchmark}, {decimal(size_of(root.run(name)))}"
        if yes or typer.confirm(f"delete {what}?"):
            delete_run(root.run(name))
            print(f"deleted {what}")


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove every entry that no living trial uses.")] = False,
    storage: options.Storage = DEFAULT_STORAGE,
    json: options.Json = False,
) -> None:
    """List or clear the pre-consolidation cache. Trials share its entries on disk."""
    from trainables.preconsolidation.cache import Cache

    folder = open_storage(storage, write=False).cache
    shared = Cache(folder) if folder.is_dir() else None
    removed = shared.shrink(0) if shared and clear else []
    entries = shared.entries() if shared else []
    if json:
        print_json({"removed": len(removed), "entries": [output.entry_as_dict(entry) for entry in entries]})
    else:
        output.show_cache(entries, removed if clear else None)
