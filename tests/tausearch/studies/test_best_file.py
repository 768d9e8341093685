"""Best files: written, read again, and refused with the key named when anything is off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tausearch.runs import (
    Constraint,
    Gain,
    Objective,
    Record,
    Reevaluate,
    ReevaluationSpec,
    SearchSpec,
    Storage,
    TrialSummary,
    TrialTable,
    reevaluation_of,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies import BestListener, load_best, space_of, unsearched_best_file, write_best
from tausearch.studies.best_file import make_best_file
from tests.support.runs.trials import make_trial, tell
from trainables.errors import InputError
from trainables.methods import METHODS, get_method


@pytest.fixture
def content(spec: SearchSpec, tmp_path: Path) -> dict[str, Any]:
    make_best_file(spec, make_trial(2, value=81.5), competitors=4).save(tmp_path / "good.yaml")
    return yaml.safe_load((tmp_path / "good.yaml").read_text())  # type: ignore[no-any-return]


def test_round_trip(spec: SearchSpec, tmp_path: Path) -> None:
    trial = make_trial(2, value=81.5)
    trial.hyperparameters |= {"formulation": "official", "epochs_pre": 1280}  # the first has a neutral value
    best = make_best_file(spec.model_copy(update={"left_out": ("a.png: is damaged",)}), trial, competitors=4)
    best.save(tmp_path / "best.yaml")
    assert load_best(tmp_path / "best.yaml") == best and best.left_out == ("a.png: is damaged",)
    assert repr(best).startswith("<BestFile ita-lora on digits: lr=0.01, ") and "\n" not in repr(best)
    assert ", epochs_pre=1280, " in repr(best), "a whole number is not rounded"
    assert repr(best).endswith("; trial 2 of digits-ita-lora-1, val/final_accuracy 81.50 %>")
    assert best.hyperparameters["alpha"] == 3.0 and best.hyperparameters["formulation"] == "official"
    assert best.hyperparameters["regularise"] == "all"
    assert set(best.versions) == {"tausearch", "torch", "timm", "peft"}
    assert best.selection.metric == "val/final_accuracy"


def test_it_is_saved_by_a_text_and_in_place_of_a_best_file_alone(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    first, second = (make_best_file(spec, make_trial(number, value=81.5), competitors=4) for number in (1, 2))
    first.save(str(tmp_path / "best.yaml"))
    second.save("~/best.yaml")
    assert load_best(tmp_path / "best.yaml") == second == load_best("~/best.yaml")
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(InputError, match=r"^best file .*note.txt: exists and is no best file, so it is not replaced$"):
        first.save(tmp_path / "note.txt")
    assert (tmp_path / "note.txt").read_text() == "mine"
    with pytest.raises(InputError, match=r"^best file .*b: cannot be written \(No such file or directory\)$"):
        first.save(tmp_path / "a" / "b")
    with pytest.raises(InputError, match="cannot be written .File name too long.$"):
        first.save("x" * 300)
    first.save("/dev/null")  # a device is written to and not replaced
    with pytest.raises(InputError, match="^path must be a path, got 5$"):
        first.save(5)  # type: ignore[arg-type]


def test_its_head_is_a_command_that_allows_the_code_it_names(spec: SearchSpec, tmp_path: Path) -> None:
    best = make_best_file(spec, make_trial(2, value=81.5), competitors=4)
    curved = {**best.hyperparameters, "curvature": "my_curvature:Mine"}
    both = {"benchmark": "m:A,n:B", "benchmarks": dict.fromkeys(("m:A", "n:B"), best.protocol)}
    for code, changes in (
        (" --seeds 0,1,2", {}),
        (
            " --seeds 0,1,2 --allow-code m:A --allow-code my_curvature:Mine",
            {"method": "m:A", "hyperparameters": curved},
        ),
        (" --benchmark m:A --seeds 0,1,2 --allow-code m:A --allow-code n:B", both),
    ):
        best.model_copy(update=changes).save(tmp_path / "best.yaml")
        head = (tmp_path / "best.yaml").read_text().splitlines()[0]
        assert head == f"# Chosen by tausearch. Train it with: tausearch train <this file>{code}"


def test_what_there_was_none_of_is_said_as_none_where_every_search_has_it(content: dict[str, Any]) -> None:
    assert [content["selection"][name] for name in ("reevaluation", "gain", "ended")] == [None] * 3
    assert content["left_out"] == [] and "device" not in content


def test_a_value_that_is_no_accuracy_is_not_in_percent(spec: SearchSpec) -> None:
    fast = spec.model_copy(update={"objectives": (Objective(metric="seconds", direction="minimize"),)})
    for seconds, words in ((4.5, "seconds 4.50"), (0.0, "seconds 0.00")):
        found = make_best_file(fast, make_trial(0, value=81.5), competitors=1, value=seconds).selection
        assert found is not None and found.value_words == words


def test_a_re_evaluated_choice_names_candidates_and_seeds_in_their_order(spec: SearchSpec, tmp_path: Path) -> None:
    """The best by the search's own value comes first, whatever its number, and whichever won."""
    asked = spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=2)})
    again, trials = ReevaluationSpec.of(asked), [make_trial(0, value=70.0), make_trial(1, value=75.0)]
    fresh = [
        replace(make_trial(candidate, value=value), number=again.number(candidate, k), seed=again.seed_of(k))
        for candidate, value in ((0, 60.0), (1, 50.0))
        for k in range(2)
    ]
    found = reevaluation_of(again, trials, fresh)
    gain = Gain(start=1, chosen=0, points=10.0, error=0.0, fresh=True, better=True)
    best = make_best_file(asked, trials[0], competitors=2, reevaluation=found, gain=gain)
    assert best.selection is not None and best.selection.reevaluation is not None
    assert (best.selection.reevaluation.candidates, best.selection.reevaluation.seeds) == ((1, 0), (1, 2))
    assert repr(best).endswith("; trial 0 of digits-ita-lora-1, val/final_accuracy 70.00 %>")
    best.save(tmp_path / "best.yaml")
    assert load_best(tmp_path / "best.yaml") == best
    assert "objectives" not in (tmp_path / "best.yaml").read_text()


