"""Ray, Tune, MLflow and the checks around them, as the driver sees them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tausearch.execution import Dispatcher, Run
from tausearch.runs import (
    AnySpec,
    Conclusion,
    DrivenDirectory,
    Record,
    Resources,
    SearchSpec,
    Storage,
    TrialSummary,
    TrialTable,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import make_trial

Tune = Callable[[Dispatcher], None]


class World:
    """Ray, Tune and the checks around them, as the driver sees them.

    Attributes:
        did: What the driver asked of them, in order.
        tune: What Tune does once it runs.
        starting: What happens while Ray starts.
        ending: What happens as Ray ends.
        checked: What the check of a cluster's nodes does at its end.
        answered: Whether all nodes have answered before a process of a trial has started.
        processes: The number of trials at a time that the driver told Ray's start.
        own_ray: Whether the driver told Tune that it has started Ray.
        told: The signals that Tune's handler was told, which stop it.
        check: What ends the wait for a node.
        on_step: What the driver has Tune call whenever it goes round.
    """

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.tune: Tune = finish_all
        self.starting: Callable[[], None] = lambda: None
        self.ending: Callable[[], object] = lambda: None
        self.checked: Callable[[], None] = lambda: None
        self.answered = False
        self.processes = 0
        self.own_ray: bool | None = None
        self.on_step: Callable[[], None] = lambda: None
        self.told: list[int] = []
        self.check: Callable[[], None] = lambda: None
        self.leave: Callable[[], None] | None = None

    @contextmanager
    def ray_session(
        self,
        kinds: Sequence[Resources],
        address: str | None,
        *,
        processes: int,
        say: Callable[[str], None],
        check: Callable[[], None],
    ) -> Iterator[None]:
        self.did.append(("ray", kinds, address))
        self.processes, self.check = processes, check
        self.starting()
        try:
            yield
        finally:
            self.did.append("ray is left")
            self.ending()

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

    @contextmanager
    def nodes_checked(
        self, needs: Sequence[Resources], home: DrivenDirectory, needed: Sequence[str], say: Callable[[str], None]
    ) -> Iterator[SimpleNamespace]:
        self.did.append(("nodes", needs, home.path, list(needed)))
        yield SimpleNamespace(require_fit=self.require_fit)
        self.did.append("the check is over")

    def require_fit(self, seconds: float) -> bool:
        if not seconds and not self.answered:
            return False
        self.checked()
        return True

    @contextmanager
    def nodes_watched(self, say: Callable[[str], None]) -> Iterator[None]:
        self.did.append("nodes watched")
        yield

    def run_on_tune(
        self,
        dispatcher: Dispatcher,
        home: DrivenDirectory,
        trainable: type,
        on_step: Callable[[], None],
        watch: object,
        *,
        before_first: Callable[[], None],
        own_ray: bool,
    ) -> None:
        self.own_ray = own_ray
        signal.signal(signal.SIGUSR1, lambda number, frame: self.told.append(number))
        if self.answered:
            on_step()
        self.did.append("a process has started")
        before_first()
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


class MlflowWriter:
    """Stands in for MLflow."""

    closed: list[tuple[str, float]] = []
    errors: dict[str, str] = {}  # by names of runs

    def __init__(self, spec: AnySpec, *args: Any) -> None:
        self.error = self.errors.get(spec.name)
        self.status = "not ended"

    def note(self, trial: TrialSummary) -> None:
        pass

    def end(self, status: str, conclusion: Conclusion) -> None:
        self.status = status

    def wait(self, longest: float) -> None:
        assert threading.current_thread() is not threading.main_thread()  # which waits for Ray meanwhile
        self.closed.append((self.status, longest))


def opened(spec: SearchSpec, root: Path, known: Sequence[TrialSummary] = ()) -> Run:
    """A run of which some trials are known."""
    storage = Storage(root)
    spec, directory = make_run_directory(spec, storage)
    for trial in known:
        Record(directory.record).write(trial)
    left = [number for number in range(spec.trials) if number not in {trial.number for trial in known}]
    return Run(spec, storage, directory, FixedSearcher((number, {}) for number in left), TrialTable(known))


def on_cluster(run: Run, address: str | None = "auto") -> Run:
    """The run as one that joins the Ray at an address."""
    run.spec = run.spec.model_copy(update={"address": address})
    return run
