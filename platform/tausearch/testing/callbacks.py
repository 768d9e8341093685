"""A contract test of callbacks, for those that come with the tool and for anybody's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checked_input.fields import require_argument
from tausearch.runs import (
    ExperimentProtocol,
    FinalSpec,
    Reevaluate,
    ReevaluationSpec,
    Resources,
    RunDirectory,
    RunSpec,
    SearchSpec,
    Status,
    Storage,
    TrialSummary,
    Verdict,
    write_results,
)
from tausearch.studies import write_best
from tausearch.tracking import (
    BestFileWritten,
    Callback,
    ChoiceChanged,
    Delivery,
    Event,
    ResultsWritten,
    RunBegan,
    RunEnded,
    RunInfo,
    callbacks_of,
    replayed_events,
    trial_events,
)
from trainables.user_code import as_breach

_TASKS = 2


@dataclass(frozen=True)
class _Later:
    """An event that a later version may have."""

    run: RunInfo


def check_callback(make: Callable[[], Callback], folder: str | Path) -> None:
    """Check that a callback takes all events of a search that was killed and continued, and of a final run.

    It also meets events twice, as after a kill, and an event of a class that it does not know. The files that are named
    by the events are there.

    Args:
        make: Makes the callback; called once for each driver.
        folder: An empty or new folder, the storage root of the runs.

    Raises:
        AssertionError: If it raises an error, is too slow, or changes an event.
        InputError: If an argument is something else.
    """
    require_argument(callable(make), "make", "a function that makes the callback", make)
    empty = isinstance(folder, str | Path) and (not Path(folder).exists() or _is_empty(Path(folder)))
    require_argument(empty, "folder", "an empty or new folder", folder)
    search, reevaluation, final = _runs(folder)
    _write(search, reevaluation, final)
    for events in (list(_killed(search)), list(_continued(search, reevaluation)), list(_trained(final))):
        before, said = deepcopy([vars(event) for event in events]), list[str]()
        with as_breach():
            made = make()
        (callback,) = callbacks_of([made])
        delivery = Delivery(callback, f"callback {type(callback).__qualname__}", said.append)
        for event in events:
            delivery.send(event)
        delivery.close()
        assert delivery.error is None, said[-1]
        for event, was in zip(events, before, strict=True):
            assert vars(event) == was, f"{type(event).__name__} was changed; a callback must not change what it is told"


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _write(search: RunInfo, reevaluation: RunInfo, final: RunInfo) -> None:
    for run in (search, reevaluation, final):
        run.path.mkdir(parents=True, exist_ok=True)
    assert isinstance(search.spec, SearchSpec) and isinstance(final.spec, FinalSpec)
    for run in (search, final):
        run.spec.save(RunDirectory(run.path))
    write_best(search.spec, RunDirectory(search.path), [_trial(search, 0, _TASKS, "complete")])
    write_results(final.spec, RunDirectory(final.path), [_trial(final, 0, _TASKS, "complete")])


def _killed(search: RunInfo) -> Iterator[Event]:
    """Yield the events of a driver that was killed in the second trial."""
    yield from replayed_events(search, ())
    yield from trial_events(search, _trial(search, 0, 0))
    first = _trial(search, 0, _TASKS, "complete")
    yield from trial_events(search, first, _trial(search, 0, 0))
    yield ChoiceChanged(search, first)
    yield BestFileWritten(search, search.path / "best.yaml")
    yield from trial_events(search, _trial(search, 1, 1))


def _continued(search: RunInfo, reevaluation: RunInfo) -> Iterator[Event]:
    """Yield the events of the driver that continues the search, re-evaluates and is stopped."""
    first, second, lost = _trial(search, 0, _TASKS, "complete"), _trial(search, 1, 1), _trial(search, 2, 0, "failed")
    yield from replayed_events(search, [first, second])
    yield _Later(search)  # type: ignore[misc]
    yield from trial_events(search, second, second)
    yield from trial_events(search, _trial(search, 1, 1, "pruned"), second)
    yield from trial_events(search, lost)
    yield from replayed_events(reevaluation, ())
    yield from trial_events(reevaluation, _trial(reevaluation, 0, _TASKS, "complete"))
    yield ChoiceChanged(search, first, Verdict(0, 70.0, None, None, None, None))
    yield BestFileWritten(search, search.path / "best.yaml")
    yield RunEnded(reevaluation, stopped=False, trials=(_trial(reevaluation, 0, _TASKS, "complete"),))
    trials, files = (first, _trial(search, 1, 1, "pruned"), lost), (search.path / "run.yaml",)
    yield RunEnded(search, stopped=True, trials=trials, chosen=first, metrics={"importance/lr": 1.0}, files=files)


def _trained(final: RunInfo) -> Iterator[Event]:
    """Yield the events of a final run; its storage fails after the results."""
    seed = _trial(final, 0, _TASKS, "complete")
    yield RunBegan(final)
    yield from trial_events(final, seed)
    summary = {final.spec.metrics.final_accuracy: {"mean": 70.0, "std": None, "seeds": 1}}
    yield ResultsWritten(final, summary, final.path / "results.json")  # type: ignore[arg-type]
    yield RunEnded(final, stopped=True)


def _trial(run: RunInfo, number: int, tasks: int, status: Status = "running") -> TrialSummary:
    names = run.spec.metrics
    rows = [{"task": task, names.average_accuracy: 90.0 - task, "seconds/training": 1.0} for task in map(float, (1, 2))]
    rows[-1][names.final_accuracy] = 70.0
    value = 70.0 if status == "complete" else None
    error = "its process died" if status == "failed" else None
    return TrialSummary(number, run.spec.seed_of(number), status, {"lr": 0.01}, rows[:tasks], value, error)


def _runs(folder: str | Path) -> tuple[RunInfo, RunInfo, RunInfo]:
    """Return a search, its re-evaluation and a final run, as nobody has made them."""
    protocol = ExperimentProtocol(
        tasks=_TASKS, epochs=1, batch_size=32, split_seed=0, backbone="glyph_vit", weights_digest="0" * 64
    )
    shared: dict[str, Any] = {"benchmark": "digits", "method": "finetune", "protocol": protocol, "steps": _TASKS}
    shared |= {"resources": Resources(), "tracking": ()}
    asked = Reevaluate(best=1, runs=1)
    search = SearchSpec(name="s", id="s", trials=3, reevaluate=asked, **shared)
    final = FinalSpec(name="f", id="f", trials=1, seeds=(0,), fixed={"lr": 0.01}, **shared)
    storage = Storage(Path(folder))
    there = storage.run("s").reevaluation.path
    return _info(search, storage), RunInfo(ReevaluationSpec.of(search), there, storage), _info(final, storage)


def _info(spec: RunSpec, storage: Storage) -> RunInfo:
    return RunInfo(spec, storage.run(spec.name).path, storage)
