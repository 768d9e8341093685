"""The contract of callbacks, which ours and anybody's own are checked against."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.runs import Conclusion, RunSpec, SearchSpec, Storage, TrialSummary
from tausearch.studies import load_best
from tausearch.testing import check_callback
from tausearch.tracking import (
    BestFileWritten,
    ChoiceChanged,
    Event,
    MlflowCallback,
    ResultsWritten,
    RunBegan,
    RunEnded,
    RunInfo,
    TaskDone,
    TensorBoardCallback,
    TrialEnded,
    callbacks_of,
)
from tausearch.tracking.events import trial_events
from tests.support.packages import install_example
from tests.support.runs.trials import make_trial
from trainables.errors import InputError


class Counting:
    """Counts what it is told, by class."""

    counts: dict[str, int] = {}

    def on_event(self, event: Event) -> None:
        name = type(event).__name__
        self.counts[name] = self.counts.get(name, 0) + 1


class Fails:
    def __init__(self, of: type) -> None:
        self.of = of

    def on_event(self, event: Event) -> None:
        if isinstance(event, self.of):
            raise ValueError("cannot take it")


class Changes:
    def on_event(self, event: Event) -> None:
        if isinstance(event, TrialEnded):
            event.trial.hyperparameters["lr"] = 1.0


class ChangesTheEnd:
    def on_event(self, event: Event) -> None:
        if isinstance(event, RunEnded) and event.metrics:
            event.metrics.clear()


class Async:
    async def on_event(self, event: Event) -> None:
        raise ValueError("nobody hears of it")


class Knows:
    """Fails on an event that it does not know."""

    def on_event(self, event: Event) -> None:
        assert type(event).__module__ == "tausearch.tracking.events", "what is this?"


def test_a_callback_meets_every_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "counts", {})
    check_callback(Counting, tmp_path)
    every = {each.__name__ for each in Event.__args__}  # type: ignore[attr-defined]
    assert Counting.counts.keys() == every | {"_Later"} and min(Counting.counts.values()) > 0


class Reads:
    """Reads every file that an event names, and writes beside them."""

    def on_event(self, event: Event) -> None:
        if isinstance(event, BestFileWritten):
            assert load_best(event.path).selection is not None
        if isinstance(event, ResultsWritten):
            assert json.loads(event.path.read_text())["name"] == event.run.name
        if isinstance(event, RunEnded):
            assert all(file.read_bytes() for file in event.files)
        (event.run.path / "notes.txt").touch()


def test_a_callback_may_read_what_was_written(tmp_path: Path) -> None:
    check_callback(Reads, tmp_path)


def test_the_example_of_a_package_is_found_by_its_name_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(install_example(tmp_path / "installed")))
    check_callback(lambda: callbacks_of(["tally"])[0], tmp_path / "runs")
    counts = "tally of s: {'complete': 1, 'pruned': 1, 'failed': 1}\n"
    assert capsys.readouterr().out == f"tally of s: {{'complete': 1}}\n{counts}tally of f: {{'complete': 1}}\n"


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs the extra `tensorboard`")
def test_tensorboard_keeps_it(tmp_path: Path) -> None:
    check_callback(TensorBoardCallback, tmp_path)


def test_mlflow_keeps_it_and_compares_what_an_earlier_driver_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[MlflowWriter] = []

    class MlflowWriter:
        """Keeps the trials that it is to write, and how the run ended."""

        def __init__(self, spec: RunSpec, storage: Storage, uri: str, parent: MlflowWriter | None, *_: object) -> None:
            self.name, self.parent, self.noted, self.status = spec.name, parent, list[int](), ""
            made.append(self)

        def note(self, trial: TrialSummary) -> None:
            self.noted.append(trial.number)

        def end(self, status: str, conclusion: Conclusion) -> None:
            self.status = status

    monkeypatch.setattr("tausearch.tracking.mlflow_callback.MlflowProcess", lambda: SimpleNamespace(open=None))
    monkeypatch.setattr("tausearch.tracking.mlflow_callback.MlflowWriter", MlflowWriter)
    check_callback(MlflowCallback, tmp_path)
    killed, search, again, final = made
    assert [each.status for each in made] == ["", "KILLED", "FINISHED", "KILLED"]
    assert (search.parent, again.parent, final.parent) == (None, search, None) and again.name == "s.reevaluation"
    assert killed.noted == [0, 0, 0, 0, 1, 1] and search.noted == [1, 1, 1, 2, 2, 0, 1, 2]


def test_mlflow_is_told_why_a_search_ended(spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Conclusion] = []
    tracker = SimpleNamespace(end=lambda status, conclusion: told.append(conclusion))
    monkeypatch.setattr("tausearch.tracking.mlflow_callback.MlflowProcess", lambda: SimpleNamespace(open=None))
    monkeypatch.setattr("tausearch.tracking.mlflow_callback.MlflowWriter", lambda *_: tracker)
    info, callback = RunInfo(spec, tmp_path, Storage(tmp_path)), MlflowCallback()
    for event in (RunBegan(info), RunEnded(info, stopped=False, notes={"ended": "patience"})):
        callback.on_event(event)
    assert [each.notes for each in told] == [{"ended": "patience"}]


def test_the_end_of_a_trial_is_told_once(spec: SearchSpec, tmp_path: Path) -> None:
    info, ended = RunInfo(spec, tmp_path, Storage(tmp_path)), make_trial(0, value=70.0)
    told = [list(trial_events(info, *states)) for states in ((ended, make_trial(0)), (ended, ended))]
    assert [type(event) for event in told[0]][-1] is TrialEnded and told[1] == []


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (Fails(TaskDone), "failed on TaskDone: ValueError: cannot take it in "),
        (Fails(ChoiceChanged), "failed on ChoiceChanged: ValueError"),
        (Knows(), "failed on _Later: AssertionError: what is this?"),
        (Async(), "failed on RunBegan: TypeError: on_event must not be async: nothing awaits what it returns"),
        (Changes(), " was changed; a callback must not change what it is told"),
        (ChangesTheEnd(), "RunEnded was changed; a callback must not change what it is told"),
    ],
)
def test_one_that_breaks_it_is_named(callback: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as broken:
        check_callback(lambda: callback, tmp_path)
    assert words in str(broken.value)


def test_one_that_cannot_be_made_is_named_and_a_file_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"^ZeroDivisionError: division by zero in .*, line"):
        check_callback(lambda: 1 / 0, tmp_path)  # type: ignore[arg-type, return-value]
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="^folder must be an empty or new folder"):
        check_callback(Counting, tmp_path / "file")
