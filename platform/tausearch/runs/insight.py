"""What a finished search teaches: which hyperparameters mattered, and how far early accuracies could be trusted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tausearch.runs.trials import TrialSummary, ranked
from trainables.metrics import MetricNames

if TYPE_CHECKING:
    import optuna

LOOKS = (1, 3)  # numbers of first tasks on which published protocols tune
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


@dataclass(frozen=True)
class ProtocolChoice:
    """The configuration that a search would choose which looks at the first tasks alone.

    Attributes:
        tasks: Number of tasks that it looks at.
        trial: Number of the trial that it chooses.
        accuracy: Average accuracy of that trial after those tasks, percent.
        value: Its final accuracy, percent.
        rank: Its rank by final accuracy among the finished trials, from 1; equal ones share the better rank.
        finished: Number of finished trials.
    """

    tasks: int
    trial: int
    accuracy: float
    value: float
    rank: int
    finished: int


def protocol_choices(trials: Sequence[TrialSummary], steps: int, names: MetricNames) -> list[ProtocolChoice]:
    """Return what the first task, the first three and all tasks would choose, by average accuracy after them.

    Only trials that finished the last task compete: of others nobody knows what choosing them comes to.

    Args:
        trials: The trials of one search.
        steps: Number of tasks, T.
        names: The names of the accuracies that the trials report.

    Returns:
        A choice for 1, 3 and T tasks, as far as they are different; empty with fewer than 4 finished trials.

    Source: the question of Lee et al. 2024, https://arxiv.org/abs/2404.06466: on which tasks to tune.
    """
    finished = [trial for trial in ranked(trials) if trial.tasks_done == steps]
    if len(finished) < ENOUGH:
        return []
    looks = sorted({tasks for tasks in (*LOOKS, steps) if tasks <= steps})
    return [_choice(sorted(finished, key=lambda trial: trial.number), tasks, names) for tasks in looks]


def _choice(finished: Sequence[TrialSummary], tasks: int, names: MetricNames) -> ProtocolChoice:
    """Choose by the accuracy after so many tasks; ties go to the earlier trial."""
    chosen = max(finished, key=lambda trial: trial.rows[tasks - 1][names.average_accuracy])
    value = chosen.value or 0.0
    rank = 1 + sum((trial.value or 0.0) > value for trial in finished)
    accuracy = chosen.rows[tasks - 1][names.average_accuracy]
    return ProtocolChoice(tasks, chosen.number, accuracy, value, rank, len(finished))


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
