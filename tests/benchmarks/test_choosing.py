"""The benchmark of choosing: tables that come back whole, draws, prices, re-evaluations and intervals, by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from benchmarks.choosing.kept import measured
from benchmarks.choosing.making import Wanted, _left, _run, _spec
from benchmarks.choosing.measuring import Estimate, Outcome, outcomes
from benchmarks.choosing.page import DATA, PAGE, about, as_summary, by_benchmark, draw, write_data
from benchmarks.choosing.strategies import Draw, Search, chosen, draws_of, replayed
from benchmarks.results.page import replaced
from tausearch.runs import TrialSummary
from tausearch.studies import ConfigurationTable, table_files, write_table
from tests.support.runs.tables import KNOWN, STEPS, quality, table


class TestMaking:
    def wanted(self, work: Path) -> Wanted:
        return Wanted("digits", "ita-lora", 20, (0, 1), (0,), work)

    def test_every_configuration_runs_on_every_split_and_is_tested(self, tmp_path: Path) -> None:
        wanted = self.wanted(tmp_path)
        made = _spec(wanted)
        left = list(_left(wanted, made))
        runs = [(each.trial, each.purpose, each.seed, each.split_seed) for each in left]
        assert len(set(runs)) == len(runs) == 3 * made.trials and made.trials == 20 + 1 + len(made.warm_start)
        assert {each[1:] for each in runs} == {("search", 0, 0), ("search", 1, 1), ("final", 0, 0)}
        points = {each.trial: each.hyperparameters for each in left}
        assert all(each.hyperparameters == points[each.trial] for each in left)
        assert points[0] == {**made.fixed, **made.start} and len(made.warm_start) > 2
        assert [points[k + 1] for k in range(len(made.warm_start))] == [
            {**made.fixed, **known.point} for known in made.warm_start
        ]

    def test_what_has_run_does_not_run_again_and_more_change_none(self, tmp_path: Path) -> None:
        wanted = self.wanted(tmp_path)
        made = _spec(wanted)
        first = list(_left(wanted, made))
        config = first[3]
        run = TrialSummary(config.trial, config.seed, "diverged", config.hyperparameters)
        wanted.record(config.purpose, config.seed, made.steps).write(run)
        assert list(_left(wanted, made)) == [each for each in first if each is not config]
        more = Wanted("digits", "ita-lora", 25, (0, 1), (0,), tmp_path)
        points = {each.trial: each.hyperparameters for each in _left(more, _spec(more))}
        assert all(points[each.trial] == each.hyperparameters for each in first)

    @pytest.mark.timeout(120)
    def test_a_run_is_a_trial_of_the_product(self, tmp_path: Path) -> None:
        wanted = Wanted("digits", "finetune", 1, (0,), (0,), tmp_path)
        config = next(_left(wanted, _spec(wanted)))
        run = _run(replace(config, benchmark="digits?epochs=1"))
        assert run.status == "complete" and len(run.rows) == 5
        assert run.value == run.rows[-1]["val/final_accuracy"] and not any("test/" in name for name in run.rows[-1])


class TestChoosing:
    def one(self, noise: float = 0.0, split: int = 0) -> Draw:
        return Draw(table(noise), tuple(range(30)), split, seed=0)

    @pytest.mark.parametrize("scheduler", ["none", "asha", "median"])
    @pytest.mark.parametrize("tasks", [20, 40])
    def test_a_search_pays_for_every_task(self, scheduler: str, tasks: int) -> None:
        drawn = self.one()
        found = replayed(Search("random", scheduler), drawn, tasks)  # type: ignore[arg-type]
        spent, finished = 0, []
        for number, (status, cost) in zip(found.tried, found.ends, strict=True):
            spent += cost
            if spent <= tasks and status == "complete":
                finished.append(number)
        assert spent >= tasks and chosen(drawn, found, tasks, reevaluate=False) == max(finished, key=quality)
        if scheduler != "none":
            assert len(found.tried) > tasks / STEPS and found.stopped

    def test_what_the_paper_chose_comes_second(self) -> None:
        found = [replayed(Search("random", warm=warm), self.one(), 20).tried for warm in (True, False)]
        assert found[0][:2] == (0, 1) and found[1][0] == 0 and found[1][1] != 1

    def test_a_reevaluation_is_paid_for_and_looks_at_other_splits(self) -> None:
        drawn = self.one(noise=3.0, split=1)
        found = replayed(Search("random"), drawn, 60)
        searched = drawn.table.runs["search", 1]
        best = sorted(found.tried[:6], key=lambda n: -(searched[n].value or 0))[
            :3
        ]  # of 12 trials' price, 6 re-evaluate
        means = {n: np.mean([drawn.table.runs["search", s][n].value for s in (0, 2)]) for n in best}
        assert chosen(drawn, found, 60, reevaluate=True) == max(means, key=means.__getitem__)
        assert chosen(drawn, found, 30, reevaluate=True) is None  # nothing is left for the search

    def test_ties_go_to_the_earlier(self) -> None:
        drawn = self.one()
        for run in drawn.table.runs["search", 0].values():
            run.value = 50.0
        found = replayed(Search("random"), drawn, 30)
        assert chosen(drawn, found, 30, reevaluate=False) == found.tried[0]


class TestDraws:
    def test_tables_are_drawn_with_replacement_and_keep_what_is_known(self) -> None:
        rows = draws_of(table(), resamples=30, searches=2)
        assert all(drawn.numbers[:KNOWN] == (0, 1) for row in rows for drawn in row)
        shares = [len(row[0].numbers[KNOWN:]) / 28 for row in rows]
        assert np.mean(shares) == pytest.approx(1 - np.exp(-1), abs=0.05)
        assert {drawn.split for row in rows for drawn in row} == {0, 1, 2}
        seeds = [drawn.seed for row in rows for drawn in row]
        assert len(set(seeds)) == len(seeds) and all(row[0].numbers == row[1].numbers for row in rows)

    def test_the_same_draws_come_again_however_many_there_are(self) -> None:
        few, many = draws_of(table(), 2, 2), draws_of(table(), 4, 2)
        assert [[(d.numbers, d.split) for d in row] for row in few] == [
            [(d.numbers, d.split) for d in row] for row in many[:2]
        ]


def test_an_interval_is_that_of_the_mean_over_tables() -> None:
    generator = np.random.default_rng(1)
    chance = generator.normal(3, 2, (4000, 4))  # of the searches on a table; a few of them say little about it
    found = Estimate.of(chance + generator.normal(0, 0.5, (4000, 1)))
    assert found.mean == pytest.approx(3, abs=0.1)
    assert found.high - found.mean == pytest.approx(1.96 * 0.5, rel=0.1) == found.mean - found.low
    alike = Estimate.of(chance[:50])
    assert 1.96 * 2 / math.sqrt(200) * 0.7 < alike.high - alike.mean < 1.96 * 2 / 2
    settled = [
        Estimate.of(np.array(values)).is_settled for values in ([[-1.0, -1.0], [1.0, 1.0]], [[1.0] * 2, [1.1] * 2])
    ]
    assert settled == [False, True]


def test_all_ways_are_measured_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise whoever tries more finds better; the baseline gains nothing over itself."""
    searched = (Search("random"), Search("random", "asha", warm=True))
    monkeypatch.setattr("benchmarks.choosing.measuring.SEARCHED", searched)
    monkeypatch.setattr("benchmarks.choosing.measuring.SEARCHES", {"random": 4})
    monkeypatch.setattr("benchmarks.choosing.making.local_cpus", lambda: 1)
    fork = {"spawn": get_context("fork")}  # which has imported everything
    monkeypatch.setattr("benchmarks.choosing.making.get_context", fork.__getitem__)
    found = outcomes(table(), resamples=6, prices=(8, 10, 12))
    by_name = {(each.label, each.price): each for each in found}
    assert len(by_name) == 12 and all(each.searches == 24 for each in found)
    assert by_name["random", 12].gain == Estimate(0, 0, 0)
    assert by_name["random", 12].accuracy.mean > by_name["random", 8].accuracy.mean
    assert by_name["random, re-evaluated", 12].accuracy.mean < by_name["random", 12].accuracy.mean
    monkeypatch.setattr("benchmarks.choosing.page.PRICES", (8, 10, 12))
    text = about(table(), found)
    assert "30 configurations, each on 3 splits" in text and "24 searches" in text
    assert replaced(PAGE.read_text(), "choosing", text).count(text) == 1
    assert len(draw([(table(), found)]).axes) == 1
    together = as_summary([found, found])
    assert "mean over 2 benchmarks" in together and together.count("\n| random") == 4
    assert f"| random | {'+0.00 (+0.00 to +0.00) | ' * 3}".rstrip() in together