def test_the_best_file_follows_the_fresh_runs_and_each_choice_is_told_once(spec: SearchSpec, tmp_path: Path) -> None:
    """Trial 1 is the best of the search; its fresh run diverges last, and so trial 3 wins over the start, trial 0."""
    asked = spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=1, start=True), "trials": 5})
    spec, directory = make_run_directory(asked, Storage(tmp_path))
    trials, runs, again = TrialTable(), TrialTable(), ReevaluationSpec.of(spec)
    told: list[tuple[int, float | None]] = []
    listener = BestListener(spec, directory, trials, runs, lambda t, v: told.append((t.number, v and v.mean)))
    for trial in (
        make_trial(0, value=70.0),
        make_trial(1, value=80.0),
        make_trial(2, tasks=1, status="pruned"),
        make_trial(3, value=75.0),
        make_trial(4, tasks=1, status="failed"),
    ):
        tell(listener, trial)
    assert told == [(0, None), (1, None)]
    fresh = {3: make_trial(3, value=66.0), 0: make_trial(0, value=50.0), 1: make_trial(1, tasks=1, status="diverged")}
    for candidate, run in fresh.items():
        run = replace(run, number=again.number(candidate, 0), seed=again.seed_of(0))
        Record(directory.reevaluation.record).write(run)
        runs.put(run)
        listener.trial_changed(run)
    listener.trial_changed(make_trial(4, tasks=1, status="failed"))
    assert told == [(0, None), (1, None), (3, 66.0)]
    found = load_best(directory.best_file)
    assert found.selection is not None and found.selection.reevaluation is not None
    assert (found.selection.trial, found.selection.trials, found.selection.reevaluation.value) == (3, 3, 66.0)
    assert found.selection.gain is not None and (found.selection.gain.points, found.selection.gain.fresh) == (
        16.0,
        True,
    )
    assert write_best(spec, directory, list(trials)) == found


REMOVABLE = "val/removability"


def removable(number: int, seed: int, found: float, **changes: Any) -> TrialSummary:
    trial = make_trial(number, value=60.0, **changes)
    return replace(trial, seed=seed, rows=[*trial.rows[:-1], {**trial.final, REMOVABLE: found, "val/forgetting": 2.0}])


def test_it_says_what_the_bounds_have_measured(spec: SearchSpec, tmp_path: Path) -> None:
    """In the search by the trial itself, afterwards as a mean over its fresh runs, those of other candidates apart."""
    texts = (f"{REMOVABLE} >= 20", f"{REMOVABLE} <= 90", "val/forgetting <= 5")
    bounds = tuple(Constraint.parse(text, [REMOVABLE, "val/forgetting"]) for text in texts)
    asked = spec.model_copy(update={"constraints": bounds, "reevaluate": Reevaluate(best=2, runs=2)})
    again = ReevaluationSpec.of(asked)
    assert again.removability and again.trial_config(0, {}, cache=None).removability
    trials = [removable(0, 0, 30.0), removable(1, 0, 40.0)]
    fresh = [
        replace(removable(again.number(candidate, k), 0, found), value=value)
        for candidate, value, values in ((0, 50.0, (1.0, 2.0)), (1, 70.0, (10.0, 25.0)))
        for k, found in enumerate(values)
    ]
    waiting = removable(again.number(1, 2), 0, 99.0, status="running")
    found = reevaluation_of(again, trials, [*fresh, waiting])
    best = make_best_file(asked, trials[1], competitors=2, reevaluation=found)
    assert best.selection is not None and best.selection.reevaluation is not None
    assert best.selection.measured == {texts[0]: 40.0, texts[1]: 40.0, texts[2]: 2.0}
    assert best.selection.reevaluation.measured == {texts[0]: 17.5, texts[1]: 17.5, texts[2]: 2.0}
    assert found.violated_constraints() == [f"{texts[0]}: 17.5"]
    assert not reevaluation_of(again, trials, fresh[:1]).violated_constraints(), "nothing is chosen yet"
    best.save(tmp_path / "best.yaml")
    assert load_best(tmp_path / "best.yaml") == best


