"""What a driver does around the trials: how it starts, what stops it, how it ends. Ray and Tune are stood in for."""

from __future__ import annotations

import errno
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tausearch.execution import Dispatcher, Run
from tausearch.execution import driver as driver_module
from tausearch.execution.driver import _headline, _why_stopping, drive, read_by_trials
from tausearch.execution.interrupt import Interrupt
from tausearch.runs import (
    AnySpec,
    Conclusion,
    DrivenDirectory,
    Record,
    Resources,
    RunResult,
    SearchSpec,
    Storage,
    StorageError,
    TrialSummary,
    TrialTable,
)
from tausearch.runs.creation import create
from tausearch.studies import FixedSearcher
from tausearch.tracking import Event, RunBegan, RunEnded
from tests.support.runs.trials import final_spec, make_trial, run_of
from trainables.data import BenchmarkRef
from trainables.errors import InputError
from trainables.trial import Trial

Tune = Callable[[Dispatcher], None]


class World:
    """Ray, Tune and the checks around them, as the driver sees them.

    Attributes:
        did: What the driver asked of them, in order.
        tune: What Tune does once it runs.
        starting: What happens while Ray starts.
        on_step: What the driver has Tune call whenever it goes round.
    """

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.tune: Tune = finish_all
        self.starting: Callable[[], None] = lambda: None
        self.on_step: Callable[[], None] = lambda: None
        self.leave: Callable[[], None] | None = None

    @contextmanager
    def ray_session(self, resources: Resources, address: str | None, *, say: Callable[[str], None]) -> Iterator[None]:
        self.did.append(("ray", resources, address))
        self.starting()
        yield
        self.did.append("ray is left")

    @contextmanager
    def raylet_watched(self, leave: Callable[[], None]) -> Iterator[None]:
        self.did.append("raylet watched")
        self.leave = leave
        yield

    @contextmanager
    def head_watched(self, address: str, say: Callable[[str], None], resume: str) -> Iterator[None]:
        self.did.append(("head watched", address, resume))
        say("the head answers")
        yield

    def require_fit_nodes(self, resources: Resources, folder: Path, needed: Sequence[str]) -> None:
        self.did.append(("nodes", resources, folder, list(needed)))

    def run_on_tune(
        self,
        dispatcher: Dispatcher,
        home: DrivenDirectory,
        trainable: type,
        on_step: Callable[[], None],
        watch: object,
    ) -> None:
        self.did.append(("tune", home, trainable, dispatcher.max_concurrent_trials))
        self.on_step = on_step
        self.tune(dispatcher)


def finish_all(dispatcher: Dispatcher) -> None:
    """Every trial finishes all of its tasks."""
    while (found := dispatcher.next()) is not None:
        run, number, _ = found
        tell(run, make_trial(number, value=60.0 + number))
        run.finish(number, "complete", 60.0 + number)


def finish_one(dispatcher: Dispatcher) -> None:
    found = dispatcher.next()
    assert found is not None
    tell(found[0], make_trial(found[1], value=70.0))


def tell(run: Run, trial: TrialSummary) -> None:
    run.trials.put(trial)
    for listener in run.listeners:
        listener.trial_changed(trial)


def then(first: Tune, error: BaseException) -> Tune:
    """Do the first thing; then Tune ends with an error."""

    def tune(dispatcher: Dispatcher) -> None:
        first(dispatcher)
        raise error

    return tune


class Tracker:
    """Stands in for MLflow."""

    closed: list[tuple[str, float]] = []
    in_background = False
    errors: dict[str, str] = {}  # by names of runs

    def __init__(self, spec: AnySpec, *args: Any) -> None:
        self.error = self.errors.get(spec.name)
        self.status = "not ended"

    def note(self, trial: TrialSummary) -> None:
        pass

    def end(self, status: str, conclusion: Conclusion) -> None:
        self.status = status

    def wait(self, longest: float) -> None:
        here = threading.current_thread() is threading.main_thread()
        assert here is not self.in_background  # a run without followers has no thread for conclusions
        self.closed.append((self.status, longest))


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    for name in ("ray_session", "raylet_watched", "head_watched", "require_fit_nodes", "run_on_tune"):
        monkeypatch.setattr(driver_module, name, getattr(made, name))
    monkeypatch.setattr(driver_module, "joined", lambda: "joined 3 nodes")
    monkeypatch.setattr(driver_module, "capacity_here", lambda: (2.0, 0.0))
    monkeypatch.setattr("tausearch.tracking.mlflow_callback.Tracker", Tracker)
    monkeypatch.setattr("tausearch.tracking.mlflow_callback.import_module", lambda name: None)
    monkeypatch.setattr(Tracker, "closed", [])
    return made


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """The interrupt of the next driver; no signal is handled."""
    made = Interrupt()
    monkeypatch.setattr(driver_module, "interruptible", lambda time_budget: nullcontext(made))
    return made


