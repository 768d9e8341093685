"""Run a campaign: one driver, one Ray, all cells together."""

from __future__ import annotations

import datetime
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ray.tune import Trainable

from checked_input.names import counted
from tausearch.api import with_fields_of
from tausearch.campaigns.active_cell import ActiveCell
from tausearch.campaigns.cell_plans import CellPlan, with_share_of
from tausearch.campaigns.cells import read_cells
from tausearch.campaigns.display import CampaignDisplay
from tausearch.campaigns.mlflow_tables import track_tables
from tausearch.campaigns.outputs import write_outputs
from tausearch.campaigns.plans import CampaignPlan, CampaignRequest, plan_campaign, work_left
from tausearch.campaigns.status import CampaignStatus, read_campaign_status
from tausearch.cluster import local_cpus, with_measured_gpu_share
from tausearch.execution import Driver, Interrupt, RunQueue, concurrent_trials_here, read_by_trials
from tausearch.presentation import campaign_command, concurrency_option, stream_of
from tausearch.reports import RunPlots
from tausearch.runs import (
    CampaignDirectory,
    Plan,
    Resources,
    StorageError,
    driver_lock,
    is_driven,
    nearest_folder,
    open_storage,
    remove_empty,
    remove_empty_root,
    replace_text,
    require_space,
    storage_option,
)
from tausearch.tracking import Callback, callbacks_of, table_writer
from trainables.errors import InputError
from trainables.trial import TrialTrainable


@dataclass(frozen=True)
class CampaignResult:
    """The result of a campaign.

    Attributes:
        standing: The state of its cells.
        failed: Title of each cell that failed, and why.
        files: The best files, tables and the report that were written.
        resume_command: The command that continues it.
        signal: Number of the signal that ended it early; None if none did.
        out_of_time: Whether its time budget ended it early.
        tracking_errors: Why MLflow lacks something, by the name of the run or campaign.
        results: Number of runs that this process has concluded, re-evaluations included.
    """

    standing: CampaignStatus
    failed: dict[str, str]
    files: list[Path]
    resume_command: str
    signal: int | None
    out_of_time: bool
    tracking_errors: dict[str, str]
    results: int


def campaign_with(request: CampaignRequest) -> CampaignResult:
    """Run the campaign that a file describes, or continue it. Cells that are done stay as they are.

    Returns:
        The state of its cells, and the files that were written.

    Raises:
        InputError: Before any work, if something in file or spaces is wrong, or another process drives the campaign.
        StorageError: If the storage became full, went away or refused a file; the same command continues the campaign.
    """
    callbacks = callbacks_of(request.callbacks)
    return run_campaign(plan_campaign(request), callbacks=callbacks)


campaign = with_fields_of(CampaignRequest, campaign_with)


def run_campaign(
    plan: CampaignPlan, trainable: type[Trainable] = TrialTrainable, callbacks: Sequence[Callback] = ()
) -> CampaignResult:
    """Run a planned campaign; it continues where the records of its runs end.

    Returns:
        The state of its cells, and the files that were written.

    Raises:
        InputError: If another process drives the campaign or one of its runs, or the cluster cannot run it.
        StorageError: If the storage became full, went away or refused a file; the same command continues the campaign.
    """
    with _held(plan), _timed(plan.directory):
        return _run(_with_measured_gpu_shares(plan), trainable, callbacks)


def _with_measured_gpu_shares(plan: CampaignPlan) -> CampaignPlan:
    """Return a campaign whose cells have their share of a GPU, from pilot trials before Ray starts for all of them.

    Cells that differ in their benchmark alone share a pilot. The final run of a cell has the share of its search.
    """
    out = stream_of(plan.request.progress_to)
    known: dict[Any, Plan[Any]] = {}

    def shared(of: Plan[Any]) -> Plan[Any]:
        protocol = of.spec.protocol
        alike = (of.spec.method, protocol.backbone, protocol.batch_size, protocol.precision, repr(of.spec.resources))
        if of.pilot and alike not in known:
            print(f"{of.spec.method} on {of.spec.benchmark}:", end=" ", file=out, flush=True)
            known[alike] = with_measured_gpu_share(of, plan.request.address, out, plan.request.time_budget)
        return with_share_of(known[alike], of) if of.pilot else of

    def with_shares(cell: CellPlan) -> CellPlan:
        if cell.status.state in ("done", "failed"):
            return cell
        search = cell.search if cell.config.search is None else shared(cell.search)
        training = with_share_of(search, cell.training) if search.spec.resources.pilot else cell.training
        return replace(cell, search=search, training=shared(training))

    return replace(plan, rows=tuple(with_shares(row) if isinstance(row, CellPlan) else row for row in plan.rows))


