"""A search from its request to its result: what is said first, the order of its listeners, and its study."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.api import SearchRequest, SearchRun, plan_search, searches, synchronisation
from tausearch.api.searches import ReevaluationRun, SearchResult, _measured
from tausearch.runs import Reevaluate, Resources, RunResult, SearchSpec, Storage, read_spec
from tausearch.runs.creation import create
from tausearch.studies import BestListener, StudyMirror
from tests.support.runs.trials import make_trial


@pytest.fixture
def with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)


@pytest.mark.usefixtures("with_a_gpu")
@pytest.mark.parametrize("progress_to", ["stdout", "stderr"])
def test_a_pilot_says_its_line_before_the_search_starts_where_progress_is_shown(
    progress_to: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(spec: SearchSpec, config: Any, address: str | None) -> tuple[SearchSpec, str]:
        assert (config.trial, config.hyperparameters) == (0, {**spec.fixed, **spec.start})
        return spec.model_copy(update={"resources": Resources(gpus_per_trial=0.25)}), "pilot: 4 trials per GPU"

    went: list[tuple[Any, ...]] = []
    monkeypatch.setattr(searches, "with_measured_share", measured)
    monkeypatch.setattr(searches, "warm_start_lines", lambda spec: ["warm start: 1 point"])
    monkeypatch.setattr(searches, "run_search", lambda run, *how: went.append((run.spec.resources, *how)))
    searches.search(
        "digits",
        "finetune",
        gpus_per_trial="auto",
        storage=tmp_path,
        progress_to=progress_to,
        time_budget=9.0,
        tracking="none",
    )
    assert went == [(Resources(gpus_per_trial=0.25), None, 9.0, progress_to, [], " --tracking none")]
    said = "pilot: 4 trials per GPU\nwarm start: 1 point\n"
    assert tuple(capsys.readouterr()) == ((said, "") if progress_to == "stdout" else ("", said))


@pytest.mark.usefixtures("with_a_gpu")
def test_a_search_that_goes_on_keeps_the_share_that_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {"gpus_per_trial": "auto", "storage": tmp_path, "name": "s", "resume_if_exists": True}
    request = SearchRequest("digits", "finetune", **asked)
    first = plan_search(request)
    create(first.spec.model_copy(update={"resources": Resources(gpus_per_trial=0.2)}), first.storage)
    monkeypatch.setattr(searches, "with_measured_share", lambda *_: pytest.fail("measured again"))
    plan = _measured(request, plan_search(request), None)  # type: ignore[arg-type]  # nothing is said
    assert plan.spec.resources == Resources(gpus_per_trial=0.2)


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
    result = RunResult(spec.name, directory.path, trials, None, False, directory.log_file, "nowhere", None)
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
