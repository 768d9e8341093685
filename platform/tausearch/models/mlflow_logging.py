"""Results of compositions in MLflow, written from their files."""

from __future__ import annotations

from checked_input.names import counted
from tausearch.models.evaluation_results import EvaluationResult, read_evaluation
from tausearch.models.results import CompositionResult, read_compositions
from tausearch.presentation import output_to
from tausearch.runs import FinalSpec, RunDirectory, Score, Storage
from tausearch.tracking import REMOVED_TAG, reason, track_composition
from trainables.metrics import VALIDATION


def log_compositions(spec: FinalSpec, directory: RunDirectory, storage: Storage) -> None:
    """Bring MLflow's view of a run's compositions up to date. May raise any error of MLflow."""
    for result in read_compositions(directory):
        _log_result(spec, storage, result)
    evaluation = read_evaluation(directory)
    if evaluation is not None:
        _log_result(spec, storage, evaluation)


def try_to_log(
    spec: FinalSpec, directory: RunDirectory, storage: Storage, result: CompositionResult | EvaluationResult
) -> str | None:
    """Write a result to MLflow, if its run is tracked there; return why that failed, which stops nothing, or None."""
    if "mlflow" not in spec.trackers:
        return None
    try:
        with output_to(directory.log_file):
            _log_result(spec, storage, result)
    except Exception as error:  # of MLflow, SQLAlchemy or requests, depending on the URI
        return reason(error)
    return None


def _log_result(spec: FinalSpec, storage: Storage, result: CompositionResult | EvaluationResult) -> None:
    if isinstance(result, EvaluationResult):
        metrics = {f"{table}/{name}": each for table, part in result.summary().items() for name, each in part.items()}
        track_composition(spec, storage, result.label, _points(metrics), {"kept": ",".join(map(str, result.kept))})
    else:
        weights = ",".join(f"{weight:.6g}" for weight in result.weights)
        tags = {"rule": result.rule, "weights": weights, "composition.sources": ",".join(result.runs)}
        if result.removal is not None:
            tags[REMOVED_TAG] = ", ".join(f"class {each.number}" for each in result.removal.classes)
        scores = result.summary()
        if result.search is not None:
            tags["search"] = f"{counted(len(result.search.trials), 'trial')}, seed {result.search.seed}"
            scores |= {f"{VALIDATION.final_accuracy}/{name}": each for name, each in result.search.scores().items()}
        track_composition(spec, storage, result.label, _points(scores), tags)


def _points(scores: dict[str, Score]) -> dict[str, float]:
    means = {f"{name}/mean": score.mean for name, score in scores.items()}
    return means | {f"{name}/std": score.std for name, score in scores.items() if score.std is not None}
