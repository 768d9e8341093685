"""The record of a run, and what callbacks and trackers are told of it, while it is driven and at its end."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable

from tausearch.execution.announcer import Announcer
from tausearch.execution.gauges import Gauges
from tausearch.execution.interrupt import Interrupt
from tausearch.execution.run import Run
from tausearch.runs import Record, RunDirectory, RunResult, RunSpec, TrialSummary, at_rest, note_stopped
from tausearch.studies import TrialListener
from tausearch.tracking import Deliveries, MlflowCallback, RunEnded, tracking_uri_of
from trainables.methods import get_method

URGENT_SECONDS = 8.0  # bound on each wait for trackers and callbacks after a scheduler's signal, at most two
LOST_SECONDS = 5.0  # the same once the storage has failed, on which MLflow's store may be


class Recorder:
    """Writes a run to its record, and concludes it; it is the first listener of the run.

    `parent` is the recorder of the search that a re-evaluation belongs to.
    """

    def __init__(self, run: Run, deliveries: Deliveries, parent: Recorder | None = None) -> None:
        self.run = run
        self.record = record_of(run.tune_trials.spec, run.directory)
        for trial in run.tune_trials.stop_overdue():
            self.record.write(trial)
        self._compact(trial.number for trial in run.tune_trials.trials)  # what a killed driver has left
        self.deliveries = deliveries
        begins_first = None if parent is None else parent.announcer
        self.announcer: Announcer = Announcer(run, deliveries.of(run.spec), begins_first)

    @property
    def listeners(self) -> list[TrialListener]:
        """The listeners of every change of a trial, in order."""
        return [self, self.announcer, *self.run.own_listeners, Gauges(self.run.spec, self.run.trials)]

    def trial_changed(self, trial: TrialSummary) -> None:
        """Replace the trial's file in the record, and compact its block once all trials of it have ended."""
        if not self.announcer.has_begun:  # until now, the run could be refused and stay as it was
            note_stopped(self.run.directory, None)
        self.record.write(trial)
        if trial.has_ended:
            self._compact([trial.number])

    def abandon(self) -> None:
        """End a run whose storage has failed: nothing can be written, and the run can be continued."""
        self.announcer.end(RunEnded(self.run.info, stopped=True))
        self._finish_mlflow(LOST_SECONDS)

    def conclude(self, interrupt: Interrupt) -> RunResult:
        """Write the results of the run, tell callbacks and trackers, and wait until MLflow has them.

        Returns:
            All trials as the record has them.
        """
        trials = self.run.tune_trials.as_trials(self.record.trials())
        over = self.run.is_over(trials)
        interrupted = interrupt.requested and not over
        out_of_time = interrupt.out_of_time and not over and not interrupted
        if interrupted:
            note_stopped(self.run.directory, "closed output" if interrupt.signal == signal.SIGPIPE else "interrupted")
        else:
            note_stopped(self.run.directory, "time budget" if out_of_time else None)
        self.announcer.begin()
        conclusion = self.run.conclude(trials)
        self.announcer.end(
            RunEnded(
                self.run.info,
                stopped=not over,
                trials=tuple(trials),
                chosen=conclusion.chosen,
                metrics=conclusion.metrics,
                files=conclusion.files,
                notes=conclusion.notes,
            )
        )
        return RunResult(
            name=self.run.directory.name,
            path=self.run.directory.path,
            trials=at_rest(trials),
            signal=interrupt.signal if interrupted else None,
            out_of_time=out_of_time,
            over=over,
            log_file=self.run.directory.log_file,
            tracking_uri=tracking_uri_of(self.run.spec, self.run.storage),
            tracking_error=self._finish_mlflow(URGENT_SECONDS if interrupt.urgent else math.inf),
        )

    def _compact(self, numbers: Iterable[int]) -> None:
        trials = self.run.tune_trials.trials
        self.record.compact(numbers, lambda number: (trial := trials.get(number)) is not None and trial.has_ended)

    def _finish_mlflow(self, longest: float) -> str | None:
        """Wait until MLflow has the run, if it is tracked there; returns why MLflow lacks something."""
        if "mlflow" not in self.run.spec.trackers:
            return None
        delivery = self.deliveries.tracker("mlflow")
        delivery.flush(longest)
        assert isinstance(delivery.callback, MlflowCallback)
        return delivery.error or delivery.callback.finish(self.run.spec, longest)


def record_of(spec: RunSpec, directory: RunDirectory) -> Record:
    """Return the record of a run, for writing: its files have the columns of all metrics that its trials report."""
    return Record(
        directory.record,
        {
            "run": spec.run_name,
            "benchmark": spec.benchmark,
            "method": spec.method,
            "gpus_per_trial": float(spec.resources.gpus_per_trial),
            "precision": spec.protocol.precision,
        },
        tasks=spec.protocol.tasks,
        metric_names=spec.metrics,
        extra=[
            *(metric.name for metric in get_method(spec.method).metrics),
            *(spec.metrics.removability if spec.removability else ()),
        ],
        texts=[name for name, dimension in spec.dimensions.items() if not dimension.numbers],
        extra_columns=spec.extra_columns,
    )
