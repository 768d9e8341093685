"""Files of compositions: replaced whole, but for what they alone know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tausearch.models import (
    CompositionResult,
    EvaluationResult,
    RuleSearch,
    accuracy_table,
    evaluation_table,
    read_compositions,
    read_evaluation,
)
from tausearch.models.evaluation_results import EvaluatedSeed
from tausearch.models.merge_configs import (
    UNLEARNING_MODES,
    central_three,
    dropping,
    merge_config_of,
    removal_config,
    tasks_called,
)
from tausearch.models.rule_search.results import RuleTrial
from tausearch.runs import RunDirectory
from trainables.data import Removal
from trainables.errors import InputError
from trainables.task_names import NamedTask

SEARCH = {"seed": 0, "searched": [], "images": 1, "trials": [{"parameters": {}, "accuracies": [1.0]}], "chosen": 0}


@pytest.fixture
def result(tmp_path: Path) -> CompositionResult:
    about = {"label": "keep-1", "runs": (tmp_path.name,), "benchmark": "digits", "weights": (1.0, 0.0)}
    return CompositionResult(**about, seeds=(0,), accuracies=((60.0, 40.0),))  # type: ignore[arg-type]


def test_that_it_is_registered_stays_where_it_is_measured_again(tmp_path: Path, result: CompositionResult) -> None:
    directory = RunDirectory(tmp_path)
    result.model_copy(update={"registered": ("timm",)}).save(directory)
    again = result.model_copy(update={"accuracies": ((70.0, 30.0),)})
    again.save(directory)
    assert read_compositions(directory) == [again.model_copy(update={"registered": ("timm",)})]
    anew = result.model_copy(update={"registered": ("vectors",)})
    anew.save(directory)  # a newer registration replaces the earlier one
    assert read_compositions(directory) == [anew]


def test_a_damaged_one_is_replaced(tmp_path: Path, result: CompositionResult) -> None:
    directory = RunDirectory(tmp_path)
    result.save(directory).write_bytes(b"\xff[")
    result.save(directory)
    assert read_compositions(directory) == [result]


def test_the_name_of_a_long_one_is_short_and_its_own(tmp_path: Path, result: CompositionResult) -> None:
    directory = RunDirectory(tmp_path)
    labels = {f"weights-{'0.125,' * 40}{n}" for n in range(2)}
    for label in labels:
        result.model_copy(update={"label": label}).save(directory)
    assert {each.label for each in read_compositions(directory)} == labels
    assert all(len(path.name) < 100 for path in directory.compositions.iterdir())
    assert all(path.name.startswith("weights-0.125,0.125,") for path in directory.compositions.iterdir())


def test_compositions_are_listed_by_name_without_the_papers_protocol(tmp_path: Path, result: CompositionResult) -> None:
    directory = RunDirectory(tmp_path)
    for label in ("uniform", "exported", "drop-1", "evaluation"):
        result.model_copy(update={"label": label}).save(directory)
    assert [each.label for each in read_compositions(directory)] == ["drop-1", "exported", "uniform"]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (("old",), ("new",)),
        (("old:1,2", "other:3"), ("new:1,2", "other:3")),
        (("old", "older"), ("new", "older")),
        (("a/vectors:1", "old:2", "old:3"), ("a/vectors:1", "new:2", "new:3")),
        (("vectors:1", "new:2"), ("vectors:1", "new:2")),  # not renamed; the first is a folder
        (("/a/vectors",), ("/a/vectors",)),
    ],
)
def test_the_run_that_keeps_one_is_named_as_its_folder(
    before: tuple[str, ...], now: tuple[str, ...], tmp_path: Path, result: CompositionResult
) -> None:
    (tmp_path / "old").mkdir()
    result.model_copy(update={"runs": before}).save(RunDirectory(tmp_path / "old"))
    (tmp_path / "old").rename(tmp_path / "new")
    assert [each.runs for each in read_compositions(RunDirectory(tmp_path / "new"))] == [now]


def test_no_file_has_a_colon_but_those_of_earlier_versions(tmp_path: Path, result: CompositionResult) -> None:
    directory, labels = RunDirectory(tmp_path), ("uniform-of-a:1+b:2", f"uniform-of-a:1+{'b' * 80}:2")
    parts = [result.model_copy(update={"label": label, "registered": ("timm",)}) for label in labels]
    files = [each.save(directory) for each in parts]
    assert files[0].name == "uniform-of-a=1+b=2.json" and not any(":" in each.name for each in files)
    earlier = files[0].rename(directory.compositions / f"{labels[0]}.json")
    again = result.model_copy(update={"label": labels[0]})
    assert again.save(directory) == earlier and len(list(directory.compositions.iterdir())) == 2
    assert {each.label: each.registered for each in read_compositions(directory)} == dict.fromkeys(labels, ("timm",))


def test_files_of_earlier_versions_have_no_names_of_tasks(tmp_path: Path, result: CompositionResult) -> None:
    assert result.task_names == () and result.title == "keep-1"
    named = result.model_copy(update={"label": "drop-2-negate", "task_names": ("x", "y")})
    assert named.title == "drop 2 (y), negate"
    assert named.model_copy(update={"label": "drop-3"}).title == "drop-3"


def test_names_are_in_the_file_as_they_are_written(tmp_path: Path, result: CompositionResult) -> None:
    file = result.model_copy(update={"task_names": ("Bär", "y")}).save(RunDirectory(tmp_path))
    assert '"Bär"' in file.read_text(encoding="utf-8")


def test_what_is_no_composition_is_one_line(tmp_path: Path, result: CompositionResult) -> None:
    result.save(RunDirectory(tmp_path)).write_text("[1]")
    with pytest.raises(InputError, match="keep-1.json: cannot be read"):
        read_compositions(RunDirectory(tmp_path))


def test_the_file_of_a_search_that_is_under_way_is_no_composition(tmp_path: Path, result: CompositionResult) -> None:
    directory = RunDirectory(tmp_path)
    result.save(directory)
    (directory.compositions / "searches").mkdir()
    (directory.compositions / "searches" / "0.json").write_text("[]")
    assert read_compositions(directory) == [result]


def test_the_search_of_a_rule_is_read_back(tmp_path: Path, result: CompositionResult) -> None:
    directory = RunDirectory(tmp_path)
    trials = tuple(RuleTrial(parameters={"density": d}, accuracies=(100 * d, 40.0)) for d in (0.3, 0.5, 0.2))
    search = RuleSearch(seed=0, searched=("density",), images=9, trials=trials, chosen=1, plain_sum=(30.0, 50.0))
    found = result.model_copy(update={"search": search})
    found.save(directory)
    assert read_compositions(directory) == [found]
    scores = {name: score.mean for name, score in search.scores().items()}
    assert scores == {"chosen": 45.0, "defaults": 35.0, "plain_sum": 40.0}


def test_a_table_compares_with_the_end_of_the_run_where_weights_differ(result: CompositionResult) -> None:
    changes = {"weights": (1.0, 0.0, -0.5), "accuracies": ((60.0, 40.0, 5.0), (70.0, 50.0, 6.0)), "seeds": (0, 1)}
    changed = result.model_copy(update={**changes, "task_names": ("x", "y", "z")})
    trained = changed.model_copy(update={"weights": (1 / 3,) * 3, "accuracies": ((65.0,) * 3, (65.0,) * 3)})
    table = accuracy_table(changed, trained)
    assert table.texts == [
        ["1: x", "1", "65.00 ± 7.07", "65.00 ± 0.00", "+0.00"],
        ["2: y", "0", "45.00 ± 7.07", "65.00 ± 0.00", "-20.00"],
        ["3: z", "-0.5", "5.50 ± 0.71", "65.00 ± 0.00", "-59.50"],
        ["mean", "", "38.50 ± 4.95", "65.00 ± 0.00", "-26.50"],
    ]
    assert table.emphasis == {1: "faint", 2: "faint", 3: "total"}
    same = changed.model_copy(update={"label": "weights-1,0,-0.5", "accuracies": trained.accuracies})
    assert [len(each.texts[0]) for each in (accuracy_table(changed), accuracy_table(changed, same))] == [3, 3]


def test_the_protocol_has_the_reading_of_the_paper_in_bold_and_its_numbers_in_its_file(tmp_path: Path) -> None:
    unlearned = {
        mode: ((low, 80.0), (70.0, 20.0)) for mode, low in zip(UNLEARNING_MODES, (10.0, 0.0, 4.0), strict=True)
    }
    seeds = [
        EvaluatedSeed(seed=seed, whole=(60.0, 40.0 + seed), specialised=(62.0, 42.0), unlearned=unlearned)
        for seed in (0, 2)
    ]
    about = {"run": "r", "benchmark": "digits", "methods": ("ita-lora",)}
    found = EvaluationResult(**about, kept=(1, 2), seeds=tuple(seeds))  # type: ignore[arg-type]
    table = evaluation_table(found)
    assert table.texts == [
        ["specialised on tasks 1, 2, which are all", "52.00 ± 0.00", "", "", ""],
        ["unlearned, drop", "15.00 ± 0.00", "-35.50 ± 0.71", "75.00 ± 0.00", "+24.50 ± 0.71"],
        ["unlearned, negate", "10.00 ± 0.00", "-40.50 ± 0.71", "75.00 ± 0.00", "+24.50 ± 0.71"],
        ["unlearned, subtract", "12.00 ± 0.00", "-38.50 ± 0.71", "75.00 ± 0.00", "+24.50 ± 0.71"],
    ]
    assert table.emphasis == {3: "strong"}
    summary = json.loads(found.save(RunDirectory(tmp_path)).read_text(encoding="utf-8"))["summary"]
    assert summary["unlearning/subtract"]["target"] == {"mean": pytest.approx(12.0), "std": 0.0, "seeds": 2}


def test_where_vectors_add_up_one_that_is_subtracted_leaves_the_others_and_a_negated_one_does_not() -> None:
    found = [dropping(2, [1], mode, adds_up=True).weights for mode in UNLEARNING_MODES]
    assert dict(zip(UNLEARNING_MODES, found, strict=True)) == {
        **{"drop": (0.0, 1.0), "negate": (-0.5, 0.5), "subtract": (0.0, 1.0)},
    }


def test_all_tasks_can_be_negated_and_not_left_out_and_their_order_is_none() -> None:
    options = {"keep": None, "drop": [2, 1], "weights": None}
    merge = merge_config_of(2, coefficient="negate", **options)  # type: ignore[arg-type]
    assert (merge.label, merge.weights) == ("drop-1,2-negate", (-0.5, -0.5))
    with pytest.raises(InputError, match="--drop 2,1: leaves no task of 2"):
        merge_config_of(2, coefficient=None, **options)  # type: ignore[arg-type]


def test_a_run_may_be_called_after_seeds(result: CompositionResult) -> None:
    named = result.model_copy(update={"label": "drop-1-of-my-seeds-a:1+b:2", "task_names": ("x", "y")})
    assert named.title == "drop 1 (x), of-my-seeds-a:1+b:2"
    assert (
        named.model_copy(update={"label": f"{named.label}-seeds-0,2", "seeds": (0, 2)}).title
        == f"{named.title}, seeds 0,2"
    )


def test_a_task_that_lost_a_class_has_a_weight_only_where_it_was_trained_again() -> None:
    removal = Removal(((0, 1), (2, 3), (4, 5)), frozenset({1, 2}))
    found = [removal_config(removal, retrained=retrained) for retrained in (False, True)]
    assert [merge.label for merge in found] == ["forget-class-2,3", "forget-class-2,3-retrained"]
    assert [merge.weights for merge in found] == [(0.0, 0.0, 1.0), (1 / 3, 1 / 3, 1 / 3)]


@pytest.mark.parametrize(
    ("given", "numbers", "said"),
    [
        (["sun"], [1], "--keep: sun is a class of task 1, sun, sea, which is taken whole"),
        (["sun", "sea"], [1], ""),
        (["owl"], [2], ""),
        ([1, "owl"], [1, 2], ""),
        ([2, 2], [2, 2], ""),
        (["k\u00e4fer"], [3], "--keep: ka\u0308fer is a class of task 3"),  # a folder of a Mac has two signs for one
        (["t\u00e4ler"], [3], ""),
        (["sun", "sea", "t\u00e4ler"], [1, 3], ""),
        (["owl", "9", 2], [2, 9], ""),  # 9 is a number, of no task
    ],
)
def test_a_class_that_stands_for_more_than_itself_is_said(
    given: list[int | str], numbers: list[int], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = (NamedTask(("sun", "sea")), NamedTask(("owl", "cat"), name="owl"))
    tasks = (*tasks, NamedTask(("ka\u0308fer", "ant"), name="ta\u0308ler"), NamedTask(("7", "9")))
    assert tasks_called("keep", given, tasks) == numbers
    assert said in capsys.readouterr().err if said else capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("tasks", "chosen"), [(1, (1,)), (2, (1, 2)), (4, (1, 2, 4)), (5, (1, 3, 5)), (10, (1, 5, 10))]
)
def test_the_central_task_is_the_earlier_of_two(tasks: int, chosen: tuple[int, ...]) -> None:
    assert central_three(tasks) == chosen


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("weights", [1.0]),
        ("accuracies", [[60.0]]),
        ("accuracies", []),
        ("seeds", [0, 1]),
        ("accuracies", [[60.0, float("nan")], [60.0, 40.0]]),
        ("search", {"seed": 0, "searched": [], "images": 1, "trials": [], "chosen": 0, "plain_sum": [1.0]}),
        ("search", {**SEARCH, "plain_sum": [float("inf")]}),
    ],
)
def test_a_composition_whose_numbers_do_not_belong_together_is_left_out_with_a_line(
    tmp_path: Path, result: CompositionResult, field: str, value: object
) -> None:
    path = result.save(RunDirectory(tmp_path))
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    faults: list[str] = []
    assert read_compositions(RunDirectory(tmp_path), faults) == []
    (line,) = faults
    assert line.startswith(f"{path}: cannot be read (") and "\n" not in line


def test_a_protocol_without_a_reading_is_one_line(tmp_path: Path) -> None:
    seed = EvaluatedSeed(seed=0, whole=(50.0, 40.0), specialised=(50.0, 40.0), unlearned={})
    result = EvaluationResult(run="r", benchmark="digits", methods=("ita-lora",), kept=(1, 2), seeds=(seed,))
    path = RunDirectory(tmp_path).compositions / "evaluation.json"
    path.parent.mkdir()
    path.write_text(result.model_dump_json())
    with pytest.raises(InputError, match="evaluation.json: cannot be read .its tasks and seeds are not as many every"):
        read_evaluation(RunDirectory(tmp_path))
