"""Drive runs from start to end: the engine that searches, final runs and campaigns share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, NoReturn, TextIO, TypeVar

import psutil
from ray.tune import Trainable

from checked_input.names import counted
from tausearch.cluster import (
    cluster_capacity,
    cluster_summary,
    head_watched,
    nodes_checked,
    nodes_watched,
    ray_session,
    raylet_watched,
)
from tausearch.execution.concurrency import concurrent_trials_here, known_concurrent_trials
from tausearch.execution.dispatcher import Dispatcher
from tausearch.execution.interrupt import Interrupt, interruptible
from tausearch.execution.previews import preview_spec
from tausearch.execution.queue import RunQueue, RunSource, SingleRun
from tausearch.execution.run import Epochs, Run
from tausearch.execution.storage_watch import StorageWatch
from tausearch.execution.tune_adapters import run_on_tune
from tausearch.presentation import LiveDisplay, ProgressDisplay, Stream, output_to, resume_command, stopped_words
from tausearch.runs import (
    DrivenDirectory,
    FinalSpec,
    PartsSpec,
    Resources,
    RunError,
    RunResult,
    RunSpec,
    SearchSpec,
    StorageError,
    parts_of,
)
from tausearch.studies import TrialListener
from tausearch.tracking import Callback
from trainables.data import BenchmarkRef
from trainables.errors import InputError
from trainables.trial import TrialTrainable

_LOOK_SECONDS = 0.5  # between two looks at signals and the time budget, while nodes are checked
_NO_RAYLET = "stopped: Ray's own process on this machine (raylet) was killed or has died"

Display = TypeVar("Display", bound=LiveDisplay)


@dataclass
class Session(Generic[Display]):
    """The signals, the watch over the storage, and the display of a driver.

    Attributes:
        begun: Whether trials may start, so that the driver is not refused any more.
    """

    interrupt: Interrupt
    watch: StorageWatch
    display: Display
    begun: bool = False


@dataclass(frozen=True, kw_only=True)
class Driver:
    """How one process drives its runs.

    Attributes:
        home: The folder of the driver: a run directory, or that of a campaign.
        resources: What a trial gets, of each kind of trials.
        read: Files and folders outside the storage that trials read.
        resume_command: The command that continues the runs.
        address: Address of a running Ray cluster; None to start Ray here.
        time_budget: Seconds after which the driver stops; the runs can be continued.
        max_concurrent_trials: Trials at a time, of all runs together; None for as many as fit.
        processes: The most trials that run at a time on this machine.
        trainable: The class that Tune runs; another one measures the platform alone.
        progress_to: The stream on which people see progress.
    """

    home: DrivenDirectory
    resources: Sequence[Resources]
    read: Sequence[str]
    resume_command: str
    address: str | None = None
    time_budget: float | None = None
    max_concurrent_trials: int | None = None
    processes: int = 0
    trainable: type[Trainable] = TrialTrainable
    progress_to: Stream = "stdout"

    @contextmanager
    def session(self, display: Callable[[TextIO], Display]) -> Iterator[Session[Display]]:
        """Listen to signals, send the output of Ray, Optuna and MLflow to the log file, and show the display."""
        session: Session[Display] | None = None
        with ExitStack() as stack:
            stack.enter_context(_gc_frozen())
            stack.enter_context(_log_unless_refused(self.home.log_file, lambda: session is not None and session.begun))
            interrupt = stack.enter_context(interruptible(self.time_budget))
            closed = partial(interrupt.note, signal.SIGPIPE)
            screen = stack.enter_context(output_to(self.home.log_file, self.progress_to, closed))
            shown = display(screen)
            stack.enter_context(shown)
            session = Session(interrupt, StorageWatch(self.home), shown)
            yield session

    def run(self, queue: RunQueue, session: Session[Any]) -> None:
        """Run all trials of a queue on Ray until they end or are stopped, then conclude the runs.

        Afterwards no signal ends this process any more.

        Raises:
            InputError: If the cluster cannot run the trials.
            StorageError: If the storage became full or went away; the runs can be continued.
            OSError: If something else could not be read or written.
        """
        try:
            with self._until_stopped(session):
                self._run_on_ray(queue, session)
        except InputError as error:
            queue.release(error)
            raise
        except BaseException:
            queue.close()
            raise
        self.conclude(queue, session)

    def conclude(self, queue: RunQueue, session: Session[Any]) -> None:
        """Conclude the runs of a queue.

        Raises:
            StorageError: If the storage became full or went away; the runs can be continued.
        """
        session.interrupt.protected = True
        in_mlflow = queue.deliveries.has("mlflow")
        session.display.enter(
            f"writing {'results, figures, and what MLflow lacks' if in_mlflow else 'results and figures'}"
        )
        queue.close()
        if session.watch.problem is not None:
            raise StorageError(f"{session.watch.problem}; mend that, then: {self.resume_command}")

    @contextmanager
    def _until_stopped(self, session: Session[Any]) -> Iterator[None]:
        """Note in the session what stops the block."""
        interrupt, watch, display = session.interrupt, session.watch, session.display
        display.show_stopping(partial(_why_stopping, interrupt))
        with ExitStack() as stack:
            if self.address is not None:
                stack.enter_context(head_watched(self.address, display.say, self.resume_command))
            stack.enter_context(interrupt.not_stuck(lambda: self._exit_stuck(session)))
            try:
                yield
            except KeyboardInterrupt:
                if not interrupt.must_stop:
                    interrupt.note(signal.SIGINT)
            except SystemExit:  # while Ray starts, its handler turns SIGTERM into this
                interrupt.note(signal.SIGTERM)
            except OSError as error:
                if not watch.is_storage_error(error):
                    raise
        display.show_stopping(lambda: None)

    def _exit_now(self, session: Session[Any], why: str, code: int) -> NoReturn:
        """End this process and Ray's processes at once, because Ray blocks an orderly end. The record is complete."""
        session.display.say(f"{why}; nothing that was finished is lost; continue with: {self.resume_command}")
        for child in psutil.Process().children(recursive=True):  # some of Ray's processes would live another minute
            with suppress(psutil.NoSuchProcess):
                child.kill()
        os._exit(code)

    def _exit_stuck(self, session: Session[Any]) -> NoReturn:
        number = session.interrupt.signal or signal.SIGTERM
        self._exit_now(session, f"{stopped_words(number)}; Ray did not answer", 128 + number)

    def _run_on_ray(self, queue: RunQueue, session: Session[Any]) -> None:
        """Start or join Ray and run all trials of a queue on it, until they end or are stopped."""
        interrupt, watch, display = session.interrupt, session.watch, session.display

        def exit_at_start(number: int) -> None:
            if number != signal.SIGTERM and not interrupt.alone:
                return  # the process is that of a caller in Python, with work of its own
            self._exit_now(session, f"{stopped_words(number)} while Ray started", 128 + number)

        def exit_without_raylet() -> NoReturn:
            if interrupt.urgent:
                self._exit_stuck(session)
            self._exit_now(session, _NO_RAYLET, 1)

        display.enter(_joining_line(self.address))
        interrupt.check()
        with ExitStack() as stack:
            stack.callback(interrupt.listen)  # as it ends, Ray gives SIGTERM back to the system, and Python is not told
            with interrupt.at_once(exit_at_start):
                start = partial(ray_session, processes=self.processes, say=display.say, check=interrupt.check)
                stack.enter_context(start(self.resources, self.address))
            if self.address is None:
                stack.enter_context(raylet_watched(exit_without_raylet))
            interrupt.listen()
            interrupt.check()
            require_fit = stack.enter_context(self._nodes_checked(display))

            def on_step() -> None:
                require_fit(0.0)
                if watch.look():
                    interrupt.stopped = True
                interrupt.stop_tune()

            def before_first() -> None:
                interrupt.check()
                while not require_fit(_LOOK_SECONDS):
                    interrupt.check()
                interrupt.check()
                session.begun = True

            own_ray = self.address is None
            dispatcher = Dispatcher(queue, cluster_capacity, self.max_concurrent_trials, own_ray=own_ray)
            tune = partial(run_on_tune, before_first=before_first, own_ray=own_ray)
            tune(dispatcher, self.home, self.trainable, on_step, watch)

    @contextmanager
    def _nodes_checked(self, display: LiveDisplay) -> Iterator[Callable[[float], bool]]:
        """Say that processes start; on a cluster, check and watch its nodes. Yields `NodeCheck.require_fit`."""
        starting = "starting the processes of trials, each of which imports torch"
        if self.address is None:
            display.enter(f"Ray runs; {starting}")
            yield lambda seconds: True
            return
        display.enter(f"{cluster_summary()}; looking at each of them, and {starting}")
        with (
            nodes_checked(self.resources, self.home, self.read, display.say) as check,
            nodes_watched(display.say),
        ):
            yield check.require_fit


