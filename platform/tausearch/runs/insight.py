"""What a finished search teaches: which hyperparameters mattered, and how far early accuracies could be trusted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tausearch.runs.trials import TrialSummary
from trainables.metrics import MetricNames

if TYPE_CHECKING:
    import optuna

ENOUGH = 4  # finished trials below which a rank correlation or an importance says nothing


def rank_correlations(trials: Sequence[TrialSummary], steps: int, names: MetricNames) -> dict[int, float]:
    """Return Spearman's rank correlation between average accuracy after task k and final accuracy, for k < T.

    Only trials that finished the last task have a final accuracy, so a search that stops trials early measures it on
    those that it let go on.

    Args:
        trials: The trials of one search.
        steps: Number of tasks, T.
        names: The names of the accuracies that the trials report.

    Returns:
        k to the correlation, from -1 to 1. Empty with fewer than 4 finished trials; a k where all accuracies are equal
        is left out.
    """
    finished = [trial for trial in trials if trial.status == "complete" and trial.tasks_done == steps]
    if len(finished) < ENOUGH:
        return {}
    from scipy.stats import spearmanr  # takes a second to import

    final = [trial.rows[-1][names.average_accuracy] for trial in finished]
    found = {}
    for k in range(1, steps):
        early = [trial.rows[k - 1][names.average_accuracy] for trial in finished]
        if len(set(early)) > 1 and len(set(final)) > 1:
            found[k] = float(spearmanr(early, final).statistic)
    return found


def importances(study: optuna.Study) -> dict[str, float]:
    """Return each searched hyperparameter's share of the variance of final accuracy, by fANOVA; they sum to 1.

    Args:
        study: The Optuna study with its finished trials.

    Returns:
        Name to share, the largest first; empty with fewer than 4 finished trials or if all are equally good.

    Source: Hutter et al. 2014, https://proceedings.mlr.press/v32/hutter14.html, as Optuna has it.
    """
    import optuna  # takes a second to import

    finished = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    if len(finished) < ENOUGH or len({trial.value for trial in finished}) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in found.items()}
