"""Keep the best file of a search up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tausearch.runs import (
    Ending,
    Reevaluation,
    ReevaluationSpec,
    RunDirectory,
    SearchSpec,
    TrialSummary,
    TrialTable,
    Verdict,
    chosen_trial,
    ending_of,
    gain_of,
    read_reevaluation,
    reevaluation_of,
    replace_text,
    trial_folder_name,
)
from tausearch.studies.best_file import BestFile, make_best_file

Chosen = Callable[[TrialSummary, Verdict | None], None]
"""Is told the chosen trial, and what its re-evaluation says, once the best file has them."""


def write_best(spec: SearchSpec, directory: RunDirectory, trials: Iterable[TrialSummary]) -> BestFile | None:
    """Write the best file of a search; returns None if no trial is chosen."""
    trials = list(trials)
    return _write(spec, directory, trials, read_reevaluation(spec, directory.reevaluation, trials))


class BestListener:
    """Writes the best file whenever the choice changes: another trial, or another verdict of the re-evaluation.

    `selection.trials` of the file counts the trials that had finished by then; the end of the search corrects it. It
    listens to a search, or to its re-evaluations; the two tables are kept up to date by the driver. `on_choice` is
    called whenever the choice changes.
    """

    def __init__(
        self,
        spec: SearchSpec,
        directory: RunDirectory,
        trials: TrialTable,
        reevaluations: TrialTable,
        on_choice: Chosen,
    ) -> None:
        self.spec = spec
        self.directory = directory
        self.trials = trials
        self.reevaluations = reevaluations
        self.on_choice = on_choice
        self._choice: tuple[int, Verdict | None] | None = None
        self._front: list[int] = []  # numbers of its trials, of several objectives

    def trial_changed(self, trial: TrialSummary) -> None:
        """Choose again if the trial has ended; write the best file if the choice has changed."""
        if trial.status == "running":
            return
        reevaluation = None
        if self.spec.reevaluate is not None:
            reevaluation = reevaluation_of(ReevaluationSpec.of(self.spec), self.trials, list(self.reevaluations))
        chosen = chosen_trial(self.spec, self.trials, reevaluation)
        if chosen is None:
            return
        choice = chosen.number, None if reevaluation is None else reevaluation.verdict
        several = len(self.spec.objectives) > 1
        front = [each.number for each in self.spec.aim.front(list(self.trials))] if several else []
        if (choice, front) != (self._choice, self._front):
            _write(self.spec, self.directory, list(self.trials), reevaluation)
            new, self._choice, self._front = choice != self._choice, choice, front
            if new:
                self.on_choice(chosen, choice[1])


def _write(
    spec: SearchSpec, directory: RunDirectory, trials: list[TrialSummary], reevaluation: Reevaluation | None
) -> BestFile | None:
    """Write the best file, and the files of the front of several objectives."""
    chosen = chosen_trial(spec, trials, reevaluation)
    if chosen is None:
        return None
    competitors = sum(trial.status == "complete" for trial in trials)
    ending, gain = ending_of(spec, directory, trials), gain_of(spec, trials, chosen, reevaluation)
    value = spec.aim.value_of(chosen, trials)
    best = make_best_file(spec, chosen, competitors, reevaluation, ending, gain, value)
    replace_text(directory.best_file, best.as_yaml())
    if len(spec.objectives) > 1:
        _write_front(spec, directory, trials, competitors, ending)
    return best


def _write_front(
    spec: SearchSpec, directory: RunDirectory, trials: list[TrialSummary], competitors: int, ending: Ending | None
) -> None:
    """Write a best file for every point of the front, and remove those of points that have left it."""
    directory.front.mkdir(exist_ok=True)
    front = {directory.front / f"{trial_folder_name(trial.number)}.yaml": trial for trial in spec.aim.front(trials)}
    for file, trial in front.items():
        best = make_best_file(spec, trial, competitors, ended=ending, value=spec.aim.value_of(trial, trials))
        replace_text(file, best.as_yaml())
    for file in set(directory.front.glob("*.yaml")) - set(front):
        file.unlink(missing_ok=True)