@pytest.fixture
def run(spec: SearchSpec, tmp_path: Path) -> Run:
    return opened(spec, tmp_path)


def opened(spec: SearchSpec, root: Path, known: Sequence[TrialSummary] = ()) -> Run:
    """A run of which some trials are known."""
    storage = Storage(root)
    spec, directory = create(spec, storage)
    for trial in known:
        Record(directory.record).write(trial)
    left = [number for number in range(spec.trials) if number not in {trial.number for trial in known}]
    return Run(spec, storage, directory, FixedSearcher((number, {}) for number in left), TrialTable(known))


def test_all_trials_run_on_a_ray_of_its_own(run: Run, world: World, capfd: pytest.CaptureFixture[str]) -> None:
    result = drive(run)
    assert [(trial.number, trial.value) for trial in result.trials] == [(n, 60.0 + n) for n in range(4)]
    assert (result.signal, result.out_of_time, result.tracking_uri) == (None, False, run.storage.mlflow_uri)
    assert world.did == [
        ("ray", run.spec.resources, None),
        "raylet watched",
        ("tune", run.directory, Trial, None),
        "ray is left",
    ]
    out, err = capfd.readouterr()
    assert out.startswith("search digits-ita-lora-1: ita-lora on digits, 4 trials, ") and err == ""
    assert f"log of Ray, Optuna and MLflow: {run.directory.log_file}" in out
    assert Tracker.closed == [("FINISHED", float("inf"))]


