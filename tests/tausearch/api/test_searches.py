"""A search from its request to its result: what is said first, the order of its listeners, and its study."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.api import (
    SearchRequest,
    SearchRun,
    final_runs,
    plan_search,
    preview_search,
    preview_train,
    searches,
    synchronisation,
)
from tausearch.api.searches import ReevaluationRun, SearchResult
from tausearch.runs import (
    Conclusion,
    Reevaluate,
    Resources,
    RunResult,
    SearchSpec,
    Storage,
    TrackerName,
    TrialSummary,
    Verdict,
    ending_of,
    read_spec,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies import BestListener, StudyMirror, unsearched_best_file
from tausearch.tracking import BestFileWritten, ChoiceChanged, Event
from tests.support.runs.trials import final_spec, make_trial
from trainables.errors import InputError


@pytest.fixture
def run(spec: SearchSpec, tmp_path: Path) -> SearchRun:
    """A search that has been made."""
    spec, directory = make_run_directory(spec, Storage(tmp_path))
    return SearchRun(spec, Storage(tmp_path), directory)


def result_of(run: SearchRun, trials: list[TrialSummary], monkeypatch: pytest.MonkeyPatch) -> SearchResult:
    """The result of a search whose driver ends with these trials."""
    directory = run.directory
    driven = RunResult(run.spec.name, directory.path, trials, None, False, True, directory.log_file, "nowhere", None)
    monkeypatch.setattr(searches, "drive", lambda *run_and_options: driven)
    return searches.run_search(run)


def test_the_best_file_is_told_before_the_study(run: SearchRun, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [type(each) for each in run.own_listeners] == [BestListener, StudyMirror]
    assert run.follow_up() is None
    asked = run.spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=2)})
    again = SearchRun(asked, run.storage, run.directory).follow_up()
    assert isinstance(again, ReevaluationRun) and again.directory == run.directory.reevaluation
    fresh = make_trial(7, value=50.0)
    monkeypatch.setattr(searches, "_reevaluations", lambda *_: [fresh])
    continued = SearchRun(asked, run.storage, run.directory)
    for chooses in (continued.own_listeners[0], ReevaluationRun(continued).own_listeners[0]):
        assert isinstance(chooses, BestListener) and list(chooses.reevaluations) == [fresh]


def test_a_result_has_the_study_of_ended_trials_and_a_best_file_only_if_one_was_written(
    run: SearchRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [make_trial(0, value=50.0), make_trial(1, 0, status="diverged"), make_trial(2, 1, status="pending")]
    trials.append(make_trial(3, value=40.0))
    found = result_of(run, trials, monkeypatch)
    assert (found.best, found.best_file, found.reevaluation) == (None, None, None)
    assert [trial.state.name for trial in found.study.trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert [trial.number for trial in found.front] == [0]


def test_at_its_end_a_search_tells_its_choice_and_then_the_verdict_of_fresh_runs(
    run: SearchRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[Event]()
    run.announce = told.append
    closed: list[None] = []
    run._mirror = SimpleNamespace(conclude=lambda: closed.append(None))  # type: ignore[assignment]
    trial, verdict = make_trial(3, value=70.0), Verdict(chosen=3, mean=68.0, error=None)
    for chosen, again in ((None, None), (trial, None), (trial, SimpleNamespace(verdict=verdict))):
        monkeypatch.setattr(searches, "conclude", lambda *_, chosen=chosen: Conclusion(chosen))
        monkeypatch.setattr(searches, "read_reevaluation", lambda *_, again=again: again)
        run.conclude([trial])
    assert [type(event) for event in told] == [ChoiceChanged, BestFileWritten] * 2
    assert [event.verdict for event in told if isinstance(event, ChoiceChanged)] == [None, verdict]
    assert len(closed) == 3  # the study file has all trials each time


def test_a_result_has_its_fresh_runs_and_why_it_ended(run: SearchRun, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [make_trial(number, value=50.0) for number in range(run.spec.trials)]
    again = SimpleNamespace(runs=())
    monkeypatch.setattr(searches, "read_reevaluation", lambda *_: again)
    found = result_of(run, trials, monkeypatch)
    assert found.reevaluation is again and found.ending == ending_of(run.spec, run.directory, trials) is not None
    for gain, shown in ((None, False), ("1.5 points above the start", True)):
        best = SimpleNamespace(selection=SimpleNamespace(trial=1, gain=gain))
        html = replace(found, best=best)._repr_html_()  # type: ignore[arg-type]
        assert (f"chosen: trial 1, {gain}" in html) == shown and "chosen: trial 1, None" not in html


def test_a_search_is_over_after_its_last_reevaluation(run: SearchRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run.spec = run.spec.model_copy(update={"trials": 1})
    race = SimpleNamespace(over=False)
    monkeypatch.setattr(searches, "read_reevaluation", lambda *_: SimpleNamespace(race=race))
    assert not run.is_over([make_trial(0, value=50.0)])
    race.over = True
    assert run.is_over([make_trial(0, value=50.0)])
    assert not run.is_over([]) and not run.is_over([make_trial(0, tasks=2)])


@pytest.mark.parametrize("agrees", [True, False])
def test_a_sampler_that_proposes_other_points_than_before_is_said(
    agrees: bool, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    searcher = SimpleNamespace(study=SimpleNamespace(agrees=agrees, as_optuna=None))
    monkeypatch.setattr(searches, "OptunaSearcher", lambda *_: searcher)
    monkeypatch.setattr(searches, "StudyMirror", lambda *_: None)
    searches._tune_trials_of(spec, make_run_directory(spec, Storage(tmp_path))[1])
    assert ("it proposes other points than before" in capsys.readouterr().err) != agrees


KINDS = [(searches, "search", "SearchRun"), (final_runs, "training", "FinalRun")]


@pytest.mark.parametrize(("module", "kind", "run_class"), KINDS)
def test_bounds_run_where_their_run_does(
    module: Any, kind: str, run_class: str, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked = SimpleNamespace(spec=spec, storage=Storage(tmp_path)), list[tuple[Any, ...]]()
    open_bound = getattr(module, run_class).open_bound
    monkeypatch.setattr(module, f"bound_{kind}", lambda *how: asked.append(how))
    monkeypatch.setattr(module, f"plan_{kind}", lambda request: "plan")
    monkeypatch.setattr(module, "as_beside", lambda plan, beside: (plan, beside))
    monkeypatch.setattr(module, run_class, SimpleNamespace(open_locked=lambda plan, locks: (plan, locks)))
    assert open_bound(run, "probe", None) == (("plan", spec), None) and asked == [(spec, "probe", run.storage)]


@pytest.mark.parametrize(("module", "kind", "run_class"), KINDS)
@pytest.mark.parametrize("warm", [None, "before"])
def test_a_run_is_measured_where_its_progress_is_shown_and_its_code_counts_as_typed(
    module: Any,
    kind: str,
    run_class: str,
    warm: str | None,
    spec: SearchSpec,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The lines of a warm start go there, too: standard output may be JSON."""
    told: list[object] = []
    begun = spec.model_copy(update={"warm_start": warm})
    plan = SimpleNamespace(open_locked=lambda: nullcontext((begun, "directory")), storage="storage")
    monkeypatch.setattr(module, "allow_named", told.append)
    monkeypatch.setattr(module, f"plan_{kind}", lambda request: "not measured")
    monkeypatch.setattr(module, "with_measured_gpu_share", lambda *how: told.append(how) or plan)
    monkeypatch.setattr(module, run_class, lambda *about: about)
    monkeypatch.setattr(module, f"run_{kind}", lambda *run_and_options: run_and_options)
    monkeypatch.setattr(searches, "points_to_evaluate", lambda spec: ["point"])
    monkeypatch.setattr(searches, "warm_start_lines", lambda spec, points: [f"points: {points}"])
    request = SimpleNamespace(drive_options=lambda: "options", address="a:1", progress_to="stderr", time_budget=9.0)
    run, options = (searches.search_with if module is searches else final_runs.train_with)(request)  # type: ignore[misc, arg-type]
    assert told == [request, ("not measured", "a:1", sys.stderr, 9.0)]
    assert run == (begun, "storage", "directory") and options == "options"
    out, err = capsys.readouterr()
    said = "points: ['point']\n" if warm else "points: []\n"
    assert out == "" and err == (said if module is searches else "")


