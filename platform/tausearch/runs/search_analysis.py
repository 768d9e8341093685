"""Analyses of a finished search: importances, rank correlations, Pareto front, choices after fewer tasks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tausearch.runs.trials import TrialSummary, ranked
from trainables.metrics import WAITING, MetricNames, seconds

if TYPE_CHECKING:
    import optuna

PUBLISHED_TASK_COUNTS = (1, 3)  # numbers of first tasks on which published protocols tune
MIN_FINISHED_TRIALS = 4  # finished trials that a rank correlation or an importance needs
_BEST = 5  # least number of good trials: Optuna's advice for PED-ANOVA
_NEARLY_ONE = 0.9999  # bound on correlations, as the z of 1 is infinite
_RESAMPLES = 100  # bootstrap samples for the interval of an importance


@dataclass(frozen=True)
class Importance:
    """The importance of a hyperparameter: its share in the difference between the best trials and all trials."""

    share: float  # from 0 to 1; the shares of all hyperparameters sum to 1
    low: float  # lower end of the share's 90 % interval over resampled trials
    high: float

    def text(self) -> str:
        """Return `0.71 (0.42 to 0.88)`."""
        return f"{self.share:.2f} ({self.low:.2f} to {self.high:.2f})"


def waiting_share(trials: Sequence[TrialSummary]) -> float:
    """Return the share of their training in which trials waited for images; 0 if nothing was trained."""
    rows = [row for trial in trials for row in trial.rows]
    trained = sum(row.get(seconds("training"), 0.0) for row in rows)
    return sum(row.get(WAITING, 0.0) for row in rows) / trained if trained else 0.0


def rank_correlations(trials: Sequence[TrialSummary], steps: int, metric_names: MetricNames) -> dict[int, float]:
    """Return k to Spearman's rank correlation between average accuracy after task k and final accuracy, for k < T.

    Only trials that finished the last task have a final accuracy. A search with early stopping therefore measures the
    correlation on the trials that were not stopped. The result is empty with fewer than 4 different final accuracies.
    It leaves out a k where all accuracies are equal.
    """
    finished = [trial for trial in trials if trial.status == "complete" and trial.tasks_done == steps]
    final = [trial.rows[-1][metric_names.average_accuracy] for trial in finished]
    if len(set(final)) < MIN_FINISHED_TRIALS:
        return {}
    import pandas as pd  # takes half a second to import, and scipy a second

    early = {k: [trial.rows[k - 1][metric_names.average_accuracy] for trial in finished] for k in range(1, steps)}
    found = pd.DataFrame({0: final, **early}).corr("spearman")[0]
    return {k: float(found[k]) for k, values in early.items() if len(set(values)) > 1}


def correlation_interval(correlation: float, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a Spearman correlation over n >= 4 trials, by Fisher's z of variance 1.06 / (n - 3).

    Source: Fieller, Hartley and Pearson 1957, https://doi.org/10.1093/biomet/44.3-4.470.
    """
    half = 1.96 * math.sqrt(1.06 / (trials - 3))
    z = math.atanh(max(-_NEARLY_ONE, min(_NEARLY_ONE, correlation)))
    return min(math.tanh(z - half), correlation), max(math.tanh(z + half), correlation)


@dataclass(frozen=True)
class EarlyChoice:
    """The choice of a search that sees the first tasks only."""

    tasks: int  # that the search sees
    trial: int
    accuracy: float  # average accuracy of the trial after those tasks, percent
    value: float  # final accuracy of the trial, percent
    rank: int  # by final accuracy among the finished trials, from 1; equal trials share the better rank
    finished: int


def early_choices(trials: Sequence[TrialSummary], steps: int, metric_names: MetricNames) -> list[EarlyChoice]:
    """Return the choices by average accuracy after 1, 3 and all tasks; empty with fewer than 4 finished trials.

    Only trials that finished the last task compete: the final accuracy of the others is unknown. Of a search on several
    benchmarks the choices are those by the score after 1, 3 and all benchmarks.

    Source: the question of Lee et al. 2024, https://arxiv.org/abs/2404.06466: on which tasks to tune.
    """
    finished = [trial for trial in ranked(trials) if trial.tasks_done == steps]
    if len(finished) < MIN_FINISHED_TRIALS:
        return []
    looks = sorted({tasks for tasks in (*PUBLISHED_TASK_COUNTS, steps) if tasks <= steps})
    earlier = sorted(finished, key=lambda trial: trial.number)  # forgetting is unknown after the first tasks
    return [_choice(finished if tasks == steps else earlier, tasks, metric_names) for tasks in looks]


