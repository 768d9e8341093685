"""What a benchmark may be called, with its options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainables.data import BenchmarkRef, build_benchmark, get_source
from trainables.data.sources import _with_options
from trainables.errors import InputError
from trainables.user_code import allow_code


@pytest.mark.parametrize(
    ("text", "canonical", "slug"),
    [
        ("digits", "digits", "digits"),
        ("cifar100?epochs=3&tasks=20", "cifar100?tasks=20&epochs=3", "cifar100-tasks-20-epochs-3"),
        ("folder:/data/My Birds?tasks=5&class_order=0", "folder:/data/My Birds?tasks=5&class_order=0", None),
        ("folder:/a/../b/", "folder:/b", "folder-b"),
        ("folder://a/b", "folder:/a/b", "folder-b"),
        ("own.module:NAME", "own.module:NAME", "own.module-NAME"),
    ],
)
def test_names_of_benchmarks(text: str, canonical: str, slug: str | None) -> None:
    ref = BenchmarkRef.parse(text)
    assert str(ref) == canonical and BenchmarkRef.parse(canonical) == ref
    assert ref.slug == (slug or "folder-My-Birds-tasks-5-class_order-0")


@pytest.mark.parametrize(
    ("text", "own"),
    [("digits", False), ("mit67?tasks=2", False), ("folder:/a", True), ("parquet:/a", True), ("own.module:NAME", True)],
)
def test_benchmarks_of_the_users_own(text: str, own: bool) -> None:
    assert BenchmarkRef.parse(text).is_own == own


def test_a_slug_is_short_and_ends_with_a_letter_or_digit() -> None:
    assert BenchmarkRef.parse(f"folder:/{'a' * 52}?tasks=5").slug == f"folder-{'a' * 52}"  # 60 with the sign behind it
    assert BenchmarkRef.parse(f"folder:/{'a' * 90}").slug == f"folder-{'a' * 53}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digits?taks=2", "unknown option 'taks=2'; did you mean 'tasks'"),
        ("digits?class_order=1&tasks", "option 'tasks' has no value; write tasks=..."),
        ("digits?tasks=two", "tasks must be a whole number, got 'two'"),
        ("mit67?variant=a/../b", "variant must be letters, digits and '-', got 'a/../b'"),
        ("mit67?partial=1", "partial must be 'yes' or left out, got '1'"),
        ("parquet:/x?label_column=", "label_column must be the name of a column, .* got ''"),
        ("digits?tasks=0", "tasks must be a whole number from 1 to 100000, got 0"),
        ("digits?tasks=2&tasks=2", "option 'tasks' is given twice"),
        ("digits?tasks=100001", "tasks must be a whole number from 1 to 100000"),
        (f"digits?tasks={'9' * 5000}", "tasks must be a whole number"),
        ("digits?epochs=100001", "epochs must be a whole number from 1 to 100000"),
        ("digits?batch_size=0", "batch_size must be a whole number from 1 to 1000000"),
        ("digits?class_order=a", "class_order must be a seed, or the names of all classes with commas between them"),
        ("digits?class_order=4294967296", "class_order must be a whole number from 0 to 4294967295"),
        ("digits?tasks=2&classes_per_task=2", "give tasks or classes_per_task, not both"),
        ("digits?tasks=6", "--tasks makes 6 tasks of 10 classes; a task needs at least 2 classes, so at most 5"),
        ("digits?partial=yes", "partial is for published datasets"),
        ("digits?skip_broken=yes", "skip_broken is for images on disk"),
        ("a" * 300, "unknown benchmark 'a+'; "),
        (f"folder:/{'a' * 300}?tasks=2", "folder:/a+: File name too long"),
        (f"parquet:/{'a' * 300}?tasks=2", "parquet:/a+: File name too long"),
        ("folder:", "needs a path after 'folder:'"),
        ("folder:/nowhere", "no such folder; if the images of a run have moved, make a link to them here$"),
        ("folder:/nowhere?tasks=2&partial=yes", "partial is for published datasets"),
    ],
)
def test_wrong_names_of_benchmarks(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_source(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere.module:NAME", "module 'nowhere.module' cannot be imported"),
        ("trainables.data:Task", "'Task' must be a BenchmarkSource, got type"),
        ("trainables.data:nothing", "must be a BenchmarkSource, got nothing of that name"),
    ],
)
def test_wrong_names_in_modules(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"a file names this code.* --allow-code {text} "):
        get_source(text)
    allow_code(text)
    with pytest.raises(InputError, match=message):
        get_source(text)


def test_a_tasks_option_works_for_every_benchmark() -> None:
    benchmark = build_benchmark(get_source("digits?tasks=2&class_order=1&epochs=2&batch_size=7"), "search")
    assert [len(task.classes) for task in benchmark.tasks] == [5, 5]
    assert (benchmark.spec.epochs, benchmark.spec.batch_size) == (2, 7)
    assert benchmark.spec.class_names != tuple("0123456789") and set(benchmark.spec.class_names) == set("0123456789")


@pytest.mark.parametrize(("option", "asked"), [("tasks", "--tasks"), ("classes_per_task", "--classes-per-task")])
def test_too_many_tasks_are_told_by_the_option_that_makes_them(option: str, asked: str) -> None:
    three = replace(get_source("digits"), class_names=("a", "b", "c"))
    with pytest.raises(InputError, match=f"{asked} makes 2 tasks of 3 classes; .* so at most 1 task$"):
        _with_options(three, BenchmarkRef.parse(f"digits?{option}=2"))


def test_the_example_is_a_benchmark() -> None:
    allow_code("own_benchmark:STRIPES", Path(__file__).parents[3] / "examples")
    benchmark = build_benchmark(get_source("own_benchmark:STRIPES"), "search")
    assert len(benchmark.tasks) == 4 and len(benchmark.merged().train) == 8 * 36
