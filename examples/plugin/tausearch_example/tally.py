"""A callback that counts how the trials of each run end, and prints the counts into the log file of the run."""

from __future__ import annotations

from collections import Counter

import tausearch


class Tally:
    """Counts each trial once, also where it is told again after a kill."""

    def __init__(self) -> None:
        self.ended: dict[tuple[str, str, int], str] = {}

    def on_event(self, event: tausearch.Event) -> None:
        """Note how a trial ended; print the counts when the run ends."""
        if isinstance(event, tausearch.TrialEnded):
            self.ended[event.run.id, event.run.kind, event.trial.number] = event.trial.status
        elif isinstance(event, tausearch.RunEnded):
            run = event.run.id, event.run.kind
            counts = Counter(status for (*of, _), status in self.ended.items() if tuple(of) == run)
            print(f"tally of {event.run.name}: {dict(counts)}", flush=True)
