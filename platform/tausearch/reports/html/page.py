"""The page: views of cells and the comparison in one HTML file that needs no other."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from tausearch.presentation import Column, Plot, Table, numbers
from tausearch.reports.html.plots import draw_plot
from tausearch.reports.html.views import CellView, ReportCell, RunPlots, read_cell
from tausearch.runs import replace_text
from trainables.errors import InputError

_TEMPLATES = Path(__file__).with_name("templates")


def write_report(
    title: str,
    cells: Sequence[ReportCell],  # in order; a part of a run that cannot be read becomes a line in the page
    file: str | Path,  # written whole or not at all; its folder is made
    *,
    matrix: Table | None = None,  # opens the page; its cells lead to `cell_link`
    plots: Sequence[Plot] = (),  # below it
    comparison: Sequence[Table] = (),  # after the cells, such as the results beside the paper's
    drawn: Mapping[str, RunPlots] | None = None,  # the plots of searches that were drawn before, by their names
) -> Path:
    """Write the report of some cells from their run directories, without any network, to `file`, and return this."""
    file = Path(file)
    views = [read_cell(cell, (drawn or {}).get(cell.search.name) if cell.search else None) for cell in cells]
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            title=title,
            views=views,
            matrix=matrix,
            plots=[draw_plot(plot, 320 + 12 * len(plot.facets[0].series)) for plot in plots],
            overview=_overview(views) if len(views) > 1 else None,
            comparison=comparison,
            made=datetime.now().astimezone().isoformat(" ", "minutes"),
            version=version("tausearch"),
            plotly=_packed_plotly(),
        )
    )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, page)
    except OSError as error:
        raise InputError(f"report {file}: cannot be written ({error.strerror})") from error
    return file


def cell_link(number: int) -> str:
    """Return the link to a cell of the page, by its place from 0 on."""
    return f"#cell-{number + 1}"


def _packed_plotly() -> str:
    """Return all of plotly.js, deflated, as base64: 1.9 MB in place of 4.8; the package has no smaller bundle."""
    return b64encode(zlib.compress(get_plotlyjs().encode(), level=9)).decode()


def _environment() -> Environment:
    """Return Jinja's environment: texts are escaped, and an unknown name in a template is an error."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["safe_json"] = Markup
    return environment


def _overview(views: Sequence[CellView]) -> Table:
    plain = all(view.search is None or not view.search.score or view.search.unit == "%" for view in views)
    best = "best validation accuracy" if plain else "best of the search"  # as a score over several benchmarks
    measured = (best, "test accuracy", "average incremental accuracy", "forgetting")
    columns = [*map(Column, ("cell", "state")), *numbers(*measured)]
    rows = [
        (
            view.title,
            view.cell.state,
            None if view.search is None else view.search.score_in_percent,
            None if view.final is None else view.final.score,
            None if view.final is None else view.final.incremental,
            None if view.final is None else view.final.forgetting,
        )
        for view in views
    ]
    return Table(f"all cells, percent{'' if plain else ' unless a unit is given'}", columns, rows)
