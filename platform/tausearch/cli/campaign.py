"""The commands of campaigns: plan, run, status, report, delete."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tausearch import api, campaigns
from tausearch.cli import options, output
from tausearch.cli.exit_codes import leave
from tausearch.presentation import print_json, print_notices, say_loading, see_page
from tausearch.runs import DEFAULT_STORAGE, open_storage, require_page, storage_option
from trainables.errors import InputError

campaign_app = typer.Typer(
    help="Make a whole table: methods by benchmarks, from one file. Each cell is searched and trained.",
    no_args_is_help=True,
)
DataRoot = Annotated[
    str | None,
    typer.Option(help="Folder of published datasets [default: as before, or TAUSEARCH_DATA, or ./tausearch-data]."),
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help=f"The campaign's file; {see_page('campaign')}.")]


@campaign_app.command()
def plan(
    file: FileArgument,
    pilot: Annotated[
        bool, typer.Option("--pilot", help="Run two tasks of each cell of unknown time, for the estimate.")
    ] = False,
    data_root: DataRoot = None,
    allow_code: options.AllowCode = None,
    storage: options.Storage = DEFAULT_STORAGE,
    address: options.Address = None,
    format: options.Format = "text",
) -> None:
    """Say what would run, and what it would take. Starts no run."""
    request = campaigns.CampaignRequest(file, data_root=data_root, storage=storage, address=address)
    planned = campaigns.plan_with_refusals(request)
    if pilot:
        planned.require_all()
        campaigns.run_pilots(planned)
    estimates = campaigns.estimate(planned)
    if format == "json":
        print_json(output.plan_as_dict(planned, estimates))
    else:
        output.show_plan(planned, estimates)
    planned.require_all()


@campaign_app.command()
def run(
    file: FileArgument,
    redo: Annotated[
        list[str] | None, typer.Option(metavar="CELL", help="Start a cell anew, such as digits/ita-lora. Repeatable.")
    ] = None,
    max_concurrent_trials: Annotated[
        int | None, typer.Option(help="Trials at a time, of all cells together [default: as many as fit].")
    ] = None,
    time_budget: options.TimeBudget = None,
    data_root: DataRoot = None,
    allow_code: options.AllowCode = None,
    storage: options.Storage = DEFAULT_STORAGE,
    callback: options.Callbacks = None,
    tracking: options.TrackersAsBefore = None,
    tracking_uri: options.Tracking = None,
    address: options.Address = None,
    format: options.Format = "text",
) -> None:
    """Run a campaign, or continue it. Nothing that is finished runs again."""
    say_loading()
    request = options.drive_request_of(campaigns.CampaignRequest, locals(), redo=redo or ())
    result = campaigns.campaign_with(request)
    if format == "json":
        ends = {"failed": result.failed, "tracking_errors": result.tracking_errors}
        print_json({**result.standing.as_dict(), **ends, "files": [str(each) for each in result.files]})
    else:
        output.show_campaign(result, open_storage(storage, write=False), storage_option(storage))
    succeeded = result.out_of_time or (not result.failed and result.standing.finished)
    leave(result.signal, result.out_of_time, result.resume_command, succeeded)


@campaign_app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="Campaign to show; all campaigns without it.")] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    format: options.Format = "text",
) -> None:
    """Show the table as it stands."""
    root = open_storage(storage, write=False)
    if name is not None:
        status = campaigns.read_campaign_status(root, root.campaign(name))
        if format == "json":
            print_json(status.as_dict())
        else:
            output.show_campaign_status(status, root, storage_option(storage))
        return
    statuses, faults = campaigns.all_campaign_statuses(root)
    print_notices(*faults)
    if format == "json":
        print_json([each.as_dict() for each in statuses])
    else:
        output.show_campaign_statuses(statuses)


@campaign_app.command()
def report(
    name: Annotated[str, typer.Argument(help="Campaign to show.")],
    output: Annotated[
        Path | None,
        typer.Option(callback=options.with_home, help="HTML file [default: report.html in the campaign's folder]."),
    ] = None,
    storage: options.Storage = DEFAULT_STORAGE,
    format: options.Format = "text",
) -> None:
    """Write one HTML file of all cells. It opens from disk without a network."""
    root = open_storage(storage, write=False)
    require_page(root, output, "--output")
    written = campaigns.write_campaign_report(root, campaigns.read_campaign_status(root, root.campaign(name)), output)
    if format == "json":
        print_json({"report": str(written)})
    else:
        print(f"report: {written}")


@campaign_app.command()
def delete(
    name: Annotated[str, typer.Argument(help="Campaign to delete.")],
    yes: options.Yes = False,
    storage: options.Storage = DEFAULT_STORAGE,
) -> None:
    """Delete the tables, best files and reports of a campaign. Its runs stay, and so do its entries in MLflow."""
    root = open_storage(storage, write=False)
    directory = root.campaign(name)
    if api.finish_deletion(directory):
        print(f"deleted the rest of campaign {name}")
        return
    named: list[str] = []
    try:
        saved = campaigns.read_cells(directory)
        runs = [run for cell in saved.cells + saved.gone for run in (cell.search, cell.final)]
        named += dict.fromkeys(run for run in runs if run is not None)
    except InputError:
        if not directory.path.is_dir():
            raise  # else it is damaged, of a newer version, or has a pilot alone
    stay = [run for run in named if root.run_exists(run)]
    options.require_answer(yes)
    what = f"campaign {name}" + (f" (runs that stay: {', '.join(stay)})" if stay else "")
    if yes or typer.confirm(f"delete {what}?"):
        api.delete_driven(directory, "campaign")
        print(f"deleted {what}")
