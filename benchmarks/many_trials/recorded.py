"""A search whose trials have all ended, written without running any."""

from __future__ import annotations

from tausearch.execution.recorder import record_of
from tausearch.runs import Storage
from tausearch.runs.creation import make_run_directory
from tests.support.runs.trials import FIXED, make_trial, search_spec

SEARCH, TASKS = "search", 10


def recorded_search(storage: Storage, trials: int, planned: int | None = None) -> None:
    """Make a search of `planned` trials by TPE, by default of as many as are recorded."""
    spec = search_spec()
    protocol = spec.protocol.model_copy(update={"tasks": TASKS})
    changes = {"trials": planned or trials, "name": SEARCH, "steps": TASKS, "protocol": protocol, "algorithm": "tpe"}
    spec, directory = make_run_directory(spec.model_copy(update=changes), storage)
    record = record_of(spec, directory)
    for number in range(trials):
        value = 70.0 + number % 17
        values = {"alpha": 0.1 * 10 ** (2 * number / trials), "lr": 0.01, **FIXED}
        record.write(make_trial(number, tasks=TASKS, value=value, hyperparameters=values))
    record.compact(range(trials), lambda number: True)