class Keeper:
    """A callback that keeps what it is told, slowly."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.told: list[Event] = []
        self.seconds = seconds

    def on_event(self, event: Event) -> None:
        time.sleep(self.seconds)
        self.told.append(event)


def test_callbacks_are_told_all_before_the_driver_returns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    best = make_trial(3, value=63.0)
    written = Conclusion(best, {"x": 1.0}, (run.directory.spec_file,))
    monkeypatch.setattr(run, "conclude", lambda trials: written)
    slow, broken = Keeper(0.02), SimpleNamespace(on_event=lambda event: 1 / 0)
    result = drive(run, callbacks=[broken, slow])
    names = [type(event).__name__ for event in slow.told]
    each = ["TrialBegan", "TaskDone", "TaskDone", "TaskDone", "TrialEnded"]
    assert names == ["RunBegan", *each * 4, "RunEnded"] and len(result.trials) == 4
    end = slow.told[-1]
    assert isinstance(end, RunEnded) and (end.stopped, end.chosen, end.metrics) == (False, best, {"x": 1.0})
    assert end.files == written.files and list(end.trials) == Record(run.directory.record).trials()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "no space left")])
def test_callbacks_are_told_that_a_run_was_stopped(error: BaseException, run: Run, world: World) -> None:
    world.tune, keeper = then(finish_one, error), Keeper()
    with suppress(StorageError):
        drive(run, callbacks=[keeper])
    assert isinstance(keeper.told[-1], RunEnded) and keeper.told[-1].stopped


def test_a_run_that_has_ended_is_told_once_more(spec: SearchSpec, tmp_path: Path) -> None:
    known, keeper = [make_trial(number, value=60.0) for number in range(4)], Keeper()
    drive(opened(spec, tmp_path, known), callbacks=[keeper])
    begun, *between, end = keeper.told
    assert isinstance(begun, RunBegan) and begun.trials == tuple(known) and isinstance(end, RunEnded)
    assert len(between) == 4 * 5 and all(event.repeated for event in between)  # type: ignore[union-attr]


def test_a_refused_cluster_tells_callbacks_nothing(run: Run, world: World) -> None:
    def refuse() -> None:
        raise InputError("no node has a GPU")

    world.starting, keeper = refuse, Keeper()
    with pytest.raises(InputError):
        drive(run, callbacks=[keeper])
    assert keeper.told == []


def test_without_trackers_mlflow_is_left_alone(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tausearch.execution.queue.MlflowCallback", lambda *_: pytest.fail("MLflow is used"))
    untracked = opened(spec.model_copy(update={"tracking": ()}), tmp_path)
    result = drive(untracked)
    assert (result.tracking_uri, result.tracking_error, len(result.trials)) == (None, None, 4)
    assert "MLflow lacks" not in capfd.readouterr().out


def test_a_program_reads_stdout_while_people_see_progress(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    drive(run, progress_to="stderr")
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("search digits-ita-lora-1: ")


def test_a_cluster_is_joined_watched_and_looked_at(spec: SearchSpec, world: World, tmp_path: Path) -> None:
    resources = Resources(cpus_per_trial=2, max_concurrent_trials=3)
    run = opened(spec.model_copy(update={"resources": resources, "data_root": "/data"}), tmp_path)
    drive(run, address="10.0.0.1:6379")
    resume = world.did[0][2]
    assert resume.endswith(f"resume digits-ita-lora-1 --storage {tmp_path}")
    assert world.did == [
        ("head watched", "10.0.0.1:6379", resume),
        ("ray", resources, "10.0.0.1:6379"),
        ("nodes", resources, run.directory.path, ["/data"]),
        ("tune", run.directory, Trial, 3),
        "ray is left",
    ]


def test_a_benchmark_of_the_users_code_is_allowed_again_in_the_command_that_goes_on(
    spec: SearchSpec, world: World, tmp_path: Path
) -> None:
    drive(opened(spec.model_copy(update={"benchmark": "mine:tasks"}), tmp_path), address="auto")
    assert world.did[0][2].endswith(f"resume digits-ita-lora-1 --storage {tmp_path} --allow-code mine:tasks")


def test_what_mlflow_lacks_and_what_was_put_aside_is_said(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Tracker, "errors", {run.spec.name: "no server"})
    monkeypatch.setattr("tausearch.execution.queue.ready", lambda *_: ["trial 0: was put aside"])
    assert drive(run, address="auto").tracking_error == "no server"
    out = capfd.readouterr().out
    assert "trial 0: was put aside\n" in out and "4 trials, as many as the cluster fits at a time" in out


@pytest.mark.parametrize("search", [None, "of the search"])
def test_the_error_of_a_search_comes_before_that_of_its_reevaluation(
    search: str | None, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run.spec.model_copy(update={"name": "again"})
    again = Run(spec, run.storage, run.storage.run("again"), FixedSearcher([]), TrialTable())
    monkeypatch.setattr(run, "follow_up", lambda: again)
    errors = {"again": "of the re-evaluation", **({} if search is None else {run.spec.name: search})}
    monkeypatch.setattr(Tracker, "errors", errors)
    epochs: list[Any] = []
    monkeypatch.setattr(driver_module, "Epochs", epochs.append)
    result = drive(run)
    assert (result.name, result.tracking_error) == (run.spec.name, search or "of the re-evaluation")
    assert epochs[-1] == again.directory and epochs[0] == run.directory  # the display reads each run's own files


def test_a_search_that_goes_on_says_how_far_it_was(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def preview(spec: SearchSpec, storage: Storage, address: str | None, trials: TrialTable) -> SimpleNamespace:
        return SimpleNamespace(lines=lambda estimate: [f"{len(list(trials))} trials known, on {address} {estimate}"])

    monkeypatch.setattr(driver_module, "preview", preview)
    drive(opened(spec, tmp_path, [make_trial(0, value=60.0), make_trial(1, tasks=1)]), address="auto")
    out = capfd.readouterr().out
    run = opened(spec.model_copy(update={"name": "other"}), tmp_path, [make_trial(0, value=60.0)])
    run.time_said = True
    drive(run, address="auto")
    assert "\n1 trials known, on auto False\n" in capfd.readouterr().out  # the command has said a better estimate
    assert "(continued: 2 have started)" in out and "\n2 trials known, on auto True\n" in out


def test_a_run_that_has_ended_needs_no_ray(
    spec: SearchSpec,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    known = [make_trial(number, value=60.0) for number in range(4)]
    run = opened(spec, tmp_path, known)
    renamed = spec.model_copy(update={"name": "again"})
    again = Run(renamed, run.storage, run.directory, FixedSearcher([]), TrialTable(known))
    monkeypatch.setattr(run, "follow_up", lambda: again)
    result = drive(run)
    assert len(result.trials) == 4 and world.did == []
    assert len(Tracker.closed) == 2  # MLflow may lack its re-evaluation
    out = capfd.readouterr().out
    assert "all trials have ended: none is run" in out and "(continued: 4 have started)" in out


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunResult]:
    """Drives a run that others follow: a `Run`, or an error in its place."""
    monkeypatch.setattr(Tracker, "in_background", True)

    def drive_followed(first: Run, *following: Run | Exception) -> RunResult:
        left = list(following)

        def after(locks: ExitStack, say: Callable[[str], None]) -> Run | None:
            found = left.pop(0) if left else None
            if isinstance(found, Exception):
                raise found
            return found

        return drive(first, after=after)

    return drive_followed


def follower(spec: SearchSpec, root: Path, name: str, known: Sequence[TrialSummary] = ()) -> Run:
    return opened(spec.model_copy(update={"name": name, "trials": 1}), root, known)


def test_runs_that_follow_use_the_same_ray(
    followed: Callable[..., RunResult],
    run: Run,
    spec: SearchSpec,
    world: World,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Tracker, "errors", {"lower": "of the first", "upper": "of the second"})
    lower, upper = follower(spec, tmp_path, "lower"), follower(spec, tmp_path, "upper")
    result = followed(run, lower, upper)
    assert (result.name, len(result.trials), result.tracking_error) == (run.spec.name, 4, "of the first")
    assert [each[0] for each in world.did if isinstance(each, tuple)] == ["ray", "tune"]
    assert len(Record(lower.directory.record).trials()) == len(Record(upper.directory.record).trials()) == 1
    said = [line.split(":")[0] for line in capfd.readouterr().out.splitlines() if line.startswith("search ")]
    assert said == [f"search {run.spec.name}", "search lower", "search upper"] and len(Tracker.closed) == 3


def test_of_a_run_that_has_ended_those_that_follow_are_run(
    followed: Callable[..., RunResult], spec: SearchSpec, world: World, tmp_path: Path
) -> None:
    first = opened(spec, tmp_path, [make_trial(number, value=60.0) for number in range(4)])
    over, left = follower(spec, tmp_path, "lower", [make_trial(0, value=1.0)]), follower(spec, tmp_path, "upper")
    result = followed(first, over, left)
    assert result.name == spec.name and [trial.value for trial in result.trials] == [60.0] * 4
    assert [each[0] for each in world.did if isinstance(each, tuple)] == ["ray", "tune"]
    assert [trial.value for trial in Record(over.directory.record).trials()] == [1.0]
    assert [trial.value for trial in Record(left.directory.record).trials()] == [60.0]


def test_where_all_that_follow_have_ended_no_ray_is_needed(
    followed: Callable[..., RunResult], spec: SearchSpec, world: World, tmp_path: Path
) -> None:
    first = opened(spec, tmp_path, [make_trial(number, value=60.0) for number in range(4)])
    followed(first, follower(spec, tmp_path, "lower", [make_trial(0, value=1.0)]))
    assert world.did == [] and len(Tracker.closed) == 2


@pytest.mark.parametrize("trials", [4, 5], ids=["before a follower begins", "in a follower"])
def test_a_stop_of_a_follower_is_noted_as_a_stop_of_the_run(
    trials: int,
    followed: Callable[..., RunResult],
    run: Run,
    spec: SearchSpec,
    world: World,
    interrupt: Interrupt,
    tmp_path: Path,
) -> None:
    def tune(dispatcher: Dispatcher) -> None:
        for number in range(trials):
            found = dispatcher.next()
            assert found is not None
            status = "complete" if number < 4 else "running"
            tell(found[0], make_trial(found[1], value=70.0 if number < 4 else None, status=status))
            if number < 4:
                found[0].finish(found[1], "complete", 70.0)
        interrupt.note(signal.SIGINT)

    world.tune = tune
    result = followed(run, follower(spec, tmp_path, "lower"))
    assert (result.signal, len(result.trials), result.name) == (signal.SIGINT, 4, spec.name)


def test_an_error_in_the_thread_that_concludes_a_run_is_raised_at_the_end(
    followed: Callable[..., RunResult], run: Run, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "conclude", lambda *_: (_ for _ in ()).throw(RuntimeError("no figure")))
    lower = follower(spec, tmp_path, "lower")
    with pytest.raises(RuntimeError, match="no figure"):
        followed(run, lower)


def test_a_follower_that_cannot_be_opened_is_an_error_at_the_end(followed: Callable[..., RunResult], run: Run) -> None:
    with pytest.raises(InputError, match="was started otherwise"):
        followed(run, InputError("run 'lower' was started otherwise"))
    assert len(Record(run.directory.record).trials()) == 4 and len(Tracker.closed) == 1


@pytest.mark.parametrize(
    ("error", "number"), [(KeyboardInterrupt(), signal.SIGINT), (SystemExit(1), signal.SIGTERM)], ids=["int", "term"]
)
def test_a_signal_that_ray_takes_stops_it_in_order(error: BaseException, number: int, run: Run, world: World) -> None:
    world.tune = then(finish_one, error)
    result = drive(run)
    assert result.signal == number and [trial.number for trial in result.trials] == [0]
    assert Tracker.closed == [("KILLED", 8.0 if number == signal.SIGTERM else float("inf"))]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals that the driver sends to its own process for Tune."""
    found: list[int] = []
    monkeypatch.setattr("tausearch.execution.interrupt.os.kill", lambda pid, number: found.append(number))
    return found


