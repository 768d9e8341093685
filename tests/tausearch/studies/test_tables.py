"""Tables of configurations: files that come back whole, and an objective that answers from a table."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

import tausearch
from search_spaces import Choices, Range
from tausearch.runs import TrialSummary
from tausearch.studies import ConfigurationTable, read_table, table_files, write_table
from tests.support.imports import ROOT
from tests.support.runs.tables import a_run, quality, table
from trainables.errors import InputError


class TestTables:
    def test_a_table_comes_back_as_it_was_written(self, tmp_path: Path) -> None:
        made = table(noise=1.0)
        diverged = TrialSummary(4, 1, "diverged", made.runs["search", 1][4].hyperparameters, [], None)
        made.runs["search", 1][4] = diverged
        write_table(tmp_path / "t.parquet", made)
        back = read_table(tmp_path / "t.parquet")
        assert back.spec == made.spec and back.runs == made.runs and back.splits == [0, 1, 2]
        assert back.test == {number: quality(number) for number in range(30)}

    def test_a_final_run_that_diverged_is_worth_nothing(self) -> None:
        made = table()
        made.runs["final", 1] = {n: a_run(n, 1, 50.0, "test") for n in range(30)}
        made.runs["final", 1][3].value = None
        assert made.test[2] == (62 + 50) / 2 and made.test[3] == 63 / 2

    def test_two_hundred_configurations_stay_below_two_megabytes(self, tmp_path: Path) -> None:
        write_table(tmp_path / "t.parquet", table(noise=1.0, count=210))
        assert (tmp_path / "t.parquet").stat().st_size < 2e6


def study_on_the_table(split: int = 0, pruner: optuna.pruners.BasePruner | None = None) -> optuna.Study:
    random, never = optuna.samplers.RandomSampler(seed=0), optuna.pruners.NopPruner()
    study = optuna.create_study(direction="maximize", sampler=random, pruner=pruner or never)
    study.optimize(table(noise=2.0).objective(split), n_trials=8)
    return study


class TestObjective:
    def test_a_point_gets_the_accuracy_of_the_nearest_configuration_on_its_split(self) -> None:
        made = table(noise=2.0)
        for split in (0, 2):
            for trial in study_on_the_table(split).trials:
                near = trial.user_attrs["configuration"]
                assert near == made.nearest(trial.params)
                assert trial.value == made.runs["search", split][near].value == made.validation(near, split)
        assert made.validation(7, 0) != made.validation(7, 1)

    def test_accuracies_after_each_task_let_pruners_stop(self) -> None:
        trials = study_on_the_table(pruner=optuna.pruners.ThresholdPruner(lower=80)).trials
        assert {trial.state.name for trial in trials} == {"PRUNED", "COMPLETE"}
        for trial in trials:
            *before, last = trial.intermediate_values.values()
            assert all(value >= 80 for value in before) and (last < 80) is (trial.state.name == "PRUNED")
        made, study = table(), optuna.create_study(direction="maximize")
        for run in made.runs["search", 0].values():
            run.rows[-1]["val/average_accuracy"] += 7
        study.optimize(made.objective(), n_trials=1)
        assert study.trials[0].intermediate_values[5] == pytest.approx(study.best_value + 7), "no final accuracy"
        values = study_on_the_table().trials[0].intermediate_values
        assert list(values) == [1, 2, 3, 4, 5] and values[1] - values[5] == pytest.approx(4)

    def test_it_draws_on_the_scale_of_each_range(self) -> None:
        made = table()
        whole = Range(low=1, high=9, log=True, integer=True, grid=(1,))
        space = {**made.spec.space, "alpha": whole, "kind": Choices(choices=("a", "b"))}
        for run in made.runs["search", 0].values():
            run.hyperparameters["kind"] = "a"
        made = replace(made, spec=made.spec.model_copy(update={"space": space}))
        study = optuna.create_study(direction="maximize")
        study.optimize(made.objective(), n_trials=1)
        drawn, kinds = study.trials[0].distributions, optuna.distributions
        lr = kinds.FloatDistribution(0.001, 0.1, log=True)
        kind = kinds.CategoricalDistribution(("a", "b"))
        assert drawn == {"alpha": kinds.IntDistribution(1, 9, log=True), "lr": lr, "kind": kind}

    def test_the_nearest_leaves_out_what_was_tried(self) -> None:
        made = table()
        point = made.point(5)
        assert made.nearest(point) == 5 != made.nearest(point, leaving_out=[5])
        assert made.nearest(point, leaving_out=[7]) == 5 == made.nearest(point, leaving_out=range(30, 60))
        for every in (range(30), range(31)):
            with pytest.raises(InputError, match="all 30 configurations are left out"):
                made.nearest(point, leaving_out=every)
        with pytest.raises(InputError, match="the point lacks lr"):
            made.nearest({"alpha": 1.0})
        for wrong in (math.nan, -1, "x", 1.0):
            with pytest.raises(InputError, match="lr of the point must be a number from 0.001 to 0.1, got"):
                made.nearest({**point, "lr": wrong})

    def test_splits_are_the_seeds_of_validated_runs_in_order(self) -> None:
        runs = table(noise=1.0).runs
        made = ConfigurationTable(
            table().spec,
            {("final", 7): runs["final", 0], ("search", 5): runs["search", 1], ("search", 2): runs["search", 2]},
        )
        assert made.splits == [2, 5] and made.validated(5, [4]) == [runs["search", 1][4]]
        with pytest.raises(InputError, match="split must be one of 2, 5, got 3"):
            made.objective(split=3)

    def test_a_configuration_that_is_not_there(self) -> None:
        made, said = table(), "configuration must be a whole number, 0 to 29, got 999"
        for ask in (made.point, lambda number: made.validation(number, 0), lambda number: made.validated(0, [number])):
            with pytest.raises(InputError, match=said):
                ask(999)
        assert made.point(0).keys() == made.spec.space.keys()
        assert [run.number for run in made.validated(0, (5, 3))] == [3, 5]

    def test_one_that_diverged_is_worth_nothing(self) -> None:
        made = table()
        made.runs["search", 0][4] = TrialSummary(4, 0, "diverged", made.runs["search", 0][4].hyperparameters)
        assert made.validation(4, 0) == 0 and made.validation(4, 1) == pytest.approx(quality(4))


def test_the_example_of_the_page_runs_on_a_table_that_comes_with_the_tool(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "reference" / "tables.md").read_text(), re.DOTALL)
    exec(code, {})
    assert re.fullmatch(r"\d\d\.\d\d % on test images; the best has 92\.27 %\n", capsys.readouterr().out)


def test_a_table_is_shown_in_a_line() -> None:
    assert (
        repr(tausearch.tables.load("digits")) == "<table of 205 configurations of ita-lora on digits, splits 0, 1, 2>"
    )


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no table of method 'ewc'; allowed: ita-lora"):
        tausearch.tables.load("digits", "ewc")
    with pytest.raises(InputError, match="no table of ita-lora on 'digts'; .*; did you mean 'digits'"):
        tausearch.tables.load("digts")
    assert len(table_files()) == 3


def test_a_table_of_another_method_is_none_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.studies.recorded.files.TABLES", tmp_path)
    for name in ("digits-ita-lora", "glyphs-ewc"):
        (tmp_path / f"{name}.parquet").touch()
    with pytest.raises(InputError, match="no table of ita-lora on 'glyphs'; allowed: digits"):
        tausearch.tables.load("glyphs")
