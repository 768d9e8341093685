"""Keep the best file of a search up to date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tausearch.runs import RunDirectory, RunSpec, TrialSummary, TrialTable, chosen_trial, read_confirmation
from tausearch.studies.best_file import BestFile, choose


def write_best(
    spec: RunSpec, directory: RunDirectory, trials: Iterable[TrialSummary], run_ids: Mapping[int, str] | None = None
) -> BestFile | None:
    """Choose the best trial that keeps all constraints, if there is one, and write the best file.

    Confirmations that there are have a say.

    Args:
        spec: The search.
        directory: Its run directory.
        trials: All of its trials.
        run_ids: Number of a trial to the id of its run in MLflow, where it is known.

    Returns:
        What was written; None if no trial can be chosen.
    """
    trials = list(trials)
    confirmation = read_confirmation(spec, directory.confirmation, trials)
    chosen = chosen_trial(spec, trials, confirmation)
    if chosen is None:
        return None
    competitors = sum(trial.status == "complete" for trial in trials)
    best = choose(spec, chosen, competitors, (run_ids or {}).get(chosen.number), confirmation)
    best.save(directory.best_file)
    return best


class BestListener:
    """Keeps the best file up to date while a search runs, so that a kill at any moment leaves it behind; a `Listener`.

    Is told of the trials of a search, or of its confirmations.

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
        """Write the best file anew if the trial has ended: of a confirmation, any end may decide."""
        if trial.status != "running":
            write_best(self.spec, self.directory, self.trials)
