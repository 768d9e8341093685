"""The table of a benchmark in MLflow: a search and a final run of each method, found by a tag."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tausearch.runs import RunSpec, Storage
from tausearch.tracking.mlflow_run import ID_TAG
from tausearch.tracking.mlflow_store import open_store, search_runs
from trainables.metrics import TEST

TABLE_TAG = "tausearch.table"
VIEW_TAG = "mlflow.sharedViewState."  # of an experiment; how MLflow's pages keep a view that is shared
PAPER_METRIC = f"paper/{TEST.final_accuracy.partition('/')[2]}"


@dataclass(frozen=True)
class TableRow:
    """A method in the table of a benchmark."""

    method: str
    runs: tuple[RunSpec, ...]  # its search, if it has one, and its final run
    paper: float | None  # the paper's final accuracy, percent; None if it has none


def log_benchmark_table(
    storage: Storage, uri: str, benchmark: str, table: str, rows: Sequence[TableRow], gone: Collection[str] = ()
) -> str:
    """Tag the runs of a benchmark's table, and untag its earlier runs of the same methods.

    One search and one final run of each method get `TABLE_TAG`; its value is the table's name. Methods that are `gone`
    from the table lose it. Runs of other tables keep theirs.

    Returns:
        The part of a page's address, after that of the server, that shows the final runs side by side, best first.
    """
    client, experiment = open_store(storage, uri, benchmark)
    wanted = {spec.id: row for row in rows for spec in row.runs if spec.id}
    methods = {each.method for each in rows}.union(gone)
    for run in search_runs(client, experiment, f"tags.`{ID_TAG}` != ''"):  # without those of trials
        row = wanted.get(run.data.tags.get(ID_TAG, ""))
        if row is not None:
            _mark(client, run, table, row)
        elif run.data.tags.get(TABLE_TAG) == table and run.data.tags.get("method") in methods:
            client.delete_tag(run.info.run_id, TABLE_TAG)
    view = f"tausearch-{table}"
    client.set_experiment_tag(experiment, f"{VIEW_TAG}{view}", json.dumps(_view(table, rows)))
    return f"#/experiments/{experiment}/runs?viewStateShareKey={view}"


def _mark(client: Any, run: Any, table: str, row: TableRow) -> None:
    if run.data.tags.get(TABLE_TAG) != table:
        client.set_tag(run.info.run_id, TABLE_TAG, table)
    if row.paper is not None and run.data.metrics.get(PAPER_METRIC) != row.paper:
        client.log_metric(run.info.run_id, PAPER_METRIC, row.paper)


def _view(table: str, rows: Sequence[TableRow]) -> dict[str, Any]:
    """Return the columns of MLflow's page: accuracies, forgetting, and hyperparameters, the most common first."""
    accuracy = f"metrics.`{TEST.final_accuracy}/mean`"
    means = (TEST.average_incremental_accuracy, TEST.forgetting)
    others = (
        f"metrics.`{TEST.final_accuracy}/std`",
        f"metrics.`{PAPER_METRIC}`",
        *(f"metrics.`{m}/mean`" for m in means),
    )
    counts = Counter(name for row in rows for spec in row.runs if spec.purpose == "final" for name in spec.fixed)
    chosen = [f"params.`{name}`" for name, _ in counts.most_common()]
    return {
        "searchFilter": f"tags.`{TABLE_TAG}` = '{table}' and tags.kind = 'final'",
        "orderByKey": accuracy,
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": ["params.`method`", accuracy, *others, *chosen],
    }