@contextmanager
def _held(plan: CampaignPlan) -> Iterator[None]:
    """Make the campaign's folder and lock it while the campaign runs. A refused campaign leaves it as it was."""
    require_space(open_storage(plan.storage.root, write=True).root)
    before, runs = nearest_folder(plan.directory.path), [spec.name for cell in plan.cells for spec in cell.specs]
    try:
        plan.directory.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"campaign folder {plan.directory.path}: cannot be made ({error.strerror})") from error
    try:
        with driver_lock(plan.directory, "campaign"), _as_it_was(plan, runs):
            if plan.directory.exists() and read_cells(plan.directory) not in (plan.kept, plan.saved_cells):
                raise InputError(f"campaign {plan.name!r} has changed while this one was planned; run it again")
            for run in runs:
                if plan.storage.run_exists(run) and is_driven(plan.storage.run(run)):
                    raise InputError(f"run {run!r} is being driven by another process")
            plan.saved_cells.save(plan.directory)
            yield
    except InputError:
        remove_empty(plan.directory.path, before)
        remove_empty_root(plan.storage, before)
        raise


@contextmanager
def _as_it_was(plan: CampaignPlan, runs: Sequence[str]) -> Iterator[None]:
    """Leave the campaign's folder as it was if the block is refused before a new run exists.

    The folder is locked: without its lock, another driver's files would be taken for those of the refused one.

    Raises:
        InputError: That of the block.
    """
    known, spec_file = set(plan.directory.path.iterdir()), plan.directory.spec_file
    new = [run for run in runs if not plan.storage.run_exists(run)]
    saved_text = spec_file.read_text(encoding="utf-8") if spec_file in known else None
    try:
        yield
    except InputError:
        if not any(map(plan.storage.run_exists, runs)):  # it has begun nothing
            for path in set(plan.directory.path.iterdir()) - known:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        begun = any(map(plan.storage.run_exists, new))
        if saved_text is not None and not begun and read_cells(plan.directory) == plan.saved_cells:  # no later choice
            replace_text(spec_file, saved_text)
        raise


@contextmanager
def _timed(directory: CampaignDirectory) -> Iterator[None]:
    """Write the seconds that this driver has run to the campaign's folder, unless it is refused."""
    started, start = datetime.datetime.now(datetime.UTC), time.monotonic()
    refused = False
    try:
        yield
    except InputError:
        refused = True
        raise
    finally:
        if not refused:
            with suppress(OSError), directory.drives_file.open("a", encoding="utf-8") as file:
                seconds = round(time.monotonic() - start, 1)
                file.write(json.dumps({"started": started.isoformat(timespec="seconds"), "seconds": seconds}) + "\n")


def _run(plan: CampaignPlan, trainable: type[Trainable], callbacks: Sequence[Callback]) -> CampaignResult:
    driver = _driver(plan, trainable)
    with driver.session(CampaignDisplay) as session:
        display = session.display
        cells = [ActiveCell(plan, planned, display.say) for planned in plan.cells]
        display.show(cells)
        for line in _headlines(plan):
            display.say(line)
        queue = RunQueue(cells, session.interrupt, session.watch, display.say, display.listeners_for, callbacks)
        # A driver that was killed after the last trial has left runs to conclude, which takes no Ray.
        if all(each.next == "nothing" for each in plan.cells) and not queue.conclude_finished():
            display.say("no cell has anything left to run: the tables are written again")
            driver.conclude(queue, session)
        else:
            driver.run(queue, session)
        return _result(plan, cells, queue, session.interrupt, driver.resume_command)


