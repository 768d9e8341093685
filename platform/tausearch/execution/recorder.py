"""Record and MLflow of a run, while it is driven and at its end."""

from __future__ import annotations

import math

from tausearch.execution.gauges import Gauges
from tausearch.execution.interrupt import Interrupt
from tausearch.execution.run import Listener, Run
from tausearch.presentation import draw_trial
from tausearch.runs import Conclusion, Record, RunDirectory, RunResult, RunSpec, TrialSummary, at_rest
from tausearch.tracking import Tracker
from trainables.methods import get_method

URGENT_SECONDS = 8.0  # bound on each wait for MLflow after SIGTERM, at most two; `sync` adds what is missing


class Recorder:
    """Writes a run to its record and to MLflow; it is the first listener of the run.

    Args:
        run: The run.
        after: The recorder of the search that a re-evaluation belongs to.
    """

    def __init__(self, run: Run, after: Recorder | None = None) -> None:
        self.run = run
        self.record = record_of(run.spec, run.directory)
        before = None if after is None else after.tracker
        self.tracker: Tracker = Tracker(run.spec, run.trials, run.storage, run.spec.tracking_uri, before, draw_trial)

    @property
    def listeners(self) -> list[Listener]:
        """The listeners of every change of a trial, in order."""
        return [self, *self.run.callbacks, self.tracker, Gauges(self.run.spec, self.run.trials)]

    def trial_changed(self, trial: TrialSummary) -> None:
        """Replace the trial's file in the record."""
        self.record.write(trial)

    def abandon(self) -> None:
        """End a run whose storage has failed: nothing can be written, and the run can be continued."""
        self.tracker.close("KILLED", Conclusion(), longest=5.0)  # its store may be on the same disk

    def conclude(self, interrupt: Interrupt) -> RunResult:
        """Write the results of the run, and wait until MLflow has them.

        Returns:
            All trials as the record has them.
        """
        tracker = self.tracker
        trials = self.record.trials()
        ended = self.run.is_over(trials)
        interrupted = interrupt.requested and not ended
        out_of_time = interrupt.out_of_time and not ended and not interrupted
        for trial in trials:
            tracker.trial_changed(trial)  # an earlier driver may have failed to write some
        longest = URGENT_SECONDS if interrupt.urgent else math.inf
        conclusion = self.run.conclude(trials, lambda: tracker.settle(longest))
        tracker.close("KILLED" if interrupted or out_of_time else "FINISHED", conclusion, longest)
        return RunResult(
            name=self.run.directory.name,
            path=self.run.directory.path,
            trials=at_rest(trials),
            signal=interrupt.signal if interrupted else None,
            out_of_time=out_of_time,
            log_file=self.run.directory.log_file,
            tracking_uri=tracker.uri,
            tracking_error=tracker.error,
        )


def record_of(spec: RunSpec, directory: RunDirectory) -> Record:
    """Return the record of a run, for writing: its files have the columns of all metrics that its trials report."""
    return Record(
        directory.record,
        {"run": spec.run_name, "benchmark": spec.benchmark, "method": spec.method},
        tasks=spec.protocol.tasks,
        names=spec.metrics,
        extra=[
            *(metric.name for metric in get_method(spec.method).metrics),
            *(spec.metrics.removability if spec.removability else ()),
        ],
        texts=[name for name, dimension in spec.dimensions.items() if not dimension.numbers],
        about=spec.about,
    )