@dataclass(frozen=True, kw_only=True)
class DriveOptions:
    """How `drive` runs a single run; see `Driver` for the other attributes.

    Attributes:
        callbacks: They are told what happens.
        resume_options: Options of the command that continues the run.
    """

    time_budget: float | None = None
    progress_to: Stream = "stdout"
    callbacks: Sequence[Callback] = ()
    resume_options: str = ""
    trainable: type[Trainable] = TrialTrainable


def drive(run: Run, options: DriveOptions | None = None) -> RunResult:
    """Run all trials of a single run and conclude it.

    The caller holds the run's `driver_lock`, so that no other process has changed the run since it was read. The runs
    that follow it (`Run.next_run`) use the same Ray.

    Returns:
        All trials as the record has them. What stopped a run that follows is noted as if it had stopped this one.

    Raises:
        InputError: If the cluster cannot run the trials.
        RunError: If code of the user, such as a sampler, failed after the run had begun; it can be continued.
        StorageError: If the storage became full or went away; the run can be continued.
        OSError: If something else could not be read or written.
    """
    spec, options = run.spec, options or DriveOptions()
    driver = Driver(
        home=run.directory,
        resources=[spec.resources],
        read=read_by_trials(spec),
        resume_command=resume_command(spec.name, run.storage.root, spec.code, options.resume_options),
        address=spec.address,
        time_budget=options.time_budget,
        max_concurrent_trials=spec.resources.max_concurrent_trials,
        processes=_processes(run),
        trainable=options.trainable,
        progress_to=options.progress_to,
    )
    with driver.session(lambda screen: ProgressDisplay(spec, run.trials, screen, Epochs(run.directory))) as session:
        display, over = session.display, run.is_over(list(run.trials))

        def listeners_for(source: RunSource, opened: Run) -> list[TrialListener]:
            if opened is not run and opened.spec.role != "reevaluation":
                display.say(_headline(opened, on_cluster=spec.address is not None))
            display.show_run(opened.spec, opened.trials, Epochs(opened.directory))
            return [display]

        display.say(_headline(run, on_cluster=spec.address is not None))
        display.say(f"log of Ray, Optuna and MLflow: {run.directory.log_file}")
        if not over:
            known = preview_spec(spec, run.storage, spec.address, run.trials)
            for line in known.lines(estimate=not run.time_said):
                display.say(line)
        source, interrupt = SingleRun(run, display.say), session.interrupt
        queue = RunQueue([source], interrupt, session.watch, display.say, listeners_for, options.callbacks)
        queue.open_first()  # while Ray starts, the tracker imports MLflow
        try:
            source.check()
        except BaseException:
            queue.close()  # ends its thread
            raise
        if over:
            display.say("all trials have ended: none is run, and the results are written again")
        if queue.conclude_finished():
            driver.run(queue, session)
        else:
            driver.conclude(queue, session)
        try:
            source.check()
        except InputError as error:
            if not queue.results or not queue.has_failed_run:
                raise  # nothing had begun, or what follows cannot be opened
            raise RunError(f"{error}; what has ended is kept, and this goes on: {driver.resume_command}") from error
        left = spec.with_bounds and not source.exhausted
        return _result(run, queue.results, interrupt if left else None)


