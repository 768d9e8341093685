"""Drive runs from their specifications to their ends: what searches, final runs and campaigns share around trials."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial

import psutil
from ray.tune import Trainable

from tausearch.cluster import (
    capacity_here,
    head_watched,
    joined,
    ray_session,
    raylet_watched,
    require_fit_nodes,
    slots_of,
)
from tausearch.execution.checkpoints import ready
from tausearch.execution.dispatcher import Alone, Fleet, Line, OpenRun
from tausearch.execution.interrupt import Interrupt, interruptible
from tausearch.execution.job import Epochs, Job
from tausearch.execution.previews import preview
from tausearch.execution.recorder import Books
from tausearch.execution.storage_watch import StorageWatch
from tausearch.execution.tune_run import run_on_tune
from tausearch.presentation import LiveDisplay, ProgressDisplay, Stream, chatter_to, code_words, command_on, counted
from tausearch.runs import DrivenDirectory, Resources, RunResult, RunSpec, StorageError
from trainables.data import BenchmarkRef
from trainables.trial import Trial


@dataclass(frozen=True)
class Drive:
    """How runs are driven together.

    Attributes:
        home: Where the driver keeps what is its own.
        resources: The most that any trial gets.
        read: Files and folders outside the storage that trials read.
        go_on: The command that continues them.
        address: Of a running Ray cluster, or None.
        concurrent: Trials at a time, of all runs together; None for as many as fit.
        trainable: What a trial runs; another one measures the platform alone.
    """

    home: DrivenDirectory
    resources: Resources
    read: Sequence[str]
    go_on: str
    address: str | None = None
    concurrent: int | None = None
    trainable: type[Trainable] = Trial


def drive(
    job: Job, *, address: str | None = None, time_budget: float | None = None, progress_to: Stream = "stdout"
) -> RunResult:
    """Run all trials of a run and conclude it, with progress on the screen and everything else in the log file.

    The caller holds the run's `driver_lock`, so that what it has read of the run is still so.

    Args:
        job: The run.
        address: Of a running Ray cluster, or None.
        time_budget: Seconds after which the run is stopped; what is left can be continued.
        progress_to: The stream on which a person sees progress: "stdout", or "stderr" where stdout is for a program.

    Returns:
        All trials as the record has them.

    Raises:
        InputError: If the cluster cannot run it.
        StorageError: If the storage became full or went away; the run can be continued.
        OSError: If something else could not be read or written.
    """
    spec, directory = job.spec, job.directory
    with ExitStack() as stack:
        interrupt = stack.enter_context(interruptible(time_budget))
        screen = stack.enter_context(chatter_to(directory.log_file, progress_to))
        progress = stack.enter_context(ProgressDisplay(spec, job.trials, screen, Epochs(directory)))
        progress.say(_headline(job, on_cluster=address is not None))
        over = job.over(list(job.trials))
        for said in () if over else preview(spec, job.storage, address, job.trials).lines():
            progress.say(said)
        books: list[Books] = []

        def opened(job: Job) -> OpenRun:
            for damaged in ready(job.directory, job.trials):
                progress.say(damaged)
            progress.turn_to(job.spec, job.trials, Epochs(job.directory))
            books.append(Books(job, books[0] if books else None))
            return OpenRun(job, [*books[-1].listeners, progress])

        first = opened(job)

        def following() -> OpenRun | None:
            return None if job.follow is None else opened(job.follow())

        how = Drive(
            home=directory,
            resources=spec.resources,
            read=read_by_trials(spec),
            go_on=command_on("resume", spec.name, job.storage.root) + code_words(spec.benchmark),
            address=address,
            concurrent=spec.resources.concurrent,
            trainable=job.trainable,
        )
        watch = StorageWatch(directory)
        if over:
            progress.say("all of it has ended: nothing is run, what it leaves behind is written again")
            following()
            interrupt.protected = True
        else:
            drive_together(Alone(first, following), how, interrupt, watch, progress)
        if watch.problem is not None:
            for each in books:
                each.abandon()
            raise StorageError(f"{watch.problem}; mend that, then: {how.go_on}")
        progress.enter("writing results, figures, and what MLflow lacks")
        # What follows is part of the run, which is concluded last: it has the final say in MLflow.
        results = [each.conclude(interrupt) for each in reversed(books)]
        errors = [each.tracking_error for each in reversed(results) if each.tracking_error]
        return replace(results[-1], tracking_error=errors[0] if errors else None)


def drive_together(line: Line, how: Drive, interrupt: Interrupt, watch: StorageWatch, display: LiveDisplay) -> None:
    """Start or join Ray and run all trials of some runs on it, until they end or something stops them.

    Afterwards `interrupt` and `watch` know what did, and no signal ends this process any more.

    Args:
        line: The runs.
        how: How they are driven.
        interrupt: Listens to signals, and knows the time budget.
        watch: Looks after the storage.
        display: Shows what is being done.

    Raises:
        InputError: If the cluster cannot run them.
        OSError: If something could not be read or written and the storage is not why.
    """
    fleet = Fleet(line, capacity_here, how.concurrent)
    address = how.address
    display.heed(partial(_why_stopping, interrupt))
    with (
        head_watched(address, display.say, how.go_on) if address else nullcontext(),
        interrupt.not_stuck(partial(_leave_at_once, display.say, _STUCK, how.go_on, 128 + signal.SIGTERM)),
    ):
        _run_on_ray(fleet, how, interrupt, watch, display)
    display.heed(lambda: None)
    interrupt.protected = True


_STUCK = "stopped by SIGTERM; Ray did not answer"
_NO_RAYLET = "stopped: Ray's own process on this machine (raylet) was killed or has died"


def _entrance(address: str | None) -> str:
    if address is None:
        return "starting Ray on this machine"
    return f"joining the Ray that runs {'on this machine' if address == 'auto' else f'at {address}'}"


def _why_stopping(interrupt: Interrupt) -> str | None:
    """Say what stops the trials under way, if something does; they are not waited for."""
    if interrupt.requested:
        why = "on SIGTERM" if interrupt.urgent else "on Ctrl-C"
    elif interrupt.out_of_time:
        why = "as the time budget is used up"
    else:
        return None
    return f"stopping {why}: trials under way can be continued after their last finished task"


def _run_on_ray(fleet: Fleet, how: Drive, interrupt: Interrupt, watch: StorageWatch, display: LiveDisplay) -> None:
    def on_step() -> None:
        if watch.look():
            interrupt.stop()
        interrupt.stop_tune()

    try:
        interrupt.check()
        display.enter(_entrance(how.address))
        left = partial(_leave_without_raylet, interrupt, display.say, how.go_on)
        with ExitStack() as stack:
            with interrupt.at_once(partial(_leave_at_start, display.say, how.go_on)):
                stack.enter_context(ray_session(how.resources, how.address))
            if how.address is None:
                stack.enter_context(raylet_watched(left))
            interrupt.listen()
            interrupt.check()
            if how.address is not None:
                display.enter(f"{joined()}; looking at each of them")
                require_fit_nodes(how.resources, how.home.path, how.read)
                interrupt.check()
            display.enter("Ray runs; starting the processes of trials, each of which imports torch")
            run_on_tune(fleet, how.home, how.trainable, on_step, watch)
    except KeyboardInterrupt:
        if not interrupt.must_stop:
            interrupt.note(signal.SIGINT)
    except SystemExit:  # how Ray, as it starts, takes SIGTERM
        interrupt.note(signal.SIGTERM)
    except OSError as error:
        if not watch.failed(error):
            raise


def _leave_without_raylet(interrupt: Interrupt, say: Callable[[str], None], go_on: str) -> None:
    """End this process: the raylet is gone, with SIGTERM to all processes of the job or for another reason."""
    why, code = (_STUCK, 128 + signal.SIGTERM) if interrupt.urgent else (_NO_RAYLET, 1)
    _leave_at_once(say, why, go_on, code)


def _leave_at_start(say: Callable[[str], None], go_on: str, number: int) -> None:
    """End this process while Ray starts."""
    why = "interrupted" if number == signal.SIGINT else "stopped by SIGTERM"
    _leave_at_once(say, f"{why} while Ray started", go_on, 128 + number)


def _leave_at_once(say: Callable[[str], None], why: str, go_on: str, code: int) -> None:
    """End this process, and Ray's, where Ray keeps it from ending in order; the record has all that was finished."""
    say(f"{why}; nothing that was finished is lost; continue with: {go_on}")
    for child in psutil.Process().children(recursive=True):  # some of Ray's would notice only after a minute
        with suppress(psutil.NoSuchProcess):
            child.kill()
    os._exit(code)


