"""Comparisons as plain rows, for CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tausearch.reports.comparison.comparison import Comparison, ComparisonRow
from tausearch.reports.comparison.runs import FinalRunResults
from tausearch.reports.comparison.transfers import TransferMatrix
from tausearch.runs import Score


def rows_as_dicts(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Return the plain form of every row that `tausearch compare --format json` prints."""
    return [_row(row) for each in comparisons for row in (*each.rows, *each.not_compared)]


def matrices_as_dicts(matrices: Sequence[TransferMatrix]) -> list[dict[str, Any]]:
    """Return the plain form of every matrix that `tausearch compare --transfer --format json` prints."""
    return [
        {
            "method": matrix.method,
            "settings": matrix.settings,
            "backbone": matrix.backbone,
            "precision": matrix.precision,
            "tuned_on": list(matrix.tuned_on),
            "judged_on": list(matrix.judged_on),
            "left_out": len(matrix.left_out),
            "left_out_runs": list(matrix.left_out),
            "cells": [
                {
                    "tuned_on": cell.tuned_on,
                    "judged_on": cell.judged_on,
                    "loss": cell.loss,
                    "two_sd": cell.two_sd,
                    "own_run": None if cell.own is None else cell.own.spec.name,
                    **run_as_dict(cell.run),
                }
                for cell in matrix.cells.values()
            ],
        }
        for matrix in matrices
    ]


def _row(row: ComparisonRow) -> dict[str, Any]:
    return {
        "benchmark": row.benchmark,
        "method": row.method,
        "settings": row.settings,
        "comparable": None if row.ours is None else not row.not_comparable,
        "departures": list(row.not_comparable),
        "ours": None if row.ours is None else {**run_as_dict(row.ours), "other_runs": row.others},
        "paper": None if row.paper is None else asdict(row.paper),
        "difference": row.difference,
        "two_sd": row.two_sd,
        "within_two_sd": row.within,
    }


def run_as_dict(run: FinalRunResults) -> dict[str, Any]:
    """Return the plain form of a final run."""
    orders = run.spec.protocol.class_orders
    return {
        "run": run.spec.name,
        "accuracy": run.accuracy.mean,
        "std": run.accuracy.std,
        "seeds": run.accuracy.seeds,
        "mean_over": run.seeds_text,
        "class_orders": None if orders is None else list(orders),
        **_mean_and_deviation("average_incremental_accuracy", "average_incremental_std", run.incremental),
        **_mean_and_deviation("pooled_accuracy", "pooled_std", run.pooled),
        **_mean_and_deviation("forgetting", "forgetting_std", run.forgetting),
        "tuned_on": run.tuned_on,
        "protocol": run.spec.protocol.model_dump(mode="json"),
        "hyperparameters": run.spec.fixed,
        **({"choice_remark": run.choice_remark} if run.choice_remark else {}),
    }


def _mean_and_deviation(mean: str, deviation: str, score: Score | None) -> dict[str, float | None]:
    return {mean: None, deviation: None} if score is None else {mean: score.mean, deviation: score.std}


_OURS = (
    *("run", "accuracy", "std", "seeds", "mean_over", "class_orders"),
    *("average_incremental_accuracy", "average_incremental_std"),
    *("pooled_accuracy", "pooled_std", "forgetting", "forgetting_std"),
    *("tuned_on", "other_runs"),
)
_PAPER = ("accuracy", "std", "forgetting")


def comparison_csv_rows(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Return the rows of the CSV form, always with the same columns, without protocol and hyperparameters."""
    csv_rows = []
    for row in rows_as_dicts(comparisons):
        for part, names in (("ours", _OURS), ("paper", _PAPER)):
            row[part] = {name: (row[part] or {}).get(name) for name in names}
        csv_rows.append(row)
    return csv_rows


def transfer_csv_rows(matrices: Sequence[TransferMatrix]) -> list[dict[str, Any]]:
    """Return the rows of the CSV form: one per cell of every matrix."""
    csv_rows = []
    for matrix in matrices_as_dicts(matrices):
        for cell in matrix["cells"]:
            about = {name: matrix[name] for name in ("method", "settings", "backbone", "precision")}
            csv_rows.append({**about, **{k: v for k, v in cell.items() if k not in ("protocol", "hyperparameters")}})
    return csv_rows