def test_a_signal_is_noted_and_tune_told_in_its_next_step(run: Run, world: World, sent: list[int]) -> None:
    def interrupted(dispatcher: Dispatcher) -> None:
        world.on_step()
        assert sent == []
        signal.raise_signal(signal.SIGINT)
        world.on_step()

    world.tune = interrupted
    before = signal.getsignal(signal.SIGINT)
    assert drive(run).signal == signal.SIGINT and sent == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGINT) is before


def test_when_the_time_is_up_no_trial_is_begun(run: Run, world: World) -> None:
    result = drive(run, time_budget=0.0)
    assert (result.out_of_time, result.signal, world.did) == (True, None, [])
    assert Tracker.closed[0][0] == "KILLED"


@pytest.mark.parametrize(("during", "left_out"), [("ray", "nodes"), ("nodes", "tune")])
def test_a_time_budget_that_ends_before_the_trials_starts_none(
    during: str, left_out: str, run: Run, world: World, interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_time(*_: object) -> None:
        world.did.append((during,))
        interrupt.deadline = 0.0

    if during == "ray":
        world.starting = out_of_time
    else:
        monkeypatch.setattr(driver_module, "require_fit_nodes", out_of_time)
    assert drive(run, address="auto").out_of_time
    did = [each[0] for each in world.did]
    assert during in did and left_out not in did


def test_the_handlers_of_signals_are_ours_again_once_ray_has_started(run: Run, world: World) -> None:
    found: list[Any] = []
    world.starting = lambda: found.append(signal.signal(signal.SIGTERM, lambda number, frame: None))
    world.tune = lambda dispatcher: found.append(signal.getsignal(signal.SIGTERM))
    drive(run)
    assert found[0] == found[1]


def test_no_signal_stops_the_writing_of_results(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = Tracker.wait

    def interrupted(self: Tracker, longest: float) -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        wait(self, longest)

    def conclude(trials: list[TrialSummary]) -> Conclusion:
        signal.raise_signal(signal.SIGINT)
        return Conclusion()

    monkeypatch.setattr(Tracker, "wait", interrupted)
    monkeypatch.setattr(run, "conclude", conclude)
    assert drive(run).signal is None and Tracker.closed == [("FINISHED", float("inf"))]


def test_a_stop_is_shown_until_results_are_written(run: Run, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Callable[[], str | None]] = []
    said: list[str | None] = []

    def stopping(dispatcher: Dispatcher) -> None:
        signal.raise_signal(signal.SIGINT)
        said.append(shown[-1]())

    world.tune = stopping
    monkeypatch.setattr("tausearch.presentation.ProgressDisplay.show_stopping", lambda self, why: shown.append(why))
    drive(run)
    assert str(said[0]).startswith("stopping on Ctrl-C") and shown[-1]() is None


def test_a_signal_counts_before_the_time_budget(run: Run, interrupt: Interrupt) -> None:
    interrupt.deadline = 0.0
    interrupt.note(signal.SIGINT)
    result = drive(run)
    assert (result.out_of_time, result.signal) == (False, signal.SIGINT)
    assert Tracker.closed == [("KILLED", float("inf"))]


def test_the_time_budget_is_checked_in_every_step_of_tune(run: Run, world: World, sent: list[int]) -> None:
    world.tune = lambda dispatcher: world.on_step()
    assert drive(run, time_budget=60.0).out_of_time is False and sent == []
    assert Tracker.closed[0][0] == "FINISHED"


def test_a_storage_that_is_full_ends_it_with_the_command_that_goes_on(run: Run, world: World) -> None:
    world.tune = then(finish_one, OSError(errno.ENOSPC, "no space left"))
    with pytest.raises(StorageError, match=r"no space left; mend that, then: .*resume digits-ita-lora-1 --storage"):
        drive(run)
    assert Tracker.closed == [("KILLED", 5.0)]


def test_a_storage_that_goes_away_stops_tune(run: Run, world: World, sent: list[int]) -> None:
    def lost(dispatcher: Dispatcher) -> None:
        finish_one(dispatcher)
        run.directory.spec_file.unlink()
        world.on_step()

    world.tune = lost
    with pytest.raises(StorageError, match="is gone"):
        drive(run)
    assert sent == [signal.SIGUSR1]


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "not there"), RuntimeError("broken")])
def test_any_other_error_is_raised_and_what_was_found_is_kept(error: Exception, run: Run, world: World) -> None:
    world.tune = then(finish_one, error)
    with pytest.raises(type(error), match=str(error.args[-1])):
        drive(run)
    assert Tracker.closed == [("FINISHED", float("inf"))]  # concluded as far as it came
    assert [trial.number for trial in Record(run.directory.record).trials()] == [0]


