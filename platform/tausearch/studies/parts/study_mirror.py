"""The Optuna study of a search on several benchmarks as a file for optuna-dashboard."""

from __future__ import annotations

from pathlib import Path

from tausearch.runs import MultiSearchSpec, TrialSummary, TrialTable
from tausearch.studies.study import SearchStudy
from tausearch.studies.study_mirror import StudyMirror


class MultiStudyMirror(StudyMirror):
    """Writes the study file anew whenever a trial ends, as this changes the values of all; see `StudyMirror`."""

    def __init__(self, file: Path, spec: MultiSearchSpec, trials: TrialTable) -> None:
        super().__init__(file, spec.name, SearchStudy(spec).as_optuna)
        self.trials = trials

    def trial_changed(self, trial: TrialSummary) -> None:
        """Write all trials if the trial has ended."""
        if trial.status != "running":
            self.conclude()

    def conclude(self) -> None:
        """Write all trials that have ended."""
        self._study, self.history = None, sorted(self.trials, key=lambda trial: trial.number)
        self._write([])
