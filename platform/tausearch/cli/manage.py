"""The commands on what lies in the storage folder: cache, delete, rename, note."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from checked_input.bounds import text_fault
from tausearch.cli import completion, options, output
from tausearch.cli.options import app
from tausearch.presentation import print_json
from tausearch.runs import DEFAULT_STORAGE, open_storage
from trainables.errors import InputError

RunArgument = Annotated[str, typer.Argument(help="Search or final run.", autocompletion=completion.runs)]


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


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(help="Runs to delete.", autocompletion=completion.runs)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    storage: options.Storage = DEFAULT_STORAGE,
) -> None:
    """Delete runs with all that they have left. What MLflow has of them stays."""
    from rich.filesize import decimal

    from tausearch.api import delete_run, size_of
    from tausearch.campaigns import campaign_of  # torch takes seconds to import; --help must not
    from tausearch.runs import read_spec

    root = open_storage(storage, write=False)
    specs = {name: read_spec(root.run(name)) for name in names}
    for name in names:
        if (campaign := campaign_of(root, name)) is not None:
            raise InputError(
                f"run {name!r}: is a cell's of campaign {campaign!r}, whose table stands on it; if you do not want the"
                f" table any more, remove {root.campaign(campaign).path} first"
            )
    if not yes and not sys.stdin.isatty():
        raise InputError("delete asks, and nobody is there to answer; --yes deletes without asking")
    for name, spec in specs.items():
        what = f"{spec.purpose} {name}: {spec.method} on {spec.benchmark}, {decimal(size_of(root.run(name)))}"
        if yes or typer.confirm(f"delete {what}?"):
            delete_run(root.run(name))
            print(f"deleted {what}")


@app.command()
def rename(
    name: RunArgument,
    new: Annotated[str, typer.Argument(help="Its name from now on.")],
    storage: options.Storage = DEFAULT_STORAGE,
) -> None:
    """Rename a run. Other runs of the storage folder that name it learn the new name."""
    from tausearch.api import rename_run
    from tausearch.campaigns import campaign_of  # torch takes seconds to import; --help must not
    from tausearch.presentation import command_on

    root = open_storage(storage, write=False)
    if (campaign := campaign_of(root, name)) is not None:
        raise InputError(f"run {name!r}: is a cell's of campaign {campaign!r}, which knows it by this name")
    pointed = rename_run(root, name, new)
    also = f"; {', '.join(pointed)} name it as their source" if pointed else ""
    print(f"{name} is called {new}{also}. MLflow learns it from: {command_on('sync', new, storage)}")


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
