"""What hears of the changes of a run's trials."""

from __future__ import annotations

from typing import Protocol

from tausearch.runs import TrialSummary


class TrialListener(Protocol):
    """Receives the changes of trials, in order, in the driver's thread. It must return at once.

    A `tracking.Callback` hears of events in a thread of its own.
    """

    def trial_changed(self, trial: TrialSummary) -> None:
        """Note a trial that started, finished a task, or ended. `trial` may be kept and must not be changed."""
