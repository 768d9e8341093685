"""A search that re-evaluates before it chooses: what runs again, on what, who is chosen; a kill costs nothing."""

from __future__ import annotations

import json
import math
import shutil
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from checked_input.ranges import SEED
from tausearch.api import SearchRun, synchronisation
from tausearch.cli.output import show_status, show_statuses
from tausearch.execution import concurrent_trials
from tausearch.runs import (
    Record,
    Reevaluate,
    Reevaluation,
    ReevaluationSpec,
    RunDirectory,
    RunSpec,
    SearchSpec,
    Storage,
    TrialSummary,
    objectives_of,
    race,
    read_status,
    set_aside_orphans,
    verdict,
)
from tausearch.runs.trials import ranked
from tausearch.studies import best_of_run, load_best
from tests.support.runs.trials import search_spec
from tests.tausearch.execution.reevaluated import Outcome, drive, noisy, reevaluated_search
from trainables.errors import InputError
from trainables.metrics import VALIDATION

pytestmark = pytest.mark.usefixtures("no_insight")


Search = tuple[SearchSpec, Storage, RunDirectory]


def searched(root: Path, outcome: Outcome = noisy, **changes: Any) -> Search:
    """A search that has run and re-evaluated its best trials."""
    search = reevaluated_search(root, **changes)
    drive(*search, outcome)
    return search


def extended(search: Search, **changes: Any) -> list[tuple[str, int, int]]:
    """Run a search on with a changed specification; nothing runs again. Returns what ran."""
    spec, storage, directory = search
    longer = spec.model_copy(update=changes)
    longer.save(directory)
    assert read_status(directory).state == "stopped"
    ran = drive(longer, storage, directory)
    assert read_status(directory).state == "finished"
    return ran


def records(directory: RunDirectory) -> tuple[list[TrialSummary], list[TrialSummary]]:
    return Record(directory.record).trials(), Record(directory.reevaluation.record).trials()


def test_who_is_as_good_as_the_chosen_one_is_not_behind() -> None:
    known = {(0, 0): 87.79, (0, 1): 89.06, (6, 0): 89.06, (6, 1): 87.79, (3, 0): 87.77, (3, 1): 88.39, (4, 0): None}
    standing = race([0, 3, 6, 4], 2, known)
    found = Reevaluation(mock.Mock(), standing, verdict(standing), ())
    assert [found.state_of(each) for each in (0, 3, 6, 4)] == ["chosen", "behind", "equal", "out"]


def test_the_best_run_again_on_fresh_seeds_and_splits_and_the_best_mean_is_chosen(tmp_path: Path) -> None:
    spec, storage, directory = searched(tmp_path)
    trials, runs = records(directory)
    candidates = [trial.number for trial in ranked(trials)[:3]]
    reevaluating = ReevaluationSpec.of(spec)
    assert {reevaluating.candidate(run.number) for run in runs} == set(candidates)
    assert {(run.seed, reevaluating.split_of(run.number)) for run in runs} == {(1, 1), (2, 2)} and len(runs) == 6
    by_number = {trial.number: trial for trial in trials}
    for run in runs:
        assert run.hyperparameters == by_number[reevaluating.candidate(run.number)].hyperparameters
        config = reevaluating.trial_config(
            run.number, run.hyperparameters, cache=None, directory=directory.reevaluation
        )
        assert (config.seed, config.split_seed, config.purpose) == (run.seed, run.seed, "search")
        assert config.checkpoints is not None and "reevaluation" in config.checkpoints and config.artifacts is None
    means = {c: statistics.fmean(r.value for r in runs if reevaluating.candidate(r.number) == c) for c in candidates}
    best = load_best(directory.best_file)
    assert best.selection is not None and best.selection.reevaluation is not None
    assert best.selection.trial == max(means, key=means.__getitem__)
    assert best.selection.reevaluation.value == pytest.approx(max(means.values()))
    assert best.selection.value == by_number[best.selection.trial].value
    assert best.selection.reevaluation.candidates == tuple(candidates)
    found = read_status(directory).reevaluation
    assert found is not None and found.verdict is not None
    for name in ("error", "second", "ahead", "ahead_error"):
        assert getattr(best.selection.reevaluation, name) == getattr(found.verdict, name) is not None
    assert best.selection.reevaluation.seeds == (1, 2)
    assert best.hyperparameters["alpha"] == by_number[best.selection.trial].hyperparameters["alpha"]