def test_a_cluster_that_cannot_run_trials_leaves_the_run_as_it_was(run: Run, world: World) -> None:
    def refuse() -> None:
        raise InputError("no node has a GPU")

    world.starting = refuse
    with pytest.raises(InputError, match="no node has a GPU"):
        drive(run)
    assert Tracker.closed == [] and world.did == [("ray", run.spec.resources, None)]


class Left(BaseException):
    """The process has ended."""


@pytest.fixture
def left(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[], tuple[list[object], str]]:
    """Drives the run until its process ends; returns the killed children, then the exit code, and the last lines."""
    ended: list[object] = []

    def gone() -> None:
        raise psutil.NoSuchProcess(1)

    def leave(code: int) -> None:
        ended.append(code)
        raise Left

    children = [SimpleNamespace(kill=gone), SimpleNamespace(kill=partial(ended.append, "raylet"))]
    process = SimpleNamespace(children=lambda recursive: children if recursive else [])
    monkeypatch.setattr(driver_module.psutil, "Process", lambda: process)
    monkeypatch.setattr(driver_module.os, "_exit", leave)

    def drive_until_it_leaves() -> tuple[list[object], str]:
        with pytest.raises(Left):
            drive(run, resume_options=" --callback m:C")
        return ended, capfd.readouterr().out

    return drive_until_it_leaves


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "interrupted while Ray started"), (signal.SIGTERM, "stopped by SIGTERM while")]
)
def test_while_ray_starts_a_signal_ends_it_at_once(
    number: int, said: str, world: World, interrupt: Interrupt, left: Callable[[], tuple[list[object], str]]
) -> None:
    world.starting = lambda: interrupt.note_in_thread(number)
    ended, out = left()
    assert ended == ["raylet", 128 + number]
    assert said in out and "nothing that was finished is lost; continue with: " in out


