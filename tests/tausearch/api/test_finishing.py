"""The end of a run: the metrics and files that MLflow gets, and what is not written before a run has ended."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import pytest

from tausearch.api import finishing
from tausearch.api.finishing import conclude, preload_imports
from tausearch.runs import RunDirectory, SearchSpec, TrialSummary, objectives_of, trial_folder_name
from tausearch.studies import Selection
from tests.support.runs.trials import final_spec, make_trial
from tests.tausearch.several.made import several_spec
from trainables.metrics import VALIDATION


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let importances and correlations be known, and figures be as given; an error is raised."""
    found: dict[str, Any] = {"figures": []}

    def draw(*_: object) -> list[Path]:
        if isinstance(found["figures"], Exception):
            raise found["figures"]
        return list(found["figures"])

    monkeypatch.setattr("tausearch.presentation.draw_search", draw)
    monkeypatch.setattr("tausearch.presentation.draw_final", draw)
    share = SimpleNamespace(share=0.7)
    monkeypatch.setattr(
        finishing.runs, "importances", lambda study: {"lr": share} if len(study.directions) == 1 else {}
    )
    monkeypatch.setattr(finishing.runs, "rank_correlations", lambda *_: {1: 0.5})
    return found


def chosen(monkeypatch: pytest.MonkeyPatch, selection: object) -> None:
    """Let the best file have a selection; None for no best file."""
    best = None if selection is None else SimpleNamespace(selection=selection)
    monkeypatch.setattr(finishing, "write_best", lambda *_: best)


def test_the_end_imports_nothing_large_that_was_not_imported_ahead(tmp_path: Path) -> None:
    seen = subprocess.run([sys.executable, "-c", _END, tmp_path], capture_output=True, text=True, check=True).stdout
    assert json.loads(seen) == [["importance/lr"], True, []]