def _unlucky(spec: RunSpec, number: int, hyperparameters: dict[str, Any]) -> float:
    """A search whose best is luck: on every fresh seed it is worse than the others."""
    lucky = search_spec().start.items() <= hyperparameters.items()
    return (99.0 if lucky else 90.0) if spec.role == "trial" else (80.0 if lucky else 90.0)


def test_the_value_that_made_it_a_candidate_is_not_used_again(tmp_path: Path) -> None:
    spec, storage, directory = searched(tmp_path, _unlucky)
    status = read_status(directory)
    assert ranked(status.trials)[0].number == 0
    assert status.best is not None and status.best.number == 1  # of equal ones the earlier
    assert status.accuracy == 90.0
    assert best_of_run(storage, spec.name, print).selection.trial == 1  # type: ignore[union-attr]


def _clear(spec: RunSpec, number: int, hyperparameters: dict[str, Any]) -> float:
    """One that is far ahead, and then nobody who could be told apart."""
    return 95.0 if search_spec().start.items() <= hyperparameters.items() else noisy(spec, number, hyperparameters) - 20


@pytest.mark.parametrize(("best", "outcome", "reevaluated", "first"), [(2, noisy, 6, 0), (3, _clear, 7, 2 * 3)])
def test_killed_at_any_moment_nothing_is_lost_or_runs_again(
    best: int, outcome: Outcome, reevaluated: int, first: int, tmp_path: Path
) -> None:
    asked = {"reevaluate": Reevaluate(best=best, runs=3), "trials": 3, "steps": 2}
    spec, storage, directory = reevaluated_search(tmp_path / "whole", **asked)

    def keep(ran: int) -> None:
        shutil.copytree(storage.root, tmp_path / str(ran))  # what a kill leaves behind

    total = drive(spec, storage, directory, outcome, keep)
    assert len(total) == 2 * (3 + reevaluated)  # of 9 runs of three candidates, 2 are eliminated
    expected, chosen = records(directory), directory.best_file.read_text()
    for moment in range(first, len(total)):  # before a re-evaluation both cases are the same
        left = Storage(tmp_path / str(moment))
        after = drive(spec, left, left.run(spec.name), outcome)
        assert sorted(total[:moment] + after) == sorted(total)
        assert records(left.run(spec.name)) == expected
        assert left.run(spec.name).best_file.read_text() == chosen


def test_who_cannot_win_any_more_is_spared_and_the_status_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, directory = searched(tmp_path, _clear, reevaluate=Reevaluate(best=3, runs=5))
    status = read_status(directory)
    assert status.state == "finished" and status.reevaluation is not None
    assert len(status.reevaluation.runs) < 15
    assert status.reevaluation.race.alive == (0,)
    show_status(status)
    out = capsys.readouterr().out
    assert "start         95.00 % (trial 0), chosen 95.00 %, re-evaluated 95.00 ± 0.00 %" in out
    assert "eliminated after" in out and "points ahead of trial" in out


def test_a_front_is_re_evaluated_by_the_score_of_its_knee(tmp_path: Path) -> None:
    names = ["final_accuracy", "forgetting"]
    objectives = objectives_of(names, [VALIDATION.final_accuracy, VALIDATION.forgetting])
    _, _, directory = searched(tmp_path, objectives=objectives, trials=3)
    found = read_status(directory)
    assert found.state == "finished" and found.reevaluation is not None and found.reevaluation.verdict is not None
    assert [len(found.reevaluation.values(candidate)) for candidate in range(3)] == [2, 2, 2]
    selection = load_best(directory.best_file).selection
    assert selection is not None and selection.reevaluation is not None
    assert selection.reevaluation.objectives[VALIDATION.final_accuracy] == pytest.approx(found.accuracy)


