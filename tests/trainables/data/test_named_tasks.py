"""Which classes form a task is the user's to say: explicit tasks and orders, by the names of classes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.layouts import encoded, put
from trainables.data import BenchmarkRef, build_benchmark, get_source
from trainables.data.dataset import dataset_of
from trainables.data.embedded import BENCHMARKS
from trainables.errors import InputError
from trainables.task_names import (
    NamedTask,
    in_full,
    listed,
    names_of,
    numbered,
    quoted,
    require_known,
    shortened,
    split_names,
    task_called,
    titles,
)


def labels_by_name(text: str) -> dict[str, torch.Tensor]:
    """The training images of each class of a benchmark, by the class's name."""
    source = get_source(text)
    images, labels = source.load("train")
    assert isinstance(images, torch.Tensor)
    return {name: images[labels == place] for place, name in enumerate(source.class_names)}


@pytest.mark.parametrize(
    "text",
    [
        "digits?class_order=9,8,7,6,5,4,3,2,1,0&epochs=3",
        "digits?epochs=3&task=low=0,1,2&task=5,9",
        "folder:/data/My Birds?task=a%26b=great dane,c++,50%25,x%2Cy&task=ö,x_y&task=हाथी,ไก่",
    ],
)
def test_the_text_form_repeats(text: str) -> None:
    assert str(BenchmarkRef.parse(text)) == text


def test_names_keep_their_characters() -> None:
    task = NamedTask(("a,b", "c&d=e?", "50%25", " two  ends "), "n=1?")
    assert NamedTask.parse(str(task)) == task
    assert BenchmarkRef.parse(str(BenchmarkRef(name="digits", task=(task,)))).task == (task,)


def test_a_name_with_a_comma_may_stand_in_quotes_as_compose_shows_it() -> None:
    task = NamedTask.parse("cats='lion, male',o'neill, lynx")
    assert task == NamedTask(("lion, male", "o'neill", "lynx"), "cats") == NamedTask.parse(str(task))
    assert names_of("'a,b',c") == names_of("a%2Cb,c") == ("a,b", "c")


def test_the_name_of_a_task_ends_at_the_first_sign_of_equality() -> None:
    assert NamedTask.parse("q=x=y,z") == NamedTask(("x=y", "z"), "q")
    assert NamedTask.parse("x%3Dy,z") == NamedTask(("x=y", "z"))


def test_explicit_tasks_have_the_images_of_their_classes_alone() -> None:
    benchmark = build_benchmark(get_source("digits?task=low=0,1,2&task=9,5"), "final")
    spec, own = benchmark.spec, labels_by_name("digits")
    assert [task.words for task in spec.named_tasks] == ["low (0, 1, 2)", "9, 5"]
    assert spec.left_out == ("3", "4", "6", "7", "8")
    for task in benchmark.tasks:
        for place in task.classes:
            images = task.train.images
            assert isinstance(images, torch.Tensor)
            assert torch.equal(images[task.train.labels == place], own[spec.class_names[place]])
    tested = BENCHMARKS["digits"].load("test")[1]
    assert sum(map(len, benchmark.evaluation)) == sum(int((tested == digit).sum()) for digit in (0, 1, 2, 5, 9))


def test_an_order_by_name_moves_images_with_their_names() -> None:
    order = "digits?class_order=9,8,7,6,5,4,3,2,1,0"
    own, moved = labels_by_name("digits"), labels_by_name(order)
    assert get_source(order).class_names == tuple("9876543210")
    assert own.keys() == moved.keys() and all(torch.equal(own[name], moved[name]) for name in own)


def test_what_a_cached_result_depends_on_knows_the_classes_of_tasks(tmp_path: Path) -> None:
    put(tmp_path, {f"c{label}/{n}.png": encoded(4, label, n) for label in range(4) for n in range(5)})
    dataset_of(BenchmarkRef.parse(f"folder:{tmp_path}")).prepare("array", lambda name, total: lambda count: None)
    asked = [
        "tasks=2",
        "class_order=c1,c0,c2,c3&tasks=2",
        "task=c0,c1",
        "task=c2,c3",
        "task=c1,c0",
        "task=c0,c1&task=c2,c3",
    ]
    found = [build_benchmark(get_source(f"folder:{tmp_path}?{text}"), "search").fingerprint for text in asked]
    assert found[0] == found[-1] and len(set(found)) == len(found) - 1  # the same tasks, however they are asked for


def test_a_name_is_that_of_a_folder_in_another_unicode_form(tmp_path: Path) -> None:
    stored = {"Ka\u0308fer": "K\u00e4fer", "b": "b", "M\u00f6we": "Mo\u0308we"}  # a folder's name, and as it is typed
    put(tmp_path, {f"{name}/{n}.png": encoded(4, place, n) for place, name in enumerate(stored) for n in range(4)})
    for option in ("tasks=1&class_order", "task"):
        source = get_source(f"folder:{tmp_path}?{option}={','.join(stored.values())}")
        assert source.class_names == tuple(stored) and source.load("train")[1].unique().tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="given twice"):
        get_source(f"folder:{tmp_path}?task=Ka\u0308fer,K\u00e4fer")