def _processes(run: Run) -> int:
    """Return how many trials, or parts of trials, will run at a time on this machine."""
    left = run.spec.trials - sum(trial.has_ended for trial in run.trials)
    parts = parts_of(run.spec)
    return min(concurrent_trials_here(run.spec), left * (1 if parts is None else parts.count))


def _result(run: Run, results: Sequence[RunResult], interrupt: Interrupt | None) -> RunResult:
    """Return the result of a run, with what stopped it or a follower; `interrupt` if a follower was not opened."""
    result = next(each for each in results if each.path == run.directory.path)
    stopped = next((each for each in results if each.interrupted or each.out_of_time), None)
    errors = [each.tracking_error for each in (result, *results) if each.tracking_error]
    if stopped is not None:
        result = replace(result, signal=stopped.signal, out_of_time=stopped.out_of_time)
    elif interrupt is not None:
        result = replace(result, signal=interrupt.signal, out_of_time=interrupt.out_of_time)
    return replace(result, tracking_error=errors[0] if errors else None)


@contextmanager
def _log_unless_refused(log_file: Path, begun: Callable[[], bool]) -> Iterator[None]:
    """Take back what the block has added to the log file if it is refused before anything has begun."""
    size = log_file.stat().st_size if log_file.exists() else None
    try:
        yield
    except InputError:
        if not begun() and size is None:
            log_file.unlink(missing_ok=True)
        elif not begun() and size is not None:
            os.truncate(log_file, size)
        raise


