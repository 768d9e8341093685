"""Objectives: what a search aims at, the front of its trials, the point that it chooses, and what Optuna is told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import nan
from pathlib import Path
from random import Random
from time import process_time

import pytest

from tausearch.api import SearchResult
from tausearch.cli.output import search_as_dict, status_as_dict
from tausearch.cli.output.reevaluations import reevaluated_words, reevaluation_progress
from tausearch.presentation import SearchPlots, draw_figure, front_table, reevaluation_table
from tausearch.runs import (
    DataFacts,
    Objective,
    Record,
    Reevaluate,
    ReevaluationSpec,
    RunDirectory,
    RunStatus,
    SearchSpec,
    StopRule,
    Storage,
    TrialSummary,
    TrialTable,
    best_trial,
    chosen_trial,
    cut_short,
    eligible,
    gain_of,
    objectives_of,
    preferred,
    read_status,
    reevaluation_of,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies import (
    BestListener,
    OptunaSearcher,
    load_best,
    objectives_named,
    replay,
    require_alone,
    study_of,
    write_best,
)
from tausearch.studies.best_file import best_of_run, make_best_file
from tausearch.studies.recorded.trials import RecordedTrials
from tausearch.studies.study import SearchStudy
from tests.support.runs.trials import make_trial
from trainables.errors import InputError
from trainables.methods import METHODS
from trainables.metrics import PEAK_GPU_BYTES, VALIDATION

NONE = RunDirectory(Path("none"))
FINAL, FORGETTING = VALIDATION.final_accuracy, VALIDATION.forgetting
METRICS = [FINAL, VALIDATION.average_accuracy, FORGETTING, *VALIDATION.removability, "train/loss", "seconds/training"]
# Accuracy and forgetting. On the front: 0, 1 and 2; trial 1 bulges. Trial 3 is behind trial 1 in both.
POINTS = [(90.0, 10.0), (88.0, 4.0), (80.0, 2.0), (87.0, 5.0)]


def aiming(spec: SearchSpec, *names: str, prefer: str | None = None, **changes: object) -> SearchSpec:
    objectives = objectives_of(names, METRICS)
    return spec.model_copy(update={"objectives": objectives, "prefer": preferred(prefer, objectives), **changes})


def trials_at(points: Sequence[tuple[float, float]]) -> list[TrialSummary]:
    trials = [make_trial(number, value=accuracy) for number, (accuracy, _) in enumerate(points)]
    for trial, (_, forgetting) in zip(trials, points, strict=True):
        trial.rows[-1][FORGETTING] = forgetting
    return trials


class TestAsked:
    def test_directions_follow_from_the_metrics(self) -> None:
        names = [
            "final_accuracy",
            "val/forgetting",
            "seconds",
            "bytes",
            "removability",
            "removability/rest",
            "removability/forgotten",
            "train/loss",
        ]
        found = objectives_of(names, [*METRICS, PEAK_GPU_BYTES])
        assert [each.metric for each in found[2:4]] == ["seconds", PEAK_GPU_BYTES]
        more = [each.name for each in found if each.direction == "maximize"]
        assert more == ["final_accuracy", "removability", "removability/forgotten"]
        assert objectives_of(["final_accuracy"], METRICS) == ()  # what every search aims at

    @pytest.mark.parametrize(
        ("names", "why"),
        [
            (["speed"], "--objective 'speed': unknown metric; allowed: final_accuracy, average_accuracy, forgetting"),
            (["cache/hit"], "unknown metric"),
            (["forgetting", "val/forgetting"], "--objective forgetting: is given twice"),
            (["bytes"], "unknown metric; trials on a CPU report no memory of a GPU"),
        ],
    )
    def test_others_are_refused(self, names: list[str], why: str) -> None:
        with pytest.raises(InputError, match=why):
            objectives_of(names, METRICS)

    @pytest.mark.parametrize(("method", "tasks"), [("joint", 3), ("ita-lora", 1)])
    def test_forgetting_of_one_task_is_no_aim_of_its_own(self, method: str, tasks: int) -> None:
        assert objectives_named(["forgetting"], None, METHODS["ita-lora"], 2, on_gpu=False)[0]
        assert objectives_named(["forgetting", "seconds"], None, METHODS[method], tasks, on_gpu=False)[0]
        with pytest.raises(InputError, match="^--objective forgetting: 0 for every trial, as nothing is forgotten"):
            objectives_named(["forgetting"], None, METHODS[method], tasks, on_gpu=False)

    def test_a_rule_needs_a_front_and_one_of_its_objectives(self) -> None:
        both = objectives_of(["final_accuracy", "forgetting"], METRICS)
        assert (preferred(None, both), preferred("knee", both), preferred("forgetting", both)) == (
            "knee",
            "knee",
            FORGETTING,
        )
        with pytest.raises(InputError, match="--prefer 'seconds': allowed: knee, final_accuracy, forgetting"):
            preferred("seconds", both)
        with pytest.raises(InputError, match="--prefer 'knee': goes with two --objective or more"):
            preferred("knee", both[:1])

    def test_they_go_with_no_rule_that_compares_accuracies_or_one_best(self) -> None:
        both = objectives_of(["final_accuracy", "forgetting"], METRICS)
        with pytest.raises(InputError, match="--scheduler asha: stops trials by accuracy"):
            require_alone(both[1:], "asha", None, None)
        with pytest.raises(InputError, match="--patience: goes with one objective"):
            require_alone(both, "none", 3, None)
        with pytest.raises(InputError, match="--target: goes with one objective"):
            require_alone(both, "none", None, 90.0)
        with pytest.raises(InputError, match="--patience: goes with one objective"):
            require_alone(both, "none", 3, 90.0)
        require_alone(both[1:], "none", 3, 1.0)
        require_alone((), "asha", 3, None)

    @pytest.mark.parametrize(
        ("objectives", "target", "said"),
        [
            ([], 101, "no trial can reach it; final_accuracy goes from 0 to 100 %"),
            ([], 100, None),
            ([], 0, "every trial reaches it; final_accuracy goes from 0 to 100 %"),
            ([], 0.1, None),
            (["forgetting"], -101, "no trial can reach it; forgetting goes from -100 to 100 points"),
            (["forgetting"], 100, "every trial reaches it"),
            (["forgetting"], 0, None),
            (["removability"], 201, "no trial can reach it"),
            (["removability/rest"], -101, "no trial can reach it"),
            (["seconds"], -1, "no trial can reach it; seconds goes from 0 to inf s"),
            (["seconds"], 1e9, None),
            (["train/loss"], -5, None),
        ],
    )
    def test_a_target_that_none_or_every_trial_reaches_is_refused(
        self, objectives: list[str], target: float, said: str | None
    ) -> None:
        aims = objectives_of(objectives, METRICS)
        if said is None:
            require_alone(aims, "none", None, target)
        else:
            with pytest.raises(InputError, match=re.escape(f"--target {target:g}: {said}")):
                require_alone(aims, "none", None, target)


class TestSaid:
    @pytest.mark.parametrize(
        ("metric", "label", "difference"),
        [
            ("val/accuracy/task_1", "accuracy/task_1 (%)", "points"),
            ("val/removability/rest", "removability/rest (points)", "points"),
            ("seconds/training", "seconds/training (s)", "s"),
            (PEAK_GPU_BYTES, "memory/peak_gpu_bytes (bytes)", "bytes"),
            ("train/loss", "train/loss", ""),
        ],
    )
    def test_a_metric_has_its_unit(self, metric: str, label: str, difference: str) -> None:
        found = Objective(metric=metric, direction="minimize")
        assert (found.label, found.difference) == (label, difference)

    def test_many_digits_are_too_many_on_either_side_of_nought(self) -> None:
        assert [Objective.number(value) for value in (99_999.0, -123_456.0)] == ["99999.00", "-1.235e+05"]

    def test_nought_is_a_value(self) -> None:
        (forgetting,), (trial,) = objectives_of(["forgetting"], METRICS), trials_at([(80.0, 0.0)])
        assert forgetting.value(trial) == 0.0 and forgetting.text(0.0) == "0.00 points"

    def test_names_may_be_whole_and_have_room_around_them(self) -> None:
        both = objectives_of([" final_accuracy ", "val/forgetting"], METRICS)
        assert preferred("val/forgetting", both) == FORGETTING

    def test_how_a_point_is_chosen_is_said_where_there_are_several(self, spec: SearchSpec) -> None:
        assert str(aiming(spec, "forgetting").aim) == "less forgetting"
        both = aiming(spec, "final_accuracy", "forgetting", prefer="forgetting").aim
        assert str(both) == "more final_accuracy, less forgetting; chosen by forgetting"

    def test_the_seconds_are_those_that_a_trial_cannot_take_from_the_cache(self) -> None:
        (seconds,) = objectives_of(["seconds"], METRICS)
        (trial,) = trials_at(POINTS[:1])
        trial.rows[0]["seconds/preconsolidation"] = 40.0
        assert seconds.value(trial) == 4.5
        assert seconds.value(make_trial(1, value=9.0, status="failed")) is None, "it is not complete"


class TestChosen:
    TRIALS = trials_at(POINTS)

    def test_a_front_has_the_most_accurate_first(self, spec: SearchSpec) -> None:
        trials = trials_at([*POINTS[::-1], (90.0, 11.0)])  # the last is as accurate as the first of the front
        assert [each.number for each in aiming(spec, "final_accuracy", "forgetting").aim.front(trials)] == [3, 2, 1]

    @pytest.mark.parametrize("values", [4, 1000])
    def test_a_front_is_what_no_other_beats(self, spec: SearchSpec, values: int) -> None:
        """With few values there are ties and equal points, with many there are hardly any."""
        draw = Random(values)
        points = [(draw.randrange(values) + 0.0, draw.randrange(values) + 0.0) for _ in range(60)]
        front = aiming(spec, "final_accuracy", "forgetting").aim.front(trials_at(points))

        def is_beaten(accuracy: float, forgetting: float) -> bool:
            better = [(a, f) for a, f in points if a >= accuracy and f <= forgetting]
            return any(each != (accuracy, forgetting) for each in better)

        assert {each.number for each in front} == {n for n, each in enumerate(points) if not is_beaten(*each)}

    def test_a_front_of_thousands_of_trials_takes_no_time(self, spec: SearchSpec) -> None:
        trials, start = trials_at([(float(number), float(number)) for number in range(2000)]), process_time()
        assert len(aiming(spec, "final_accuracy", "forgetting").aim.front(trials)) == 2000
        assert process_time() - start < 2  # comparing each with each takes six

    def test_of_one_objective_the_front_is_that_of_accuracy_and_forgetting(self, spec: SearchSpec) -> None:
        assert [each.number for each in aiming(spec, "forgetting").aim.front(self.TRIALS)] == [0, 1, 2]

    def test_a_trial_outside_the_bounds_does_not_move_the_knee(self, spec: SearchSpec) -> None:
        bound = {"metric": FINAL, "relation": ">=", "bound": 50}
        bounded = SearchSpec.model_validate({**spec.model_dump(), "constraints": [bound]})
        aim = aiming(bounded, "final_accuracy", "forgetting").aim
        trials = trials_at([*POINTS, (10.0, 0.0)])
        assert [aim.value_of(each, trials) for each in trials[:3]] == pytest.approx([-1.0, -0.45, -1.0])

    def test_the_best_in_every_objective_scores_nought_without_a_sign(self, spec: SearchSpec) -> None:
        aim = aiming(spec, "final_accuracy", "forgetting").aim
        assert str(aim.value_of(self.TRIALS[0], self.TRIALS[:1])) == "0.0"

    def test_a_trial_that_lacks_one_objective_is_not_chosen(self, spec: SearchSpec) -> None:
        trials = trials_at([(95.0, 1.0), (90.0, 10.0)])
        del trials[0].rows[-1][FORGETTING]
        aim = aiming(spec, "final_accuracy", "forgetting", prefer="final_accuracy").aim
        assert [trial.number for trial in eligible(trials, aim)] == [trial.number for trial in aim.front(trials)] == [1]
        assert aim.means(trials) == {FINAL: 92.5} and aim.means([]) == {}

    @pytest.mark.parametrize(
        ("prefer", "order"),
        [("knee", [1, 0, 2, 3]), ("final_accuracy", [0, 1, 2, 3]), ("forgetting", [2, 1, 0, 3])],
    )
    def test_a_point_of_the_front_by_the_rule(self, spec: SearchSpec, prefer: str, order: list[int]) -> None:
        spec = aiming(spec, "final_accuracy", "forgetting", prefer=prefer)
        assert [trial.number for trial in eligible(self.TRIALS, spec.aim)] == order
        assert [trial.number for trial in spec.aim.front(self.TRIALS)] == [0, 1, 2]

    def test_the_knee_is_that_of_scaled_objectives(self, spec: SearchSpec) -> None:
        aim = aiming(spec, "final_accuracy", "forgetting").aim
        trials = trials_at([*POINTS, (10.0, 90.0)])  # the last is far behind all others
        scores = [aim.value_of(trial, trials) for trial in trials[:3]]
        assert scores == pytest.approx([-1.0, -(2 / 10 + 2 / 8), -1.0])

    def test_a_trial_that_forgets_nothing_has_its_place_on_the_scale(self, spec: SearchSpec) -> None:
        trials = trials_at([(90.0, 5.0), (86.0, 2.0), (80.0, 0.0)])
        aim = aiming(spec, "final_accuracy", "forgetting").aim
        assert [trial.number for trial in eligible(trials, aim)] == [1, 0, 2]

    def test_of_points_on_a_line_the_most_accurate_is_the_knee(self, spec: SearchSpec) -> None:
        trials = trials_at([(89.4, 9.52), (80.0, 2.0), (90.0, 10.0)])  # whatever the last digit of their sums
        aim = aiming(spec, "final_accuracy", "forgetting").aim
        assert [trial.number for trial in eligible(trials, aim)] == [2, 0, 1]

    def test_on_a_front_of_one_point_the_others_still_compare(self, spec: SearchSpec) -> None:
        trials = trials_at([(90.0, 2.0), (89.0, 8.0), (80.0, 4.0)])
        aim = aiming(spec, "final_accuracy", "forgetting").aim
        assert [aim.value_of(trial, trials) for trial in trials] == pytest.approx([0, -(0.1 + 1), -(1 + 1 / 3)])

    def test_a_bound_leaves_points_out(self, spec: SearchSpec) -> None:
        bounds = [
            {"metric": FINAL, "relation": ">=", "bound": 50},
            {"metric": FORGETTING, "relation": "<=", "bound": 3},
        ]
        bounded = SearchSpec.model_validate({**spec.model_dump(), "constraints": bounds})
        aim = aiming(bounded, "final_accuracy", "forgetting", prefer="final_accuracy").aim
        assert [trial.number for trial in eligible(self.TRIALS, aim)] == [2]

    def test_what_beats_the_chosen_trial_outside_a_bound_leaves_it_on_the_front(self, spec: SearchSpec) -> None:
        bound = {"metric": "seconds", "relation": "<=", "bound": 5}
        bounded = SearchSpec.model_validate({**spec.model_dump(), "constraints": [bound]})
        trials = trials_at([(90.0, 2.0), (89.0, 8.0), (88.0, 9.0)])
        trials[0].rows[0]["seconds/training"] = 100.0
        aim = aiming(bounded, "final_accuracy", "forgetting").aim
        assert [trial.number for trial in eligible(trials, aim)] == [1, 2]
        status = RunStatus(aiming(bounded, "final_accuracy", "forgetting"), NONE, "finished", {}, trials, trials[1])
        assert [trial.number for trial in status.front] == [0, 1]
        assert [each["trial"] for each in status.as_dict()["front"]] == [0, 1]

    def test_the_memory_of_a_gpu_is_the_most_of_all_tasks(self, spec: SearchSpec) -> None:
        objectives = objectives_of(["bytes", "final_accuracy"], [*METRICS, PEAK_GPU_BYTES])
        (trial,) = trials_at(POINTS[:1])
        for row, found in zip(trial.rows, (1e9, 1.5e9, 1.2e9), strict=True):
            row[PEAK_GPU_BYTES] = found
        aiming = spec.model_copy(update={"objectives": objectives})
        assert aiming.aim.words(trial) == "memory/peak_gpu_bytes 1.5e+09 bytes, final_accuracy 90.00 %"
        table = front_table(aiming, [trial], best=None)
        assert table.texts[0][:3] == ["0", "90.00", "1.5e+09"]

    @pytest.mark.parametrize("names", [["forgetting"], ["final_accuracy", "forgetting"]])
    def test_not_a_number_is_no_value(self, spec: SearchSpec, names: list[str]) -> None:
        trials = trials_at([(95.0, nan), (90.0, 10.0), (80.0, 20.0)])
        aim = aiming(spec, *names).aim
        assert [trial.number for trial in eligible(trials, aim)] == [1, 2]
        if len(names) > 1:
            assert [trial.number for trial in aim.front(trials)] == [1]

    def test_a_single_objective_alone(self, spec: SearchSpec) -> None:
        less = best_trial(self.TRIALS, aiming(spec, "forgetting").aim)
        assert less is not None and less.number == 2
        history = SearchPlots(aiming(spec, "forgetting"), self.TRIALS).history()
        assert history is not None and history.y.label == "forgetting (points)"
        assert [list(series.y) for series in history.facets[0].series] == [[10.0, 4.0, 2.0, 2.0], [10.0, 4.0, 2.0, 5.0]]
        assert history.caption == "The forgetting of 4 finished trials, from 2.00 points to 10.00 points."
        unmeasured = aiming(spec, "removability")
        assert best_trial(self.TRIALS, unmeasured.aim) is None and unmeasured.removability

    @pytest.mark.parametrize(("prefer", "step"), [("final_accuracy", 0.5), ("forgetting", 0.0), ("knee", 0.0)])
    def test_one_image_is_a_step_where_a_point_of_the_front_is_chosen_by_accuracy(
        self, spec: SearchSpec, prefer: str, step: float
    ) -> None:
        facts = DataFacts(digest="0", train=1000, evaluation=200)
        assert aiming(spec, "final_accuracy", "forgetting", prefer=prefer, data=facts).value_resolution == step

    def test_it_ends_by_its_own_gain(self, spec: SearchSpec) -> None:
        spec = aiming(spec, "forgetting", stop=StopRule(patience=2, target=1.0), trials=9)
        trials = trials_at([(70, 9.0), (71, 8.9), (99, 9.0)])
        assert cut_short(spec, trials) is None
        found = cut_short(spec, trials_at([(70, 9.0), (71, 8.9), (99, 9.0), (99, 9.0)]))
        assert found is not None and "up to trial 3" in found.why
        found = cut_short(spec, trials_at([(70, 9.0), (71, 0.5)]))
        assert found is not None and found.why == "trial 1 came to 0.50 points, at most 1 points"

    def test_fresh_runs_are_compared_by_the_objective(self, spec: SearchSpec) -> None:
        spec = aiming(spec, "forgetting", reevaluate=Reevaluate(best=2, runs=2, start=True))
        again = ReevaluationSpec.of(spec)
        runs = trials_at([(50.0, 6.0), (50.0, 8.0), (99.0, 9.0), (99.0, 9.0), (99.0, 9.0), (99.0, 9.0)])
        numbers = [again.number(candidate, round_) for candidate in (1, 2, 0) for round_ in (0, 1)]
        for run, number in zip(runs, numbers, strict=True):
            run.number = number
        found = reevaluation_of(again, self.TRIALS, runs)
        chosen = chosen_trial(spec, self.TRIALS, found)
        assert chosen is not None and chosen.number == 1
        assert found.race.candidates == (2, 1, 0), "ties go to the best of the search, and to its start last"
        assert found.verdict is not None and found.verdict.mean == 7.0 and found.verdict.ahead == 2.0
        assert found.values(1) == [6.0, 8.0]
        once = min(self.TRIALS, key=lambda trial: trial.final[FORGETTING])
        status = RunStatus(spec, NONE, "finished", {}, self.TRIALS, once, reevaluation=found)
        assert status.goodness == -7.0, "searches compare by the mean of fresh runs"
        assert status.accuracy == 50.0 and status.as_dict()["best"]["value"] == once.value
        assert str(gain_of(spec, self.TRIALS, chosen, found)).startswith("+2.00 ± ")
        table = reevaluation_table(found)
        assert table.title == "fresh runs, forgetting (points)" and [len(row) for row in table.rows] == [5, 5, 5]

    def test_fresh_runs_of_a_knee_are_said_in_the_objectives(self, spec: SearchSpec) -> None:
        aims = ("final_accuracy", "forgetting")
        spec = aiming(spec, *aims, reevaluate=Reevaluate(best=2, runs=1, start=False))
        again = ReevaluationSpec.of(spec)
        runs = trials_at([(70.0, 6.0), (86.0, 7.0)])
        for run, candidate in zip(runs, (1, 0), strict=True):
            run.number = again.number(candidate, 0)
        found = reevaluation_of(again, self.TRIALS, runs)
        assert found.verdict is not None and found.verdict.chosen == 0
        assert (found.unit, found.difference) == ("", ""), "the score of a knee has none"
        assert gain_of(spec, self.TRIALS, self.TRIALS[1], found) is None, "nor does it compare"
        status = RunStatus(spec, NONE, "finished", {}, self.TRIALS, self.TRIALS[0], reevaluation=found)
        assert status.accuracy == 86.0, "the mean of its fresh runs, not the score of the knee"
        assert found.race.values[0] == (spec.aim.score(self.TRIALS)(runs[1]),)  # on the scale of the whole front
        assert reevaluated_words(found) == ", re-evaluated final_accuracy 86.00 %, forgetting 7.00 points"
        assert reevaluation_progress(found).endswith(" ahead of trial 1 in the score of the knee")
        assert reevaluation_table(found).rows[1][3:5] == (86.0, 7.0)
        assert found.as_dict()["candidates"][1]["objectives"] == {FINAL: 86.0, FORGETTING: 7.0}
        chosen = make_best_file(spec, self.TRIALS[0], 4, found).selection
        assert chosen is not None and chosen.reevaluation is not None
        assert chosen.reevaluation.objectives == {FINAL: 86.0, FORGETTING: 7.0}, "means over its fresh runs"


class TestOptuna:
    @pytest.mark.parametrize("algorithm", ["tpe", "gp", "random", "grid", "optuna:NSGAIISampler"])
    def test_a_killed_search_for_a_front_goes_on_with_the_same_points(self, spec: SearchSpec, algorithm: str) -> None:
        spec = aiming(spec, "final_accuracy", "forgetting", algorithm=algorithm, trials=6 if algorithm == "grid" else 9)
        if algorithm == "tpe":
            spec = spec.model_copy(update={"sampler_options": {"n_startup_trials": 4}})

        def play(history: list[TrialSummary], most: int) -> list[TrialSummary]:
            table = TrialTable(history)
            searcher = OptunaSearcher(spec, history, table)
            while len(list(table)) < most and (found := searcher.next()) is not None:
                number, point = found
                (trial,) = trials_at([(90 - 5 * abs(float(point["alpha"]) - 2), 500 * float(point["lr"]))])
                trial.number, trial.hyperparameters = number, {**trial.hyperparameters, **point}
                table.put(trial)
                assert not searcher.report(number, 1, 1.0)
                searcher.finish(number, "diverged" if number == 3 else "complete", trial.value)
                if number == 3:
                    trial.status, trial.value = "diverged", None
            return list(table)

        straight = play([], spec.trials)
        assert play(play([], 5), spec.trials) == straight

    def test_the_study_has_the_values_in_their_directions(self, spec: SearchSpec) -> None:
        spec = aiming(spec, "final_accuracy", "forgetting")
        trials = trials_at(POINTS)
        study = study_of(spec, trials)
        assert [each.name for each in study.directions] == ["MAXIMIZE", "MINIMIZE"]
        assert sorted(each.number for each in study.best_trials) == [0, 1, 2]
        frozen = [SearchStudy(spec).as_optuna(trial).values for trial in trials]
        assert frozen == [list(point) for point in POINTS]
        assert study_of(spec, trials, accuracy_alone=True).best_trial.number == 0

    def test_a_replay_chooses_by_the_objectives(self, spec: SearchSpec) -> None:
        spec = aiming(spec, "final_accuracy", "forgetting", prefer="forgetting", algorithm="random")
        recorded = RecordedTrials(trials_at(POINTS), spec.space, spec.aim)
        found = replay(spec, recorded)
        assert found.chosen is not None and found.chosen.number == 2 == recorded.best.number
        assert recorded.value(recorded.best) == 2.0 and recorded.regret(5.0) == 3.0


def test_the_front_is_written_told_and_drawn(spec: SearchSpec, tmp_path: Path) -> None:
    start = {"alpha": 1.0, "lr": 0.01}
    spec, directory = make_run_directory(aiming(spec, "final_accuracy", "forgetting", start=start), Storage(tmp_path))
    trials = trials_at(POINTS)
    for trial in trials:
        Record(directory.record).write(trial)
    (directory.path / "front").mkdir()
    (directory.path / "front" / "trial-00003.yaml").write_text("of a point that has left the front")
    best = write_best(spec, directory, trials)
    assert best is not None and best.selection is not None
    assert (best.selection.metric, best.selection.objectives) == ("knee", {FINAL: 88.0, FORGETTING: 4.0})
    files = sorted(directory.front.iterdir())
    assert [file.name for file in files] == [f"trial-0000{number}.yaml" for number in (0, 1, 2)]
    kept = [each.selection for each in map(load_best, files) if each.selection is not None]
    assert [each.value for each in kept] == pytest.approx([-1.0, -0.45, -1.0]) and best.selection.value == kept[1].value
    assert [each.trials for each in kept] == [4] * 3, "all competed, not the front alone"
    point = load_best(files[2])
    assert point.hyperparameters["alpha"] == trials[2].hyperparameters["alpha"]
    assert point.selection is not None and point.selection.ended == best.selection.ended is not None
    status = read_status(directory)
    assert status.best is not None and status.best.number == 1
    found = status_as_dict(status, None, None)
    assert found["chosen_by"] == "knee" and found["front"][1] == {"trial": 1, FINAL: 88.0, FORGETTING: 4.0}
    about = {"log_file": directory.log_file, "tracking_uri": "", "tracking_error": None, "signal": None}
    found_best = {"best": best, "best_file": directory.best_file, "reevaluation": None}
    result = SearchResult(directory.name, directory.path, trials, out_of_time=False, over=True, **about, **found_best)
    assert search_as_dict(result, spec)["front"] == found["front"] and result.front == status.front
    plot = SearchPlots(spec, trials, chosen=2).front()
    assert plot is not None and [[len(series.x) for series in facet.series] for facet in plot.facets] == [[4, 1, 3]]
    assert "Trial 2 is chosen." in plot.caption and plot.facets[0].series[1].x == [2.0]
    draw_figure(plot, "a test")


def test_the_files_of_the_front_follow_a_search_whose_choice_stays(spec: SearchSpec, tmp_path: Path) -> None:
    aim = aiming(spec, "final_accuracy", "forgetting", prefer="final_accuracy")
    spec, directory = make_run_directory(aim, Storage(tmp_path))
    trials = TrialTable()
    chosen: list[int] = []
    listener = BestListener(spec, directory, trials, TrialTable(), lambda trial, verdict: chosen.append(trial.number))
    for trial, front in zip(trials_at(POINTS), ([0], [0, 1], [0, 1, 2], [0, 1, 2]), strict=True):
        trials.put(trial)
        listener.trial_changed(trial)
        assert sorted(file.stem for file in directory.front.iterdir()) == [f"trial-0000{number}" for number in front]
    assert chosen == [0]


def test_one_objective_has_no_files_of_a_front_and_its_value_in_the_best_file(spec: SearchSpec, tmp_path: Path) -> None:
    spec, directory = make_run_directory(aiming(spec, "forgetting"), Storage(tmp_path))
    for trial in trials_at(POINTS):
        Record(directory.record).write(trial)
    best = write_best(spec, directory, trials_at(POINTS))
    assert best is not None and best.selection is not None and not directory.front.exists()
    assert (best.selection.metric, best.selection.value, best.selection.trial) == (FORGETTING, 2.0, 2)
    directory.best_file.unlink()
    assert best_of_run(Storage(tmp_path), spec.name, print) == best, "the record has all of it"


def test_a_search_for_accuracy_alone_has_no_word_of_them_in_its_best_file(spec: SearchSpec, tmp_path: Path) -> None:
    trials = trials_at(POINTS)
    write_best(*make_run_directory(spec, Storage(tmp_path)), trials)
    text = Storage(tmp_path).run(spec.name).best_file.read_text()
    assert "gain:" in text and "objectives" not in text and "unit" not in text


def test_an_objective_is_kept_in_the_file(spec: SearchSpec) -> None:
    spec = aiming(spec, "final_accuracy", "forgetting", prefer="forgetting")
    assert SearchSpec.model_validate(spec.model_dump(mode="json")) == spec
    assert spec.objectives[1] == Objective(metric=FORGETTING, direction="minimize")
