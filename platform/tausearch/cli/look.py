"""The commands that show what runs left: status, report, compare."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, cast

import typer

from tausearch import campaigns, presentation, reports, runs
from tausearch.cli import completion, options, output
from tausearch.cli.options import app
from tausearch.presentation import address_option, print_json, print_notices, resume_command
from tausearch.runs import DEFAULT_STORAGE, Storage, open_storage, require_page, storage_option
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
    format: options.Format = "text",
) -> None:
    """Show what runs, what is done, and the best so far."""
    if protocols and name is None:
        raise InputError("--protocols: needs the name of a search")
    root = open_storage(storage, write=False)
    if name is None:
        statuses, faults = root.read_each(runs.read_status)
        print_notices(*faults)
        if format == "json":
            print_json([found.as_dict() for found in statuses])
        else:
            _show_statuses(statuses, root)
        return
    found = runs.read_status(root.run(name))
    remark = runs.choice_remark(root.run(name), found.spec) if found.spec.purpose == "final" else ""
    beside = runs.beside_bounds(found, root)
    choices = _choices(found) if protocols else None
    if format == "json":
        plain = output.status_as_dict(found, choices, beside)
        print_json({**plain, "choice_remark": remark} if remark else plain)
    elif choices is not None:
        output.show_early_choices(found, choices)
    else:
        output.show_status(found, beside, _go_on(found, root, storage))
        if remark:
            print(f"{name}: {remark}")


def _show_statuses(statuses: Sequence[runs.RunStatus], root: Storage) -> None:
    """Print a table of runs, and the campaigns that have no run yet."""
    starting = campaigns.starting_campaigns(root)
    if statuses:
        output.show_statuses(statuses)
    elif not starting:
        output.show_no_runs(root)
    output.show_starting(starting)


def _go_on(found: runs.RunStatus, root: Storage, storage: str) -> str | None:
    """Return the command that continues a stopped run, or the campaign that it belongs to; else None."""
    if found.state != "stopped":
        return None
    last, campaign = found.spec, campaigns.campaign_of(root, found.spec.name)
    by_itself = resume_command(last.name, storage, last.code, address_option(last.address))
    if campaign is None:
        return by_itself
    status = campaigns.read_campaign_status(root, root.campaign(campaign))
    if status.running:
        return None
    # The campaign refuses a search that was extended by hand until its file asks for as many trials.
    (cell,) = (each for each in status.cells if last.name in (each.runs.search, each.runs.final))
    return by_itself if cell.extended_by_hand else status.command(storage_option(storage))


def _choices(found: runs.RunStatus) -> list[runs.EarlyChoice]:
    if found.spec.purpose == "final":
        raise InputError(f"--protocols: run {found.spec.name!r} is a final run; only searches choose")
    return runs.early_choices(runs.eligible(found.trials, found.spec.aim), found.spec.steps, found.spec.metrics)


@app.command()
def report(
    name: Annotated[
        str, typer.Argument(help="Search or final run; each brings the other along.", autocompletion=completion.runs)
    ],
    output: Annotated[
        Path | None,
        typer.Option(callback=options.with_home, help="HTML file [default: report.html in the run's folder]."),
    ] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    format: options.Format = "text",
) -> None:
    """Write one HTML file that shows a run. It has plots, tables and the best file, and needs no network."""
    root = open_storage(storage, write=False)
    require_page(root, output, "--output")
    cells = reports.cells_of(root, name)
    file = output or root.run(name).path / "report.html"
    title = f"{cells[0].method} on {runs.shown_benchmark(cells[0].benchmark)}: {name}"
    written = reports.write_report(title, cells, file, comparison=_beside_the_paper(cells))
    if format == "json":
        print_json({"report": str(written)})
    else:
        print(f"report: {written}")


def _beside_the_paper(cells: Sequence[reports.ReportCell]) -> Sequence[presentation.Table]:
    """Return final runs beside the paper's results, or why they cannot be compared; nothing of the user's own data."""
    finals = [(cell.benchmark, cell.final) for cell in cells if cell.final is not None]
    if not finals:
        return []
    from trainables.data.reference import BenchmarkRef  # imports torch

    found = []
    for final in (final for benchmark, final in finals if not BenchmarkRef.parse(benchmark).is_own):
        with suppress(InputError):  # the page says why it cannot be read
            found.append(reports.read_final_run(final)[1])
    compared = [run for run in found if run is not None]
    return reports.as_tables(compared) if compared else []


@app.command()
def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BENCHMARK | BASELINE RUN",
            help="Benchmarks [default: all with a final run]. Or final runs: how each differs from the first one.",
            autocompletion=completion.runs,
        ),
    ] = None,
    transfer: Annotated[
        bool, typer.Option("--transfer", help="Tuned here, judged there: a matrix per method.")
    ] = False,
    composition: Annotated[
        bool, typer.Option("--composition", help="What `evaluate` found: specialisation and unlearning.")
    ] = False,
    ablation: Annotated[bool, typer.Option("--ablation", help="By what is regularised, a method a line.")] = False,
    figure: Annotated[
        Path | None,
        typer.Option(
            callback=options.with_home,
            help="Picture to draw [default: compare.png in the storage folder; of named benchmarks compare-NAMES.png].",
        ),
    ] = None,
    campaign: Annotated[str | None, typer.Option(help="Only this campaign's runs, in the order of its file.")] = None,
    paper: Annotated[bool, typer.Option("--paper", help="With the paper's rows, in latex and markdown.")] = False,
    storage: options.Storage = DEFAULT_STORAGE,
    format: options.FormatOfTables = "text",
) -> None:
    """Put final runs beside the paper's results, or beside each other. Prints a table and draws a picture."""
    output_format = cast("reports.OutputFormat", format)
    shown = {
        "transfer": (transfer, reports.show_transfer),
        "composition": (composition, reports.show_evaluations),
        "ablation": (ablation, reports.show_ablations),
    }
    tables = [name for name, (wanted, _) in shown.items() if wanted]
    if len(tables) > 1:
        raise InputError(f"--{' and --'.join(tables)}: choose one of them")
    if tables and figure is not None:
        raise InputError(f"--figure: draws methods by benchmark, so it does not go with --{tables[0]}")
    if tables and campaign is not None:
        raise InputError(f"--campaign: does not go with --{tables[0]}")
    if paper and (tables or output_format not in ("latex", "markdown")):
        raise InputError("--paper: goes with --format latex or markdown of methods by benchmarks")
    root = open_storage(storage, write=False)
    names = [_as_runs_have_it(root, each) for each in names or []]
    if reports.names_runs(root, names):
        given = {**dict.fromkeys(tables, True), "figure": figure, "campaign": campaign, "paper": paper}
        if others := [name for name, value in given.items() if value]:
            raise InputError(f"--{others[0]}: does not go with names of runs")
        reports.show_differences(root, names, output_format)
    elif tables:
        shown[tables[0]][1](root, names, output_format)
    else:
        scope = reports.ComparisonScope(with_paper=paper)
        if campaign is not None:
            scope = campaigns.selected_runs(root.campaign(campaign), with_paper=paper)
        reports.show_comparison(root, names, output_format, figure, scope)


def _as_runs_have_it(root: Storage, name: str) -> str:
    """Return the name of a benchmark as runs have it; the name of a run, and one of no benchmark, as it is."""
    from trainables.data import reference  # imports torch

    try:
        return name if root.run_exists(name) else str(reference(name))
    except InputError:
        return name
