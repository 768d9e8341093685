"""A search from its request to its result: what is said first, the order of its listeners, and its study."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tausearch.api import SearchRun, searches, synchronisation
from tausearch.api.searches import ReevaluationRun, SearchResult
from tausearch.runs import Reevaluate, RunResult, SearchSpec, Storage, TrackerName, read_spec
from tausearch.runs.creation import create
from tausearch.studies import BestListener, StudyMirror
from tests.support.runs.trials import make_trial


def test_the_best_file_is_told_before_the_study_and_both_before_others(spec: SearchSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    spec, directory = create(spec, storage)
    other = SimpleNamespace(trial_changed=lambda trial: None)
    run = SearchRun(spec, storage, directory, own_listeners=[other])
    best, study, *others = run.own_listeners
    assert [type(best), type(study)] == [BestListener, StudyMirror] and others == [other]
    assert run.follow_up() is None
    asked = spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=2)})
    again = SearchRun(asked, storage, directory).follow_up()
    assert isinstance(again, ReevaluationRun) and again.directory == directory.reevaluation


def test_a_result_has_the_study_of_ended_trials_and_a_best_file_only_if_one_was_written(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(tmp_path)
    spec, directory = create(spec, storage)
    trials = [make_trial(0, value=50.0), make_trial(1, 0, status="diverged"), make_trial(2, 1, status="pending")]
    result = RunResult(spec.name, directory.path, trials, None, False, True, directory.log_file, "nowhere", None)
    monkeypatch.setattr(searches, "drive", lambda run, **how: result)
    found: SearchResult = searches.run_search(SearchRun(spec, storage, directory))
    assert (found.best, found.best_file, found.reevaluation) == (None, None, None)
    assert [trial.state.name for trial in found.study.trials] == ["COMPLETE", "PRUNED"]


@pytest.mark.parametrize(
    ("asked", "own", "uri", "kept"),
    [
        ("http://a:1", "http://b:2", "http://a:1", "http://a:1"),
        (None, "http://b:2", "http://b:2", "http://b:2"),
        (None, None, None, None),
    ],
)
def test_sync_writes_where_it_is_asked_to_else_where_the_run_is(
    asked: str | None,
    own: str | None,
    uri: str | None,
    kept: str | None,
    spec: SearchSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = Storage(tmp_path)
    spec, directory = create(spec.model_copy(update={"tracking_uri": own}), storage)
    written: list[str | None] = []

    @contextmanager
    def log(file: Path) -> Iterator[None]:
        yield

    monkeypatch.setattr(synchronisation, "output_to", log)
    monkeypatch.setattr(
        synchronisation, "_write", lambda spec, *_: written.append(spec.tracking_uri or storage.mlflow_uri) or 7
    )
    synced = synchronisation.sync_run(storage, directory, asked)
    assert written == [uri or storage.mlflow_uri] == [synced.tracking_uri] and synced.written == 7
    assert read_spec(directory).tracking_uri == kept


def test_an_address_adds_mlflow_to_the_trackers_of_a_run_and_takes_none_away(spec: SearchSpec) -> None:
    def trackers(own: tuple[TrackerName, ...], uri: str | None) -> tuple[TrackerName, ...]:
        tracked = spec.model_copy(update={"tracking": own})
        return synchronisation._tracked_as(tracked, uri, None).trackers

    assert trackers((), "http://a:1") == ("mlflow",)
    assert trackers(("tensorboard",), "http://a:1") == ("mlflow", "tensorboard")
    assert trackers(("tensorboard",), None) == ("tensorboard",)