def test_a_preview_refuses_what_the_run_would_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of searches and of final runs: callbacks that are none, and a cluster without room."""
    plan = plan_search(SearchRequest("digits", "finetune", storage=tmp_path))
    best, asked = unsearched_best_file(plan.spec), list[tuple[str | None, Resources]]()
    for module in (searches, final_runs):
        monkeypatch.setattr(module, "require_room_at", lambda *where: asked.append(where))
    for found in (preview_search("digits", "finetune", storage=tmp_path), preview_train(best, storage=tmp_path)):
        assert asked.pop() == (None, found.spec.resources)
    wrong: dict[str, Any] = {"storage": tmp_path, "callbacks": ["nowhere:Mine"]}
    for preview in (partial(preview_search, "digits", "finetune", **wrong), partial(preview_train, best, **wrong)):
        with pytest.raises(InputError, match="callback 'nowhere:Mine'"):
            preview()


def test_a_preview_counts_the_nodes_of_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_search(SearchRequest("digits", "finetune", storage=tmp_path))
    best = unsearched_best_file(plan.spec)
    for module, planning in ((searches, "plan_search"), (final_runs, "plan_training")):
        monkeypatch.setattr(module, planning, lambda _, *, write: plan)
        monkeypatch.setattr(module, "require_room_at", lambda *_: None)
        monkeypatch.setattr(module, "preview_plan", lambda *asked: asked)
    asked: Any = preview_search("digits", "finetune", address="auto"), preview_train(best, address="auto")
    assert asked == ((plan, "auto"), (plan, "auto"))


def test_a_preview_of_a_storage_without_room_for_a_run_says_so_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = unsearched_best_file(plan_search(SearchRequest("digits", "finetune", storage=tmp_path)).spec)
    previews = partial(preview_search, "digits"), partial(preview_search, "digits,letters")
    for preview in (*(partial(each, "finetune") for each in previews), partial(preview_train, best)):
        assert preview(storage="/proc/nowhere").spec.method == "finetune"
        err = capsys.readouterr().err
        assert err.startswith("tausearch: --storage /proc/nowhere: cannot be written (")
        assert err.endswith("; a run here would be refused\n") and err.count("\n") == 1
        preview(storage=tmp_path)
        assert capsys.readouterr().err == ""


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
    spec, directory = make_run_directory(spec.model_copy(update={"tracking_uri": own}), storage)
    written: list[str | None] = []

    @contextmanager
    def log(file: Path) -> Iterator[None]:
        yield

    monkeypatch.setattr(synchronisation, "output_to", log)

    def write(spec: SearchSpec, *_: object) -> tuple[list[TrialSummary], int]:
        written.append(spec.tracking_uri or storage.mlflow_uri)
        return [TrialSummary(number, 0, "complete", {}, [{}] * number) for number in (2, 5)], 7

    monkeypatch.setattr(synchronisation, "_write", write)
    synced = synchronisation.sync_run(storage, directory, asked)
    assert written == [uri or storage.mlflow_uri] == [synced.tracking_uri] and synced.written == 7
    assert (synced.trials, synced.tasks) == (0, 7), "tasks of re-evaluations are written, too"
    assert read_spec(directory).tracking_uri == kept


def test_an_address_adds_mlflow_to_the_trackers_of_a_run_and_takes_none_away(spec: SearchSpec) -> None:
    def trackers(own: tuple[TrackerName, ...], uri: str | None) -> tuple[TrackerName, ...]:
        tracked = spec.model_copy(update={"tracking": own})
        return synchronisation._tracked_as(tracked, uri, None).trackers

    assert trackers((), "http://a:1") == ("mlflow",)
    assert trackers(("tensorboard",), "http://a:1") == ("mlflow", "tensorboard")
    assert trackers(("tensorboard",), None) == ("tensorboard",)


@pytest.mark.parametrize("over", [True, False])
def test_sync_gives_each_tracker_all_trials_and_fresh_runs_and_mlflow_how_the_run_stands(
    over: bool, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []

    class Run:
        written = 3

        def __init__(self, spec: SearchSpec, *_: object) -> None:
            self.name = spec.name

        def write(self, trial: TrialSummary) -> None:
            told.append((self.name, trial.number))

        def conclude(self, status: str, conclusion: Conclusion) -> None:
            told.append((self.name, status, conclusion is end))

    end, fresh = Conclusion(metrics={"gain": 1.0}), (make_trial(7),)
    again: Any = SimpleNamespace(spec=SimpleNamespace(name="again"), runs=fresh, race=SimpleNamespace(over=over))
    stand_ins: dict[str, Any] = {"MlflowRun": Run, "conclude": lambda *_: end, "all_ended": lambda *_: True}
    stand_ins["read_reevaluation"] = lambda *_: again
    for name in ("log_compositions", "register_again"):
        stand_ins[name] = lambda *_, name=name: told.append(name)
    stand_ins["_write_event_files"] = lambda run, trials, conclusion: told.append(
        ("events", run.spec.name, run.path, [trial.number for trial in trials], conclusion is end)
    )
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(synchronisation, name, stand_in)
    own = spec.model_copy(update={"name": "s", "tracking": ("mlflow", "tensorboard")})
    storage, trials = Storage(tmp_path), [make_trial(0), make_trial(1)]
    assert synchronisation._write(own, storage, storage.run("s"), trials) == (fresh, 6)
    status = "FINISHED" if over else "KILLED"
    ended = [("s", status, True)]
    fresh_at = storage.run("s").reevaluation.path
    events = [("events", "s", storage.run("s").path, [0, 1], True), ("events", "again", fresh_at, [7], False)]
    assert told == [("s", 0), ("s", 1), ("again", 7), ("again", status, False), *ended, *events]
    told.clear()
    again.runs = ()
    only_events = own.model_copy(update={"tracking": ("tensorboard",)})
    assert synchronisation._write(only_events, storage, storage.run("s"), trials) == ((), 0)
    assert told == [events[0], ("events", "again", fresh_at, [], False)]
    assert synchronisation._write_reevaluations(again, storage, "sqlite://") == 0 and len(told) == 2
    synchronisation._write(final_spec(own, tracking=("mlflow",)), storage, storage.run("s"), trials)
    assert told[-2:] == ["log_compositions", "register_again"]