@contextmanager
def _gc_frozen() -> Iterator[None]:
    """Have the garbage collector leave the objects alone that live now, hundreds of thousands, while the block runs.

    Afterwards it looks at them again. Python has one such set of objects; if the caller uses it, it stays as it is.
    """
    used = gc.get_freeze_count() > 0
    if not used:
        gc.freeze()
    try:
        yield
    finally:
        if not used:
            gc.unfreeze()


def _joining_line(address: str | None) -> str:
    if address is None:
        return "starting Ray on this machine"
    return f"joining the Ray that runs {'on this machine' if address == 'auto' else f'at {address}'}"


def _why_stopping(interrupt: Interrupt) -> str | None:
    """Return why running trials are being stopped; None if they are not."""
    if interrupt.signal is not None:
        why = f"on {signal.Signals(interrupt.signal).name}" if interrupt.urgent else "on Ctrl-C"
    elif interrupt.out_of_time:
        why = "as the time budget is used up"
    else:
        return None
    return f"stopping {why}: trials under way can be continued after their last finished task"


def read_by_trials(spec: RunSpec) -> list[str]:
    """Return the files and folders outside the storage root that trials read."""
    units = parts_of(spec) or spec
    paths = [spec.protocol.backbone_weights, spec.protocol.initial_head]
    for number in range(units.count if isinstance(units, PartsSpec) else 1):
        paths += [units.data_root_of(number), BenchmarkRef.parse(units.benchmark_of(number)).path]
    return [path for path in dict.fromkeys(paths) if path is not None]


def _n_started(run: Run) -> int:
    """Return how many trials have started, without seeds that only have the tasks taken over from another run."""
    retrained = run.spec.retrained if isinstance(run.spec, FinalSpec) else None
    kept = 0 if retrained is None else retrained.kept
    return sum(trial.has_ended or not kept or trial.tasks_done > kept for trial in run.trials)


def _headline(run: Run, *, on_cluster: bool) -> str:
    spec, known = run.spec, _n_started(run)
    number = known_concurrent_trials(spec, on_cluster=on_cluster) or "as many as the cluster fits"
    algorithm = f", algorithm {spec.algorithm}" if isinstance(spec, SearchSpec) else ""
    if isinstance(spec, SearchSpec) and spec.scheduler != "none":
        algorithm += f", scheduler {spec.scheduler}"
    continued = f" (continued: {known} have started)" if known else ""
    device = f", on {spec.device}" if spec.device else ""
    trials = counted(spec.trials, "trial")
    if parts_of(spec) is not None:
        number = counted(number, "part") if isinstance(number, int) else f"{number} parts"
    if isinstance(spec, FinalSpec):
        orders = spec.protocol.orders_text
        each = orders and f" with each of the {orders}"
        trials = f"seeds {' '.join(map(str, spec.seeds))}{each}"
    return (
        f"{spec.purpose} {spec.name}: {spec.method} on {spec.benchmark}, {trials}, {number} at a time,"
        f" {counted(spec.steps, spec.step_noun)} each{algorithm}{device}{continued}"
    )