def _choice(finished: Sequence[TrialSummary], tasks: int, metric_names: MetricNames) -> EarlyChoice:
    """Return the choice by accuracy, or score, after `tasks` tasks; ties go to the first trial."""
    chosen = max(finished, key=lambda trial: trial.judged(metric_names)[tasks - 1][metric_names.average_accuracy])
    value = chosen.value or 0.0
    rank = 1 + sum((trial.value or 0.0) > value for trial in finished)
    accuracy = chosen.rows[tasks - 1][metric_names.average_accuracy]
    return EarlyChoice(tasks, chosen.number, accuracy, value, rank, len(finished))


def pareto_front(trials: Sequence[TrialSummary]) -> list[TrialSummary]:
    """Return the Pareto-optimal trials in final accuracy and forgetting, the most accurate first.

    Only trials that finished the last task compete. All of them took the same tasks and the same steps. Seconds do not
    count: between trials of equal work they differ by noise, and the front would change from run to run.
    """
    front: list[TrialSummary] = []
    for each in ranked(trials):  # whoever beats a trial ranks before it
        if not front or each.forgetting < front[-1].forgetting or _as_good(each, front[-1]):
            front.append(each)
    return front


def _as_good(one: TrialSummary, other: TrialSummary) -> bool:
    return (one.value, one.forgetting) == (other.value, other.forgetting)


def importances(study: optuna.Study) -> dict[str, Importance]:
    """Return the importance of each searched hyperparameter, by PED-ANOVA.

    The share is a Pearson divergence divided by the sum over all hyperparameters. The divergence compares the
    distribution in the best tenth of the finished trials with that in all of them. The best tenth is the best 5 below
    50 trials, and the better half below 10. The share refers to the values that were tried: a hyperparameter tried in a
    narrow, good range has a small share.

    The interval is a bootstrap: the 5th and 95th percentile of the share over 100 sets of as many trials, drawn with
    replacement. It is widened where the share lies outside, as a share near 0 or 1 can.

    The largest share comes first. The result is empty with fewer than 4 finished trials, or if all values are equal.

    Source: Watanabe et al. 2023, https://arxiv.org/abs/2304.10255, as in Optuna; the bootstrap, Efron 1979.
    """
    import numpy as np  # with Optuna, takes a second to import
    import optuna

    finished = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    shares = _shares(finished, study.direction) if len(finished) >= MIN_FINISHED_TRIALS else None
    if shares is None:
        return {}
    generator = np.random.default_rng(0)
    picked = (generator.integers(len(finished), size=len(finished)) for _ in range(_RESAMPLES))
    resampled = [found for picks in picked if (found := _shares([finished[i] for i in picks], study.direction))]
    result = {}
    for name, share in shares.items():
        low, high = np.percentile([each[name] for each in resampled], (5, 95)) if resampled else (0.0, 1.0)
        result[name] = Importance(share, min(share, float(low)), max(share, float(high)))
    return result


def _shares(
    finished: Sequence[optuna.trial.FrozenTrial], direction: optuna.study.StudyDirection
) -> dict[str, float] | None:
    """Return name to share, the largest first; None if all values are equal."""
    import optuna

    if len({trial.value for trial in finished}) < 2:
        return None
    quantile = min(0.5, max(0.1, _BEST / len(finished)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=quantile)
        found = optuna.importance.get_param_importances(_study_of(finished, direction), evaluator=evaluator)
    return {name: float(share) for name, share in found.items()}


def _study_of(
    finished: Sequence[optuna.trial.FrozenTrial], direction: optuna.study.StudyDirection
) -> optuna.study.Study:
    """Return a study that has these trials and takes no others.

    `Study.add_trials` copies and checks each: two minutes for the 100 resamples of a search of 5,000 trials.
    """
    import optuna

    class Given(optuna.storages.InMemoryStorage):
        def get_all_trials(self, *args: Any, **kwargs: Any) -> list[optuna.trial.FrozenTrial]:
            return list(finished)

    sampler = optuna.samplers.RandomSampler(seed=0)
    return optuna.create_study(storage=Given(), direction=direction, sampler=sampler)
