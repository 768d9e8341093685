"""The end of a run: its best file or results, importances and figures, and the metrics for trackers."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

from tausearch import runs
from tausearch.models import describe_run
from tausearch.runs import AnySpec, Conclusion, FinalSpec, MultiSearchSpec, RunDirectory, SearchSpec, TrialSummary
from tausearch.studies import BestFile, Selection, study_of, write_best

_log = logging.getLogger(__name__)


def preload_imports(purpose: str) -> None:
    """Import what `conclude` needs, which takes seconds: matplotlib, Optuna's importances with scikit-learn."""
    from tausearch.presentation import draw_final, draw_search  # noqa: F401

    if purpose == "search":
        import_module("optuna.importance")
    for kind in ("agg", "pdf"):  # matplotlib imports these as it saves the first figure
        import_module(f"matplotlib.backends.backend_{kind}")


def conclude(spec: AnySpec, directory: RunDirectory, trials: list[TrialSummary]) -> Conclusion:
    """Write the files and figures of a run; returns them with metrics for callbacks and trackers."""
    if spec.purpose == "search":
        return _conclude_search(spec, directory, trials)
    return _conclude_final(spec, directory, trials)


def _conclude_search(spec: SearchSpec, directory: RunDirectory, trials: list[TrialSummary]) -> Conclusion:
    ended = runs.ending_of(spec, directory, trials)
    notes = {} if ended is None else {"ended": str(ended)}
    if runs.best_trial(trials) is None:
        return Conclusion(files=(directory.spec_file,), notes=notes)
    best = write_best(spec, directory, trials)
    metrics, figures = _analyse_search(spec, directory, trials, best)
    several = len(spec.objectives) > 1
    if several:
        notes["front"] = " ".join(str(trial.number) for trial in spec.aim.front(trials))
    points = sorted(directory.front.glob("*.yaml")) if several else []
    files = (directory.spec_file, *([directory.best_file] if best else []), *points, *figures)
    if best is None or best.selection is None:
        return Conclusion(metrics=metrics, files=files, notes=notes)
    chosen = best.selection.trial
    metrics |= _reevaluated(best.selection) | _gained(best.selection)
    metrics |= {f"best/{metric}": value for metric, value in best.selection.objectives.items()}
    if isinstance(spec, MultiSearchSpec):
        metrics |= _several(spec, best.selection, trials)
    trial = next(each for each in trials if each.number == chosen)
    return Conclusion(trial, metrics=metrics, files=files, notes=notes)


def _conclude_final(spec: FinalSpec, directory: RunDirectory, trials: list[TrialSummary]) -> Conclusion:
    from tausearch.presentation import draw_final  # matplotlib, which no run needs before its end

    if not runs.all_ended(spec, trials):  # results of some seeds would be taken for those of all
        return Conclusion(files=(directory.spec_file,))
    summary = runs.write_results(spec, directory, trials)
    describe_run(directory)
    figures = _draw_figures(spec, partial(draw_final, spec, trials, directory.figures))
    metrics = {f"{name}/mean": part["mean"] for name, part in summary.items()}
    metrics |= {f"{name}/std": part["std"] for name, part in summary.items() if part["std"] is not None}
    files = (directory.spec_file, directory.results_file, *figures)
    return Conclusion(metrics=metrics, files=files, summary=summary)


def _reevaluated(selection: Selection) -> dict[str, float]:
    """Return the result of the re-evaluation as metrics: means over the fresh runs of the chosen configuration."""
    found = selection.reevaluation
    if found is None:
        return {}
    values = {"": found.value, "_error": found.error, "_ahead": found.ahead, "_ahead_error": found.ahead_error}
    found_values = {f"reevaluated/{selection.metric}{name}": value for name, value in values.items()}
    found_values |= {f"reevaluated/{metric}": value for metric, value in found.objectives.items()}
    return {name: value for name, value in found_values.items() if value is not None}


def _gained(selection: Selection) -> dict[str, float]:
    """Return what the search gained over its start as metrics."""
    found = selection.gain
    values = {} if found is None else {"gain": found.points, "gain_error": found.error}
    return {name: value for name, value in values.items() if value is not None}


def _several(spec: MultiSearchSpec, selection: Selection, trials: list[TrialSummary]) -> dict[str, float]:
    """Return the chosen accuracy on each of several benchmarks, and what is lost where one is left out, as metrics."""
    found = {f"best/{_metric(name)}": accuracy for name, accuracy in selection.accuracies.items()}
    return found | {f"left_out/{_metric(each.title)}/lost": each.lost for each in runs.leave_one_out(spec, trials)}


def _metric(benchmark: str) -> str:
    """Return a benchmark as a part of a metric's name; MLflow allows no other characters."""
    return re.sub(r"[^\w.-]+", "-", benchmark)


def _analyse_search(
    spec: SearchSpec, directory: RunDirectory, trials: list[TrialSummary], best: BestFile | None
) -> tuple[dict[str, float], list[Path]]:
    """Compute importances and rank correlations and draw the figures; returns the metrics and the figures."""
    from tausearch.presentation import draw_search  # matplotlib, which no search needs before its end

    importances = runs.importances(study_of(spec, trials, accuracy_alone=True))
    correlations = runs.rank_correlations(trials, spec.steps, spec.metrics)
    metrics = {f"importance/{name}": each.share for name, each in importances.items()}
    metrics |= {f"rank_correlation/task_{k}": value for k, value in correlations.items()}
    chosen = None if best is None or best.selection is None else best.selection.trial
    draw = partial(draw_search, spec, trials, importances, correlations, directory.figures, chosen)
    return metrics, _draw_figures(spec, draw)


def _draw_figures(spec: AnySpec, draw: Callable[[], list[Path]]) -> list[Path]:
    try:
        return draw()
    except OSError as error:  # a full disk must not cost the best file or the results
        _log.warning("figures of %s cannot be written (%s)", spec.name, error)
        return []
