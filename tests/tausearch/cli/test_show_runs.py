"""What a person reads of a run: here what its search has gained over the point that it started from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tausearch.api import SearchResult
from tausearch.cli.output import show_search, show_status
from tausearch.runs import Record, SearchSpec, Storage, TrialSummary, read_status
from tausearch.runs.creation import create
from tausearch.studies.best_file import choose
from tests.support.runs.trials import make_trial


def shown(spec: SearchSpec, trials: list[TrialSummary], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The line about the start, if there is one; trial 0 has the values that the search starts with."""
    _, directory = create(spec, Storage(folder))
    for trial in trials:
        Record(directory.record).write(trial)
    show_status(read_status(directory))
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("start")]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ((88.1, 93.2, 90.0), ["start         88.10 % (trial 0), chosen +5.10 points"]),
        ((88.1, 80.0), ["start         88.10 % (trial 0), chosen +0.00 points"]),
        ((None, 80.0), []),
    ],
)
def test_the_gain_over_the_start_is_said(
    values: tuple[float | None, ...],
    line: list[str],
    spec: SearchSpec,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trials = [make_trial(number, value=value) for number, value in enumerate(values)]
    assert shown(spec, trials, tmp_path, capsys) == line


def test_a_space_without_a_search_has_no_start(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = spec.model_copy(update={"space": {}, "start": {}})
    assert shown(fixed, [make_trial(0, value=50.0)], tmp_path, capsys) == []


@pytest.mark.parametrize(("forgotten", "said"), [(83.0, True), (50.0, False)])
def test_little_left_of_earlier_tasks_is_said(
    forgotten: float, said: bool, spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, directory = create(spec, Storage(tmp_path))
    trial = make_trial(0, value=44.0)
    trial.rows[-1]["val/forgetting"] = forgotten
    where = {"log_file": directory.log_file, "tracking_uri": "", "tracking_error": None, "reevaluation": None}
    best = choose(spec, trial, 1)
    found = SearchResult(
        spec.name, directory.path, [trial], None, False, **where, best=best, best_file=directory.best_file
    )  # type: ignore[arg-type]
    show_search(found, spec, "")
    out = capsys.readouterr().out
    assert ("trial 0 forgets 83 points: little is left of earlier tasks (see docs/troubleshooting.md)" in out) is said
