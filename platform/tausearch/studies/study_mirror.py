"""The Optuna study of a search as a file for optuna-dashboard. The tool itself does not read it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from tausearch.runs import MultiSearchSpec, TrialSummary, TrialTable
from tausearch.studies.study import SearchStudy

_log = logging.getLogger(__name__)


class StudyMirror:
    """Writes every trial that has ended to the study file. A failure is logged and stops nothing.

    Each driver makes the file anew, so a continued search has each trial once. In the file, trials are in the order in
    which they ended; the attribute `trial` is the number in the search. `history` are the trials so far, when a search
    is continued.
    """

    def __init__(self, file: Path, study: SearchStudy, history: Sequence[TrialSummary] = ()) -> None:
        self.file = file
        self.study = study
        self.history = history
        self._study: optuna.Study | None = None
        self._failed = False

    def trial_changed(self, trial: TrialSummary) -> None:
        """Add the trial to the study file if it has ended.

        A continued search makes the file anew at its first end: thousands of trials take seconds, and its first task
        need not wait for them.
        """
        if trial.status != "running":
            self._write(trial)
        elif not self.history:
            self._write()

    def conclude(self) -> None:
        """Complete the file if an earlier driver died when the last trial ended."""
        self._write()

    def _write(self, *ended: TrialSummary) -> None:
        """Make the file if this driver has not, and add trials that have ended."""
        if self._failed:
            return
        try:
            self._study = self._study or self._create()
            for trial in ended:
                self._add(self._study, trial)
        except Exception as error:  # Optuna raises many kinds, such as for a full disk or a held lock
            self._failed = True
            _log.warning("%s is no longer written: %s", self.file, error)

    def _create(self) -> optuna.Study:
        self.file.unlink(missing_ok=True)
        Path(f"{self.file}.lock").unlink(missing_ok=True)  # left by a killed driver; only one driver runs at a time
        storage = JournalStorage(JournalFileBackend(str(self.file)))
        directions = self.study.optuna.directions
        study = optuna.create_study(study_name=self.study.spec.name, directions=directions, storage=storage)
        for trial in self.history:
            if trial.status != "running":
                self._add(study, trial)
        return study

    def _add(self, study: optuna.Study, trial: TrialSummary) -> None:
        frozen = self.study.as_optuna(trial)
        frozen.datetime_complete = datetime.now()
        frozen.datetime_start = frozen.datetime_complete - timedelta(seconds=trial.seconds)
        frozen.set_user_attr("trial", trial.number)
        frozen.set_user_attr("status", trial.status)
        study.add_trial(frozen)


class MultiStudyMirror(StudyMirror):
    """Writes the study file anew whenever a trial ends, as this changes the values of all; see `StudyMirror`."""

    def __init__(self, file: Path, spec: MultiSearchSpec, trials: TrialTable) -> None:
        super().__init__(file, SearchStudy(spec))
        self.trials = trials

    def trial_changed(self, trial: TrialSummary) -> None:
        """Write all trials if the trial has ended."""
        if trial.status != "running":
            self.conclude()

    def conclude(self) -> None:
        """Write all trials that have ended."""
        self._study, self.history = None, sorted(self.trials, key=lambda trial: trial.number)
        self._write()