def test_one_that_diverges_is_out_and_if_all_do_the_highest_value_is_chosen(tmp_path: Path) -> None:
    def outcome(spec: SearchSpec, number: int, hyperparameters: dict[str, Any]) -> float:
        return math.nan if spec.role == "reevaluation" else noisy(spec, number, hyperparameters)

    _, _, directory = searched(tmp_path, outcome)
    status = read_status(directory)
    assert status.state == "finished" and status.best == ranked(status.trials)[0]
    assert status.as_dict()["reevaluation"]["over"]  # without a verdict
    selection = load_best(directory.best_file).selection
    assert selection is not None and selection.reevaluation is None


def test_a_search_without_a_finished_trial_reevaluates_nothing(tmp_path: Path) -> None:
    _, _, directory = searched(tmp_path, lambda *about: math.nan)
    assert read_status(directory).state == "finished" and not directory.reevaluation.record.exists()


def test_extended_by_candidates_and_rounds_what_has_ended_counts(tmp_path: Path) -> None:
    search = reevaluated_search(tmp_path, trials=6)
    first, more = drive(*search), Reevaluate(best=4, runs=3)
    assert not set(first) & set(extended(search, reevaluate=more))
    once = searched(tmp_path / "once", trials=6, reevaluate=more)
    assert load_best(search[2].best_file).selection == load_best(once[2].best_file).selection
    assert read_status(search[2]).reevaluation.race == read_status(once[2]).reevaluation.race  # type: ignore[union-attr]


def test_extended_by_trials_the_new_ones_are_candidates_too(tmp_path: Path) -> None:
    search = reevaluated_search(tmp_path, trials=4)
    first = drive(*search)
    assert not set(first) & set(extended(search, trials=6))
    best = tuple(trial.number for trial in ranked(read_status(search[2]).trials))[:3]
    assert load_best(search[2].best_file).selection.reevaluation.candidates == best  # type: ignore[union-attr]


def test_a_search_that_was_made_without_can_be_reevaluated_later(tmp_path: Path) -> None:
    search = searched(tmp_path, reevaluate=None)
    assert not search[2].reevaluation.path.exists()
    ran = extended(search, reevaluate=Reevaluate(best=2, runs=2))
    assert {name for name, _, _ in ran} == {f"{search[0].name}.reevaluation"}


def test_trials_and_reevaluations_do_not_meet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, storage, directory = searched(tmp_path)
    assert [run.name for run in storage.runs()] == [spec.name]
    assert len(Record(directory.record).trials()) == len(read_status(directory).trials) == spec.trials
    table = Record(directory.reevaluation.record).table()
    assert set(table["role"].to_pylist()) == {"reevaluation"} and set(table["run"].to_pylist()) == {spec.name}
    assert set(table["split_seed"].to_pylist()) == {1, 2}
    assert directory.reevaluation.checkpoints(7) != directory.checkpoints(7)
    show_statuses([read_status(directory)])
    assert "5/5" in capsys.readouterr().out
    plain = json.loads(json.dumps(read_status(directory).as_dict()))
    assert plain["reevaluation"]["over"] and len(plain["reevaluation"]["candidates"]) == 3


def test_an_algorithm_that_learns_holds_up_no_reevaluation(spec: SearchSpec) -> None:
    asked = spec.model_copy(update={"algorithm": "tpe", "trials": 24, "reevaluate": Reevaluate(best=6, runs=4)})
    assert concurrent_trials(asked, 64, 0) == 6
    assert concurrent_trials(ReevaluationSpec.of(asked), 64, 0) == 24


@pytest.mark.parametrize(("seed", "first"), [(0, [1, 2]), (41, [42, 43]), (2**32 - 2, [2**32 - 1, 0])])
def test_no_fresh_seed_is_that_of_the_search(seed: int, first: list[int]) -> None:
    spec = ReevaluationSpec.of(
        search_spec().model_copy(update={"seed": seed, "reevaluate": Reevaluate(best=1, runs=100)})
    )
    seeds = [spec.seed_of(spec.number(3, k)) for k in range(100)]
    assert seeds[:2] == first and len({seed, *seeds}) == 101 and all(SEED.fault(each) is None for each in seeds)


