"""The command that writes what a run has chosen or learned to files: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tausearch.cli import options
from tausearch.cli.options import app
from tausearch.presentation import print_json, say_unreadable
from tausearch.runs import DEFAULT_STORAGE, Storage, open_storage
from trainables.errors import InputError
from trainables.user_code import allow_typed, file_name


@app.command()
def export(
    what: Annotated[
        list[str], typer.Argument(metavar="RUN | BENCHMARK METHOD", help="Search or final run, or what to look up.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Best file to write.")] = None,
    adapters: Annotated[Path | None, typer.Option(help="Folder for the latest final run's task vectors.")] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    allow_code: options.AllowCode = None,
    format: options.Format = "text",
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
    if format == "json":
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
