"""Runs and their trials as plain values for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tausearch import api
from tausearch.runs import (
    BesideBounds,
    EarlyChoice,
    MultiTrial,
    RunResult,
    RunSpec,
    RunStatus,
    SearchSpec,
    TrialSummary,
    chosen_as_dict,
    leave_one_out,
)


def _trials_as_dicts(trials: Sequence[TrialSummary]) -> list[dict[str, Any]]:
    names = ("error", "hyperparameters", "metrics")
    plain = [{**trial.facts, **{name: getattr(trial, name) for name in names}} for trial in trials]
    for each, trial in zip(plain, trials, strict=True):
        if isinstance(trial, MultiTrial):
            each["accuracies"] = list(trial.accuracies)
    return plain


def status_as_dict(
    found: RunStatus, choices: Sequence[EarlyChoice] | None, beside: BesideBounds | None
) -> dict[str, Any]:
    """Return what `status NAME --format json` prints, with the choices of first tasks where they are asked for."""
    return {
        **found.as_dict(),
        **_bounds_as_dict(beside),
        "rank_correlation": {f"task_{k}": value for k, value in found.rank_correlations.items()},
        "pareto_front": [trial.number for trial in found.front],
        **_left_out_as_dict(found.spec, found.trials),
        **({} if choices is None else {"protocols": [asdict(each) for each in choices]}),
        "trials": _trials_as_dicts(found.trials),
    }


def search_as_dict(result: api.SearchResult, spec: SearchSpec) -> dict[str, Any]:
    """Return what the commands that run a search print with `--format json`."""
    reevaluated = {} if result.reevaluation is None else {"reevaluation": result.reevaluation.as_dict()}
    trials = _trials_as_dicts(result.trials)
    ended = {} if result.ending is None else {"ended": result.ending.model_dump()}
    more = {
        **({"front": spec.aim.front_as_dicts(result.trials)} if len(spec.objectives) > 1 else {}),
        **ended,
        **reevaluated,
        **_left_out_as_dict(spec, result.trials),
        **_bounds_as_dict(result.bounds),
        **_tracking_as_dict(result),
    }
    return {"name": result.name, "best": _best_as_dict(result), "trials": trials, **more}


def _best_as_dict(result: api.SearchResult) -> dict[str, Any] | None:
    """Return the chosen trial as `status` prints it, and all else that the best file holds."""
    if result.best is None:
        return None
    best = result.best
    number = None if best.selection is None else best.selection.trial
    trials = (each for each in result.trials if each.number == number)
    chosen = (chosen_as_dict(each, result.reevaluation, best.hyperparameters) for each in trials)
    return {**next(chosen, {}), **best.model_dump(mode="json")}


def final_as_dict(result: api.FinalResult) -> dict[str, Any]:
    """Return what the commands that run a final run print with `--format json`."""
    trials = _trials_as_dicts(result.trials)
    more = {**_bounds_as_dict(result.bounds), **_tracking_as_dict(result)}
    return {"name": result.name, "summary": result.summary, "trials": trials, **more}


def _left_out_as_dict(spec: RunSpec, trials: Sequence[TrialSummary]) -> dict[str, Any]:
    found = leave_one_out(spec, trials)
    return {"left_out": [each.as_dict() for each in found]} if found else {}


def _bounds_as_dict(beside: BesideBounds | None) -> dict[str, Any]:
    return {} if beside is None else {"bounds": beside.as_dict()}


def _tracking_as_dict(result: RunResult) -> dict[str, Any]:
    return {"tracking_uri": result.tracking_uri, "tracking_error": result.tracking_error}
