"""Drive a run from its specification to its end: what searches and final runs share around the trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from ray.tune import Trainable

from search_spaces import Scalar
from tausearch.algorithms import TrialSource
from tausearch.cluster import at_once, local_cpus, ray_session
from tausearch.cluster_head import head_watched
from tausearch.files import RunDirectory, Storage, command_on
from tausearch.interrupt import Interrupt, interruptible
from tausearch.observer import Listener, RecordListener
from tausearch.preflight import require_fit_nodes
from tausearch.progress import ProgressDisplay
from tausearch.quiet import Stream, chatter_to
from tausearch.record import Record, TrialSummary, at_rest
from tausearch.runner import run_trials
from tausearch.spec import RunSpec
from tausearch.tracking import Tracker
from tausearch.watch import StorageError, StorageWatch
from trainables.config import TrialConfig
from trainables.data import BenchmarkRef
from trainables.trial import Trial


@dataclass(frozen=True)
class Conclusion:
    """What a run came to.

    Attributes:
        chosen: The trial to tag as chosen.
        metrics: For the parent run in MLflow.
        files: For the parent run in MLflow.
        set_run_id: Called with the MLflow run id of the chosen trial, before the files are logged.
    """

    chosen: TrialSummary | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    set_run_id: Callable[[str], None] | None = None


@dataclass(frozen=True)
class RunResult:
    """How a run went.

    Attributes:
        name: Of the run.
        path: Its run directory.
        trials: All trials, ordered by number.
        interrupted: Whether Ctrl-C ended it before its last trial.
        out_of_time: Whether its time budget did.
        log_file: Where libraries' output went.
        tracking_uri: Where MLflow has it.
        tracking_error: Why MLflow could not be written, if so.
    """

    name: str
    path: Path
    trials: list[TrialSummary]
    interrupted: bool
    out_of_time: bool
    log_file: Path
    tracking_uri: str
    tracking_error: str | None


def drive(
    spec: RunSpec,
    storage: Storage,
    directory: RunDirectory,
    source: TrialSource,
    make_config: Callable[[int, dict[str, Scalar]], TrialConfig],
    conclude: Callable[[list[TrialSummary]], Conclusion],
    *,
    address: str | None,
    history: Sequence[TrialSummary] = (),
    listeners: Sequence[Listener] = (),
    time_budget: float | None = None,
    progress_to: Stream = "stdout",
    trainable: type[Trainable] = Trial,
) -> RunResult:
    """Run all trials of a run and conclude it, with progress on the screen and everything else in the log file.

    The caller holds the run's `driver_lock`, so that what it has read of the run is still so.

    Args:
        spec: What was asked for; saved already.
        storage: Its root.
        directory: Its run directory, which exists.
        source: Where trials come from.
        make_config: Number and hyperparameters to the config of a trial.
        conclude: Called once with all trials, also after Ctrl-C: writes what the run leaves behind.
        address: Of a running Ray cluster, or None.
        history: Trials that the record has already, when a run is continued.
        listeners: Told of every change after the record, before MLflow and the display.
        time_budget: Seconds after which the run is stopped; what is left can be continued.
        progress_to: Where a person sees progress: "stdout", or "stderr" where stdout is for a program.
        trainable: What a trial runs; another one measures the platform alone.

    Returns:
        All trials as the record has them.

    Raises:
        InputError: If the cluster cannot run it.
        StorageError: If the storage became full or went away; the run can be continued.
        OSError: If something else could not be read or written.
    """
    constants = {"run": spec.name, "benchmark": spec.benchmark, "method": spec.method}
    record = Record(directory.record, constants, tasks=spec.protocol.tasks, prefix=spec.prefix)
    with ExitStack() as stack:
        interrupt = stack.enter_context(interruptible(time_budget))
        screen = stack.enter_context(chatter_to(directory.log_file, progress_to))
        progress = stack.enter_context(ProgressDisplay(spec, screen))
        progress.say(_headline(spec, directory, len(history), on_cluster=address is not None))
        tracker = Tracker(spec, storage, spec.tracking_uri)
        progress.know(history)
        watch = StorageWatch(directory)
        resume = command_on("resume", spec.name, storage.root)
        everyone = [RecordListener(record), *listeners, tracker, progress]

        def run(on_step: Callable[[], None]) -> None:
            run_trials(spec, directory, source, make_config, everyone, history, on_step, watch, trainable)

        with head_watched(address, progress.say, resume) if address else nullcontext():
            _run_on_ray(spec, directory, address, interrupt, watch, run)
        interrupt.protected = True
        if watch.problem is not None:
            tracker.close("KILLED", Conclusion(), longest=5.0)  # its store may lie on the same disk
            raise StorageError(f"{watch.problem}; mend that, then: {resume}")
        trials = record.trials()
        ended = sum(trial.status != "running" for trial in trials) == spec.trials
        interrupted = interrupt.requested and not ended
        out_of_time = interrupt.out_of_time and not ended and not interrupted
        for trial in trials:
            tracker.trial_changed(trial)  # also those that an earlier driver could not write
        tracker.close("KILLED" if interrupted or out_of_time else "FINISHED", conclude(trials))
    return RunResult(
        name=directory.name,
        path=directory.path,
        trials=at_rest(trials),
        interrupted=interrupted,
        out_of_time=out_of_time,
        log_file=directory.log_file,
        tracking_uri=tracker.uri,
        tracking_error=tracker.error,
    )


def _run_on_ray(
    spec: RunSpec,
    directory: RunDirectory,
    address: str | None,
    interrupt: Interrupt,
    watch: StorageWatch,
    run: Callable[[Callable[[], None]], None],
) -> None:
    """Start or join Ray and call `run`, until it ends or a person, the time budget or the storage stops it.

    Afterwards `interrupt` and `watch` know which. `run` is given what to call whenever Tune goes round its event loop.

    Raises:
        InputError: If the cluster cannot run it.
        OSError: If something could not be read or written and the storage is not why.
    """

    def on_step() -> None:
        if watch.look():
            interrupt.stop()
        interrupt.stop_tune()

    try:
        with ray_session(spec.resources, address):
            interrupt.check()
            if address is not None:
                require_fit_nodes(spec.resources, directory.path, _read_by_trials(spec))
                interrupt.check()
            run(on_step)
    except KeyboardInterrupt:
        interrupt.requested = interrupt.requested or not interrupt.must_stop
    except OSError as error:
        if not watch.failed(error):
            raise


def _read_by_trials(spec: RunSpec) -> list[str]:
    """Return the files and folders outside the storage that trials read, where there are any."""
    paths = (spec.protocol.weights, spec.data_root, BenchmarkRef.parse(spec.benchmark).path)
    return [path for path in paths if path is not None]


def _headline(spec: RunSpec, directory: RunDirectory, known: int, *, on_cluster: bool) -> str:
    what = f"{spec.trials} trials" if spec.purpose == "search" else f"seeds {' '.join(map(str, spec.seeds))}"
    how = f", chosen by {spec.algorithm}" if spec.purpose == "search" else ""
    if on_cluster and spec.resources.concurrent is None:
        number = "as many as the cluster fits"
    else:
        number = str(min(at_once(spec, local_cpus(), torch.cuda.device_count()), spec.trials))
    continued = f" (continued: {known} have started)" if known else ""
    return (
        f"{spec.purpose} {spec.name}: {spec.method} on {spec.benchmark}, {what}, {number} at a time{how}{continued}\n"
        f"log of Ray, Optuna and MLflow: {directory.log_file}"
    )
