"""Keep the best file of a search up to date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tausearch.choosing.best import BestFile, choose
from tausearch.runs import RunDirectory, RunSpec, TrialSummary, TrialTable, best_trial


def write_best(
    spec: RunSpec, directory: RunDirectory, trials: Iterable[TrialSummary], run_ids: Mapping[int, str] | None = None
) -> BestFile | None:
    """Choose the best trial that keeps all constraints, if there is one, and write the best file.

    Args:
        spec: The search.
        directory: Its run directory.
        trials: All of its trials.
        run_ids: Number of a trial to the id of its run in MLflow, where it is known.

    Returns:
        What was written; None if no trial can be chosen.
    """
    trials = list(trials)
    chosen = best_trial(trials, spec.constraints)
    if chosen is None:
        return None
    competitors = sum(trial.status == "complete" for trial in trials)
    best = choose(spec, chosen, competitors, (run_ids or {}).get(chosen.number))
    best.save(directory.best_file)
    return best


class BestListener:
    """Keeps the best file up to date while a search runs, so that a kill at any moment leaves it behind.

    Args:
        spec: The search.
        directory: Its run directory.
        trials: All of its trials, as they are now.
    """

    def __init__(self, spec: RunSpec, directory: RunDirectory, trials: TrialTable) -> None:
        self.spec = spec
        self.directory = directory
        self.trials = trials

    def trial_changed(self, trial: TrialSummary) -> None:
        """Write the best file anew if the trial has finished."""
        if trial.status == "complete":
            write_best(self.spec, self.directory, self.trials)
