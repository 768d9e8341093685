"""What a run directory says of itself, and which search's best is exported."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tausearch.api import export_best
from tausearch.api.finishing import conclude
from tausearch.cli.output import show_status
from tausearch.runs import (
    AnySpec,
    Constraint,
    Objective,
    Record,
    Reevaluate,
    ReevaluationSpec,
    RunDirectory,
    Score,
    SearchSpec,
    Storage,
    TrialSummary,
    TrialTable,
    driver_lock,
    ending_of,
    open_storage,
    read_status,
)
from tausearch.studies import BestListener, load_best, write_best
from tausearch.studies.best_file import best_of_all, best_of_run, make_best_file
from tests.support.runs.built_runs import made_at
from tests.support.runs.trials import final_spec, make_trial, tell
from trainables.errors import InputError


def write_run(storage: Storage, spec: AnySpec, trials: list[TrialSummary]) -> RunDirectory:
    directory = storage.run(spec.name)
    directory.path.mkdir(parents=True)
    spec.save(directory)
    for trial in trials:
        Record(directory.record).write(trial)
    if spec.purpose == "search":
        conclude(spec, directory, trials)
    return directory


@pytest.fixture
def storage(tmp_path: Path, no_insight: None) -> Storage:
    return open_storage(tmp_path / "runs", write=True)


def test_a_finished_search(tmp_path: Path, spec: SearchSpec) -> None:
    storage = Storage(tmp_path)
    trials = [make_trial(0, value=70.0), make_trial(1, value=72.0), make_trial(2, tasks=1, status="pruned")]
    directory = write_run(storage, spec, [*trials, make_trial(3, tasks=0, status="failed")])
    assert read_status(directory).n_ended == 4
    found = read_status(directory).as_dict()
    assert found == {
        "name": "digits-ita-lora-1",
        "purpose": "search",
        "benchmark": "digits",
        "method": "ita-lora",
        "state": "finished",
        "counts": {"complete": 2, "pruned": 1, "diverged": 0, "failed": 1, "running": 0, "pending": 0},
        "best": {"trial": 1, "value": 72.0, "hyperparameters": load_best(directory.best_file).hyperparameters},
        "gain": {
            "start": 0,
            "chosen": 1,
            "points": 2.0,
            "error": None,
            "fresh": False,
            "better": True,
        },
        "ended": {"reason": "trials", "why": "all 4 trials have ended"},
    }


def test_correlations_are_computed_when_somebody_asks(
    storage: Storage, spec: SearchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr("tausearch.runs.status.rank_correlations", lambda trials, *_: asked.append(len(trials)))
    found = read_status(write_run(storage, spec, [make_trial(n, value=70.0 + n) for n in range(4)]))
    assert asked == []
    assert (found.rank_correlations, asked) == (None, [4])


def test_a_search_without_its_driver_is_stopped(storage: Storage, spec: SearchSpec) -> None:
    directory = write_run(storage, spec, [make_trial(0, value=70.0), make_trial(1, tasks=1)])
    found = read_status(directory)
    assert found.state == "stopped"
    assert (found.counts["running"], found.counts["pending"]) == (0, 3)
    with driver_lock(directory):
        found = read_status(directory)
        assert found.state == "running"
        assert (found.counts["running"], found.counts["pending"], found.n_ended) == (1, 2, 1)
        with pytest.raises(InputError, match="driven by another process"), driver_lock(directory):
            pass
        for number in range(4):
            Record(directory.record).write(make_trial(number, value=70.0))
        assert read_status(directory).state == "running"  # the driver has not concluded the run
        assert read_status(directory).ending is not None
    assert read_status(directory).state == "finished"


def test_the_score_of_a_final_run_is_over_its_finished_seeds(storage: Storage, spec: SearchSpec) -> None:
    failed = replace(make_trial(1, value=90.0, status="failed"), seed=1)
    directory = write_run(storage, final_spec(spec, trials=2, seeds=(0, 1)), [make_trial(0, value=70.0), failed])
    found = read_status(directory)
    assert found.score == Score(70.0, None, 1) and found.front == [] and "overrides" not in found.as_dict()


def test_programs_get_the_mean_of_fresh_runs_beside_the_chosen_trial_and_no_best_seed(
    storage: Storage, spec: SearchSpec
) -> None:
    seeds = [make_trial(0, value=70.0), replace(make_trial(1, value=90.0), seed=1)]
    for trial in seeds:
        trial.rows[-1]["test/final_accuracy"] = trial.value or 0.0
    final = read_status(write_run(storage, final_spec(spec, name="f", trials=2, seeds=(0, 1)), seeds)).as_dict()
    assert (final["purpose"], final["best"], final["summary"]["test/final_accuracy"]["mean"]) == ("final", None, 80.0)
    asked = spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=2)})
    directory, again = write_run(storage, asked, [make_trial(0, value=70.0)]), ReevaluationSpec.of(asked)
    assert "reevaluated" not in read_status(directory).as_dict()["best"]
    for number, value in enumerate((60.0, 62.0)):
        run = replace(make_trial(0, value=value), number=number, seed=again.seed_of(number))
        Record(directory.reevaluation.record).write(run)
    best = read_status(directory).as_dict()["best"]
    assert (best["trial"], best["value"], best["reevaluated"]) == (0, 70.0, 61.0)


def test_a_final_run_says_what_was_overridden(
    storage: Storage, spec: SearchSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_run(storage, final_spec(spec, overrides={"lr": 0.002}, address="192.0.2.1:6379"), [])
    found = read_status(directory)
    assert found.as_dict()["overrides"] == {"lr": 0.002} and found.as_dict()["address"] == "192.0.2.1:6379"
    show_status(found)
    assert re.search(r"^overridden +lr=0.002$", capsys.readouterr().out, re.MULTILINE)


def test_no_such_run(storage: Storage) -> None:
    with pytest.raises(InputError, match="no run named 'nope'"):
        read_status(storage.run("nope"))
    with pytest.raises(InputError, match="must be letters, digits"):
        storage.run("../nope")
    assert storage.run("n" * 100).name == "n" * 100
    for name, more in (("n" * 101, ", at most 100 characters, got 101$"), ("n/" * 50, "letter or digit$")):
        with pytest.raises(InputError, match=more):
            storage.run(name)
    assert storage.read_each(read_status) == ([], [])


def test_searches_that_aim_at_the_same_compare_by_it_and_others_not_at_all(storage: Storage, spec: SearchSpec) -> None:
    forgetting = Objective(metric="val/forgetting", direction="minimize")
    accuracy = Objective(metric="val/final_accuracy", direction="maximize")
    aims: dict[str, tuple[float, tuple[Objective, ...]]] = {"more": (9.0, (forgetting,)), "less": (2.0, (forgetting,))}
    aims["same"] = aims["again"] = aims["less"]
    for name, (points, objectives) in aims.items():
        trial = make_trial(0, value=80.0 + points)
        trial.rows[-1]["val/forgetting"] = points
        write_run(storage, spec.model_copy(update={"name": name, "objectives": objectives}), [trial])
    made_at(storage.run("less"), time.time())
    assert best_of_all(storage, "digits", "ita-lora", print).selection.search == "less"
    write_run(storage, spec.model_copy(update={"name": "usual"}), [make_trial(0, value=99.0)])
    with pytest.raises(
        InputError,
        match="more by forgetting, same by forgetting, again by forgetting, less by forgetting, usual by ",
    ):
        best_of_all(storage, "digits", "ita-lora", print)
    for name in ("knee", "knees"):
        changes = {"name": name, "benchmark": "glyphs", "objectives": (accuracy, forgetting)}
        write_run(storage, spec.model_copy(update=changes), [trial])
        if name == "knee":
            assert best_of_all(storage, "glyphs", "ita-lora", print).selection.search == "knee"
    with pytest.raises(InputError, match="choose differently: knee by knee, knees by knee; name one of them"):
        best_of_all(storage, "glyphs", "ita-lora", print)


def test_export_takes_the_best_of_all_searches(storage: Storage, spec: SearchSpec, tmp_path: Path) -> None:
    for name, value in (("a", 70.0), ("b", 75.0), ("c", 72.0)):
        write_run(storage, spec.model_copy(update={"name": name}), [make_trial(0, value=value)])
    write_run(storage, spec.model_copy(update={"name": "d", "benchmark": "glyphs"}), [make_trial(0, value=99.0)])
    target = tmp_path / "out" / "best.yaml"
    best = best_of_all(storage, "digits", "ita-lora", print)
    export_best(storage, best, target)
    assert load_best(target) == best and best.selection.search == "b"
    storage.run("b").best_file.unlink()  # as after a kill at the wrong moment: the record has it all the same
    assert best_of_all(storage, "digits", "ita-lora", print).selection.search == "b"
    write_run(
        storage, spec.model_copy(update={"name": "e", "benchmark": "folder:/my birds"}), [make_trial(0, value=9.0)]
    )
    write_run(storage, spec.model_copy(update={"name": "f", "benchmark": "letters"}), [make_trial(0, tasks=1)])
    write_run(storage, final_spec(spec, name="g", benchmark="rotated", source="b"), [])
    others = "there are searches of: 'folder:/my birds' ita-lora, digits ita-lora, glyphs ita-lora"
    with pytest.raises(InputError, match=f"no search of 'iel-lora' on 'digits' in .* has a finished trial; {others}$"):
        best_of_all(storage, "digits", "iel-lora", print)
    with pytest.raises(InputError, match="^unknown method 'ita'"):
        best_of_all(storage, "digits", "ita", print)
    with pytest.raises(InputError, match="run 'g': is a final run, which chooses nothing; it was tuned by b"):
        best_of_run(storage, "g", print)


def test_of_equal_searches_the_first_by_name_is_best_whenever_each_was_written(
    storage: Storage, spec: SearchSpec
) -> None:
    for name, written in (("s-10", 1000), ("s-2", 3000), ("s-3", 2000)):
        directory = write_run(storage, spec.model_copy(update={"name": name}), [make_trial(0, value=70.0)])
        made_at(directory, written)
    assert best_of_all(storage, "digits", "ita-lora", print).selection.search == "s-2"


@pytest.mark.parametrize(("fresh", "best"), [((60.0, 62.0), "plain"), ((74.0, 76.0), "reevaluated")])
def test_a_reevaluated_search_counts_with_the_mean_of_its_fresh_runs(
    fresh: tuple[float, ...], best: str, storage: Storage, spec: SearchSpec
) -> None:
    write_run(storage, spec.model_copy(update={"name": "plain"}), [make_trial(0, value=70.0)])
    bound = Constraint(metric="val/forgetting", relation="<=", bound=5)
    changes = {"name": "reevaluated", "reevaluate": Reevaluate(best=1, runs=2), "constraints": (bound,)}
    asked = spec.model_copy(update=changes)
    directory, again = write_run(storage, asked, [make_trial(0, value=80.0)]), ReevaluationSpec.of(asked)
    for number, value in enumerate(fresh):
        run = replace(make_trial(0, value=value), number=number, seed=again.seed_of(number))
        Record(directory.reevaluation.record).write(run)
    before = load_best(directory.best_file).selection  # as if a kill came before the verdict was written
    said: list[InputError] = []
    found = best_of_all(storage, "digits", "ita-lora", said.append).selection
    assert found.search == best and before.reevaluation is None
    assert len(said) == (best == "reevaluated")
    if best == "reevaluated":
        assert (found.value, found.reevaluation.value, found.reevaluation.candidates) == (80.0, 75.0, (0,))
        best_of_all(storage, "digits", "ita-lora", print).save(directory.best_file)
        best_of_all(storage, "digits", "ita-lora", said.append)
        assert len(said) == 1


def test_the_best_file_follows_a_search(storage: Storage, spec: SearchSpec) -> None:
    directory = storage.run(spec.name)
    directory.path.mkdir(parents=True)
    listener = BestListener(spec, directory, TrialTable([make_trial(0, value=60.0)]), TrialTable(), print)
    tell(listener, make_trial(1, tasks=2))
    assert not directory.best_file.exists()
    for number, value, expected in ((1, 65.0, 1), (2, 62.0, 1), (3, 80.0, 3)):
        tell(listener, make_trial(number, value=value))
        assert load_best(directory.best_file).selection.trial == expected
    written = directory.best_file.stat().st_ino
    tell(listener, make_trial(0, value=70.0))
    assert directory.best_file.stat().st_ino == written  # the choice is the same


def test_the_best_file_gets_the_verdict_on_the_trial_that_it_has(storage: Storage, spec: SearchSpec) -> None:
    spec = spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=1)})
    directory, again = storage.run(spec.name), ReevaluationSpec.of(spec)
    directory.path.mkdir(parents=True)
    trials, runs = TrialTable([make_trial(3, value=70.0)]), TrialTable()
    listener = BestListener(spec, directory, trials, runs, print)
    listener.trial_changed(make_trial(3, value=70.0))
    assert load_best(directory.best_file).selection.reevaluation is None
    runs.put(replace(make_trial(3, value=65.0), number=again.number(3, 0), seed=again.seed_of(0)))
    listener.trial_changed(make_trial(3, value=65.0))
    assert load_best(directory.best_file).selection.reevaluation.value == 65.0


@pytest.mark.parametrize("name", ["cache", "mlflow.db", "mlflow.lock"])
def test_names_of_what_is_shared_are_refused(name: str, storage: Storage) -> None:
    with pytest.raises(InputError, match="files that all runs share"):
        storage.run(name)


def test_no_best_without_a_finished_trial(storage: Storage, spec: SearchSpec) -> None:
    aim = (Objective(metric="val/forgetting", direction="minimize"),)
    spec = spec.model_copy(update={"objectives": aim})
    directory = write_run(storage, spec, [make_trial(0, tasks=2, status="pruned")])
    assert not directory.best_file.exists() and read_status(directory).best is None
    assert read_status(directory).as_dict()["values"] is None


def test_a_best_file_counts_the_finished_trials(storage: Storage, spec: SearchSpec) -> None:
    stopped = make_trial(3, tasks=2, status="pruned")
    trials = [make_trial(0, value=60.0), make_trial(1, value=70.0), make_trial(2, value=99.0, status="failed"), stopped]
    directory = write_run(storage, spec, trials)
    chosen = make_best_file(
        spec, trials[1], 2, ended=ending_of(spec, directory, trials), gain=read_status(directory).gain
    )
    assert load_best(directory.best_file) == chosen
    directory.best_file.unlink()
    assert best_of_run(storage, spec.name, print) == chosen
    write_best(spec, directory, trials)
    assert load_best(directory.best_file) == chosen


def test_a_storage_is_tried_without_a_trace(tmp_path: Path) -> None:
    assert open_storage(tmp_path / "a" / "b", write=True).root == tmp_path / "a" / "b"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="--storage .* cannot be written"):
        open_storage(tmp_path / "file", write=True)
    with pytest.raises(InputError, match="must be a local path"):
        open_storage("s3://bucket/runs", write=True)