@pytest.mark.parametrize(
    ("event", "code", "said"),
    [
        ("raylet died", 1, "stopped: Ray's own process on this machine (raylet) was killed or has died; nothing"),
        ("raylet died after SIGTERM", 143, "stopped by SIGTERM; Ray did not answer; nothing"),
        ("stuck after SIGTERM", 143, "stopped by SIGTERM; Ray did not answer; nothing"),
    ],
)
def test_a_driver_that_ray_blocks_leaves_at_once(
    event: str, code: int, said: str, world: World, interrupt: Interrupt, left: Callable[[], tuple[list[object], str]]
) -> None:
    def blocked(dispatcher: Dispatcher) -> None:
        if event == "raylet died after SIGTERM":
            interrupt.note(signal.SIGTERM)
        assert world.leave is not None and interrupt._leave is not None
        (interrupt._leave.function if event.startswith("stuck") else world.leave)()

    world.tune = blocked
    ended, out = left()
    assert ended == ["raylet", code] and said in out and out.endswith(" --callback m:C\n")


@pytest.mark.parametrize(
    ("budget", "number", "why"),
    [
        (None, None, None),
        (0.0, None, "as the time budget is used up"),
        (0.0, signal.SIGINT, "on Ctrl-C"),
        (0.0, signal.SIGTERM, "on SIGTERM"),
    ],
)
def test_what_stops_it_is_said(budget: float | None, number: int | None, why: str | None) -> None:
    interrupt = Interrupt(budget)
    if number is not None:
        interrupt.note(number)
    said = _why_stopping(interrupt)
    assert said is None if why is None else str(said).startswith(f"stopping {why}: trials under way can be continued")