def _result(
    plan: CampaignPlan,
    cells: Sequence[ActiveCell],
    queue: RunQueue,
    interrupt: Interrupt,
    resume_command: str,
) -> CampaignResult:
    status = read_campaign_status(plan.storage, plan.directory, running=False)  # this process alone holds the lock
    try:
        files = write_outputs(plan.storage, status, _plots_of_searches(cells))
    except InputError as error:  # no refusal: the cells in the campaign's folder stay
        raise StorageError(f"{error}; mend that, then: {resume_command}") from error
    tracking_errors = {each.name: each.tracking_error for each in queue.results if each.tracking_error}
    try:
        track_tables(plan.storage, status, write=table_writer(queue.deliveries))
    except InputError as error:
        tracking_errors[plan.name] = str(error)
    if status.finished and status.saved.redone:  # the next `--redo` is another one, but that after a kill until here
        status.saved.model_copy(update={"redone": ()}).save(plan.directory)
    failed = {each.runs.title: each.reason or "" for each in status.failed_cells}
    return CampaignResult(
        standing=status,
        failed={**failed, **{each.runs.title: each.error for each in cells if each.error is not None}},
        files=files,
        resume_command=resume_command,
        signal=None if status.finished else interrupt.signal,
        out_of_time=interrupt.out_of_time and not status.finished,
        tracking_errors=tracking_errors,
        results=len(queue.results),
    )


def _plots_of_searches(cells: Sequence[ActiveCell]) -> dict[str, RunPlots]:
    """Return the plots of the searches that this process has concluded, by their names."""
    return {each.runs.search: each.drawn for each in cells if each.runs.search and each.drawn is not None}


def _driver(plan: CampaignPlan, trainable: type[Trainable]) -> Driver:
    request, specs = plan.request, [spec for cell in plan.cells for spec in cell.specs]
    root = storage_option(plan.storage.root)
    options = request.resume_options + concurrency_option(request.max_concurrent_trials)
    return Driver(
        home=plan.directory,
        resources=_kinds(plan),
        read=list(dict.fromkeys(path for spec in specs for path in read_by_trials(spec))),
        resume_command=campaign_command(str(request.file), root, plan.saved_cells.code, options),
        address=request.address,
        time_budget=request.time_budget,
        max_concurrent_trials=request.max_concurrent_trials,
        processes=min(request.max_concurrent_trials or local_cpus(), sum(map(_most_at_a_time, plan.cells))),
        trainable=trainable,
        progress_to=request.progress_to,
    )


def _kinds(plan: CampaignPlan) -> list[Resources]:
    """Return the different resources of trials that are left; of all where none is."""
    left = [cell for cell in plan.cells if cell.next != "nothing"]
    specs = [spec for cell in left or plan.cells for spec in cell.specs]
    kinds = [(spec.resources.cpus_per_trial, spec.resources.gpus_per_trial) for spec in specs]
    return [Resources(cpus_per_trial=cpus, gpus_per_trial=gpus) for cpus, gpus in dict.fromkeys(kinds)]


def _most_at_a_time(cell: CellPlan) -> int:
    """Return how many trials of a cell can run at a time on this machine."""
    if cell.status.state == "done":
        return 0
    return max(map(concurrent_trials_here, cell.specs))


def _headlines(plan: CampaignPlan) -> Iterator[str]:
    done = sum(each.status.state == "done" for each in plan.cells)
    known = f" ({done} done already)" if done else ""
    yield f"campaign {plan.name}: {counted(len(plan.cells), 'cell')}{known}, {work_left(plan)}"
    for cell in plan.cells:
        if cell.title in plan.request.redo and cell.status.state != "waiting":
            known = f"{cell.title}: --redo has started it anew before ({cell.runs.search or cell.runs.final})"
            again = "it has ended; run the campaign once without --redo to start it anew again"
            yield f"{known}; {again if cell.next == 'nothing' else 'it goes on'}"
    for each in plan.gone:
        runs = [name for name in (each.search, each.final) if name is not None and plan.storage.run_exists(name)]
        yield f"{each.title} is no longer in the file; its runs are left alone ({', '.join(runs) or 'none has begun'})"
    yield f"log of Ray, Optuna and MLflow: {plan.directory.log_file}"
