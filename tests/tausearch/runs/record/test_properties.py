"""The record, whatever order rows arrive in and however often: last write wins, and what is read is what was meant."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st

from tausearch.runs import Record, TrialSummary
from trainables.metrics import is_metric

finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.booleans(), st.integers(-(2**40), 2**40), finite, st.text(max_size=8))
NAMES = ["alpha", "lr", "optimizer", "rank", "ä b"]
names = st.sampled_from(NAMES)
metrics = st.dictionaries(st.sampled_from(["val/average_accuracy", "train/loss", "train/own"]), st.floats())


@st.composite
def trials(draw: st.DrawFn) -> TrialSummary:
    """A trial at any moment of its life."""
    rows = [{"task": float(t), **draw(metrics)} for t in range(1, draw(st.integers(0, 3)) + 1)]
    status = draw(st.sampled_from(["running", "pruned", "diverged", "failed"] + ["complete"] * bool(rows)))
    value = None
    if status == "complete":
        value = rows[-1]["val/final_accuracy"] = draw(st.floats(0, 100))
    hyperparameters = draw(st.dictionaries(names, scalars))
    error = draw(st.none() | st.text(min_size=1, max_size=20))
    return TrialSummary(draw(st.integers(0, 5)), draw(st.integers(0, 9)), status, hyperparameters, rows, value, error)  # type: ignore[arg-type]


def same(value: Any) -> Any:
    """Values as they can be compared: NaN equals itself, and 1 is not True."""
    if isinstance(value, TrialSummary):
        return same(vars(value))
    if isinstance(value, dict):
        return {key: same(each) for key, each in value.items()}
    if isinstance(value, list):
        return [same(each) for each in value]
    return "nan" if isinstance(value, float) and math.isnan(value) else (type(value), value)


@settings(max_examples=25)
@given(st.lists(trials(), max_size=6))
def test_the_last_write_of_each_trial_is_what_is_read(writes: list[TrialSummary]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        record = Record(Path(folder) / "record", {"run": "r"}, tasks=3)
        for trial in writes:
            record.write(trial)
        last = {trial.number: trial for trial in writes}
        assert same(Record(record.folder).trials()) == same([last[number] for number in sorted(last)])


@settings(max_examples=25)
@given(st.lists(trials(), max_size=4, unique_by=lambda t: t.number), st.data())
def test_order_and_repetition_change_nothing(ends: list[TrialSummary], data: st.DataObject) -> None:
    """Each trial's own writes come in order; those of several trials mix in any way, and any may come twice."""
    lives = [[replace(end, rows=end.rows[:done]) for done in range(end.tasks_done)] + [end] for end in ends]
    twice = [[state for state in life for _ in range(data.draw(st.integers(1, 2)))] for life in lives]
    turns = data.draw(st.permutations([number for number, life in enumerate(twice) for _ in life]))
    writes = [iter(life) for life in twice]
    with tempfile.TemporaryDirectory() as folder:
        mixed, straight = (Record(Path(folder) / name, texts=NAMES) for name in ("mixed", "straight"))
        for end in ends:
            straight.write(end)
        for number in turns:
            mixed.write(next(writes[number]))
        assert same(mixed.trials()) == same(straight.trials())
        rows = [(row["trial"], row["task"]) for row in mixed.table().to_pylist()]
        assert rows == sorted(set(rows))
        assert all(is_metric(name) for trial in mixed.trials() for row in trial.rows for name in row if name != "task")
