"""Compositions as tables for people, and as plain values for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from tausearch.api import Composed, Edited
from tausearch.models import PAPER_UNLEARNING_MODE, UNLEARNING_MODES, CompositionResult, EditResult
from tausearch.presentation import console, tool
from tausearch.runs import Score
from trainables.metrics import TEST

_MOVED = 5.0  # points of accuracy that a task loses at least if leaving out its vector has made a difference
_UNMOVED = (
    "What was left out is known as before: at this learning rate the vectors hardly move, and the probed classifier"
    " does the work alone. To unlearn, train with a larger one (docs/tutorial.md, section 5)."
)


def composed_as_dict(done: Composed) -> dict[str, Any]:
    """Return what `tausearch compose --json` prints."""
    file = None if done.file is None else str(done.file)
    version = None if done.version is None else {**vars(done.version), "uri": done.version.uri}
    trained = None if done.trained is None else done.trained.as_dict()["summary"]
    more = {
        "trained": trained,
        "file": file,
        "exported": done.exported,
        "tracking_error": done.tracking_error,
        "registered": version,
    }
    return {**done.result.as_dict(), **more}


def edited_as_dict(done: Edited) -> dict[str, Any]:
    """Return what `tausearch edit --json` prints of one run."""
    file = None if done.file is None else str(done.file)
    return {**done.result.as_dict(), "file": file, "tracking_error": done.tracking_error}


def show_composed(done: Composed, storage_option: str) -> None:
    """Print the accuracy on each task, and where everything lies."""
    out, result = console(), done.result
    rule = "" if result.density is None else f", {result.rule} keeping {result.density:g} of each weight's entries"
    seeds = ", ".join(map(str, result.seeds))
    title = f"{result.label}: {' + '.join(result.runs)} on {result.benchmark}{rule}; seeds {seeds}"
    out.print(title, soft_wrap=True)
    out.print(_accuracies(result, done.trained))
    if _left_as_they_were(result, done.trained):
        out.print(_UNMOVED, style="yellow", soft_wrap=True)
    if done.file is not None:
        out.print(f"results   {done.file}", soft_wrap=True)
    for form, folder in done.exported.items():
        out.print(f"{form:<10}{folder}", soft_wrap=True)
    if done.version is not None:
        best = ", the best one" if done.version.best else ""
        out.print(f"version   {done.version.uri}{best}", soft_wrap=True)
    _say_untracked(result.runs[0], done.tracking_error, storage_option)


def show_edited(done: Sequence[Edited], storage_option: str) -> None:
    """Print the two tables of the protocol, a line for each run and reading."""
    out = console()
    out.print(_specialisation([each.result for each in done]))
    out.print(_unlearning([each.result for each in done]))
    for each in done:
        if each.file is not None:
            out.print(f"results   {each.file}", soft_wrap=True)
        _say_untracked(each.result.run, each.tracking_error, storage_option)
    out.print(f"beside the paper's: {tool()} compare --composition{storage_option}", soft_wrap=True, style="dim")


def _accuracies(result: CompositionResult, trained: CompositionResult | None) -> Table:
    """Return the table; of other weights than the run's own beside what that had at its end."""
    before = None if trained is None or trained.weights == result.weights else trained
    table = Table()
    for column in ("task", "weight", "test accuracy", *["as trained", "change"] * (before is not None)):
        table.add_column(column, justify="right", no_wrap=True)
    for task, weight in enumerate(result.weights, start=1):
        style = "" if weight > 0 else "dim"
        table.add_row(str(task), f"{weight:.4g}", *_compared(result, before, TEST.accuracy(task)), style=style)
    table.add_section()
    table.add_row("mean", "", *_compared(result, before, TEST.final_accuracy), style="bold")
    return table


def _left_as_they_were(result: CompositionResult, trained: CompositionResult | None) -> bool:
    """Whether tasks that were left out are known as before."""
    if trained is None:
        return False
    out = [TEST.accuracy(task) for task, weight in enumerate(result.weights, start=1) if weight <= 0]
    now, before = result.summary(), trained.summary()
    return bool(out) and all(before[name].mean - now[name].mean < _MOVED for name in out)


def _compared(result: CompositionResult, before: CompositionResult | None, metric: str) -> Iterator[str]:
    now = result.summary()[metric]
    yield now.text()
    if before is not None:
        then = before.summary()[metric]
        yield from (then.text(), f"{now.mean - then.mean:+.2f}")


def _specialisation(results: Sequence[EditResult]) -> Table:
    table = Table(title="specialisation: kept tasks alone, test accuracy in percent", title_justify="left")
    for column in ("run", "kept", "target", "gain", "control"):
        table.add_column(column, justify="left" if column == "run" else "right")
    for result in results:
        kept = ",".join(map(str, result.kept))
        table.add_row(result.run, kept, *_cells(result.specialisation(), _SPECIALISED))
    return table


def _unlearning(results: Sequence[EditResult]) -> Table:
    table = Table(title="unlearning: each task in turn, mean over tasks", title_justify="left")
    for column in ("run", "reading", "target", "gain", "control", "gain of control"):
        table.add_column(column, justify="left" if column in ("run", "reading") else "right")
    for result in results:
        for name in UNLEARNING_MODES:
            style = "bold" if name == PAPER_UNLEARNING_MODE else ""
            table.add_row(result.run, name, *_cells(result.unlearning(name), _UNLEARNED), style=style)
    return table


_SPECIALISED = ("target", "target_gain", "control")
_UNLEARNED = ("target", "target_gain", "control", "control_gain")


def _cells(scores: Mapping[str, Score], parts: Sequence[str]) -> list[str]:
    return [scores[part].text("+" if part.endswith("gain") else "") if part in scores else "" for part in parts]


def _say_untracked(run: str, error: str | None, storage_option: str) -> None:
    if error is not None:
        line = f"MLflow does not have it ({error}); once it answers: {tool()} sync {run}{storage_option}"
        console().print(line, style="yellow", soft_wrap=True)