@pytest.mark.parametrize(
    ("address", "stages"),
    [
        (None, ["starting Ray on this machine"]),
        ("auto", ["joining the Ray that runs on this machine", "joined 3 nodes; looking at each of them"]),
        ("ray://a:1", ["joining the Ray that runs at ray://a:1", "joined 3 nodes; looking at each of them"]),
    ],
)
def test_how_it_comes_to_ray_is_said(
    address: str | None, stages: list[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("tausearch.presentation.ProgressDisplay.enter", lambda self, stage: said.append(stage))
    drive(run, address=address)
    assert said == [
        *stages,
        "Ray runs; starting the processes of trials, each of which imports torch",
        "writing results, figures, and what MLflow lacks",
    ]


def test_the_files_that_trials_read_are_named(spec: SearchSpec, tmp_path: Path) -> None:
    assert read_by_trials(spec) == []
    protocol = spec.protocol.model_copy(update={"backbone_weights": "/w"})
    benchmark = f"folder:{tmp_path}?tasks=3"
    changed = spec.model_copy(update={"protocol": protocol, "data_root": "/d", "benchmark": benchmark})
    assert read_by_trials(changed) == ["/w", "/d", BenchmarkRef.parse(benchmark).path]


@pytest.mark.parametrize(
    ("changes", "seeds", "said"),
    [
        ({"trials": 12}, None, "12 trials, 2 at a time, 3 tasks each, algorithm tpe"),
        (
            {"trials": 1, "steps": 1, "algorithm": "random"},
            None,
            "1 trial, 1 at a time, 1 task each, algorithm random",
        ),
        (
            {"resources": Resources(gpus_per_trial=1, gpus_from="request", max_concurrent_trials=3)},
            None,
            "4 trials, 3 at a time, 3 tasks each, algorithm tpe, on a whole GPU in fp32 (as asked for)",
        ),
        ({"trials": 2}, (3, 5), "seeds 3 5, 2 at a time, 3 tasks each"),
        ({"trials": 4}, (3, 5), "seeds 3 5 with each of the class orders 1 2, 2 at a time, 3 tasks each"),
    ],
)
def test_the_first_line_says_what_will_be_done(
    changes: dict[str, Any],
    seeds: tuple[int, ...] | None,
    said: str,
    spec: SearchSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tausearch.execution.concurrency.local_cpus", lambda: 2)
    if seeds is None:
        asked: AnySpec = spec.model_copy(update=changes)
    else:
        orders = (1, 2) if changes["trials"] == 4 else None
        asked = final_spec(
            spec, seeds=seeds, protocol=spec.protocol.model_copy(update={"class_orders": orders}), **changes
        )
    assert _headline(run_of(asked, FixedSearcher([])), on_cluster=False).endswith(f"on digits, {said}")
