"""Campaigns as tables for people, and as plain values for programs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from checked_input.names import counted
from tausearch import campaigns
from tausearch.campaigns import LOCAL, read_pages
from tausearch.presentation import (
    Column,
    Emphasis,
    Table,
    clock,
    console,
    emphasise,
    numbers,
    percent,
    score,
    sync_advice,
    terminal_table,
    text_columns,
    tool,
)
from tausearch.runs import SearchSpec, Storage
from trainables.metrics import TEST

_EMPHASIS: dict[str, Emphasis] = {
    "done": "good",
    "failed": "bad",
    "searching": "strong",
    "reevaluating": "strong",
    "training": "strong",
}


def show_campaign_status(
    status: campaigns.CampaignStatus, root: Storage, storage_option: str, command: str | None = None
) -> None:
    """Print a campaign cell by cell; accuracies under another protocol than the others' are marked.

    `command` continues it; by default it is one without callbacks, which no file has.
    """
    out, not_comparable = console(), _not_comparable_cells(root, status)
    done = sum(each.state == "done" for each in status.cells)
    out.print(f"{status.name}: {status.state}; {done}/{counted(len(status.cells), 'cell')} done")
    columns = [
        *map(Column, ("cell", "state", "search")),
        Column("best, val %", percent),
        Column("final run"),
        *numbers("test %", "incremental", "forgetting"),
    ]
    rows = [_row(each, marked=each.runs.title in not_comparable) for each in status.cells]
    emphasis = {n: _EMPHASIS[each.state] for n, each in enumerate(status.cells) if each.state in _EMPHASIS}
    out.print(terminal_table(Table("", columns, rows, emphasis)))
    for title, reasons in not_comparable.items():
        out.print(f"* {title}: not as most on this benchmark: {'; '.join(reasons)}", soft_wrap=True)
    for line in _of_other_columns(status.cell_runs):
        out.print(line, soft_wrap=True)
    for each in status.failed_cells:
        out.print(f"{each.runs.title}: {each.reason}", style="red", soft_wrap=True)
    for each in (each for each in status.cells if each.reason is not None and each.state != "failed"):
        out.print(f"{each.runs.title}: {each.reason}", style="yellow", soft_wrap=True)
    if status.state == "stopped":
        out.print(f"go on: {command or status.command(storage_option)}", soft_wrap=True)
    for benchmark, page in read_pages(status.directory).items():
        started = f" (after: {tool()} runs ui{storage_option})" if page.startswith(LOCAL) else ""
        out.print(f"MLflow, {benchmark}: {page}{started}", soft_wrap=True)


def _not_comparable_cells(root: Storage, status: campaigns.CampaignStatus) -> dict[str, tuple[str, ...]]:
    """Return why final runs cannot be compared; nothing, without importing torch, where there are not two of them."""
    if sum(each.final is not None for each in status.cells) < 2:
        return {}
    return campaigns.not_comparable_cells(root, status)


def _of_other_columns(cells: Sequence[campaigns.CellRuns]) -> Iterator[str]:
    """Yield a line for each cell that has other options of the benchmark than most cells of the same name."""
    of_name: dict[str, list[campaigns.CellRuns]] = {}
    for cell in cells:
        of_name.setdefault(cell.title.partition("/")[0], []).append(cell)
    for name, alike in of_name.items():
        counts = Counter(cell.benchmark for cell in alike)
        if len(counts) == 1:
            continue
        from trainables.data import BenchmarkRef  # imports torch

        usual = max(counts, key=lambda benchmark: (counts[benchmark], BenchmarkRef.parse(benchmark).slug == name))
        for cell in alike:
            if cell.benchmark != usual:
                yield f"{cell.title} is on {cell.benchmark}: in the comparison, another column than {usual}"


def _row(each: campaigns.CellStatus, *, marked: bool) -> tuple[object, ...]:
    values = each.as_dict()
    return (
        f"{each.runs.title} *" if marked else each.runs.title,
        each.state,
        "not searched" if each.runs.search is None else f"{values['trials_ended']}/{each.trials}",
        None if each.search is None else each.search.accuracy,
        None if each.final is None else f"{values['seeds_ended']}/{each.runs.seeds}",
        *(_scored(each, name) for name in (TEST.final_accuracy, TEST.average_incremental_accuracy, TEST.forgetting)),
    )


def _scored(each: campaigns.CellStatus, metric: str) -> str | None:
    """Return the score of a cell; over how many seeds, where it is not over all that the file asks for."""
    if each.final is None or (found := (each.scores or {}).get(metric)) is None:
        return None
    seeds = "" if found.seeds == each.runs.seeds else f" ({counted(found.seeds, each.final.spec.trial_noun)})"
    return f"{score(found)}{seeds}"


def show_campaign_statuses(statuses: Sequence[campaigns.CampaignStatus]) -> None:
    """Print one line per campaign."""
    rows = [
        (
            each.name,
            each.state,
            len(each.cells),
            sum(cell.state == "done" for cell in each.cells),
            len(each.failed_cells),
        )
        for each in statuses
    ]
    table = Table("", text_columns("campaign", "state", "cells", "done", "failed"), rows)
    console().print(terminal_table(table) if statuses else "no campaigns yet")


def show_campaign(result: campaigns.CampaignResult, root: Storage, storage_option: str) -> None:
    """Print the results of a campaign, and where they lie."""
    show_campaign_status(result.standing, root, storage_option, result.resume_command)
    out = console()
    for title, reason in result.failed.items():
        if title not in {each.runs.title for each in result.standing.failed_cells}:
            out.print(f"{title}: {reason}", style="red", soft_wrap=True)
    for name, error in result.tracking_errors.items():
        out.print(sync_advice(name, error, storage_option, is_run=name != result.standing.name), soft_wrap=True)
    best = [path for path in result.files if path.parent.parent.name == "best"]
    figures = [path for path in result.files if path.parent.name == "figures"]
    if best:
        out.print(f"best files  {best[0].parent.parent} ({len(best)})", soft_wrap=True)
    for path in result.files:
        if path not in (*best, *figures):
            out.print(f"{path.stem:<11} {path}", soft_wrap=True)
    if figures:
        out.print(f"figures     {figures[0].parent} ({len(figures)})", soft_wrap=True)
    out.print(f"log         {result.standing.directory.log_file}", soft_wrap=True)


def show_plan(plan: campaigns.CampaignPlan, estimates: Sequence[campaigns.Estimate]) -> None:
    """Print what a campaign would run, for each cell and in all."""
    out = console()
    columns = [
        *map(Column, ("cell", "state", "search", "final run")),
        *numbers("tasks"),
        Column("next"),
        *numbers("estimate", format=clock),
    ]
    planned = {each.title: _plan_row(each, found) for each, found in zip(plan.cells, estimates, strict=True)}
    refused = ("refused", None, None, None, "nothing", None)
    rows = [planned.get(each.title, (each.title, *refused)) for each in plan.rows]
    bad = emphasise((number for number, each in enumerate(plan.rows) if each.title not in planned), "bad")
    out.print(terminal_table(Table(f"campaign {plan.name}", columns, rows, bad)))
    if plan.cells:
        _show_totals(out, plan, estimates)
    for line in (*_of_devices(plan), *_of_other_columns([each.runs for each in plan.cells])):
        out.print(line, soft_wrap=True)
    for gone in plan.gone:
        out.print(f"{gone.title} is no longer in the file; its runs would be left alone", soft_wrap=True)


def _plan_row(each: campaigns.CellPlan, estimate: campaigns.Estimate) -> tuple[object, ...]:
    return (
        each.title,
        each.state,
        _search_text(each.runs.trials, each.search.spec) if each.runs.search else "not searched",
        counted(each.runs.seeds, each.training.spec.trial_noun),
        each.runs.tasks,
        each.next,
        "?" if estimate.seconds is None else estimate.seconds,
    )


def _search_text(trials: int, spec: SearchSpec) -> str:
    early = "" if spec.scheduler == "none" else f", {spec.scheduler}"
    again = "" if spec.reevaluate is None else f", {spec.reevaluate.best} again {counted(spec.reevaluate.runs, 'time')}"
    return f"{counted(trials, 'trial')}, {spec.algorithm}{early}{again}"


def _show_totals(out: Console, plan: campaigns.CampaignPlan, estimates: Sequence[campaigns.Estimate]) -> None:
    cells, tasks = counted(len(plan.cells), "cell"), counted(sum(each.runs.tasks for each in plan.cells), "task")
    out.print(f"{cells}, {campaigns.work_left(plan)}, {tasks} in all")
    for line in _costs(estimates, campaigns.seconds_here(plan, estimates) if plan.request.address is None else None):
        out.print(line)


def _of_devices(plan: campaigns.CampaignPlan) -> Iterator[str]:
    """Return a line for each device, with its cells where there are several; none where there is no GPU to speak of."""
    cells: dict[str, list[str]] = defaultdict(list)
    for each in plan.cells:
        for device in each.devices:
            cells[device].append(each.title)
    for device, titles in cells.items():
        yield f"device: {device}" + (f": {', '.join(titles)}" if len(cells) > 1 else "")


def _costs(estimates: Sequence[campaigns.Estimate], here: float | None) -> Iterator[str]:
    """Return a line about the remaining time, `here` on this machine, then those about disk and memory if known."""
    totals = _Totals.of(estimates)
    if totals.seconds is None:
        yield "the time is unknown; measure it with --pilot, or run these methods here"
        return
    rest = f", and {counted(totals.unknown, 'cell')} of unknown time" if totals.unknown else ""
    alone = "" if here is None else f"; {clock(here)} on this machine, after Ray has started"
    yield f"left to do: {clock(totals.seconds)} inside trials{rest}{alone}" if totals.left else "left to do: nothing"
    if totals.disk is not None:
        yield f"disk: {totals.disk / 1e6:.0f} MB for the {counted(totals.on_disk, 'cell')} whose runs are known"
    memory = [each.memory for each in estimates if each.memory is not None]
    if memory:
        yield f"memory: at most {max(memory) / 2**30:.1f} GiB per trial at a time (from the pilot)"


@dataclass(frozen=True)
class _Totals:
    """What the known cells of a campaign have left in all; `unknown` and `on_disk` are numbers of cells."""

    seconds: float | None
    unknown: int
    disk: int | None
    on_disk: int

    @classmethod
    def of(cls, estimates: Sequence[campaigns.Estimate]) -> _Totals:
        """Add up the estimates of the cells; None where no cell is known."""
        seconds = [each.seconds for each in estimates if each.seconds is not None]
        disk = [each.disk for each in estimates if each.disk is not None]
        return cls(
            sum(seconds) if seconds else None, len(estimates) - len(seconds), sum(disk) if disk else None, len(disk)
        )

    @property
    def left(self) -> bool:
        """Whether any work is left."""
        return bool(self.seconds or self.unknown)


def plan_as_dict(plan: campaigns.CampaignPlan, estimates: Sequence[campaigns.Estimate]) -> dict[str, Any]:
    """Return the plain form that `tausearch campaign plan --format json` prints."""
    cells = [
        {
            **each.status.as_dict(),
            "state": each.state,
            "next": each.next,
            **({"devices": each.devices} if each.devices else {}),
            "seconds_left": estimate.seconds,
            "known_from": estimate.source,
            "disk": estimate.disk,
            "memory": estimate.memory,
        }
        for each, estimate in zip(plan.cells, estimates, strict=True)
    ]
    refused = [{"title": each.title, "reasons": list(each.faults)} for each in plan.refused]
    order, gone = [each.title for each in plan.rows], [each.title for each in plan.gone]
    sums = _Totals.of(estimates)
    here = plan.request.address is None and sums.seconds is not None
    totals = {
        "tasks": sum(each.runs.tasks for each in plan.cells),
        "seconds_left": sums.seconds,
        "seconds_left_here": campaigns.seconds_here(plan, estimates) if here else None,
        "cells_of_unknown_time": sums.unknown,
        "disk": sums.disk,
    }
    return {"name": plan.name, "order": order, "cells": cells, "refused": refused, "gone": gone, "totals": totals}