def test_a_mean_over_benchmarks_is_surer_than_each() -> None:
    over = Estimate.over([Estimate(1, -2, 4), Estimate(3, -1, 7)])
    assert over == Estimate(2, 2 - 2.5, 2 + 2.5)


def test_a_table_is_measured_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, calls = tmp_path / "t.parquet", []

    def counting(given: ConfigurationTable) -> list[Outcome]:
        calls.append(len(given.test))
        return [Outcome(Search("random"), True, 12, Estimate(1, 0, 2), Estimate(0.1, 0.05, 0.15), 500)]

    monkeypatch.setattr("benchmarks.choosing.kept.outcomes", counting)
    write_table(file, table(count=20))
    first, again = measured(file, tmp_path), measured(file, tmp_path)
    assert first[1] == again[1] == counting(first[0]) and calls == [20, 20]
    write_table(file, table(count=21))
    measured(file, tmp_path)
    monkeypatch.setattr("benchmarks.choosing.kept.PRICES", (1,))
    measured(file, tmp_path)
    assert calls == [20, 20, 21, 21]


def test_what_is_kept_was_measured_on_the_tables_as_they_lie_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.choosing.kept.outcomes", mock.Mock(side_effect=AssertionError))
    known = [measured(file) for file in table_files()]
    write_data(tmp_path / "what-helps.csv", known)
    assert (tmp_path / "what-helps.csv").read_bytes() == DATA.read_bytes()
    text = PAGE.read_text()
    assert as_summary([found for _, found in known]) in text and by_benchmark(known) in text
