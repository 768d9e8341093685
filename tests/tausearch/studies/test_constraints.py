"""Constraints: how they are read, what keeps them, what a search with them asks for, chooses and says."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from checked_input.yaml_text import read_yaml
from tausearch.api import SearchResult
from tausearch.runs import (
    Constraint,
    Record,
    Reevaluate,
    ReevaluationSpec,
    SearchSpec,
    Storage,
    TrialSummary,
    TrialTable,
    best_trial,
    changed_fields,
    no_feasible_trial_reason,
    read_spec,
    read_status,
    reevaluation_of,
    reevaluations_of,
    violations,
)
from tausearch.runs.creation import make_run_directory
from tausearch.runs.search_analysis import pareto_front
from tausearch.studies import OptunaSearcher, best_of_run, constraints_named, load_best, write_best
from tests.support.command_line import Ask
from tests.support.runs.trials import make_trial
from trainables.errors import InputError
from trainables.methods import METHODS

FORGETTING = "val/forgetting"


def of(*texts: str) -> tuple[Constraint, ...]:
    return constraints_named(texts, METHODS["ita-lora"], tasks=3, on_gpu=False)


def forgets(number: int, value: float, forgetting: float, **more: object) -> TrialSummary:
    trial = make_trial(number, value=value, **more)
    trial.rows[-1][FORGETTING] = forgetting
    return trial


def keeps(trial: TrialSummary, *texts: str) -> bool:
    return all(each.kept_by(trial) for each in of(*texts))


def bound(spec: SearchSpec, *texts: str, **more: object) -> SearchSpec:
    return spec.model_copy(update={"constraints": of(*texts), **more})


class TestReading:
    @pytest.mark.parametrize(
        ("text", "read"),
        [
            ("forgetting <= 5", "val/forgetting <= 5"),
            (" val/forgetting<=5.50 ", "val/forgetting <= 5.5"),
            ("seconds<=1e3", "seconds <= 1000"),
            ("seconds/training <= .5", "seconds/training <= 0.5"),
            ("accuracy/task_3 >= 80", "val/accuracy/task_3 >= 80"),
            ("train/loss <= -1", "train/loss <= -1"),
            ("forgetting <= -100", "val/forgetting <= -100"),
            ("forgetting <= 150", "val/forgetting <= 150"),
            ("final_accuracy >= 100", "val/final_accuracy >= 100"),
            ("seconds <= 0", "seconds <= 0"),
            ("removability >= -200", "val/removability >= -200"),
            ("removability/rest <= 3", "val/removability/rest <= 3"),
        ],
    )
    def test_a_metric_has_its_full_name(self, text: str, read: str) -> None:
        assert [str(each) for each in of(text)] == [read]
        assert Constraint.model_validate(read) == of(text)[0], "a file says the same"

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("forgetting < 5", "must be METRIC <= NUMBER or METRIC >= NUMBER, such as"),
            ("forgetting", "must be METRIC <= NUMBER"),
            ("forgetting <= five", "must be METRIC <= NUMBER"),
            ("forgetting <= nan", "must be METRIC <= NUMBER"),
            ("forgetting <= 1e999", "the number is too large"),
            ("forgetting <= " + "1" * 300, "must be METRIC <= NUMBER"),
            ("forgeting <= 5", "unknown metric 'forgeting'; did you mean 'forgetting'"),
            ("accuracy/task_4 >= 5", "unknown metric 'accuracy/task_4'"),
            ("memory/peak_gpu_bytes <= 5", "unknown metric 'memory/peak_gpu_bytes'"),  # of trials on a GPU alone
            ("test/forgetting <= 5", "unknown metric 'test/forgetting'"),
            ("seconds <= -1", "no trial can keep it; seconds goes from 0 to inf"),
            ("seconds/training <= -1", "no trial can keep it; seconds/training goes from 0 to inf"),
            ("forgetting <= -101", "no trial can keep it; val/forgetting goes from -100 to 100"),
            ("pooled_accuracy >= 101", "no trial can keep it; val/pooled_accuracy goes from 0 to 100"),
            ("removability >= 201", "no trial can keep it; val/removability goes from -200 to 200"),
            (
                "removability/forgotten <= -201",
                "no trial can keep it; val/removability/forgotten goes from -200 to 200",
            ),
            ("removability/target >= 101", "no trial can keep it; val/removability/target goes from -100 to 100"),
            ("removability/rest <= -101", "no trial can keep it; val/removability/rest goes from -100 to 100"),
            ("accuracy/task_1 >= 101", "no trial can keep it; val/accuracy/task_1 goes from 0 to 100"),
        ],
    )
    def test_what_is_none_is_refused(self, text: str, fault: str) -> None:
        with pytest.raises(InputError, match="--constraint") as caught:
            of(text)
        assert fault in str(caught.value) and "\n" not in str(caught.value)

    def test_a_metric_of_a_users_own_method_may_have_more_signs(self) -> None:
        bound = Constraint.parse("train/grad-norm.1 <= 5", ["train/grad-norm.1"])
        assert str(bound) == "train/grad-norm.1 <= 5" and Constraint.model_validate(str(bound)) == bound

    def test_memory_is_known_of_trials_on_a_gpu(self) -> None:
        text = "memory/peak_gpu_bytes <= 1234567890"
        assert [str(each) for each in constraints_named([text], METHODS["ita-lora"], 3, on_gpu=True)] == [text]

    def test_average_incremental_accuracy_is_not_of_a_joint_method(self) -> None:
        text = "average_incremental_accuracy >= 50"
        assert len(constraints_named([text], METHODS["ita-lora"], 3, on_gpu=False)) == 1
        with pytest.raises(InputError, match="unknown metric 'average_incremental_accuracy'"):
            constraints_named([text], METHODS["joint"], 3, on_gpu=False)

    def test_a_bound_on_removability_has_the_trials_measure_it(self, spec: SearchSpec) -> None:
        for texts, measured in [(("forgetting <= 5",), False), (("seconds <= 5", "removability/rest <= 3"), True)]:
            wanted = bound(spec, *texts)
            assert wanted.trial_config(0, {}, cache=None).removability == wanted.removability == measured

    def test_it_is_a_text_in_run_yaml(self, spec: SearchSpec, tmp_path: Path) -> None:
        spec, directory = make_run_directory(bound(spec, "forgetting <= 5", "seconds <= 9"), Storage(tmp_path))
        assert read_yaml(directory.spec_file)["constraints"] == ["val/forgetting <= 5", "seconds <= 9"]  # type: ignore[call-overload, index]
        assert read_spec(directory) == spec
        other = spec.model_copy(update={"constraints": of("forgetting <= 6")})
        assert changed_fields(spec, other) == [
            "constraints was val/forgetting <= 5 seconds <= 9, is now val/forgetting <= 6"
        ]

    def test_an_edited_run_yaml_is_named(self, spec: SearchSpec, tmp_path: Path) -> None:
        _, directory = make_run_directory(bound(spec, "forgetting <= 5"), Storage(tmp_path))
        text = directory.spec_file.read_text()
        directory.spec_file.write_text(text.replace("val/forgetting <= 5", "val/forgetting = 5"))
        with pytest.raises(InputError, match="constraints.*must be METRIC <= NUMBER"):
            read_spec(directory)


class TestKeeping:
    def test_the_bound_itself_is_allowed(self) -> None:
        trial = forgets(0, 90, forgetting=5)
        assert keeps(trial, "forgetting <= 5", "forgetting >= 5")
        assert not keeps(trial, "forgetting <= 4.99") and not keeps(trial, "forgetting >= 5.01")
        assert not keeps(forgets(0, 90, forgetting=math.nan), "forgetting <= 5")
        (five,) = of("forgetting <= 5")
        assert [five.allows(mean) for mean in (4.9, 5.0, 5.1)] == [True, True, False]

    def test_every_row_must_keep_it(self) -> None:
        trial = make_trial(0, value=70)  # average accuracies 90, 80, 70
        assert violations(trial, of("average_accuracy >= 75", "average_accuracy <= 85")) == {
            "val/average_accuracy >= 75": 5,
            "val/average_accuracy <= 85": 5,
        }

    def test_seconds_are_those_of_all_tasks(self) -> None:
        trial = make_trial(0, value=70)  # 1.5 s for each of three tasks
        trial.rows[0]["seconds/preconsolidation"] = 40.0  # does not count, because trials share it
        assert keeps(trial, "seconds <= 4.5", "seconds/training <= 1.5") and not keeps(trial, "seconds <= 4.4")

    @pytest.mark.parametrize(("status", "told"), [("pruned", 0), ("complete", math.inf)])
    def test_what_is_not_measured_is_not_kept(self, status: str, told: float) -> None:
        """And an algorithm hears that of a complete trial: it would be drawn to those that cannot be chosen."""
        trial = make_trial(0, tasks=2, status=status)
        assert not keeps(trial, "forgetting <= 5") and violations(trial, of("forgetting <= 5")) == {
            "val/forgetting <= 5": told
        }

    def test_a_mean_is_over_trials_that_all_have_a_number(self) -> None:
        (bound,) = of("forgetting <= 5")
        assert bound.mean([forgets(0, 90, 2), forgets(1, 90, 4)]) == 3
        assert bound.mean([forgets(0, 90, 2), forgets(1, 90, math.nan)]) is None


class TestChoosing:
    TRIALS = (forgets(0, 80, 2), forgets(1, 90, 9), forgets(2, 85, 5), forgets(3, 85, 1))

    def test_the_best_that_keeps_them_is_chosen(self, spec: SearchSpec, tmp_path: Path) -> None:
        spec, directory = make_run_directory(bound(spec, "forgetting <= 5"), Storage(tmp_path))
        best = write_best(spec, directory, self.TRIALS)
        assert best is not None and best.selection is not None
        assert best.selection.trial == 3  # as accurate as 2, and forgets less
        assert load_best(directory.best_file).selection == best.selection
        assert [str(each) for each in best.selection.constraints] == ["val/forgetting <= 5"]
        assert best_trial(self.TRIALS) is self.TRIALS[1]

    def test_nothing_is_chosen_if_none_keeps_them(self, spec: SearchSpec, tmp_path: Path, ask: Ask) -> None:
        spec, directory = make_run_directory(bound(spec, "forgetting <= 0", "seconds <= 100"), Storage(tmp_path))
        assert write_best(spec, directory, self.TRIALS) is None and not directory.best_file.exists()
        for trial in self.TRIALS:
            Record(directory.record).write(trial)
        assert read_status(directory).best is None
        why = (
            "none of 4 finished trials keeps val/forgetting <= 0, seconds <= 100;"
            " the nearest is trial 3 (85.00 %) with val/forgetting 1"
        )
        assert no_feasible_trial_reason(self.TRIALS, spec.constraints, "%") == why
        with pytest.raises(InputError, match="the nearest is trial 3"):
            best_of_run(Storage(tmp_path), spec.name, print)
        code, out, _ = ask("status", spec.name, "--storage", str(tmp_path))
        assert code == 0 and f"Nothing is chosen: {why}." in out

    def test_the_nearest_exceeds_its_bounds_least_as_a_share_of_them(self) -> None:
        bounds = of("forgetting <= 0.1", "final_accuracy >= 80")  # a bound below 1 counts as 1
        assert "the nearest is trial 1 " in str(
            no_feasible_trial_reason([forgets(0, 90, 0.6), forgets(1, 64, 0.0)], bounds, "%")
        )
        assert "the nearest is trial 0 " in str(
            no_feasible_trial_reason([forgets(0, 90, 0.25), forgets(1, 64, 0.0)], bounds, "%")
        )

    def test_the_command_then_fails(
        self, spec: SearchSpec, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec, directory = make_run_directory(bound(spec, "forgetting <= 0"), Storage(tmp_path))
        about = {"signal": None, "out_of_time": False, "over": True, "log_file": tmp_path}
        nothing = dict.fromkeys(("tracking_uri", "tracking_error", "best", "best_file", "reevaluation"))
        result = SearchResult(spec.name, directory.path, list(self.TRIALS), **about, **nothing)  # type: ignore[arg-type]
        monkeypatch.setattr("tausearch.api.search_with", lambda request: result)
        command = ["search", "digits", "ita-lora", "--storage", str(tmp_path)]
        code, out, _ = ask(*command)
        assert code == 1 and "Nothing is chosen: none of 4 finished trials keeps val/forgetting <= 0;" in out

    def test_only_those_that_keep_them_are_reevaluated(self, spec: SearchSpec) -> None:
        spec = bound(spec, "forgetting <= 5", reevaluate=Reevaluate(best=2, runs=2))
        assert reevaluation_of(ReevaluationSpec.of(spec), self.TRIALS, []).race.candidates == (3, 2)
        again = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=2, start=True)}))
        trials = [forgets(0, 95, 9), *self.TRIALS[1:]]  # the start breaks it, too
        assert reevaluation_of(again, trials, []).race.candidates == (3, 2)

    def test_a_failed_reevaluation_has_no_value_and_a_waiting_one_still_runs(self, spec: SearchSpec) -> None:
        again = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=1)}))
        failed = make_trial(again.number(1, 0), value=99.0, status="failed")
        waiting = make_trial(again.number(3, 0), status="pending")
        race = reevaluation_of(again, self.TRIALS, [failed, waiting]).race
        assert (race.candidates, race.out, race.wanted) == ((1, 3), (1,), ((3, 0),))


class TestAsking:
    """Accuracy and forgetting grow with alpha; the bound is at alpha = 1."""

    def points(self, spec: SearchSpec) -> list[float]:
        table = TrialTable()
        source, asked = OptunaSearcher(spec, trials=table), []
        while (suggestion := source.next()) is not None:
            number, point = suggestion
            alpha = float(point["alpha"])
            asked.append(alpha)
            trial = forgets(number, 50 + 10 * alpha / 3, 5 * alpha, hyperparameters=point)
            table.put(trial)
            source.finish(number, "complete", trial.value)
        return asked

    @pytest.mark.parametrize(("algorithm", "trials"), [("tpe", 24), ("gp", 12)])  # a Gaussian process is slow and sure
    def test_those_that_know_constraints_look_where_they_are_kept(
        self, spec: SearchSpec, algorithm: str, trials: int
    ) -> None:
        free = self.points(spec.model_copy(update={"algorithm": algorithm, "trials": trials}))
        kept = self.points(bound(spec, "forgetting <= 5", algorithm=algorithm, trials=trials))
        assert free[:6] == kept[:6]  # drawn before anything is modelled
        assert statistics.median(kept[6:]) < 1.5 and statistics.median(free[6:]) > 3

    def test_the_others_ask_for_the_same(self, spec: SearchSpec) -> None:
        free = self.points(spec.model_copy(update={"algorithm": "random", "trials": 8}))
        assert self.points(bound(spec, "forgetting <= 5", algorithm="random", trials=8)) == free

    @pytest.mark.parametrize("algorithm", ["tpe", "gp"])
    def test_a_continued_study_knows_them_too(self, spec: SearchSpec, algorithm: str) -> None:
        spec = bound(spec, "forgetting <= 5", algorithm=algorithm)
        diverged = make_trial(1, tasks=1, status="diverged")
        study = OptunaSearcher(spec, [forgets(0, 90, 9), diverged]).study
        assert [trial.constraints for trial in study.optuna.trials] == [
            {"val/forgetting <= 5": 4.0},
            {"val/forgetting <= 5": 0.0},
        ]
        assert study.as_optuna(forgets(0, 90, 9)).constraints == {"val/forgetting <= 5": 4.0}

    @pytest.mark.parametrize("rows", [(0.5, math.nan), (math.nan, 0.5)])
    def test_not_a_number_exceeds_every_bound_infinitely(self, spec: SearchSpec, rows: tuple[float, ...]) -> None:
        constraint = Constraint(metric="train/own", relation="<=", bound=1.0)
        spec = spec.model_copy(update={"constraints": (constraint,)})
        trial = forgets(0, 90, 1)
        trial.rows = [{**trial.rows[-1], "train/own": value} for value in rows]
        trials = [trial, replace(forgets(1, 80, 1), rows=[{**trial.rows[-1], "train/own": 0.5}])]
        searcher = OptunaSearcher(spec, trials)
        assert [each.constraints["train/own <= 1"] for each in searcher.study.optuna.trials] == [math.inf, -0.5]
        best = best_trial(trials, spec.aim)
        assert best is not None and best.number == 1
        assert "with train/own nan" in no_feasible_trial_reason(trials[:1], spec.constraints, "%")


class TestFront:
    def test_it_is_what_no_other_beats(self) -> None:
        steady = forgets(4, 70, 0.5)
        trials = [*TestChoosing.TRIALS, steady, make_trial(5, tasks=2, status="pruned")]
        assert [trial.number for trial in pareto_front(trials)] == [1, 3, 4]

    def test_equal_ones_are_all_on_it(self) -> None:
        trials = [forgets(0, 80, 2), forgets(1, 80, 2)]
        assert pareto_front(trials) == trials and pareto_front([]) == []


class TestWhyNothingIsChosen:
    def test_no_trial_has_finished(self) -> None:
        assert (
            no_feasible_trial_reason([make_trial(0, status="failed")], of("forgetting <= 1"), "%")
            == "has no finished trial yet"
        )

    def test_an_objective_was_never_measured(self) -> None:
        trials = [forgets(0, 80.0, 3.0), forgets(1, 70.0, 0.5)]
        assert no_feasible_trial_reason(trials, (), "%") == "no finished trial has a value in every objective"
        said = no_feasible_trial_reason(trials, of("forgetting <= 1"), "%")
        assert said == "no finished trial that keeps the constraints has a value in every objective"

    def test_all_that_the_nearest_breaks_is_named(self) -> None:
        bounds = (*of("forgetting <= 1"), Constraint(metric="other", relation="<=", bound=2.0))
        said = no_feasible_trial_reason([forgets(0, 80.0, 3.0)], bounds, "%")
        assert said.endswith("the nearest is trial 0 (80.00 %) with val/forgetting 3, other not measured")
        said = no_feasible_trial_reason([forgets(0, 80.0, 0.0)], of("forgetting <= -1"), "%")
        assert said.endswith("with val/forgetting 0"), "which was measured"

    def test_the_nearest_breaks_the_fewest_and_then_the_least_as_a_share_of_the_bound(self) -> None:
        """Trial 0 exceeds a bound below 1 by 0.5, trial 1 exceeds 4 by a share of 0.4, trial 2 both by little."""
        bounds = tuple(Constraint(metric=name, relation="<=", bound=bound) for name, bound in (("a", 0.5), ("b", 4.0)))
        trials = [make_trial(number, value=80.0) for number in (0, 1, 2)]
        for trial, (a, b) in zip(trials, ((1.0, 4.0), (0.5, 5.6), (0.51, 4.01)), strict=True):
            trial.rows[-1].update(a=a, b=b)
        assert "the nearest is trial 1 (80.00 %) with b 5.6" in no_feasible_trial_reason(trials, bounds, "%")


@pytest.mark.parametrize("best", [3, 9])
def test_no_more_trials_are_re_evaluated_than_there_are(spec: SearchSpec, best: int) -> None:
    asked = spec.model_copy(update={"reevaluate": Reevaluate(best=best, runs=2)})
    assert reevaluations_of(asked) == 2 * min(best, 4) and reevaluations_of(spec) == 0
    more = spec.model_copy(update={"reevaluate": Reevaluate(best=best, runs=2, start=True)})
    assert reevaluations_of(more) == 8, "the start is one of the four"