@pytest.mark.parametrize("method", METHODS)
def test_the_start_of_every_method_can_be_written_and_read_again(method: str, spec: SearchSpec, tmp_path: Path) -> None:
    space = space_of(method, "digits", None, {})
    best = unsearched_best_file(spec.model_copy(update={"method": method, "start": space.start, "fixed": space.fixed}))
    best.save(tmp_path / "best.yaml")
    assert load_best(tmp_path / "best.yaml") == best and best.selection is None
    assert get_method(method).parse(best.hyperparameters) == get_method(method).parse({**space.fixed, **space.start})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "key 'schema_version' must be 1, got 2"),
        ({"schema_version": None}, "key 'schema_version' must be 1, got None"),
        ({"extra": 1}, "unknown key 'extra'; allowed: schema_version, benchmark"),
        ({"protocol.epohcs": 1}, "unknown key 'protocol.epohcs'; did you mean 'epochs'"),
        ({"method": KeyError}, "key 'method' is missing"),
        ({"selection.value": KeyError}, "key 'selection.value' is missing"),
        ({"protocol.epochs": "many"}, "key 'protocol.epochs': .*got 'many'"),
        ({"hyperparameters": [1]}, "key 'hyperparameters'"),
        ({"hyperparameters.epochs_pre": KeyError}, "key 'hyperparameters.epochs_pre' is missing"),
        ({"hyperparameters.lr": KeyError}, ".*hyperparameter 'lr': is missing"),
        ({"hyperparameters.lr": -1}, ".*hyperparameter 'lr': .*greater than 0, got -1"),
        ({"hyperparameters.momentum": 1}, ".*unknown hyperparameter 'momentum'"),
        ({"benchmark": "digit"}, "unknown benchmark 'digit'"),
        ({"benchmark": "letters,digit"}, "unknown benchmark 'digit'"),
        ({"method": "ita"}, "unknown method 'ita'"),
        ({"schema_version": True}, "key 'schema_version' must be 1, got True"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str, content: dict[str, Any], tmp_path: Path) -> None:
    for path, value in change.items():
        *parents, key = path.split(".")
        target = content
        for parent in parents:
            target = target[parent]
        if value is KeyError:
            del target[key]
        else:
            target[key] = value
    bad = tmp_path / "bad.yaml"
    bad.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=f"best file .*bad.yaml: {message}"):
        load_best(bad)


VERDICT = {"value": 1.0, "error": None, "seeds": [1], "candidates": [2], "second": None, "ahead": None}
GAIN = {"start": 1, "chosen": 0, "points": 1.0, "error": None, "fresh": False, "better": True}


@pytest.mark.parametrize(
    ("part", "right", "allowed"),
    [
        ("reevaluation", {**VERDICT, "ahead_error": None}, "value, error"),
        ("gain", GAIN, "start, chosen"),
        ("ended", {"reason": "trials", "why": "all were run"}, "reason, why"),
    ],
)
def test_an_unknown_key_of_a_part_of_the_choice_is_named(
    part: str, right: dict[str, Any], allowed: str, content: dict[str, Any], tmp_path: Path
) -> None:
    content["selection"][part] = right
    (tmp_path / "best.yaml").write_text(yaml.safe_dump(content))
    assert getattr(load_best(tmp_path / "best.yaml").selection, part) is not None
    content["selection"][part] = {**right, "mean": 1.0}
    (tmp_path / "best.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=f"unknown key 'selection.{part}.mean'; allowed: {allowed}"):
        load_best(tmp_path / "best.yaml")


def test_an_unknown_key_of_a_benchmark_or_constraint_is_named(content: dict[str, Any], tmp_path: Path) -> None:
    bound = {"metric": "val/forgetting", "relation": "<=", "bound": 5.0}
    content["benchmarks"] = {"digits": {**content["protocol"]}}
    content["selection"]["constraints"] = [{**bound}]
    for place, key, message in (
        (content["benchmarks"]["digits"], "epohcs", "benchmarks.digits.epohcs'; did you mean 'epochs'"),
        (content["selection"]["constraints"][0], "x", "selection.constraints.0.x'"),
    ):
        place[key] = 1
        (tmp_path / "best.yaml").write_text(yaml.safe_dump(content))
        with pytest.raises(InputError, match=f"unknown key '{message}"):
            load_best(tmp_path / "best.yaml")
        del place[key]


@pytest.mark.parametrize("name", get_method("ita-lora").neutral_values)
def test_one_from_before_a_hyperparameter_means_its_usual_value(
    name: str, content: dict[str, Any], tmp_path: Path
) -> None:
    usual = content["hyperparameters"].pop(name)
    (tmp_path / "older.yaml").write_text(yaml.safe_dump(content))
    assert (
        load_best(tmp_path / "older.yaml").hyperparameters[name] == usual == get_method("ita-lora").neutral_values[name]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "is not valid YAML"), ("just text", "must be a mapping"), ("", "must be a"), (None, "cannot be read")],
)
def test_files_that_are_no_best_file(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        load_best(tmp_path / "bad.yaml")
