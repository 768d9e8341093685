"""What a person reads of compositions, predictions, datasets, campaigns and runs: what is named, cut and left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from search_spaces import Choices, Range
from tausearch.cli.output import (
    campaigns,
    compositions,
    data,
    predictions,
    results,
    run_lines,
    show_check,
    show_early_choices,
    show_final,
    show_preview,
    show_status,
    spaces,
)
from tausearch.cli.output.reevaluations import reevaluated_words, reevaluation_progress
from tausearch.execution import Preview
from tausearch.execution.durations import PastDurations
from tausearch.models import (
    CompositionResult,
    Confusion,
    Prediction,
    accuracy_table,
    prediction_table,
    still_answered_line,
)
from tausearch.presentation import Column, Table, console
from tausearch.runs import (
    Constraint,
    KnownPoint,
    Reevaluate,
    Reevaluation,
    ReevaluationSpec,
    SearchSpec,
    TrialSummary,
    early_choices,
    race,
    read_status,
    verdict,
)
from tests.support.runs.trials import FIXED, final_spec, make_trial
from tests.tausearch.cli.ended import lines_of, recorded, result_of

Captured = pytest.CaptureFixture[str]


def composed(weights: Sequence[float], *accuracies: Sequence[float], **more: Any) -> CompositionResult:
    classes = tuple((f"a{n}", f"b{n}", f"c{n}", f"d{n}") for n in range(len(weights)))
    rows, seeds = tuple(map(tuple, accuracies)), tuple(range(len(accuracies)))
    about = {"label": "l", "runs": ("r",), "benchmark": "digits", "seeds": seeds, "task_classes": classes, **more}
    return CompositionResult(weights=tuple(weights), accuracies=rows, **about)  # type: ignore[arg-type]


def test_three_tasks_that_are_still_answered_are_named_with_three_classes_each() -> None:
    line = still_answered_line(composed([0.0, 1.0, 0.0, -1.0, 0.0], [90.0, 80.0, 70.0, 60.0, 50.0]))
    assert line is not None and line.startswith("Still answered: task 1 (a0, b0, c0, 1 more), 90.00 %")
    assert "task 3 (a2" in line and "; task 4 (a3" in line and "; 1 more. The classes" in line and "task 5" not in line
    assert still_answered_line(composed([1.0], [90.0])) is None


@pytest.mark.parametrize(
    ("weights", "forms", "said"),
    [
        (
            [0.0, 1.0, 0.0],
            ("timm", "models", "vectors"),
            "models and vectors: with tasks 1, 3, for other compositions; --forms timm leaves them out.",
        ),
        ([0.0, 1.0, 1.0], ("vectors",), "vectors: with task 1, for other compositions."),
        ([1.0, -1.0, 0.5], ("vectors",), None),
        ([0.0, 1.0, 1.0], ("adapter", "timm"), None),
    ],
)
def test_exported_folders_with_a_task_that_was_left_out_are_named(
    weights: list[float], forms: Sequence[str], said: str | None
) -> None:
    done = SimpleNamespace(result=composed(weights, [90.0] * 3), exported=dict.fromkeys(forms, "folder"))
    line = compositions._still_exported(done)  # type: ignore[arg-type]
    assert line is None if said is None else (line or "").startswith(said)


@pytest.mark.parametrize(
    ("before", "now", "as_they_were"),
    [
        ([90.0, 80.0, 70.0], [95.0, 75.1, 65.1], True),
        ([90.0, 80.0, 70.0], [95.0, 75.0, 70.0], False),  # one task has lost five points
        ([90.0, 80.0, 70.0], [10.0, 80.0, 70.0], True),  # the kept one does not count
        ([90.0, 0.0, 4.9], [90.0, 0.0, 4.9], False),  # no task that was left out had been learned
        ([90.0, 0.0, 70.0], [90.0, 0.0, 10.0], False),
        ([90.0, 80.0, 70.0], [90.0, 80.0, 60.0], False),  # one with a weight below zero is left out, too
        ([90.0, 5.0, 0.0], [90.0, 5.0, 0.0], True),
    ],
)
def test_what_was_left_out_is_as_it_was_where_no_task_has_lost_five_points(
    before: list[float], now: list[float], as_they_were: bool
) -> None:
    trained = composed([1 / 3] * 3, before)
    assert compositions._left_as_they_were(composed([1.0, 0.0, -0.5], now), trained) is as_they_were
    assert not compositions._left_as_they_were(composed([1.0, 0.5, 0.5], before), trained)  # nothing was left out
    assert not compositions._left_as_they_were(composed([1.0, 0.0, 0.0], before), None)


def test_a_composition_stands_beside_the_run_as_it_was_trained() -> None:
    now, trained = composed([1.0, 0.0], [60.0, 40.0], [62.0, 42.0]), composed([0.5, 0.5], [70.0, 80.0], [70.0, 80.0])
    table = accuracy_table(now, trained)
    assert table.header == ["task", "weight", "test accuracy", "as trained", "change"]
    assert table.texts[1:] == [
        ["2", "0", "41.00 ± 1.41", "80.00 ± 0.00", "-39.00"],
        ["mean", "", "51.00 ± 1.41", "75.00 ± 0.00", "-24.00"],
    ]
    assert table.emphasis == {1: "faint", 2: "total"}
    assert accuracy_table(now, now).header == ["task", "weight", "test accuracy"]


def test_mistakes_are_the_three_most_frequent_and_how_many_more(capsys: Captured) -> None:
    wide = Confusion(tuple("abcdef"), ((5, 1, 3, 2, 0, 0), (1, 1, 1, 1, 1, 0), (4, 1, 1, 1, 1, 1), *[(0,) * 6] * 3))
    predictions._show_accuracies(wide, 30)
    lines = lines_of(capsys)
    assert "│ a │ 11 │ 5 │ 45.45 │ c 3, d 2, b 1 │" in lines
    assert "│ b │ 5 │ 1 │ 20.00 │ a 1, c 1, d 1, 1 other class │" in lines
    assert "│ c │ 9 │ 1 │ 11.11 │ a 4, b 1, d 1, 2 other classes │" in lines
    assert not any(line.startswith("│ d │") for line in lines) and "(5 images elsewhere not counted)" in lines[-1]


def test_a_wrong_prediction_stands_out_and_names_the_truth() -> None:
    found = [Prediction(image, "sea", 0.6, {"sun": 0.4, "sea": 0.6}) for image in ("sea/a.png", "sun/b.png")]
    made = [prediction_table(shown) for shown in (found, found[:1])]
    assert [table.emphasis for table in made] == [{1: "bad"}, {}]
    assert ["truth" in table.header for table in made] == [True, False]


def test_a_class_named_as_another_column_has_a_column_of_its_own(capsys: Captured) -> None:
    model = mock.Mock(classes=("label", "sun", "image"))
    found = [Prediction("label/a.png", "sun", 0.6, {"label": 0.3, "sun": 0.6, "image": 0.1})]
    predictions.show_predictions(model, found, [], "csv")
    assert capsys.readouterr().out.splitlines() == [
        "image,label,true_label,probability,class:label,sun,class:image",
        "label/a.png,sun,label,0.6,0.3,0.6,0.1",
    ]
    table = predictions._confusion_table(Confusion(("true_label", "label"), ((1, 2), (0, 3))))
    assert table.header == ["true_label", "class:true_label", "label"]


def test_the_title_of_a_confusion_matrix_counts_the_images_of_known_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles: list[str] = []
    monkeypatch.setattr("tausearch.presentation.confusion_figure", lambda names, counts, title: titles.append(title))
    monkeypatch.setattr("tausearch.presentation.save", lambda *_: None)
    model = mock.Mock(classes=("sun", "sea"), about=mock.Mock(runs=["r"]))
    images = ("sea/a.png", "sun/b.png", "elsewhere/c.png")
    found = [Prediction(image, "sea", 0.6, {"sun": 0.4, "sea": 0.6}) for image in images]
    assert len(list(predictions.draw_confusion(model, found, tmp_path / "c.png"))) == 1
    assert titles == ["r: 1 of 2 images right"]


def test_numbers_in_a_picture_are_explained_where_they_are_used() -> None:
    drawn = {"a": "a", "日": "class 2", "本": "class 3"}
    assert list(predictions._legend(drawn, {"a", "日", None})) == [
        "in the picture, as no font here can draw their names: class 2 is 日"
    ]
    assert list(predictions._legend(drawn, {"a"})) == []


@pytest.mark.parametrize(
    ("faults", "verdict", "unreadable"),
    [
        ([], "all of them readable", 0),
        (["image x: is broken", "b"], "2 faults", 7),
        (["image a: is listed 2 times, in train and test"], "1 fault", 0),
    ],
)
def test_a_check_says_sizes_and_what_to_do(faults: list[str], verdict: str, unreadable: int, capsys: Captured) -> None:
    def of(count: int, unreadable: int, *sizes: tuple[int, int] | None) -> SimpleNamespace:
        smallest, largest = sizes
        return SimpleNamespace(train=count, test=1, unreadable=unreadable, smallest=smallest, largest=largest)

    classes = {"a": of(2, 0, (3, 4), (5, 6)), "b": of(3, unreadable, (3, 4), (3, 4)), "c": of(0, 0, None, None)}
    about = {"classes": classes, "faults": faults, "name": "x", "images": 1234, "home": "/x", "layout": "folders"}
    show_check(SimpleNamespace(left_out=[], repeated=[], **about))  # type: ignore[arg-type]
    lines = lines_of(capsys)
    rows = [[cell.strip() for cell in line.split("│")[1:6]] for line in lines if line.startswith("│")]
    broken = str(unreadable or "")
    assert rows == [["a", "2", "1", "", "3 x 4 to 5 x 6"], ["b", "3", "1", broken, "3 x 4"], ["c", "0", "1", "", ""]]
    assert f"x: 1,234 images in /x (folders), {verdict}" in lines
    assert any("with --skip-broken it lists them" in line for line in lines) is (unreadable > 0)
    assert not any(line.startswith("class ") for line in lines)
    classes["d"] = SimpleNamespace(train=9, test=14, unreadable=0, smallest=None, largest=None)  # 17 of 4: 4.25 a class
    show_check(SimpleNamespace(left_out=[], repeated=[], **about))  # type: ignore[arg-type]
    assert lines_of(capsys)[-1].startswith("class 'a' has 2 images to train and 1 to test, far fewer than others;")


def test_only_what_is_not_whole_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(data, "installed", lambda kind: ["birds", "fish"] if kind == "benchmark" else [])

    def state(name: str, whole: bool) -> mock.Mock:
        return mock.Mock(
            **{"state": "s", "classes": None, "whole": whole, "layout": "", "looks_for": "files", "home": "/h"},
            source="u",
        )

    states = [state("here", True), state("gone", False)]
    for each, name in zip(states, ("here", "gone"), strict=True):
        each.name, each.count.return_value = name, "1"
    data.show_states(states, "/data")
    lines = lines_of(capsys)
    assert "gone: needs files" in lines and "here: needs files" not in lines and "in /h; from u" in lines
    assert any(line.startswith("looked for in /data/<benchmark>") for line in lines)
    assert "of installed packages: birds, fish" in lines


def test_the_costs_of_a_campaign_are_sums_and_the_largest_memory() -> None:
    def estimate(seconds: float | None, disk: int | None = None, memory: int | None = None) -> Any:
        return SimpleNamespace(seconds=seconds, disk=disk, memory=memory)

    known = [estimate(100.0, 10**8, 2**30), estimate(300.0, 2 * 10**8), estimate(None, None, 2**31)]
    assert list(campaigns._costs(known, 100.0)) == [
        "left to do: 6:40 inside trials, and 1 cell of unknown time; 1:40 on this machine, after Ray has started",
        "disk: 300 MB for the 2 cells whose runs are known",
        "memory: at most 2.0 GiB per trial at a time (from the pilot)",
    ]
    assert list(campaigns._costs([estimate(0.0)], 0.0)) == ["left to do: nothing"]
    (there,) = campaigns._costs([estimate(100.0)], None)
    assert there == "left to do: 1:40 inside trials"  # how many run at a time is the cluster's affair
    (unknown,) = campaigns._costs([estimate(None, 1, 1)], None)
    assert unknown.startswith("the time is unknown; measure it with --pilot")


def test_files_of_a_campaign_are_listed_after_the_number_of_best_files(capsys: Captured) -> None:
    reasons = {"digits/a": "gone", "digits/c": "lost"}
    failed = [SimpleNamespace(runs=SimpleNamespace(title=t), reason=why, state="failed") for t, why in reasons.items()]
    directory = mock.Mock(log_file="/c/log")
    status = mock.Mock(cells=[], cell_runs=(), failed_cells=failed, state="stopped", directory=directory)
    status.name = "t"
    files = [
        Path("/c/best/digits/a.yaml"),
        Path("/c/best/glyphs/a.yaml"),
        Path("/c/comparison.csv"),
        Path("/c/best.yaml"),
        Path("/c/figures/digits.png"),
    ]
    result = mock.Mock(
        standing=status,
        files=files,
        failed={**reasons, "digits/b": "out"},
        tracking_errors={"t": "no answer", "r": "full"},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaigns, "read_pages", lambda _: {"digits": "http://127.0.0.1:5000/#/1", "glyphs": "http://b"})
        patch.setattr(campaigns, "LOCAL", "http://127.0.0.1")
        patch.setattr(campaigns, "tool", lambda: "tausearch")
        patch.setattr("tausearch.campaigns.not_comparable_cells", lambda *_: {})
        campaigns.show_campaign(result, mock.Mock(), " --storage x")
    lines = lines_of(capsys)
    assert [lines.count(line) for line in ("digits/a: gone", "digits/c: lost", "digits/b: out")] == [1, 1, 1]
    synced = [line.partition(" runs sync")[2] for line in lines if line.startswith("MLflow does not have all of")]
    assert synced == [" --storage x", " r --storage x"]  # of a campaign all runs, then its tables
    assert "MLflow, digits: http://127.0.0.1:5000/#/1 (after: tausearch runs ui --storage x)" in lines
    assert "MLflow, glyphs: http://b" in lines
    files = ["best files /c/best (2)", "comparison /c/comparison.csv", "best /c/best.yaml", "figures /c/figures (1)"]
    assert lines[-5:] == [*files, "log /c/log"]


def reevaluation(
    spec: SearchSpec, rounds: int, known: dict[tuple[int, int], float | None], ended: int = 0
) -> Reevaluation:
    standing = race([3, 1], rounds, known)
    asked = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=rounds)}))
    fresh = tuple(make_trial(asked.number(3, n), value=80.0) for n in range(ended))
    waiting = (make_trial(8, tasks=1), make_trial(9, tasks=0, status="pending"))
    return Reevaluation(asked, standing, verdict(standing), (*fresh, *waiting))


def test_a_reevaluation_says_how_far_it_is_and_by_how_much_the_chosen_trial_is_ahead(spec: SearchSpec) -> None:
    fresh = "the best 2 on 2 fresh seeds and validation splits"
    going = reevaluation(spec, 2, {(3, 0): 80.0}, ended=1)
    assert (reevaluation_progress(going), reevaluated_words(going)) == (f"not yet: {fresh}, 1 run ended", "")
    done = reevaluation(spec, 2, {(3, 0): 80.0, (3, 1): 82.0, (1, 0): 90.0, (1, 1): 91.0})
    assert (
        reevaluation_progress(done) == f"trial 1, of {fresh}, +9.50 ± 0.50 points ahead of trial 3 (± standard error)"
    )
    assert reevaluated_words(done) == ", re-evaluated 90.50 ± 0.50 %" and reevaluated_words(None) == ""
    spread = reevaluation(spec, 2, {(3, 0): 80.0, (3, 1): 86.0, (1, 0): 90.0, (1, 1): 92.0})
    assert reevaluated_words(spread) == ", re-evaluated 91.00 ± 1.00 %"
    assert "+8.00 ± 2.00 points" in reevaluation_progress(spread)
    once = reevaluation(spec, 1, {(3, 0): 80.0, (1, 0): 70.0})
    assert reevaluation_progress(once) == (
        "trial 3, of the best 2 on a fresh seed and validation split, +10.00 points ahead of trial 1"
    )
    none = replace(going, race=race([], 2, {}), verdict=None)
    assert reevaluation_progress(none) == "none: no finished trial can be chosen"
    lost = reevaluation(spec, 1, {(3, 0): None, (1, 0): None})
    assert (
        reevaluation_progress(lost).startswith("no: a fresh run of each of the best 2 on a fresh")
        and lost.verdict is None
    )
    started = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=2, start=True)}))
    values = {(4, 0): 90.58, (4, 1): 83.87, (0, 0): 88.55, (0, 1): 82.51, (2, 0): 96.64, (2, 1): 74.6}
    three = race([4, 2, 0], 2, values)
    assert reevaluation_progress(Reevaluation(started, three, verdict(three), ())) == (
        "trial 4, of the best 2 and the start on 2 fresh seeds and validation splits, +1.61 ± 6.40 points ahead of"
        " trial 2 (± standard error, of differences from the spread of all candidates)"
    )
    one = reevaluation(spec, 1, {(3, 0): None, (1, 0): 70.0})
    assert reevaluation_progress(one).startswith("trial 1, the only candidate, the best 2")


def test_of_equal_trials_fresh_runs_choose(spec: SearchSpec, capsys: Captured) -> None:
    trials = [make_trial(number, value=70.0) for number in range(4)]
    fresh = reevaluation(spec, 1, {(3, 0): 80.0, (1, 0): 70.0})
    run_lines.show_gain(run_lines.Lines(console(), 12), spec, trials, fresh)
    lines = lines_of(capsys)
    assert "equal 4 of 4 trials came to 70.00 %: fresh runs choose among the best" in lines
    assert not any("its fresh runs do not" in line for line in lines)


def test_bounds_that_fresh_runs_break_are_said(spec: SearchSpec, capsys: Captured) -> None:
    bounds = (Constraint.parse("final_accuracy >= 75", ["val/final_accuracy"]),)
    bounded = spec.model_copy(update={"constraints": bounds})
    found = reevaluation(bounded, 1, {(3, 0): 80.0, (1, 0): 70.0})
    number = found.spec.number(3, 0)
    for value, said in ((80.0, False), (72.0, True)):
        again = replace(found, runs=(make_trial(number, value=value),))
        run_lines.show_gain(run_lines.Lines(console(), 12), bounded, [make_trial(3, value=80.0)], again)
        told = "The chosen trial keeps its constraints in the search; its fresh runs do not"
        line = f"{told}: val/final_accuracy >= 75: 72"
        assert (line in lines_of(capsys)) == said


def test_trials_that_failed_for_the_same_reason_share_a_line(
    spec: SearchSpec, tmp_path: Path, capsys: Captured
) -> None:
    def failed(number: int, error: str, status: str = "failed") -> TrialSummary:
        return make_trial(number, tasks=1, status=status, error=error)

    trials = [failed(number, "out of memory") for number in range(12)]
    trials += [
        failed(12, "out of memory", "diverged"),
        *(failed(number, f"fault {number}") for number in range(13, 22)),
    ]
    show_status(read_status(recorded(spec.model_copy(update={"trials": 22}), trials, tmp_path)))
    lines = lines_of(capsys)
    assert "trials 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more failed: out of memory" in lines
    assert "trial 12 diverged: out of memory" in lines
    assert "trial 20 failed: fault 20" in lines and not any("fault 21" in line for line in lines)
    assert "1 more reason: see --format json" in lines


@pytest.mark.parametrize(("orders", "named"), [(None, "seed 7"), ((0, 2), "seed 7 (class order 2)")])
def test_seeds_that_failed_are_named_by_their_seed(
    orders: tuple[int, ...] | None, named: str, spec: SearchSpec, tmp_path: Path, capsys: Captured
) -> None:
    protocol = spec.protocol.model_copy(update={"class_orders": orders})
    final = final_spec(spec, name="final", seeds=(5, 7), trials=2 if orders is None else 4, protocol=protocol)
    number = 1 if orders is None else 3
    lost = replace(make_trial(number, tasks=1, status="failed", error="out of memory"), seed=7)
    directory = recorded(final, [lost], tmp_path)
    show_status(read_status(directory))
    assert f"{named} failed: out of memory" in lines_of(capsys)
    show_final(result_of(directory, [lost], summary={}, results_file=None), final, "")
    assert f"{named} failed: out of memory" in lines_of(capsys)


@pytest.mark.parametrize(
    ("fixed", "precision", "said"),
    [
        (FIXED, "bf16", "alpha_cls=0.1 alpha_cls_prior=0.01 lr_pre=0.1 precision=bf16"),
        ({}, "tf32", "precision=tf32"),
    ],
)
def test_settings_are_what_is_fixed_and_what_bounds_the_choice(
    fixed: dict[str, Any], precision: str, said: str, spec: SearchSpec, tmp_path: Path, capsys: Captured
) -> None:
    bound = Constraint(metric="val/forgetting", relation="<=", bound=0.5)
    protocol = spec.protocol.model_copy(update={"precision": precision})
    points = tuple(KnownPoint(origin=origin, point=spec.start) for origin in ("mine", "the paper"))
    settings = {"constraints": (bound, bound), "protocol": protocol, "scheduler": "asha", "warm_start": points}
    bounded = spec.model_copy(update={**settings, "fixed": fixed})
    trials = [make_trial(0, value=70.0), make_trial(1, tasks=1, status="failed", error="out of memory")]
    show_status(read_status(recorded(bounded, trials, tmp_path)))
    lines = lines_of(capsys)
    assert f"fixed {said}" in lines
    assert f"constraint {bound}; {bound}" in lines and "warm start mine; the paper" in lines
    assert any(line.startswith("Nothing is chosen: ") for line in lines)
    assert "trial 1 failed: out of memory" in lines
    assert any("not known, it takes 4 finished trials with different values" in line for line in lines)


def test_rank_correlations_name_the_tasks_after_which_all_are_equal(
    spec: SearchSpec, tmp_path: Path, capsys: Captured
) -> None:
    trials = [make_trial(number, value=70.0 + number) for number in range(5)]
    for trial in trials:
        trial.rows[1]["val/average_accuracy"] = trial.rows[2]["val/average_accuracy"] = 60.0 + trial.number
    show_status(read_status(recorded(spec.model_copy(update={"trials": 5}), trials, tmp_path)))
    (line,) = [line for line in lines_of(capsys) if line.startswith("rank correlation")]
    assert "5 finished trials 2: 1.00 (" in line and line.endswith("(after task 1 all are equal)")


def test_what_first_tasks_would_have_chosen_is_set_against_the_best(
    spec: SearchSpec, tmp_path: Path, capsys: Captured
) -> None:
    trials = [make_trial(number, value=70.0 + number) for number in range(4)] + [
        make_trial(4, tasks=1, status="pruned")
    ]
    trials[1].rows[0]["val/average_accuracy"] = 95.0
    found = read_status(recorded(spec.model_copy(update={"trials": 5}), trials, tmp_path))
    for trial in found.trials[:4]:
        trial.rows[-1]["val/average_accuracy"] = trial.value or 0.0
    show_early_choices(found, early_choices(found.trials[:4], 3, spec.metrics))
    lines = lines_of(capsys)
    assert "│ 1 │ 1 │ 95.00 │ 71.00 │ 2.00 │ 3 │ alpha=2 lr=0.01 │" in lines
    assert "│ 3 │ 3 │ 73.00 │ 73.00 │ 0.00 │ 1 │ alpha=4 lr=0.01 │" in lines
    assert lines[-1] == "1 trial stopped early, out of the competition"
    with pytest.MonkeyPatch.context() as patch:
        labels = replace(spec.value_labels, caption="Score over 2 benchmarks (rank %)")
        patch.setattr(SearchSpec, "value_labels", labels)
        show_early_choices(found, early_choices(found.trials[:4], 3, spec.metrics))
    assert "score over 2 benchmarks" in capsys.readouterr().out, "the column has no accuracies then"
    show_early_choices(found, [])
    assert lines_of(capsys) == ["what first tasks would have chosen: not known, it takes 4 finished trials"]


@pytest.mark.parametrize(("tuned_on", "elsewhere"), [("digits", ""), ("glyphs", ", judged on digits"), (None, None)])
def test_a_final_run_says_where_it_was_tuned_and_what_it_has_left(
    tuned_on: str | None, elsewhere: str | None, spec: SearchSpec, tmp_path: Path, capsys: Captured
) -> None:
    about = {"tuned_on": tuned_on, "source": "s", "tracking_uri": "http://a:1", "overrides": {"lr": 0.5}}
    final = final_spec(spec, name="final", **about)
    directory = recorded(final, [make_trial(0, value=70.0)], tmp_path)
    if elsewhere == "":
        (directory.path / "task_vectors").mkdir()
    one, two = {"mean": 70.0, "std": None, "seeds": 1}, {"mean": 60.0, "std": 1.5, "seeds": 2}
    equal = {"mean": 50.0, "std": 0.0, "seeds": 2}
    summary = {"test/final_accuracy": one, "test/forgetting": two, "test/pooled_accuracy": equal}
    result = result_of(directory, [make_trial(0, value=70.0)], summary=summary, results_file=Path("r.json"))
    show_final(replace(result, tracking_error="full"), final, " --storage s")
    lines = lines_of(capsys)
    assert {"test/pooled_accuracy 50.00 ± 0.00 % over 2 seeds", "overridden lr=0.5", "results r.json"} <= set(lines)
    assert "trained with alpha_cls=0.1 alpha_cls_prior=0.01 lr_pre=0.1" in lines
    assert any(line.startswith("MLflow does not have all of final (full)") for line in lines)
    assert (
        "test/final_accuracy 70.00 % (one seed)" in lines
        and "test/forgetting 60.00 ± 1.50 points over 2 seeds" in lines
    )
    assert any(line.startswith("this configuration forgets 60 points") for line in lines)
    tuned = [line for line in lines if line.startswith("tuned on")]
    assert tuned == ([] if elsewhere is None else [f"tuned on {tuned_on} (search s){elsewhere}"])
    predict = [line for line in lines if line.startswith("predict ")]
    assert [line.endswith(" predict final IMAGES --storage s") for line in predict] == [True] * (elsewhere == "")
    assert "MLflow http://a:1" in lines


def test_a_dry_run_and_a_notebook_say_what_has_ended_and_what_is_tried_first(
    spec: SearchSpec, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Preview, "device", "a GPU")
    monkeypatch.setattr(Preview, "lines", lambda self: ["a line"])
    found = Preview(spec, 1, 0, 3, 0, ({"alpha": 0.5}, {"alpha": 2.0}), 1, 1, 2, PastDurations())
    show_preview(found)
    lines = lines_of(capsys)
    size = "4 trials of 3 tasks each, 1 of them ended already, 9 tasks to train, on a GPU"
    assert lines[0].endswith(size)
    assert lines[1] == "a line" and [line for line in lines if line.startswith("│")] == ["│ 0 │ 0.5 │", "│ 1 │ 2 │"]
    html = found._repr_html_()
    assert f"{size}</p><p>a line</p>" in html and "tried first" in html and ">0.5</td>" in html
    assert replace(found, points=({},)).tables == []  # nothing is searched


def test_a_run_whose_results_are_written_still_says_that_mlflow_lacks_them(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compositions, "evaluation_table", lambda _: Table("t", [Column("a")], [(1,)]))
    done: Any = [SimpleNamespace(result=SimpleNamespace(run="r"), file=Path("r/e.json"), tracking_error="full")]
    compositions.show_evaluated(done, " --storage s")
    *_, results, lacks, beside = lines_of(capsys)
    assert results == "results r/e.json" and lacks.startswith("MLflow does not have all of r (full)")
    assert beside.endswith("compare --composition --storage s")


def test_a_composition_says_of_which_runs_it_is_and_where_it_went(capsys: Captured) -> None:
    file = Path("q/compositions/l.json")  # the first source is a folder named r
    about = {"trained": None, "file": file, "exported": {}, "not_exported": {}, "tracking_error": "full"}
    for best, said in ((True, "version models:/d/1, the best one"), (False, "version models:/d/1")):
        version = SimpleNamespace(uri="models:/d/1", best=best)
        result = composed([1.0, 1.0], [60.0, 40.0], runs=("r", "q"))
        compositions.show_composed(SimpleNamespace(result=result, version=version, **about), "")  # type: ignore[arg-type]
        lines = lines_of(capsys)
        assert lines[0] == "l: r + q on digits; seeds 0" and said in lines
        result = result.model_copy(update={"rule": "regmean"})
        compositions.show_composed(SimpleNamespace(result=result, version=version, **about), "")  # type: ignore[arg-type]
        assert lines_of(capsys)[0] == "l: r + q on digits; regmean; seeds 0"
        assert lines[-1].startswith("MLflow does not have all of q (full)")


def test_a_plan_names_the_search_of_a_cell_and_the_time_that_is_left(spec: SearchSpec) -> None:
    search = spec.model_copy(update={"scheduler": "asha", "reevaluate": Reevaluate(best=2, runs=3)})
    assert campaigns._search_text(4, spec) == "4 trials, tpe"
    assert campaigns._search_text(1, search) == "1 trial, tpe, asha, 2 again 3 times"
    runs = SimpleNamespace(trials=4, search="s", seeds=1, tasks=12)
    cell: Any = SimpleNamespace(title="a", state="done", runs=runs, search=SimpleNamespace(spec=spec))
    cell.next, cell.training = "nothing", SimpleNamespace(spec=SimpleNamespace(trial_noun="trial"))
    for seconds, shown in ((0.0, 0.0), (None, "?")):
        row = campaigns._plan_row(cell, SimpleNamespace(seconds=seconds))  # type: ignore[arg-type]
        assert row == ("a", "done", "4 trials, tpe", "1 trial", 12, "nothing", shown)


def test_a_space_says_ranges_choices_and_defaults(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    space: Any = {"lr": Range(low=0.001, high=0.125, log=True, grid=(0.01, 0.02)), "way": Choices(choices=("a", "b"))}
    space["momentum"] = Range(low=0.5, high=1.0, grid=(0.5,))
    start = {"lr": 0.01, "way": "b", "momentum": 0.5}
    known = SimpleNamespace(
        **{"method": "ita-lora", "benchmark": "digits", "space": space, "start": start},
        **{"fixed": {"alpha": 2.0}, "paper": {"lr": 0.003, "alpha": 1.0}},
    )
    monkeypatch.setattr(spaces, "defaults", lambda _: {"regularise": "all"})
    monkeypatch.setattr(data, "installed", lambda kind: ["mine", "yours"] if kind == "method" else [])
    spaces.show_spaces([known], "")  # type: ignore[list-item]
    *_, row, _, others, one = lines_of(capsys)
    assert row == "│ ita-lora │ lr 0.001 to 0.125, way a, b, momentum 0.5 to 1 │ lr 0.003, alpha 1 │"
    assert others == "of installed packages: mine, yours" and one.endswith(" list spaces METHOD")
    made: list[Any] = []
    show = spaces.terminal_table
    monkeypatch.setattr(spaces, "terminal_table", lambda table: made.append(table) or show(table))
    spaces.show_space(known, "more: x")  # type: ignore[arg-type]
    lines = lines_of(capsys)
    rows = [[cell.strip() for cell in line.split("│")[1:6]] for line in lines if line.startswith("│")]
    assert lines[-1] == "more: x" and made[0].emphasis == {4: "faint"}
    assert rows == [
        ["lr", "0.001 to 0.125, log scale", "0.01, 0.02", "0.01", "0.003"],
        ["way", "a, b", "a, b", "b", ""],
        ["momentum", "0.5 to 1", "0.5", "0.5", ""],
        ["alpha", "fixed", "", "2", "1"],
        ["regularise", "default", "all, head, none", "all", ""],
    ]


def test_a_pages_place_is_the_servers_or_a_command(
    spec: SearchSpec, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(results, "tool", lambda: "tausearch")
    both = spec.model_copy(update={"tracking": ("mlflow", "tensorboard")})
    for each in (both, spec.model_copy(update={"tracking_uri": "http://a:1"})):
        lines, run = run_lines.Lines(console(), 12), SimpleNamespace(path=Path("my runs/a"))
        results._say_trackers(lines, each, run, " --storage x")  # type: ignore[arg-type]
    board = "TensorBoard tensorboard --logdir 'my runs/a'"
    assert lines_of(capsys) == ["MLflow tausearch runs ui --storage x", board, "MLflow http://a:1"]