def read_by_trials(spec: RunSpec) -> list[str]:
    """Return the files and folders outside the storage that trials read, where there are any."""
    paths = (spec.protocol.weights, spec.data_root, BenchmarkRef.parse(spec.benchmark).path)
    return [path for path in paths if path is not None]


def _headline(job: Job, *, on_cluster: bool) -> str:
    spec, known = job.spec, len(list(job.trials))
    number = slots_of(spec, on_cluster=on_cluster) or "as many as the cluster fits"
    continued = f" (continued: {known} have started)" if known else ""
    return (
        f"{spec.purpose} {spec.name}: {spec.method} on {spec.benchmark}, {_what(spec)}, {number} at a time,"
        f" {counted(spec.steps, 'task')} each{_chosen_by(spec)}{continued}\n"
        f"log of Ray, Optuna and MLflow: {job.directory.log_file}"
    )


def _what(spec: RunSpec) -> str:
    if spec.purpose == "search":
        return counted(spec.trials, "trial")
    orders = spec.protocol.class_orders
    each = "" if orders is None else f" with each of the class orders {' '.join(map(str, orders))}"
    return f"seeds {' '.join(map(str, spec.seeds))}{each}"


def _chosen_by(spec: RunSpec) -> str:
    """Say what chooses the trials of a search."""
    return "" if spec.purpose == "final" else f", chosen by {spec.algorithm}"
