"""What the page says of a run beside its plots: facts, tables, and which run belongs to which."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from search_spaces import Choices
from tausearch.api import Composed, Evaluated
from tausearch.api.composition import Evaluations
from tausearch.models import CompositionResult, EvaluationResult, RuleSearch, evaluation_table, rule_search_table
from tausearch.models.evaluation_results import EvaluatedSeed
from tausearch.models.removal.report import RemovalReport
from tausearch.models.rule_search.results import RuleTrial
from tausearch.presentation.table_formats import as_html
from tausearch.reports import ReportCell
from tausearch.reports.html import tables as report_tables
from tausearch.reports.html.page import _overview, cell_link
from tausearch.reports.html.pairs import cell_of
from tausearch.reports.html.plots import _plain
from tausearch.reports.html.run_plots import hover_text
from tausearch.reports.html.views import (
    CellView,
    RunPlots,
    RunView,
    _add_scores,
    _facts,
    _read_search,
    draw_search_plots,
    read_cell,
)
from tausearch.runs import (
    Constraint,
    Objective,
    Record,
    Reevaluate,
    ReevaluationSpec,
    Resources,
    Score,
    SearchSpec,
    Storage,
    read_spec,
    read_status,
)
from tausearch.runs.creation import make_run_directory
from tests.support.runs.trials import final_spec, make_trial, search_spec
from tests.tausearch.models.test_removal_report import forgotten
from tests.tausearch.reports.html.runs import add_compositions, make_final, make_search, write
from tests.tausearch.several.made import part, several_search
from trainables.metrics import VALIDATION

pytestmark = pytest.mark.usefixtures("few_resamples")


def test_facts_of_a_search_and_of_a_final_run(tmp_path: Path) -> None:
    search, final = make_search(Storage(tmp_path), scheduler="asha"), make_final(Storage(tmp_path))
    facts = _facts(read_status(search), search)
    assert facts["trials"] == "8 complete, 2 pruned, 1 diverged, 1 failed" and "seeds" not in facts
    assert facts["algorithm"] == "tpe, seed 0, stopped early by asha"
    assert facts["protocol"] == "3 tasks, 5 epochs, batch size 32, glyph_vit, fp32"
    assert facts["time in trials"] == "1:38" and "constraints" not in facts and "chosen" not in facts
    facts = _facts(read_status(final), final)
    assert facts["seeds"] == "2 complete" and facts["chosen by"] == "search the-search on digits"
    assert "algorithm" not in facts


def test_the_headline_of_a_search_is_the_mean_over_fresh_runs(tmp_path: Path) -> None:
    directory = make_search(Storage(tmp_path), reevaluate=Reevaluate(best=1, runs=1, start=False))
    spec, best = read_spec(directory), read_status(directory).best
    assert isinstance(spec, SearchSpec) and best is not None
    again = ReevaluationSpec.of(spec)
    rows = [*best.rows[:-1], {**best.final, VALIDATION.final_accuracy: 12.5}]
    fresh = replace(best, number=again.number(best.number, 0), seed=again.seed_of(0), value=12.5, rows=rows)
    Record(directory.reevaluation.record).write(fresh)
    view = CellView(ReportCell("digits", "ita-lora", None, None, "done"))
    _read_search(view, directory, None)
    assert view.search is not None and view.search.score == "12.50"


def test_facts_say_why_nothing_is_chosen_and_how_a_race_stands(tmp_path: Path) -> None:
    bound = Constraint(metric="val/forgetting", relation="<=", bound=0.5)
    bounded = make_search(Storage(tmp_path / "a"), constraints=(bound,))
    facts = _facts(read_status(bounded), bounded)
    assert facts["constraints"] == str(bound) and facts["chosen"].startswith("nothing: ")
    assert "broken over fresh runs" not in facts
    known = SimpleNamespace(aim=None)
    missed = SimpleNamespace(verdict=None, race=SimpleNamespace(over=False), spec=SimpleNamespace(search=known))
    missed.violated_constraints = lambda: ["a <= 5: 6", "b >= 1: 0"]
    facts = _facts(replace(read_status(bounded), reevaluation=missed), bounded)  # type: ignore[arg-type]
    assert facts["broken over fresh runs"] == "a <= 5: 6; b >= 1: 0"
    directory = make_search(Storage(tmp_path / "b"), reevaluate=Reevaluate(best=2, runs=1))
    assert _facts(read_status(directory), directory)["reevaluated"] == "not yet"
    status = read_status(directory)

    aim = SimpleNamespace(objectives=(), by_knee=False)
    search = SimpleNamespace(aim=aim)

    def told(verdict: Any, *, over: bool = True) -> str:
        race = SimpleNamespace(over=over, rounds=2)
        state = SimpleNamespace(verdict=verdict, race=race, unit="s", measure=None, spec=SimpleNamespace(search=search))
        return _facts(replace(status, reevaluation=state), directory)["reevaluated"]  # type: ignore[arg-type]

    assert told(None) == "no candidate is left" and told(None, over=False) == "not yet"
    assert told(SimpleNamespace(mean=80.0, error=None, chosen=3)) == "80.00: trial 3 over 2 fresh runs"
    for error in (1.5, 0.0):
        words = f"80.00 ± {error:.2f} (standard error): trial 3 over 2 fresh runs"
        assert told(SimpleNamespace(mean=80.0, error=error, chosen=3)) == words
    aim.objectives = ("seconds", "final_accuracy")
    assert told(SimpleNamespace(mean=80.0, error=None, chosen=3)) == "80.00 s: trial 3 over 2 fresh runs"


def test_facts_of_a_search_that_chose_within_its_bounds(tmp_path: Path) -> None:
    bound = Constraint(metric="val/forgetting", relation="<=", bound=5)
    resources = Resources(gpus_per_trial=1, gpus_from="rule")
    directory = make_search(Storage(tmp_path), constraints=(bound,), scheduler="median", resources=resources)
    facts = _facts(read_status(directory), directory)
    assert facts["constraints"] == str(bound) and "chosen" not in facts
    assert facts["algorithm"] == "tpe, seed 0, stopped early by median"
    assert facts["trials on"].startswith("a whole GPU") and facts["ended"].startswith("trials: ")


def test_facts_of_a_search_for_one_objective_say_what_it_chose(tmp_path: Path) -> None:
    least = Objective(metric="val/forgetting", direction="minimize")
    directory = make_search(Storage(tmp_path), objectives=(least,))
    facts = _facts(read_status(directory), directory)
    assert (facts["aims at"], facts["chosen"]) == ("less forgetting", "trial 5: forgetting 2.00 points")


def test_a_score_over_benchmarks_is_not_in_percent(tmp_path: Path) -> None:
    spec, _, directory = several_search(tmp_path, trials=2)
    for trial in range(2):
        for place in range(2):
            Record(directory.record).write(part(spec, trial, place, 80.0 + trial))
    view = CellView(ReportCell("digits,glyphs", "ita-lora", None, None, "done"))
    _read_search(view, directory, RunPlots())
    assert view.search is not None and (view.search.score, view.search.unit) == ("100.00", "normalised")


def test_a_final_run_says_where_it_was_tuned_and_each_benchmark_of_a_search_its_size(tmp_path: Path) -> None:
    final = make_final(Storage(tmp_path), benchmark="glyphs")
    assert _facts(read_status(final), final)["chosen by"] == "search the-search on digits"
    spec, _, directory = several_search(tmp_path)
    facts = _facts(read_status(directory), directory)
    assert [facts[title].split(",")[0] for title in spec.titles] == ["3 tasks", "2 tasks"]


def test_the_chosen_configuration_marks_what_was_searched(spec: SearchSpec) -> None:
    searched = spec.model_copy(update={"space": {**spec.space, "way": Choices(choices=("b", "a"))}})
    values = {"way": "b", "lr": 0.01234567, "rank": 12345678, "alpha": 2.0}
    table = report_tables.chosen_table(searched, values)
    assert table.texts == [
        ["way", "b", "b, a"],
        ["lr", "0.0123457", "0.001 to 0.1, logarithmic"],
        ["rank", "12345678", "fixed"],
        ["alpha", "2", "0.1 to 10, logarithmic"],
    ]
    assert table.emphasis == dict.fromkeys((0, 1, 3), "marked")
    points = report_tables.chosen_table(searched.model_copy(update={"algorithm": "grid"}), values).texts
    assert points[1][2] == ", ".join(f"{each:g}" for each in spec.space["lr"].grid) and points[0][2] == "b, a"


def test_scores_have_plain_names_and_are_the_headline(tmp_path: Path) -> None:
    spec = final_spec(search_spec())
    scores = {
        "test/final_accuracy": Score(70.0, 1.0, 2),
        "test/forgetting": Score(3.0, None, 1),
        "x": Score(1.0, None, 1),
    }
    shown = RunView("r")
    _add_scores(shown, spec, scores)
    assert (shown.score, shown.forgetting) == ("70.00 ± 1.00", "3.00")
    assert [row[0] for row in shown.tables[0].texts] == ["final accuracy", "forgetting", "x"]
    empty = RunView("r")
    _add_scores(empty, spec, {})
    assert (empty.tables, empty.score) == ([], "")
    partial = RunView("r")
    _add_scores(partial, spec, {"test/forgetting": Score(3.0, None, 1)})
    assert (partial.score, partial.forgetting) == ("", "3.00")


def test_compositions_of_fewer_tasks_leave_cells_empty_and_one_names_the_tasks() -> None:
    def composed(*accuracies: float, **more: Any) -> CompositionResult:
        weights = (1 / len(accuracies),) * len(accuracies)
        about = {"runs": ("r",), "benchmark": "digits", "seeds": (0,), "weights": weights, "label": "l", **more}
        return CompositionResult(accuracies=(accuracies,), **about)

    older, named = (
        composed(50.0),
        composed(60.0, 40.0, rule="ties", rule_parameters={"density": 0.25}, task_names=("birds", "owls")),
    )
    (table,) = report_tables.composition_tables([older, named, older])
    assert table.header == ["composition", "rule", "seeds", "mean over tasks", "task 1: birds", "task 2: owls"]
    assert table.texts == [
        ["l", "linear", "0", "50.00", "50.00", ""],
        ["l", "ties, density 0.25", "0", "50.00", "60.00", "40.00"],
        ["l", "linear", "0", "50.00", "50.00", ""],
    ]


def test_compositions_without_some_classes_stand_apart_and_rows_are_named() -> None:
    def composed(label: str, removal: RemovalReport | None = None, **more: Any) -> CompositionResult:
        about = {"runs": ("r",), "benchmark": "digits", "seeds": (0, 1), "label": label, "weights": (0.5, 0.5), **more}
        return CompositionResult(accuracies=((60.0, 40.0), (70.0, 50.0)), removal=removal, **about)

    names = {"task_names": ("birds", "3, 4"), "task_classes": (("owl", "tit"), ("3", "4"))}
    before = ((80.0, 60.0), (90.0, 50.0))
    removal = RemovalReport(tasks=(1, 3), classes=(forgotten(3, name="zebra"),), before=before, left_out=(), remains=())
    left = {"task_names": ("birds", "6"), "task_classes": (("owl", "tit"), ("6",))}
    plain = [composed("drop-2", **names), composed("keep-1,2-negate", **names), composed("uniform", **names)]
    whole, fewer = report_tables.composition_tables([*plain, composed("forget-class-3", removal, **left)])
    assert [row[0] for row in whole.texts] == ["drop 2 (3, 4)", "keep 1 (birds), 2 (3, 4), negate", "uniform"]
    assert whole.title.endswith("over all classes") and "without" not in whole.title
    assert fewer.header[2:4] == ["seeds", "classes left"] and fewer.texts[0][2:4] == ["0, 1", "3"]
    assert fewer.header[4:] == ["the run on their images", "mean over tasks", "task 1", "task 3"]
    assert fewer.texts[0][0] == "forget zebra"
    assert fewer.texts[0][4:] == ["70.00 ± 0.00", "55.00 ± 7.07", "65.00 ± 7.07", "45.00 ± 7.07"]
    more = RemovalReport(tasks=(1, 2), classes=removal.classes, before=before, left_out=(), remains=())
    (table,) = report_tables.composition_tables([composed("older", removal), composed("forget-class-3", more)])
    assert table.header[6:] == ["task 1", "task 2", "task 3"] and [row[3] for row in table.texts] == ["", ""]
    assert [row[6:] for row in table.texts] == [
        ["65.00 ± 7.07", "", "45.00 ± 7.07"],
        ["65.00 ± 7.07", "45.00 ± 7.07", ""],
    ]
    assert report_tables.composition_tables([]) == [] and composed("drop-2").title == "drop-2"


def test_compositions_made_by_different_code_are_set_apart(tmp_path: Path) -> None:
    final = make_final(Storage(tmp_path))
    for label, digest in (("old", "1"), ("older", "1"), ("new", "2"), ("plain", "")):
        digests = {"my_rule:Mine": digest} if digest else {}
        about = {"runs": ("the-final",), "benchmark": "digits", "weights": (0.5, 0.5), "seeds": (0,)}
        CompositionResult(label=label, accuracies=((50.0, 40.0),), code_digests=digests, **about).save(final)  # type: ignore[arg-type]
    view = read_cell(cell_of(Storage(tmp_path), "the-final"))
    assert view.final is not None
    assert view.final.facts["compositions"] == "the code of my_rule:Mine has changed between new and old, older"
    (final.compositions / "new.json").unlink()
    view = read_cell(cell_of(Storage(tmp_path), "the-final"))
    assert view.final is not None and "compositions" not in view.final.facts


def test_the_reading_that_is_nearest_to_the_papers_stands_out() -> None:
    rows = ((10.0, 80.0), (70.0, 20.0))
    unlearned = dict.fromkeys(("drop", "negate", "subtract"), rows)
    seed = EvaluatedSeed(seed=0, whole=(60.0, 40.0), specialised=(62.0, 42.0), unlearned=unlearned)
    result = EvaluationResult(run="r", benchmark="digits", methods=("ita-lora",), kept=(1, 2), seeds=(seed,))
    table = evaluation_table(result)
    assert evaluation_table(result, "1 of 2 seeds").title.startswith(f"{table.title.split(',')[0]} over 1 of 2 seeds, ")
    assert [table.texts[place][0] for place in table.emphasis] == ["unlearned, subtract"]
    assert table.texts[0] == ["specialised on tasks 1, 2, which are all", "52.00", "", "", ""]
    assert table.texts[1] == ["unlearned, drop", "15.00", "-35.00", "75.00", "+25.00"]
    assert as_html([table]) in Evaluated(result, None)._repr_html_()
    assert Evaluations([Evaluated(result, None)] * 2)._repr_html_().count(as_html([table])) == 2


def test_a_composition_shows_its_accuracies_or_what_was_taken_out_in_a_notebook() -> None:
    about = {"runs": ("r",), "benchmark": "digits", "seeds": (0,), "weights": (1.0, 0.0), "label": "drop-2"}
    plain = CompositionResult(accuracies=((60.0, 40.0),), **about)  # type: ignore[arg-type]
    trained = plain.model_copy(update={"weights": (0.5, 0.5), "accuracies": ((50.0, 90.0),)})
    shown = Composed(plain, None, trained=trained)._repr_html_()
    assert "<p>drop-2 of r: 50.00 %" in shown and ">as trained</th>" in shown and ">-50.00</td>" in shown
    assert "Still answered" not in shown
    known = plain.model_copy(update={"task_classes": (("a", "b"), ("c, d", "e")), "test_images": (100, 100)})
    assert "Still answered: task 2 (&#x27;c, d&#x27;, e)" in Composed(known, None)._repr_html_()
    before = ((80.0, 60.0),)
    removal = RemovalReport(
        tasks=(1, 3), classes=(forgotten(3, name="zebra", test=3),), before=before, left_out=("l",), remains=("r",)
    )
    shown = Composed(plain.model_copy(update={"removal": removal}), None)._repr_html_()
    assert ">zebra</td>" in shown and "Membership" in shown and ">-20.00</td>" in shown
    assert "Left out: l" in shown and "What remains: r" in shown and "says little" in shown


def test_a_composition_shows_how_the_parameters_of_its_rule_were_searched() -> None:
    trials = tuple(RuleTrial(parameters={"density": d}, accuracies=(100 * d,)) for d in (0.2, 0.5))
    search = RuleSearch(seed=0, searched=("density",), images=9, trials=trials, chosen=1, plain_sum=(30.0,))
    about = {"runs": ("r",), "benchmark": "digits", "seeds": (0,), "weights": (1.0, 1.0), "label": "ties"}
    result = CompositionResult(accuracies=((60.0, 40.0),), search=search, **about)  # type: ignore[arg-type]
    shown = Composed(result, None)._repr_html_()
    assert as_html([rule_search_table(search)]) in shown and "Chosen by 9 validation images (2 trials, seed 0)" in shown
    assert ">chosen (trial 1)</td>" in shown and ">30.00</td>" in shown and "no value is better" not in shown
    poor = result.model_copy(update={"search": search.model_copy(update={"plain_sum": (50.0,)})})
    assert "no value is better" in Composed(poor, None)._repr_html_()


def test_the_command_of_a_page_holds_wherever_the_page_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = make_search(Storage(tmp_path))
    monkeypatch.chdir(tmp_path.parent)
    bounds = _facts(read_status(search), search)["bounds"]
    assert f"`tausearch resume {search.name} --storage FOLDER --with-bounds` runs them" in bounds
    where = "; FOLDER is the storage folder, which holds the run"
    assert bounds.endswith(where) and str(tmp_path) not in bounds
    final, _ = make_final(Storage(tmp_path)), make_final(Storage(tmp_path), "bound", method="joint")
    bounds = _facts(read_status(final), final)["bounds"]
    assert "joint 69.50 % (bound); missing here: probe" in bounds and bounds.endswith(where)


def test_the_overview_has_the_headline_of_each_run() -> None:
    both = CellView(ReportCell("folder:/x/birds", "ita-lora", None, None, "done"), RunView("s", score="80"))
    both.final = RunView("f", score="70", incremental="75", forgetting="3")
    alone = CellView(ReportCell("digits", "ewc", None, None, "waiting"))
    assert _overview([both, alone]).rows == [
        ("ita-lora on folder:birds", "done", "80", "70", "75", "3"),
        ("ewc on digits", "waiting", None, None, None, None),
    ]
    assert cell_link(0) == "#cell-1"


@pytest.mark.parametrize(
    ("score", "unit", "title", "heading"),
    [
        ("0.80", "normalised", "all cells, percent unless a unit is given", "best of the search"),
        ("80.00", "%", "all cells, percent", "best validation accuracy"),
        ("", "normalised", "all cells, percent", "best validation accuracy"),
    ],
)
def test_the_overview_calls_no_score_an_accuracy(score: str, unit: str, title: str, heading: str) -> None:
    view = CellView(ReportCell("digits,letters", "ewc", None, None, "done"), RunView("s", score=score, unit=unit))
    table = _overview([view])
    assert (table.title, table.header[2]) == (title, heading)


def test_one_cell_with_another_unit_decides_the_heading_of_all() -> None:
    views = [
        CellView(ReportCell(benchmark, "ewc", None, None, "done"), RunView("s", score="80.00", unit=unit))
        for benchmark, unit in (("digits", "%"), ("digits,letters", "normalised"))
    ]
    assert _overview(views).header[2] == "best of the search"


def test_a_search_without_a_score_has_no_unit_alone() -> None:
    assert [RunView("s", score=score, unit="s").score_in_percent for score in ("", "9.00")] == ["", "9.00 s"]


def test_what_failed_says_how_far_it_came_and_a_long_error_is_cut(spec: SearchSpec) -> None:
    trial = make_trial(1, tasks=2, status="failed", error="cause" + "e" * 300)
    text = hover_text(spec, trial)
    assert text.startswith("<b>trial 1</b>: failed at task 2, 0:03<br>alpha = 2<br>lr = 0.01<br>")
    assert text.endswith("<br>cause" + "e" * 195)


def test_numbers_of_a_figure_have_six_digits_and_what_is_none_is_none() -> None:
    assert _plain({"a": (1.23456789, float("nan"), 7), "b": ['x<y"z"', None, True]}) == {
        "a": [1.23457, None, 7],
        "b": ['x&lt;y"z"', None, True],
    }


class TestPairs:
    def test_a_final_run_of_another_run_or_of_none_stands_alone(self, tmp_path: Path) -> None:
        storage = Storage(tmp_path)
        make_search(storage)
        make_final(storage)
        for name, source in (("of-final", "the-final"), ("of-none", None), ("of-gone", "gone")):
            make_final(storage, name, source=source)
            found = cell_of(storage, name)
            assert (found.search, found.state) == (None, "final run") and found.final == storage.run(name)

    def test_a_search_of_another_name_or_method_has_no_such_final_run(self, tmp_path: Path) -> None:
        storage = Storage(tmp_path)
        make_search(storage)
        make_run_directory(
            search_spec().model_copy(update={"name": "other", "id": "other", "method": "ita-ia3"}), storage
        )
        make_final(storage, "of-other", source="other")
        assert cell_of(storage, "the-search").final is None and cell_of(storage, "the-search").state == "search"
        assert cell_of(storage, "other").final is None and cell_of(storage, "of-other").search is None


def test_what_a_search_chose_is_marked_and_every_trial_says_something_at_the_pointer(tmp_path: Path) -> None:
    spec, directory = make_run_directory(search_spec(), Storage(tmp_path))
    front = [make_trial(0, value=70.0), make_trial(2, value=80.0)]
    front[1].rows[-1]["val/forgetting"] = 5.0
    write(spec, directory, [*front, make_trial(3, tasks=1, status="failed", error="gone")])
    view = read_cell(ReportCell("digits", "ita-lora", directory, None, "x"))
    assert view.faults == [] and view.search is not None and view.search.trials is not None
    said = {number: text.split("<br>")[-1] for number, text in json.loads(view.search.hover).items()}
    assert said == {"0": "lr = 0.01", "2": "lr = 0.01", "3": "gone"}
    chosen, shown = view.search.tables
    assert chosen.texts[0][:2] == ["alpha", "3"] and [row[0] for row in shown.texts] == ["2", "0"]
    assert shown.emphasis == {0: "marked"}
    assert view.search.trials.emphasis == {1: "marked", 2: "faint"}
    history = json.loads(view.search.drawn.plots[0].figure)
    assert [trace["x"] for trace in history["data"] if trace["name"] == "chosen"] == [[2]]


def test_a_plot_that_fails_costs_no_other_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no idea")

    monkeypatch.setattr("tausearch.reports.html.views.search_plots", fails)
    drawn = draw_search_plots(read_status(make_search(Storage(tmp_path))))
    assert drawn.faults == ["plots of the-search: cannot be shown (RuntimeError: no idea)"]
    assert [plot.title for plot in drawn.slices] == ["alpha", "lr"] and drawn.slices_caption


def test_seeds_of_a_final_run_that_do_not_fit_together_cost_their_table_alone(tmp_path: Path) -> None:
    spec, directory = make_run_directory(
        final_spec(search_spec(), name="final", trials=2, seeds=(0, 1)), Storage(tmp_path)
    )
    write(spec, directory, [make_trial(0, value=70.0), replace(make_trial(1, tasks=2, value=70.0), seed=1)])
    add_compositions(directory)
    view = read_cell(ReportCell("digits", "ita-lora", None, directory, "x"))
    assert [fault.split(" (")[0] for fault in view.faults] == ["accuracies of final: cannot be shown"], view.faults
    assert view.final is not None and "specialisation and unlearning" in view.final.tables[-1].title


def test_a_page_of_a_run_has_what_its_trials_suffice_for(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    spec = search_spec().model_copy(update={"trials": 1})
    _, directory = make_run_directory(spec, storage)
    write(spec, directory, [make_trial(0, value=70.0)])
    off = {"wd": 0.0, "flip": False}
    final, made = make_run_directory(final_spec(spec, name="final", fixed=off), storage)
    write(final, made, [make_trial(0, tasks=1, status="failed", error="gone")])
    add_compositions(made)
    view = read_cell(ReportCell("digits", "ita-lora", directory, made, "x"))
    assert view.faults == [] and view.search is not None and view.final is not None
    assert [table.title for table in view.search.tables] == ["chosen configuration"]  # one trial is no front
    assert view.search.score == "70.00" and view.search.best_file == ""
    assert [table.title.split(",")[0] for table in view.final.tables] == [
        *("trained with", "compositions of task vectors", "specialisation and unlearning")
    ]
    assert view.final.tables[0].texts == [["wd", "0"], ["flip", "False"]]
    assert view.final.trials is not None and view.final.trials.header[-1] == "error"
    assert view.search.trials is not None and "error" not in view.search.trials.header
