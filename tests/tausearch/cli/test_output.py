"""What a person reads of runs, of the cache and of backbones; the report's command."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from rich.console import Console

from tausearch.api import Composed
from tausearch.cli import launch
from tausearch.cli.output import (
    composed_as_dict,
    compositions,
    data,
    require_truth,
    run_lines,
    show_backbones,
    show_cache,
    show_predictions,
    show_search,
    show_status,
    show_statuses,
    statuses,
)
from tausearch.cli.output.run_lines import Lines
from tausearch.models import CompositionResult, Prediction
from tausearch.presentation import console, reevaluation_table, trials_table
from tausearch.runs import (
    Constraint,
    Objective,
    Record,
    Reevaluate,
    Reevaluation,
    ReevaluationSpec,
    SearchSpec,
    StopRule,
    Storage,
    race,
    read_status,
    replace_text,
    verdict,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies.best_file import make_best_file
from tausearch.tracking import Version
from tests.support.command_line import Ask
from tests.support.packages import install
from tests.support.runs.trials import final_spec, make_trial
from tests.tausearch.cli.ended import lines_of, recorded, searched
from tests.tausearch.reports.html.runs import make_final, make_search
from trainables.backbones.offered import Offer
from trainables.errors import InputError
from trainables.preconsolidation.cache import Entry


def test_a_status_says_what_is_equal_and_what_has_not_begun(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [make_trial(0, value=70.0), make_trial(1, value=70.0), make_trial(2, tasks=1)]
    directory = recorded(spec, trials, tmp_path)
    replace_text(directory.note_file, "a note\n")
    show_status(read_status(directory))
    lines = lines_of(capsys)
    assert lines[:2] == [f"{spec.name}: stopped; 2 complete, 2 pending (1 not begun)", "note: a note"]
    assert "equal 2 of 2 trials came to 70.00 %: of them the one that forgets least, then the earliest" in lines
    assert [line.split()[1:4] for line in lines if line.startswith("│ *")] == [["*", "0", "│"]] * 2  # and on the front
    assert not any(line.startswith("rank correlation") for line in lines)  # nobody stops trials early
    bound = Constraint(metric="train/loss", relation="<=", bound=0.5)
    trials[2] = make_trial(2, value=70.0)
    for trial in trials:
        trial.rows[-1]["train/loss"] = 0.4 if trial.number else 0.9
    bounded = spec.model_copy(update={"constraints": (bound,)})
    show_status(read_status(recorded(bounded, trials, tmp_path / "bounded")))
    assert "equal 2 of 2 trials came" in " ".join(lines_of(capsys)), "trial 0 breaks the constraint"
    Record(directory.record).write(make_trial(3, tasks=1))
    show_status(read_status(directory))
    assert lines_of(capsys)[0] == f"{spec.name}: stopped; 2 complete, 2 pending"
    show_statuses([read_status(directory)])
    assert "│ stopped │ 2/4 │" in " ".join(lines_of(capsys))
    early = spec.model_copy(update={"name": "e", "stop": StopRule(patience=1)})
    show_statuses([read_status(recorded(early, trials[:2], tmp_path))])
    shown = " ".join(lines_of(capsys))
    assert "│ finished │ 2/2 │" in shown and "┃ run ┃" in shown


@pytest.mark.parametrize("purpose", ["search", "final"])
def test_a_stopped_run_says_how_to_go_on_and_an_ended_one_does_not(
    purpose: str, spec: SearchSpec, tmp_path: Path, ask: Ask
) -> None:
    protocol = spec.protocol.model_copy(update={"backbone": "nets:NET"})
    named = {"trials": 1, "protocol": protocol, "address": "192.0.2.2:7391"}
    given = spec.model_copy(update=named) if purpose == "search" else final_spec(spec, name="final", **named)
    _, directory = make_run_directory(given, Storage(tmp_path))
    words = ["status", given.name, "--storage", str(tmp_path)]
    _, out, err = ask(*words)
    begun = f"ita-lora on digits: no {'trial' if purpose == 'search' else 'seed'} has begun"
    assert err == "" and begun in out.splitlines() and "┃" not in out
    assert out.splitlines()[0] == f"{given.name}: stopped; 1 pending"
    last = out.splitlines()[-1]
    assert last.startswith("go on: ") and last.endswith(
        f" resume {given.name} --storage {tmp_path} --allow-code nets:NET --address 192.0.2.2:7391"
    )
    assert json.loads(ask(*words, "--format", "json")[1])["address"] == "192.0.2.2:7391"
    ended = make_trial(0, value=70.0)
    if purpose == "final":
        ended = replace(ended, rows=[{k.replace("val/", "test/"): v for k, v in row.items()} for row in ended.rows])
    Record(directory.record).write(ended)
    out = ask(*words)[1]
    assert "finished; 1 complete" in out and "┃" in out and "go on" not in out


def test_the_list_of_runs_has_the_mean_over_fresh_runs() -> None:
    spec = SimpleNamespace(value_labels=SimpleNamespace(unit="%"))
    found: Any = SimpleNamespace(accuracy=80.0, score=None, best=SimpleNamespace(value=90.0), spec=spec)
    assert statuses._best_cell(found) == "80.00"


def test_the_list_of_runs_has_the_score_of_a_final_run_and_the_best_of_a_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directories = [make_search(Storage(tmp_path)), make_final(Storage(tmp_path))]
    show_statuses([read_status(directory) for directory in directories])
    header, search, final = [line for line in lines_of(capsys) if line[0] in "┃│"]
    assert (
        "│ 12/12, 1 failed, 1 diverged │ 89.20 │ alpha=5.2 lr=0.006 │" in search and "│ 2/2 │ 69.50 ± 0.71 │ │" in final
    )
    assert "note" not in header
    replace_text(directories[1].note_file, "a note\n")
    show_statuses([read_status(directory) for directory in directories])
    assert lines_of(capsys)[4].endswith("│ a note │")


def test_a_search_without_trials_has_no_table(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_search(searched(spec, [], tmp_path, None), spec, "")
    out = capsys.readouterr().out
    assert f"{spec.name}: no trial has begun\n" in out and "│" not in out and "seconds" not in out


def test_a_front_of_one_point_has_no_table(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead, behind = make_trial(0, value=80.0), make_trial(1, value=70.0)
    behind.rows[-1]["val/forgetting"] = 9.0
    show_search(searched(spec, [ahead, behind], tmp_path, make_best_file(spec, ahead, 2)), spec, "")
    assert "Pareto" not in capsys.readouterr().out
    behind.rows[-1]["val/forgetting"] = 0.5
    show_search(searched(spec, [ahead, behind], tmp_path / "other", make_best_file(spec, ahead, 2)), spec, "")
    assert "Pareto" in capsys.readouterr().out


def test_a_front_of_one_point_is_shown_where_fresh_runs_chose_another(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead, behind = make_trial(0, value=80.0), make_trial(1, value=70.0)
    behind.rows[-1]["val/forgetting"] = 9.0
    named = (("val/final_accuracy", "maximize"), ("val/forgetting", "minimize"))
    aims = tuple(Objective(metric=metric, direction=direction) for metric, direction in named)
    both = spec.model_copy(update={"objectives": aims, "prefer": "val/final_accuracy"})
    for chosen, shown in ((ahead, False), (behind, True)):
        found = searched(both, [ahead, behind], tmp_path / str(chosen.number), make_best_file(both, chosen, 2))
        show_search(found, both, "")
        assert ("Pareto" in capsys.readouterr().out) is shown


def test_a_long_front_is_cut_after_its_most_accurate_trials(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [make_trial(number, value=70.0 + number) for number in range(12)]
    for trial in trials:
        trial.rows[-1]["val/forgetting"] = float(trial.number)
    show_status(read_status(recorded(spec.model_copy(update={"trials": 12}), trials, tmp_path)))
    lines = lines_of(capsys)
    front = lines[lines.index("Pareto front of accuracy and forgetting") :]
    shown = [line.removeprefix("│ ").split(" │")[0] for line in front if line.startswith("│")]
    assert shown == ["* 11", *map(str, range(10, 1, -1))] and "and 2 less accurate ones; --format json has all" in front
    show_status(read_status(recorded(spec.model_copy(update={"trials": 10}), trials[:10], tmp_path / "ten")))
    assert not any("less accurate" in line for line in lines_of(capsys))


def test_of_many_trials_the_best_and_those_that_run_are_shown(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lines, "_MOST_TRIALS", 3)
    trials = [make_trial(number, value=70.0 + number) for number in range(6)]
    trials += [make_trial(6, tasks=1, status="running"), make_trial(7, tasks=1, status="pruned")]
    show_status(read_status(recorded(spec.model_copy(update={"trials": 8}), trials, tmp_path)))
    lines = lines_of(capsys)
    rows = lines[: lines.index("and 4 more: 3 no better, 1 that cannot be chosen; --format json has all")]
    assert [line.removeprefix("│ ").split(" │")[0] for line in rows if line.startswith("│")] == ["3", "4", "* 5", "6"]


def test_of_many_seeds_of_a_final_run_the_first_are_shown(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lines, "_MOST_TRIALS", 2)
    failed = make_trial(0, tasks=1, status="failed")
    trials = [failed, *(replace(make_trial(number, value=70.0 + number), seed=number) for number in (1, 2, 3))]
    final = final_spec(spec, trials=4, seeds=(0, 1, 2, 3))
    show_status(read_status(recorded(final, trials, tmp_path)))
    lines = lines_of(capsys)
    rows = lines[: lines.index("and 2 more; --format json has all")]
    assert [line.removeprefix("│ ").split(" │")[0] for line in rows if line.startswith("│")] == ["0", "1"]


def test_of_many_trials_those_that_break_a_constraint_come_after_the_others(
    spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lines, "_MOST_TRIALS", 2)
    bounded = spec.model_copy(update={"constraints": (Constraint(metric="val/forgetting", relation="<=", bound=5),)})
    trials = [make_trial(number, value=70.0 + number) for number in range(3)]
    trials[2].rows[-1]["val/forgetting"] = 9.0
    show_status(read_status(recorded(bounded, trials, tmp_path)))
    rows = [line.removeprefix("│ ").split(" │")[0] for line in lines_of(capsys) if line.startswith("│")]
    assert rows[:2] == ["0", "* 1"]


def test_fresh_runs_are_shown_in_the_order_of_candidates_and_the_chosen_one_is_marked(spec: SearchSpec) -> None:
    standing = race([3, 1], 2, {(3, 0): 80.0, (3, 1): 82.0, (1, 0): 90.0, (1, 1): 91.0})
    asked = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=2)}))
    table = reevaluation_table(Reevaluation(asked, standing, verdict(standing), ()))
    assert [row[:4] for row in table.rows] == [(3, 80.0, 82.0, 81.0), (1, 90.0, 91.0, 90.5)]
    assert table.emphasis == {1: "marked"}
    rounds = race([3], 3, {(3, 0): 80.0, (3, 1): 82.0, (3, 2): 87.0})
    asked = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=3)}))
    assert reevaluation_table(Reevaluation(asked, rounds, verdict(rounds), ())).rows[0][4] == 83.0  # their mean


def test_the_best_trial_is_marked_and_unfinished_ones_are_faint(spec: SearchSpec) -> None:
    trials = [make_trial(0, value=70.0), make_trial(1, value=80.0), make_trial(2, tasks=1, status="pruned")]
    assert trials_table(spec, trials, 1).emphasis == {1: "marked", 2: "faint"}
    assert trials_table(final_spec(spec), trials, 1).emphasis == {2: "faint"}  # no seed is chosen


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_the_list_of_runs_loses_no_letter_in_a_narrow_terminal(
    width: int, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Console(width=width, file=io.StringIO(), highlight=False)
    monkeypatch.setattr(statuses, "console", lambda: out)
    names = ("c-digits-tasks-2-epochs-1-finetune-final", "odd-1")
    benchmark = "folder:/tmp/odd?epochs=2&task=eins=cat,dog"
    found = []
    for name in names:
        named = spec.model_copy(update={"name": name, "benchmark": benchmark})
        found.append(read_status(recorded(named, [make_trial(0, value=70.0)], tmp_path)))
    show_statuses(found)
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in lines)
    header = [cell.strip() for cell in lines[1].strip("┃").split("┃")]
    rows = [line.strip("│").split("│") for line in lines if line.startswith("│")]
    shown = {name: "".join(row[place].strip() for row in rows) for place, name in enumerate(header)}
    assert shown["run"] == "".join(names) and {"state", "trials"} <= shown.keys()
    assert "best" in shown or width == 40
    assert shown.get("benchmark", 2 * benchmark) == 2 * benchmark and (width > 80) == ("benchmark" in shown)


def test_the_cache_is_listed_from_the_latest_and_summed_by_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    about = [{"benchmark": "glyphs", "task": "1"}, {"benchmark": "digits", "task": "2", "zone": "x"}]
    about.append({"benchmark": "digits", "task": "3", "zone": "x"})
    entries = [Entry(Path(f"{n}.none"), 1000 * (n + 1), 1.7e9 + n, each) for n, each in enumerate(about)]
    show_cache(entries, entries[:1])
    lines = lines_of(capsys)
    assert lines[0] == "removed 1 entry, 1.0 kB; 3 in use stay" and "task ┃ zone ┃ size" in lines[2]
    assert [line.split()[1] for line in lines if line.startswith("│")] == ["digits", "digits", "glyphs"]
    assert lines[-3:] == ["digits: 2 entries, 5.0 kB", "glyphs: 1 entry, 1.0 kB", "3 entries, 6.0 kB"]
    show_cache(entries[:1], None)
    assert [line for line in lines_of(capsys) if "entry" in line] == ["1 entry, 1.0 kB"]  # of one benchmark, no sums


def test_predictions_name_the_next_two_classes_and_count_images_of_named_folders(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shares = {"sun": 0.1, "sea": 0.6, "tree": 0.25, "sky": 0.05}
    images = ("sea/a.png", "sun/b.png", "elsewhere/c.png", "elsewhere/d.png", "elsewhere/e.png")
    model = mock.Mock(classes=tuple(shares))
    show_predictions(model, [Prediction(image, "sea", 0.6, shares) for image in images], ["z.png: is broken"], "text")
    lines = lines_of(capsys)
    assert "│ sea/a.png │ sea │ 0.600 │ tree 0.250, sun 0.100 │ │" in lines
    assert "│ sun/b.png │ sea │ 0.600 │ tree 0.250, sun 0.100 │ wrong: is sun │" in lines
    assert "│ elsewhere/c.png │ sea │ 0.600 │ tree 0.250, sun 0.100 │ │" in lines
    assert "│ sun │ 1 │ 0 │ 0.00 │ sea 1 │" in lines and "│ sea │ 1 │ 1 │ 100.00 │ │" in lines
    assert lines[-1] == (
        "right: 1 of 2 images whose folder is named after a class of the model: 50.00 % (3 images elsewhere not"
        " counted)"
    )


def test_a_class_with_a_comma_stands_in_quotes_among_others(capsys: pytest.CaptureFixture[str]) -> None:
    shares = {"sun": 0.1, "sea": 0.6, "ring, thin": 0.25, "sky": 0.05}
    show_predictions(mock.Mock(classes=tuple(shares)), [Prediction("a.png", "sea", 0.6, shares)], [], "text")
    assert "│ a.png │ sea │ 0.600 │ 'ring, thin' 0.250, sun 0.100 │" in lines_of(capsys)
    report = mock.Mock(classes=[mock.Mock(number=n, task=1) for n in (2, 3)], left_out=("a vector",), remains=("b",))
    report.classes[0].name, report.classes[1].name = "ring, thin", "sea"
    with mock.patch.multiple(compositions, removal_tables=lambda *_: (), few_images=lambda _: "few images"):
        compositions._show_removal(Lines(console(), 10), mock.Mock(removal=report))
    lines = lines_of(capsys)
    assert lines[0] == "forgotten: 'ring, thin' (class 2, task 1), sea (class 3, task 1)"
    assert lines[-5:] == ["few images", "Left out:", "- a vector", "What remains:", "- b"]


def test_a_confusion_matrix_needs_one_image_below_a_folder_of_a_class() -> None:
    model: Any = SimpleNamespace(classes=("owl", "sea"))
    require_truth(model, [Path("holiday/a.png"), Path("owl/b.png")], Path("c.png"))
    with pytest.raises(InputError, match=r"--confusion c.png: no image lies in a folder named after a class"):
        require_truth(model, [Path("holiday/a.png")], Path("c.png"))


def test_a_composition_has_its_address_and_the_forms_that_it_lacks_in_json() -> None:
    about: dict[str, Any] = {"runs": ("r",), "benchmark": "digits", "weights": (1.0,), "seeds": (0,), "label": "keep-1"}
    result = CompositionResult(accuracies=((60.0,),), **about)
    done = Composed(result, None, not_exported={"adapter": "no"}, version=Version("digits", 2, best=True))
    found = composed_as_dict(done)
    assert found["registered"] == {"model": "digits", "number": 2, "best": True, "uri": "models:/digits/2"}
    assert found["not_exported"] == {"adapter": "no"}


@pytest.mark.parametrize(("word", "listed"), [("", ["glyph_vit", "vit_a"]), ("vit", ["glyph_vit", "vit_a", "vit_b"])])
def test_backbones_without_a_word_are_those_that_are_here(
    word: str, listed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "installed", lambda kind: ["my_vit", "other"] if kind == "backbone" else [])
    offers = [
        Offer("glyph_vit", 1, 28, True, "glyph_vit", (28,)),
        Offer("vit_a", 3, 224, True, "vit_a?img_size=224", (96, 224)),
        Offer("vit_b", 3, 224, False),
    ]
    show_backbones(offers, word)
    lines = lines_of(capsys)
    rows = [[cell.strip() for cell in line.split("│")[1:6]] for line in lines if line.startswith("│")]
    assert [row[3:] for row in rows[:2]] == [["glyph_vit", "28 x 28"], ["vit_a?img_size=224", "96 x 96, 224 x 224"]]
    where = {"glyph_vit": "embedded", "vit_a": "here", "vit_b": "on the hub"}
    assert [(row[0], row[2]) for row in rows] == [(name, where[name]) for name in listed]
    assert rows[0][1] == "28 x 28 grey" and rows[1][1] == "224 x 224 RGB"
    assert any(line.startswith("timm offers 1 more") for line in lines) is (word == "")
    assert f"of installed packages: my_vit{', other' * (word == '')}" in lines


def test_a_name_that_clashes_is_listed_once_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {f"backbones {name}": f"taker:{name}" for name in ("glyph_vit", "vit_b", "mine")}
    install(tmp_path, "taker", points)
    monkeypatch.syspath_prepend(tmp_path)
    show_backbones([Offer("glyph_vit", 1, 28, True), Offer("vit_b", 3, 224, False)], "")
    lines = lines_of(capsys)
    assert "of installed packages: mine" in lines
    for name, owner in (("glyph_vit", "tausearch itself"), ("vit_b", "timm")):
        claims = f"{owner} and package 'taker' (taker:{name})"
        assert f"backbone {name!r}: {claims} have one of this name; uninstall all but one" in lines


def test_a_file_wins_over_a_run_of_its_name(spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trials = [make_trial(0, value=70.0), make_trial(1, value=60.0)]
    directory = recorded(spec, trials, tmp_path / "tausearch-runs")
    assert launch._best_of([spec.name], "tausearch-runs").selection.trial == 0  # type: ignore[union-attr]
    make_best_file(spec, trials[1], 1).save(tmp_path / spec.name)
    assert launch._best_of([spec.name], "tausearch-runs").selection.trial == 1  # type: ignore[union-attr]
    assert directory.path.is_dir() and os.path.isfile(spec.name)
    with pytest.raises(InputError, match=f"{spec.name} is a run; name it alone: "):  # with a method it is no file
        launch._best_of([spec.name, "finetune"], "tausearch-runs")


@pytest.mark.usefixtures("quick_report")
def test_a_report_lies_in_the_runs_folder_or_in_a_file_of_its_own(tmp_path: Path, ask: Ask) -> None:
    make_search(Storage(tmp_path))
    make_final(Storage(tmp_path))
    code, out, err = ask("report", "the-final", "--storage", str(tmp_path))
    file = tmp_path / "the-final" / "report.html"
    assert (code, out, err) == (0, f"report: {file}\n", "")
    page = file.read_text(encoding="utf-8")
    assert "<title>ita-lora on digits: the-final</title>" in page and "the paper has no digits" in page
    assert page.count('class="run"') == 2  # with its search
    file = tmp_path / "new" / "page.html"
    code, out, _ = ask("report", "the-search", "--storage", str(tmp_path), "--output", str(file), "--format", "json")
    assert code == 0 and json.loads(out) == {"report": str(file)} and file.stat().st_size > 1e6


@pytest.mark.usefixtures("quick_report")
def test_a_report_of_own_images_does_not_speak_of_the_paper(tmp_path: Path, ask: Ask) -> None:
    final = make_final(Storage(tmp_path), benchmark="folder:/none/birds")
    assert ask("report", "the-final", "--storage", str(tmp_path))[0] == 0
    page = (final.path / "report.html").read_text(encoding="utf-8")
    assert "accuracy on each task" in page and "the paper has no" not in page
    assert "<title>ita-lora on folder:birds: the-final</title>" in page  # without the path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none"], "no run named 'none' in"),
        (["../x"], "name '../x': must be letters"),
        (["the-search", "--output", "/proc/none/page.html"], "report /proc/none/page.html: cannot be written"),
    ],
)
@pytest.mark.usefixtures("quick_report")
def test_a_report_that_cannot_be_written_is_one_line(words: list[str], message: str, tmp_path: Path, ask: Ask) -> None:
    make_search(Storage(tmp_path))
    code, out, err = ask("report", *words, "--storage", str(tmp_path))
    assert code == 2 and out == "" and err.count("\n") == 1 and message in err
