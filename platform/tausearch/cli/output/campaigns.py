"""Campaigns as tables for people, and as plain values for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from tausearch.campaigns import LOCAL, read_pages
from tausearch.cluster import local_cpus
from tausearch.presentation import clock, console, counted, percent, tool

if TYPE_CHECKING:  # torch and Ray take seconds to import; to show what runs left must not
    from tausearch.campaigns import CampaignPlan, CampaignResult, CampaignStanding, CellStanding, Estimate
    from tausearch.runs import (
        SearchSpec,
    )

_STYLES = {"done": "green", "failed": "red", "searching": "bold", "reevaluating": "bold", "training": "bold"}


def show_standing(standing: CampaignStanding, storage_option: str) -> None:
    """Print a campaign cell by cell."""
    out = console()
    done = sum(each.state == "done" for each in standing.cells)
    out.print(f"{standing.name}: {standing.state}; {done}/{len(standing.cells)} cells done")
    table = Table()
    for column in ("cell", "state", "search", "best, val %", "final run", "test %", "forgetting"):
        table.add_column(column, no_wrap=True)
    for each in standing.cells:
        table.add_row(*_row(each), style=_STYLES.get(each.state, ""))
    out.print(table)
    for each in standing.failed:
        out.print(f"{each.cell.title}: {each.reason}", style="red", soft_wrap=True)
    for benchmark, page in read_pages(standing.directory).items():
        started = f" (after: {tool()} ui{storage_option})" if page.startswith(LOCAL) else ""
        out.print(f"MLflow, {benchmark}: {page}{started}", soft_wrap=True)


def show_standings(standings: Sequence[CampaignStanding]) -> None:
    """Print one line per campaign."""
    table = Table()
    for column in ("campaign", "state", "cells", "done", "failed"):
        table.add_column(column)
    for each in standings:
        done = sum(cell.state == "done" for cell in each.cells)
        table.add_row(each.name, each.state, str(len(each.cells)), str(done), str(len(each.failed)))
    console().print(table if standings else "no campaigns yet")


def show_result(result: CampaignResult, storage_option: str) -> None:
    """Print what a campaign came to, and where it lies."""
    show_standing(result.standing, storage_option)
    out = console()
    for title, reason in result.failed.items():
        if title not in {each.cell.title for each in result.standing.failed}:
            out.print(f"{title}: {reason}", style="red", soft_wrap=True)
    for name, error in result.tracking_errors.items():
        out.print(
            f"MLflow does not have all of {name} ({error}); once it does answer: {tool()} sync {name}{storage_option}"
        )
    _show_files(out, result)


def _show_files(out: Console, result: CampaignResult) -> None:
    best = [path for path in result.files if path.parent.parent.name == "best"]
    if best:
        out.print(f"best files  {best[0].parent.parent} ({len(best)})", soft_wrap=True)
    for path in result.files:
        if path not in best:
            out.print(f"{path.stem:<11} {path}", soft_wrap=True)
    out.print(f"log         {result.standing.directory.log_file}", soft_wrap=True)


def show_plan(plan: CampaignPlan, estimates: Sequence[Estimate]) -> None:
    """Print what a campaign would do, cell by cell and in all."""
    out = console()
    table = Table(title=f"campaign {plan.name}", title_justify="left")
    for column in ("cell", "state", "search", "final run", "tasks", "estimate"):
        table.add_column(column, no_wrap=True, justify="right" if column in ("tasks", "estimate") else "left")
    for each, estimate in zip(plan.cells, estimates, strict=True):
        runs, spec = each.runs, each.search.spec
        searched = f"{counted(runs.trials, 'trial')}, {spec.algorithm}{_more(spec)}" if runs.search else "not searched"
        time = "?" if estimate.seconds is None else clock(estimate.seconds)
        table.add_row(runs.title, each.standing.state, searched, counted(runs.seeds, "seed"), str(runs.tasks), time)
    out.print(table)
    _show_totals(out, plan, estimates)
    for gone in plan.gone:
        out.print(f"{gone.title} is no longer in the file; its runs would be left alone", soft_wrap=True)


def _more(spec: SearchSpec) -> str:
    early = "" if spec.scheduler == "none" else f", {spec.scheduler}"
    again = "" if spec.reevaluate is None else f", {spec.reevaluate.best} again {spec.reevaluate.runs} times"
    return early + again


def _show_totals(out: Console, plan: CampaignPlan, estimates: Sequence[Estimate]) -> None:
    trials = sum(each.runs.trials for each in plan.cells)
    seeds = sum(each.runs.seeds for each in plan.cells)
    cells, tasks = counted(len(plan.cells), "cell"), counted(sum(each.runs.tasks for each in plan.cells), "task")
    out.print(f"{cells}, {counted(trials, 'trial')} to search, {counted(seeds, 'seed')} to train, {tasks}")
    known = [each.seconds for each in estimates if each.seconds is not None]
    if not known:
        out.print("how long it takes is not known; measure it with --pilot, or from runs of these methods here")
        return
    rest = (
        f", and {counted(len(estimates) - len(known), 'cell')} of which nothing is known"
        if len(known) < len(estimates)
        else ""
    )
    slots = local_cpus()
    out.print(
        f"left to do: {clock(sum(known))} inside trials{rest}; with {slots} at a time {clock(sum(known) / slots)}"
    )
    disk = [each.disk for each in estimates if each.disk is not None]
    if disk:
        out.print(f"disk: {sum(disk) / 1e6:.0f} MB for {counted(len(disk), 'cell')} of which runs are known")
    memory = [each.memory for each in estimates if each.memory is not None]
    if memory:
        out.print(f"memory: at most {max(memory) / 2**30:.1f} GiB per trial at a time (from the pilot)")


def plan_as_dict(plan: CampaignPlan, estimates: Sequence[Estimate]) -> dict[str, Any]:
    """Return the plain form that `tausearch campaign plan --json` prints."""
    cells = [
        {
            **each.standing.as_dict(),
            "seconds_left": estimate.seconds,
            "known_from": estimate.source,
            "disk": estimate.disk,
            "memory": estimate.memory,
        }
        for each, estimate in zip(plan.cells, estimates, strict=True)
    ]
    return {"name": plan.name, "cells": cells, "gone": [each.title for each in plan.gone]}


def _row(each: CellStanding) -> tuple[str, ...]:
    values = each.as_dict()
    forgetting = (each.scores or {}).get("test/forgetting")
    return (
        each.cell.title,
        each.state,
        "not searched" if each.cell.search is None else f"{values['trials_ended']}/{each.cell.trials}",
        percent(None if each.search is None else each.search.accuracy),
        f"{values['seeds_ended']}/{each.cell.seeds}" if each.final is not None else "",
        "" if each.accuracy is None else each.accuracy.text(),
        "" if forgetting is None else forgetting.text(),
    )
