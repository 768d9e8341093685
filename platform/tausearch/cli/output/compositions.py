"""Compositions as tables for people, and as plain values for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tausearch.api import Composed, Evaluated
from tausearch.cli.output.run_lines import Lines
from tausearch.models import (
    LINEAR,
    MEMBERSHIP_NOTE,
    CompositionResult,
    accuracy_table,
    chosen_by_line,
    evaluation_table,
    few_images,
    no_gain_line,
    removal_tables,
    rule_search_table,
    rule_words,
    still_answered_line,
)
from tausearch.presentation import console, see_page, sync_advice, terminal_table, tool
from trainables.metrics import TEST
from trainables.task_names import numbered, quoted

_MOVED = 5.0  # points of accuracy that a task loses at least if leaving out its vector has made a difference
_KNOWN = 5.0  # accuracy of a task, percent, from which something is known of it
_UNMOVED = (
    "What was left out is known as before: its vectors carry little of it, and the model without vectors does the work"
    f" alone. With a larger learning rate they carry more ({see_page('take-a-class-out')});"
    " --forget takes classes out for good."
)


def composed_as_dict(done: Composed) -> dict[str, Any]:
    """Return what `tausearch compose --format json` prints."""
    more = {
        "trained": None if done.trained is None else done.trained.as_dict()["summary"],
        "file": None if done.file is None else str(done.file),
        "exported": done.exported,
        "not_exported": done.not_exported,
        "tracking_error": done.tracking_error,
        "registered": None if done.version is None else {**vars(done.version), "uri": done.version.uri},
    }
    return {**done.result.as_dict(), **more}


def evaluated_as_dict(done: Evaluated) -> dict[str, Any]:
    """Return what `tausearch evaluate --format json` prints of one run."""
    file = None if done.file is None else str(done.file)
    return {**done.result.as_dict(), "file": file, "tracking_error": done.tracking_error}


def show_composed(done: Composed, storage_option: str) -> None:
    """Print the accuracy on each task, and where everything lies."""
    lines, result = Lines(console(), 10), done.result
    rule = "" if result.rule == LINEAR else f"; {rule_words(result.rule, result.rule_parameters)}"
    seeds = ", ".join(map(str, result.seeds))
    title = f"{result.heading}: {' + '.join(result.runs)} on {result.benchmark}{rule}; seeds {seeds}"
    lines.out.print(title, soft_wrap=True)
    if result.search is not None:
        lines.out.print(terminal_table(rule_search_table(result.search)))
        lines.out.print(chosen_by_line(result.search), soft_wrap=True)
        lines.warn(no_gain_line(result.search))
    if result.removal is None:
        lines.out.print(terminal_table(accuracy_table(result, done.trained)))
    else:
        _show_removal(lines, result)
    lines.warn(still_answered_line(result))
    if _left_as_they_were(result, done.trained):
        lines.warn(_UNMOVED)
    lines.say("results", done.file)
    for form, folder in done.exported.items():
        lines.say(form, folder)
    for form, reason in done.not_exported.items():
        lines.warn(f"{form:<10}not exported: {reason}")
    lines.warn(_still_exported(done))
    if done.version is not None:
        best = ", the best one" if done.version.best else ""
        lines.say("version", f"{done.version.uri}{best}")
    if done.file is not None and done.tracking_error is not None:
        run = done.file.parent.parent.name  # the first of the sources may be a folder, or a run with tasks
        lines.warn(sync_advice(run, done.tracking_error, storage_option))


def show_evaluated(done: Sequence[Evaluated], storage_option: str) -> None:
    """Print the table of each run, and where its results lie."""
    lines = Lines(console(), 10)
    for each in done:
        table = evaluation_table(each.result)
        lines.out.print(terminal_table(replace(table, title=f"{each.result.run}: {table.title}")))
    for each in done:
        lines.say("results", each.file)
        if each.tracking_error is not None:
            lines.warn(sync_advice(each.result.run, each.tracking_error, storage_option))
    if any(each.file is not None for each in done):
        lines.warn(f"beside other runs and the paper's: {tool()} compare --composition{storage_option}", "dim")


def _still_exported(done: Composed) -> str | None:
    """Return the line about exported folders that hold tasks which the composition lacks; None without any."""
    lacks = [task for task, weight in enumerate(done.result.weights, start=1) if weight == 0]
    whole = [form for form in ("models", "vectors") if form in done.exported]
    if done.result.removal is not None or not lacks or not whole:
        return None
    others = [form for form in done.exported if form not in whole]
    advice = f"; --forms {','.join(others)} leaves them out" if others else ""
    return f"{' and '.join(whole)}: with {numbered(lacks)}, for other compositions{advice}."


def _left_as_they_were(result: CompositionResult, trained: CompositionResult | None) -> bool:
    """Whether tasks were left out that had been learned, and the accuracies of all of these are the same as before."""
    if trained is None:
        return False
    out = [TEST.accuracy(task) for task, weight in enumerate(result.weights, start=1) if weight <= 0]
    now, before = result.summary(), trained.summary()
    learned = [name for name in out if before[name].mean >= _KNOWN]
    return bool(learned) and all(before[name].mean - now[name].mean < _MOVED for name in learned)


def _show_removal(lines: Lines, result: CompositionResult) -> None:
    report = result.removal
    assert report is not None
    gone = ", ".join(f"{quoted(str(each.name))} (class {each.number}, task {each.task})" for each in report.classes)
    lines.out.print(f"forgotten: {gone}", soft_wrap=True)
    for table in removal_tables(report, result.accuracies, result.task_names):
        lines.out.print(terminal_table(table))
    lines.warn(MEMBERSHIP_NOTE, "dim")
    lines.warn(few_images(report))
    for title, found in (("Left out", report.left_out), ("What remains", report.remains)):
        lines.out.print(f"{title}:", soft_wrap=True)
        for line in found:
            lines.out.print(f"  - {line}", soft_wrap=True)