def test_a_class_with_signs_is_suggested_with_how_they_are_typed() -> None:
    for name, said in (
        ("b%c", r"b%c'; did you mean 'a=b%c'\? \(in an option, type %3D"),
        ("dog", "\"'dog, big'\"\\?$"),
    ):
        with pytest.raises(InputError, match=said):
            require_known("--task", [name], ["a=b%c", "dog, big"], all_of_them=False)
    assert names_of("a%3Db%25c") == ("a=b%c",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("task=0,1&task=8,10", "task: there is no class '10'; did you mean '1' or '0'\\?"),
        ("task=0,1&task=zebra,9", "task: there is no class 'zebra'; classes are '0', '1', .* '9'"),
        ("task=0,1&task=1,9", "task: class '1' is given twice"),
        ("class_order=1,2", "class_order: must name all 10 classes; missing: '0', '3'"),
        ("class_order=0,1,2,3,4,5,6,7,8,9,9", "class_order: class '9' is given twice"),
        ("task=7", "task '7': must be at least 2 class names .*; for a number of tasks: tasks=7$"),
        ("task=a=", "task 'a=': must be at least 2 class names"),
        ("task==0,1", "task '=0,1': the name of a task must have 1 to 60 printable characters"),
        ("task=a\tb=0,1", r"task 'a\\tb=0,1': the name of a task must have 1 to 60 printable characters"),
        ("task=3=0,1", "task '3=0,1': the name of a task must not be a number"),
        ("task=a=0,1&task=a=2,3", "two tasks are named 'a'"),
        ("task=0,1&tasks=2", "task says which classes form a task, so tasks cannot, too"),
        ("task=0,1&classes_per_task=2", "task says which classes form a task, so classes_per_task cannot, too"),
        ("task=0,,1", "task '0,,1': must be at least 2 class names"),
        ("task=0,1&class_order=2", "task says which classes form a task, so class_order cannot, too"),
    ],
)
def test_classes_that_form_no_tasks(options: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_source(f"digits?{options}")


@pytest.mark.parametrize(
    ("task", "label"),
    [
        (NamedTask(("zebra", "horse"), "animals"), "animals"),
        (NamedTask(("zebra", "horse")), "zebra, horse"),
        (NamedTask(("a" * 10, "b" * 12)), f"{'a' * 10}, {'b' * 12}"),
        (NamedTask(tuple(f"class {n}" for n in range(20))), "class 0 + 19 more"),
        (NamedTask(("a very long name of a class", "b")), "a very long n… + 1 more"),
        (NamedTask(("lion, male", "bear")), "'lion, male', bear"),
        (NamedTask(("'", "*")), "', *"),
        (NamedTask(("'", "*", *map(str, range(10, 20)))), "', *, 10, 11 + 8 more"),
    ],
)
def test_a_task_is_called_by_its_name_or_its_classes(task: NamedTask, label: str) -> None:
    assert task.label == label


@pytest.mark.parametrize("names", [("lion, male", "bear"), ("'t, 'n", "it's"), ("a",), ("'", ",")])
def test_names_with_commas_are_read_as_they_are_shown(names: tuple[str, ...]) -> None:
    assert split_names(", ".join(map(quoted, names))) == list(names)
    assert split_names(",".join(map(quoted, names))) == list(names)


def test_lines_and_nothing_are_no_names() -> None:
    assert split_names("a\nb, c") == ["a b", "c"] and split_names("") == []


def test_a_line_says_how_many_more_there_are_where_there_are_more() -> None:
    assert listed("abcdefghij").endswith(", 'j'") and listed("abcdefghijk").endswith(", 'j' and 1 more")
    assert (numbered([3]), numbered([1, 2])) == ("task 3", "tasks 1, 2")
    assert (shortened("a" * 14), shortened("a" * 15)) == ("a" * 14, f"{'a' * 13}…")


def test_a_task_is_found_by_number_name_and_class() -> None:
    tasks = [NamedTask(("star", "zebra")), NamedTask(("b", "c"), "zebra"), NamedTask(("7", "9"), "odd")]
    found = [task_called("drop", given, tasks) for given in (3, "3", "zebra", "star", "c", "star, zebra", "odd", "9")]
    assert found == [3, 3, 2, 1, 2, 1, 3, 9]  # a name goes before a class, a number before both
    with pytest.raises(InputError, match="--drop: there is no task 'zebar'; did you mean 'zebra'"):
        task_called("drop", "zebar", tasks)
    with pytest.raises(InputError, match="there is no task '7 9'"):
        task_called("drop", "7 9", tasks)
    alike = [NamedTask((f"Tomato___Bacterial_{kind}", "Tomato___Leaf_mold")) for kind in ("spot", "wilt")]
    label = "Tomato___Bact… + 1 more"
    with pytest.raises(InputError, match=r"^--keep: .* is the label of tasks 1, 2; give the number$"):
        task_called("keep", label, alike)


def test_a_suggested_name_with_a_comma_can_be_pasted() -> None:
    tasks = [NamedTask(("café, noir", "tea"))]
    with pytest.raises(InputError) as refused:
        task_called("drop", split_names("café, noir")[0], tasks)
    assert str(refused.value) == """--drop: there is no task 'café'; did you mean "'café, noir'"?"""
    assert task_called("drop", split_names("'café, noir'")[0], tasks) == 1


def test_the_tasks_of_a_benchmark_without_options_are_called_by_their_classes() -> None:
    assert [task.label for task in BENCHMARKS["digits"].spec.named_tasks] == ["0, 1", "2, 3", "4, 5", "6, 7", "8, 9"]


def test_tasks_are_numbered_from_one_in_lists_and_titles() -> None:
    tasks = [NamedTask(("star", "zebra"), "sky"), NamedTask(("b", "c"))]
    assert in_full(tasks) == ["1: sky (star, zebra)", "2: b, c"]
    assert titles(["sky", "b, c"], 3) == ["1: sky", "2: b, c", "3"]  # names of tasks that are not known are left out
