"""The command that writes what a search has chosen to a file: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tausearch import api, runs, studies
from tausearch.cli import completion, options
from tausearch.cli.options import app
from tausearch.presentation import command_on, print_json, print_notices
from tausearch.runs import DEFAULT_STORAGE, Storage, open_storage
from trainables.errors import InputError
from trainables.user_code import allow_typed, file_name


@app.command()
def export(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN | BENCHMARK METHOD", help="Search, or what to look up.", autocompletion=completion.runs
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", callback=options.with_home, help="Best file to write [default: NAME.best.yaml]."
        ),
    ] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    allow_code: options.AllowCode = None,
    format: options.Format = "text",
) -> None:
    """Write the best file of a search, or of METHOD on BENCHMARK. `compose --export` writes models and task vectors."""
    if len(what) > 2:
        raise InputError(f"export needs a search, or a benchmark and a method, got {' '.join(what)}")
    from trainables.data import references, slug_of, split_references  # torch takes seconds to import; --help must not

    root = open_storage(storage, write=False)
    if len(what) == 1:
        _require_search(root, what[0])
        stem, best = what[0], studies.best_of_run(root, what[0], print_notices)
    else:
        benchmark, method = what
        allow_typed(*split_references(benchmark), method)
        refs = references(benchmark)
        stem, named = f"{slug_of(refs)}-{file_name(method)}", ",".join(map(str, refs))
        best = studies.best_of_all(root, named, method, print_notices)
    target = output or Path(f"{stem}.best.yaml")
    api.export_best(root, best, target)
    if format == "json":
        print_json({"best_file": str(target)})
    else:
        print(f"best file: {target}")


def _require_search(root: Storage, name: str) -> None:
    if root.run_exists(name) and runs.read_spec(root.run(name)).purpose == "final":
        compose = command_on("compose", name, root.root)
        raise InputError(
            f"run {name!r}: is a final run, which chooses nothing; `{compose} --export FOLDER` writes its model, if its"
            " method has task vectors"
        )