def test_figures_that_are_imported_ahead_leave_the_users_backend_as_it_is(
    spec: SearchSpec, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a notebook would show no figure after a run."""
    monkeypatch.setattr(
        finishing, "import_module", lambda name: import_module(name) if name.startswith("matplotlib") else None
    )
    before = matplotlib.get_backend()
    try:
        preload_imports(spec.purpose)
        assert matplotlib.get_backend() == before != "pdf"
    finally:
        matplotlib.use(before)


_END = """
import json, sys
from pathlib import Path
from tausearch.api.finishing import conclude, preload_imports
from tausearch.runs import RunDirectory
from tests.support.runs.trials import make_trial, search_spec

preload_imports("search")
before = set(sys.modules)
trials = [make_trial(number, value=50.0 + number) for number in range(5)]
found = conclude(search_spec(), RunDirectory(Path(sys.argv[1])), trials)
large = ("matplotlib", "fontTools", "sklearn", "scipy", "optuna", "pandas")
more = sorted(name for name in set(sys.modules) - before if name.split(".")[0] in large)
print(json.dumps([[name for name in found.metrics if name == "importance/lr"], len(found.files) > 4, more]))
"""
INSIGHT = {"importance/lr": 0.7, "rank_correlation/task_1": 0.5}


@pytest.mark.parametrize("figures", [[Path("a.png")], OSError("no space")])
def test_mlflow_gets_the_chosen_trial_and_what_there_is_of_figures(
    figures: Any, spec: SearchSpec, directory: RunDirectory, drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A re-evaluation may choose another trial than the one with the highest value."""
    drawn["figures"] = figures
    again = SimpleNamespace(value=71.0, error=None, ahead=0.5, ahead_error=0.25, objectives={"seconds": 9.0})
    gain = SimpleNamespace(points=1.5, error=0.5)
    about = {"metric": "val/final_accuracy", "objectives": {"seconds": 8.0}, "gain": gain}
    chosen(monkeypatch, SimpleNamespace(trial=1, reevaluation=again, **about))
    trials = [make_trial(0, value=90.0), make_trial(1, value=80.0)]
    found = conclude(spec, directory, trials)
    assert found.chosen is trials[1]
    named = {"": 71.0, "_ahead": 0.5, "_ahead_error": 0.25}
    reevaluated = {f"reevaluated/val/final_accuracy{name}": value for name, value in named.items()}
    gained = {"gain": 1.5, "gain_error": 0.5}
    assert found.metrics == INSIGHT | reevaluated | gained | {"reevaluated/seconds": 9.0, "best/seconds": 8.0}
    pictures = figures if isinstance(figures, list) else []
    assert found.files == (directory.spec_file, directory.best_file, *pictures)


def test_mlflow_gets_the_best_file_of_each_point_of_a_front(
    spec: SearchSpec, directory: RunDirectory, drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (VALIDATION.final_accuracy, VALIDATION.forgetting)
    spec = spec.model_copy(update={"objectives": objectives_of(names, names)})
    trials = [make_trial(number, value=90.0 - number) for number in range(3)]
    for trial, forgetting in zip(trials, (5.0, 4.0, 4.0), strict=True):
        trial.rows[-1][VALIDATION.forgetting] = forgetting
    chosen(monkeypatch, SimpleNamespace(trial=0, reevaluation=None, metric=names[0], objectives={}, gain=None))
    points = [directory.front / f"{trial_folder_name(number)}.yaml" for number in range(2)]
    directory.front.mkdir()
    for point in points:
        point.touch()
    found = conclude(spec, directory, trials)
    assert found.files == (directory.spec_file, directory.best_file, *points) and found.notes["front"] == "0 1"
    assert found.metrics["importance/lr"] == 0.7, "that of the accuracy alone"


def test_without_a_choice_there_is_no_best_file(
    spec: SearchSpec, directory: RunDirectory, drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen(monkeypatch, None)  # no trial keeps the bounds
    found = conclude(spec, directory, [make_trial(0, value=90.0)])
    assert (found.chosen, found.metrics, found.files) == (None, INSIGHT, (directory.spec_file,))
    nothing = conclude(spec, directory, [make_trial(0, tasks=1)])
    assert (nothing.chosen, nothing.metrics, nothing.files) == (None, {}, (directory.spec_file,))
    short = spec.model_copy(update={"trials": 1})
    failed = conclude(short, directory, [make_trial(0, tasks=1, status="diverged")])
    assert (failed.chosen, failed.notes) == (None, {"ended": "trials: its only trial has ended"})


def test_a_choice_without_reevaluation_has_no_metrics_of_one() -> None:
    selection = Selection.model_construct(trial=0, reevaluation=None)
    assert finishing._reevaluated(selection) == {}


def test_mlflow_gets_what_was_chosen_on_each_benchmark_and_what_is_lost_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [SimpleNamespace(title="v1.2 small", lost=2.0), SimpleNamespace(title="glyphs", lost=0.0)]
    monkeypatch.setattr(finishing.runs, "leave_one_out", lambda *_: left)
    selection: Any = SimpleNamespace(accuracies={"digits?epochs=2": 80.0})
    found = finishing._several(several_spec(), selection, [])
    assert found == {"best/digits-epochs-2": 80.0, "left_out/v1.2-small/lost": 2.0, "left_out/glyphs/lost": 0.0}


@pytest.mark.parametrize("figures", [[Path("a.png")], OSError("no space")])
def test_a_final_run_has_results_once_all_seeds_have_ended(
    figures: Any, spec: SearchSpec, directory: RunDirectory, drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn["figures"] = figures
    final = final_spec(spec, trials=2, seeds=(0, 1))
    summary = {"a": {"mean": 1.0, "std": None, "seeds": 1}, "b": {"mean": 2.0, "std": 0.0, "seeds": 2}}
    monkeypatch.setattr(finishing.runs, "write_results", lambda *_: summary)
    described: list[RunDirectory] = []
    monkeypatch.setattr(finishing, "describe_run", described.append)
    trials: list[TrialSummary] = [make_trial(0, value=1.0), make_trial(1, tasks=1)]
    assert conclude(final, directory, trials).files == (directory.spec_file,)
    trials[1] = make_trial(1, tasks=1, status="diverged")
    assert described == []
    found = conclude(final, directory, trials)
    assert found.metrics == {"a/mean": 1.0, "b/mean": 2.0, "b/std": 0.0} and described == [directory]
    pictures = figures if isinstance(figures, list) else []
    assert found.files == (directory.spec_file, directory.results_file, *pictures)
