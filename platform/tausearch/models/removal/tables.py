"""The report of a removal as tables, for the terminal and the model card."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tausearch.models.removal.report import ForgottenClass, RemovalReport
from tausearch.presentation import Column, Table, gain, numbers, percent, score as accuracy
from tausearch.runs import Score

FEW_IMAGES = 20  # test images of a class below which its membership test says little
MEMBERSHIP_NOTE = (
    "Membership: how often a training image of the class has a lower loss than a test image; 0.5 cannot be told apart,"
    " in brackets the 95 % interval (Newcombe 2006). The own answer is the likeliest class, whichever it is."
)
_SHOWN = 10  # classes that a forgotten class's images land on; --format json has all


def removal_tables(
    report: RemovalReport, accuracies: Sequence[Sequence[float]], labels: Sequence[str] = ()
) -> list[Table]:
    """Return the tables of the rest, of where forgotten images land, and of membership.

    `accuracies` are of each seed on each task that is left, percent; `labels` name these tasks, if they are known.
    """
    return [_rest(report, accuracies, labels), _landing(report), _membership(report)]


def few_images(report: RemovalReport) -> str | None:
    """Return a line about classes with few test images; None without any."""
    few = [each for each in report.classes if each.test < FEW_IMAGES]
    if not few:
        return None
    least = min(each.test for each in few)
    return f"With {least} test images of a class the membership test says little; {FEW_IMAGES} or more are needed."


def _rest(report: RemovalReport, accuracies: Sequence[Sequence[float]], labels: Sequence[str]) -> Table:
    named = labels or [""] * len(report.tasks)
    renumbered = report.retrained is not None and report.tasks != tuple(range(1, len(report.tasks) + 1))
    columns = [
        Column(f"task of {report.retrained}" if renumbered else "task", right=not labels),
        *numbers("before", "after", format=accuracy),
        *numbers("change", format=gain),
    ]
    rows: list[tuple[object, ...]] = []
    for task, label, before, after in zip(
        report.tasks, named, zip(*report.before, strict=True), zip(*accuracies, strict=True), strict=True
    ):
        rows.append((f"{task}: {label}" if label else task, *_compared(before, after)))
    means = ([statistics.fmean(row) for row in seeds] for seeds in (report.before, accuracies))
    rows.append(("mean", *_compared(*means)))
    return Table("Test accuracy on the classes that are left", columns, rows, {len(report.tasks): "total"})


def _compared(before: Sequence[float], after: Sequence[float]) -> tuple[Score, Score, float]:
    return Score.of(before), Score.of(after), statistics.fmean(after) - statistics.fmean(before)


def _landing(report: RemovalReport) -> Table:
    rows: list[tuple[object, ...]] = []
    for each in report.classes:
        rows.append((_name(each), "itself", each.itself, None))
        if each.others:
            rows.append((_name(each), "others that are gone", each.others, None))
        rows += [(_name(each), answer.label, answer.before, answer.after) for answer in each.answers[:_SHOWN]]
        if rest := each.answers[_SHOWN:]:
            sums = (sum(answer.before for answer in rest), sum(answer.after for answer in rest))
            rows.append((_name(each), f"{len(rest)} more", *sums))
    columns = [Column("forgotten"), Column("answered with"), *numbers("before", "after", format=percent)]
    return Table("Answers to test images of forgotten classes, percent", columns, rows)


def _membership(report: RemovalReport) -> Table:
    rows: list[tuple[object, ...]] = []
    for each in report.classes:
        rows.append((_name(each), f"{each.train} / {each.test}", "the class", each.class_loss.text(), None))
        rows.append((_name(each), None, "own answer", each.own_loss_before.text(), each.own_loss_after.text()))
    columns = [Column(name) for name in ("forgotten", "images", "loss of", "before", "after")]
    return Table("Membership, with the numbers of training / test images", columns, rows)


def _name(each: ForgottenClass) -> str:
    return each.name or f"class {each.number}"
