"""The study file: what optuna-dashboard would read, every ended trial once, and a failure that stops nothing."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from tausearch.runs import SearchSpec, TrialSummary, TrialTable, combine_parts, objectives_of
from tausearch.studies import MultiStudyMirror, OptunaSearcher, StudyMirror
from tests.support.runs.trials import make_trial
from tests.tausearch.several.made import part, parts, several_spec


def mirror(spec: SearchSpec, file: Path, history: list[TrialSummary]) -> StudyMirror:
    return StudyMirror(file, OptunaSearcher(spec, history).study, history)


def read(spec: SearchSpec, file: Path) -> dict[int, optuna.trial.FrozenTrial]:
    storage = JournalStorage(JournalFileBackend(str(file)))
    trials = optuna.load_study(study_name=spec.name, storage=storage).trials
    by_number = {trial.user_attrs["trial"]: trial for trial in trials}
    assert len(by_number) == len(trials)
    return by_number


def test_every_ended_trial_is_there_once_and_still_after_a_kill(spec: SearchSpec, tmp_path: Path) -> None:
    file = tmp_path / "study.journal"
    first = mirror(spec, file, [])
    complete, diverged = make_trial(1, value=70.0), make_trial(0, tasks=1, status="diverged", error="not finite")
    complete.rows[0]["seconds/preconsolidation"] = 40.0
    for trial in (make_trial(0, tasks=0), make_trial(1, tasks=2), complete, diverged, make_trial(2, tasks=1)):
        first.trial_changed(trial)
    found = read(spec, file)
    assert {n: trial.state for n, trial in found.items()} == {0: TrialState.PRUNED, 1: TrialState.COMPLETE}
    assert found[1].value == 70.0 and found[1].params == {"alpha": 2.0, "lr": 0.01}
    assert [found[n].user_attrs["status"] for n in (0, 1)] == ["diverged", "complete"]
    assert found[1].intermediate_values == {1: 90.0, 2: 80.0, 3: 70.0}
    assert found[1].duration is not None and found[1].duration.total_seconds() == pytest.approx(44.5)
    Path(f"{file}.lock").symlink_to(file)  # what a driver that is killed while it writes leaves behind
    again = mirror(spec, file, [diverged, complete, make_trial(2, tasks=1)])
    before = file.read_bytes()
    again.trial_changed(make_trial(2, tasks=2))
    assert file.read_bytes() == before  # made anew when a trial ends, not before the first task
    again.trial_changed(make_trial(2, value=60.0))
    assert sorted(read(spec, file)) == [0, 1, 2]


def test_the_file_of_a_new_search_is_there_from_its_first_trial_on(spec: SearchSpec, tmp_path: Path) -> None:
    file = tmp_path / "study.journal"
    mirror(spec, file, []).trial_changed(make_trial(0, tasks=0))
    assert read(spec, file) == {}


def test_the_file_says_what_is_better_in_each_objective(spec: SearchSpec, tmp_path: Path) -> None:
    file, directions = tmp_path / "study.journal", ["maximize", "minimize"]
    names = ["final_accuracy", "forgetting"]
    spec = spec.model_copy(update={"objectives": objectives_of(names, spec.metrics)})
    StudyMirror(file, OptunaSearcher(spec).study).conclude()
    study = optuna.load_study(study_name=spec.name, storage=JournalStorage(JournalFileBackend(str(file))))
    assert [each.name.lower() for each in study.directions] == directions


def test_the_file_of_a_search_on_several_benchmarks_has_the_scores_of_the_last_end(tmp_path: Path) -> None:
    spec, trials, file = several_spec(), TrialTable(), tmp_path / "study.journal"
    several = MultiStudyMirror(file, spec, trials)
    found = [part(spec, 0, 0, 90.0), part(spec, 0, 1, 50.0), part(spec, 1, 0, 92.0), part(spec, 1, 1, 45.0)]

    def tell(*more: TrialSummary) -> list[FrozenTrial]:
        found.extend(more)
        for trial in combine_parts(parts(spec), found):
            trials.put(trial)
        several.trial_changed(trials.running[0] if trials.running else list(trials)[-1])
        return list(read(spec, file).values()) if file.exists() else []

    assert [each.intermediate_values for each in tell()] == [{1: 0.0, 2: 0.0}, {1: 100.0, 2: 0.0}]
    before = file.read_bytes()
    tell(part(spec, 2, 0, 94.0))
    assert file.read_bytes() == before  # it waits for its second benchmark
    ended = tell(part(spec, 2, 1, 60.0))
    assert [each.intermediate_values for each in ended[1:]] == [{1: 50.0, 2: 0.0}, {1: 100.0, 2: 100.0}]


def test_a_driver_that_died_as_the_last_trial_ended(spec: SearchSpec, tmp_path: Path) -> None:
    file, history = tmp_path / "study.journal", [make_trial(0, value=70.0), make_trial(1, value=60.0)]
    mirror(spec, file, []).trial_changed(history[0])  # the other is in the record, but no longer here
    mirror(spec, file, history).conclude()  # nothing is left to run, so no trial changes
    assert sorted(read(spec, file)) == [0, 1]


def test_a_failure_stops_nothing(spec: SearchSpec, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "study.journal"
    (file / "in the way").mkdir(parents=True)
    broken = mirror(spec, file, [])
    broken.trial_changed(make_trial(0, value=1.0))
    broken.trial_changed(make_trial(1, value=1.0))
    broken.conclude()
    assert (file / "in the way").is_dir()
    assert [record.levelname for record in caplog.records if "no longer written" in record.message] == ["WARNING"]
