"""The command that writes the report of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tausearch.cli import completion, options
from tausearch.cli.options import app
from tausearch.presentation import print_json
from tausearch.runs import DEFAULT_STORAGE, RunDirectory, open_storage, require_output, shown_benchmark
from trainables.errors import InputError

if TYPE_CHECKING:
    from tausearch.report import AnyTable


@app.command()
def report(
    name: Annotated[
        str, typer.Argument(help="Search or final run; each brings the other along.", autocompletion=completion.runs)
    ],
    output: Annotated[Path | None, typer.Option(help="HTML file [default: report.html in the run's folder].")] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    json: options.Json = False,
) -> None:
    """Write one HTML file that shows a run. It has plots, tables and the best file, and needs no network."""
    from tausearch.report import cell_of, write_report  # plotly and Optuna take a second to import

    root = open_storage(storage, write=False)
    require_output(root, output, "--output")
    cell = cell_of(root, name)
    file = output or root.run(name).path / "report.html"
    comparison = [] if cell.final is None else _beside_the_paper(cell.final)
    written = write_report(
        f"{cell.method} on {shown_benchmark(cell.benchmark)}: {name}", [cell], file, comparison=comparison
    )
    if json:
        print_json({"report": str(written)})
    else:
        print(f"report: {written}")


def _beside_the_paper(final: RunDirectory) -> Sequence[AnyTable]:
    """Return the final run beside the paper's results, or why it cannot be compared; nothing before it has results."""
    from tausearch.comparison import as_sheets, read_final_run

    try:
        _, run = read_final_run(final)
    except InputError:
        return []  # the page says why it cannot be read
    return [] if run is None else as_sheets([run])