def test_a_damaged_or_foreign_reevaluation_is_named(tmp_path: Path) -> None:
    spec, storage, directory = searched(tmp_path)
    files = sorted(directory.reevaluation.record.glob("*.parquet"))
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[: len(whole) // 2])
    resume = f"tausearch resume {spec.name} --storage {storage.root} --without-damaged"
    with pytest.raises(InputError, match=f"is damaged .* `{resume}`"):
        read_status(directory)
    files[0].write_bytes(whole)
    reevaluating = ReevaluationSpec.of(spec)
    foreign = Record(directory.reevaluation.record).trials()[0]
    foreign.hyperparameters = {**foreign.hyperparameters, "alpha": 7.0}
    Record(directory.reevaluation.record, extra_columns=reevaluating.extra_columns).write(foreign)
    with pytest.raises(InputError, match="is not of this search: its hyperparameters are not those of trial"):
        read_status(directory)
    files[0].write_bytes(whole)
    longer = Record(directory.reevaluation.record).trials()[0]
    longer.rows.append({**longer.final, "task": longer.final["task"] + 1})
    Record(directory.reevaluation.record, extra_columns=reevaluating.extra_columns).write(longer)
    with pytest.raises(InputError, match=f"it has {spec.steps + 1} tasks of {spec.steps}"):
        read_status(directory)
    files[0].write_bytes(whole)
    Record(directory.reevaluation.record).write(replace(Record(directory.reevaluation.record).trials()[-1], seed=7))
    with pytest.raises(InputError, match="is not of this search: its seed is 7, must be 2"):
        read_status(directory)


def test_the_reevaluations_of_a_trial_that_was_lost_are_put_aside(tmp_path: Path) -> None:
    spec, storage, directory = searched(tmp_path)
    lost = read_status(directory).reevaluation.race.candidates[0]  # type: ignore[union-attr]
    (directory.record / f"trial-{lost:05d}.parquet").unlink()
    resume = f"tausearch resume {spec.name} --storage {storage.root} --without-damaged"
    with pytest.raises(InputError, match=f"the search has no trial {lost}; `{resume}`"):
        read_status(directory)
    assert len(set_aside_orphans(directory)) == 2 and set_aside_orphans(directory) == {}
    assert len(read_status(directory).reevaluation.runs) == 4  # type: ignore[union-attr]


def test_sync_ends_a_search_only_after_all_its_reevaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[tuple[str, str]] = []

    class Tracked:
        """MLflow's view of a run, which notes only how the run ended."""

        written = 0

        def __init__(self, spec: RunSpec, *_: object) -> None:
            self.role = spec.role

        def write(self, trial: TrialSummary) -> None:
            pass

        def conclude(self, status: str, _: object) -> None:
            ended.append((self.role, status))

    monkeypatch.setattr(synchronisation, "MlflowRun", Tracked)
    _, storage, directory = searched(tmp_path)
    synchronisation.sync_run(storage, directory)
    assert ended == [("reevaluation", "FINISHED"), ("trial", "FINISHED")]
    files = sorted(directory.reevaluation.record.glob("trial-*.parquet"))
    assert len(files) == 6
    for file in files[1:]:
        file.unlink()
    synchronisation.sync_run(storage, directory)
    assert ended[2:] == [("reevaluation", "KILLED"), ("trial", "KILLED")]


def test_a_start_that_is_among_the_best_is_no_further_candidate(tmp_path: Path) -> None:
    search = reevaluated_search(tmp_path, reevaluate=Reevaluate(best=3, runs=2, start=True))
    drive(*search, lambda spec, number, point: 90.0 - abs(math.log10(point["alpha"])) - point["lr"])
    again = SearchRun(*search).follow_up()
    assert again is not None and again.spec.trials == 3 * 2
