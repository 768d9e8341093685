"""Tell callbacks and trackers what happens in a run."""

from __future__ import annotations

from collections.abc import Sequence

from tausearch.execution.run import Run
from tausearch.runs import TrialSummary
from tausearch.tracking import Delivery, Event, RunEnded, replayed_events, trial_events


class Announcer:
    """A `TrialListener` that turns the changes of a run's trials into events.

    `parent` is the announcer of the search that a re-evaluation belongs to, which begins first.

    Attributes:
        has_begun: Whether it has told that the run begins.
    """

    def __init__(self, run: Run, deliveries: Sequence[Delivery], parent: Announcer | None = None) -> None:
        self.run = run
        self.deliveries = deliveries
        self.parent = parent
        self._last_sent = {trial.number: trial for trial in run.trials}
        self.has_begun = False
        run.announce = self.send

    def begin(self) -> None:
        """Tell that the run begins, and the trials of earlier drivers, once."""
        if self.has_begun:
            return
        self.has_begun = True
        if self.parent is not None:
            self.parent.begin()
        for event in replayed_events(self.run.info, list(self._last_sent.values())):
            self.send(event)

    def trial_changed(self, trial: TrialSummary) -> None:
        """Tell what has changed in a trial."""
        self.begin()
        for event in trial_events(self.run.info, trial, self._last_sent.get(trial.number)):
            self.send(event)
        self._last_sent[trial.number] = trial

    def end(self, event: RunEnded) -> None:
        """Tell that the run ends."""
        self.begin()
        self.send(event)

    def send(self, event: Event) -> None:
        """Tell an event to all."""
        for each in self.deliveries:
            each.send(event)
