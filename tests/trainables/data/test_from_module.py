"""Benchmarks in somebody's own module: what it raises or returns is said in one line, before anything."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.command_line import Ask
from tests.support.packages import install
from trainables import user_code
from trainables.backbones import Backbone
from trainables.data import BENCHMARKS, BenchmarkSource, Normalise, build_benchmark, from_module, get_source, reference
from trainables.errors import InputError
from trainables.user_code import allow_code

GOOD = """\
import torch
from trainables.data import BenchmarkSource, small_transforms
def load(part):
    generator = torch.Generator().manual_seed(len(part))
    labels = torch.arange(4).repeat_interleave(8)
    return torch.randint(0, 255, (32, 1, 32, 32), generator=generator, dtype=torch.uint8), labels
OWN = BenchmarkSource(
    name="own", class_names=("a", "b", "c", "d"), num_tasks=2, epochs=1, batch_size=8, backbone="glyph_vit",
    load=load, transforms=small_transforms,
)
"""
EMPTY = """\
class Nothing:
    image, digest, name, encoded, take = None, "0", None, None, None
    def __len__(self):
        return 0
def load(part):
    return Nothing(), torch.arange(0)
"""
MADE = "small_transforms,\n)"
BROKEN = {
    "syntax": ("import torch", "import torch +", r"SyntaxError: .* in .*own_syntax.py, line 1\)"),
    "raise": ("import torch", "raise KeyError('lost')", r"KeyError: 'lost' in .*own_raise.py, line 1\)"),
    "exit": ("import torch", "import sys; sys.exit(3)", r"SystemExit: 3 in .*own_exit.py, line 1\)"),
    "lines": ("import torch", "raise RuntimeError('a\\nb')", r"RuntimeError: a b in"),
    "load": ("generator =", "generator = 1 / 0 +", r"load\('train'\) failed \(ZeroDivisionError: .*, line 4\)"),
    "loadexit": ("generator =", "raise SystemExit; generator =", r"load\('train'\) failed \(SystemExit in .*line 4\)"),
    "none": ("return torch.randint", "return None; torch.randint", "must return images and labels, got NoneType"),
    "dtype": ("dtype=torch.uint8)", "dtype=torch.int32)", "must return uint8 images .* got torch.int32"),
    "channel": ("(32, 1, 32, 32)", "(32, 32, 32, 1)", r"1 or 3 channels.* got torch.uint8 \(32, 32, 32, 1\)"),
    "shape": ("(32, 1, 32, 32)", "(32, 32, 32)", "must return uint8 images"),
    "zero": ("(32, 1, 32, 32)", "(0, 1, 32, 32)", "at least one"),
    "empty": ("OWN =", f"{EMPTY}OWN =", "must return at least one image"),
    "half": ("OWN =", f"{EMPTY}del Nothing.take\nOWN =", "got Nothing, which lacks take of `StoredImages`"),
    "fewer": ("repeat_interleave(8)", "repeat_interleave(7)", r"int64 labels \(32,\), one for each"),
    "float": (".repeat_interleave(8)", ".repeat_interleave(8).float()", "int64 labels .* got torch.float32"),
    "above": ("torch.arange(4)", "torch.arange(1, 5)", "labels from 0 to 3, got 1 to 4"),
    "below": ("torch.arange(4)", "torch.arange(-1, 3)", "labels from 0 to 3, got -1 to 2"),
    "tasks": ("num_tasks=2", "num_tasks=0", "num_tasks must be a whole number from 1 to 2, got 0; a task needs 2"),
    "manytasks": ("num_tasks=2", "num_tasks=3", "num_tasks must be a whole number from 1 to 2, got 3"),
    "epochs": ("epochs=1", "epochs=0", "epochs must be a whole number from 1 to 100000, got 0"),
    "batch": ("batch_size=8", "batch_size=0", "batch_size must be a whole number from 1 to 1000000, got 0"),
    "halfbatch": ("batch_size=8", "batch_size=8.5", "batch_size must be a whole number from .* got 8.5"),
    "names": ('"d")', '"a")', "class_names: the names of classes must be different, 'a' is there twice"),
    "list": ('("a", "b", "c", "d")', '["a", "b", "c", "d"]', "class_names must be a tuple"),
    "single": ('("a", "b", "c", "d")', '("a",)', "class_names must be a tuple of at least 2 names"),
    "blank": ('"d")', '" ")', "class_names: the name of a class must not be empty"),
    "broken": ('"d")', r'"c\nd")', r"class_names: the name of a class must be a line .* got 'c\\nd'"),
    "number": ('"d")', "4)", "class_names: the name of a class must be a text, got 4"),
    "words": ("num_tasks=2", "num_tasks=2, sizes=('a', 'b')", "sizes must be a tuple of whole numbers"),
    "notasks": ("num_tasks=2", "num_tasks=2, task_names=None", "task_names must be 2, one for each task"),
    "backbone": ('"glyph_vit"', '"nope"', "unknown backbone 'nope'"),
    "transform": (MADE, "lambda reads: (lambda i, g: i[:, :, :9], ) * 2,\n)", "must give finite .* got"),
    "nan": (MADE, "lambda r: (lambda i, g: i * float('nan'), ) * 2,\n)", "must give finite"),
    "raises": (MADE, "lambda r: (lambda i, g: i[99], ) * 2,\n)", "transforms failed .IndexError"),
    "calling": (MADE, "lambda r: 1 / 0,\n)", r"transforms failed .ZeroDivisionError: .*, line 9\)"),
    "pair": (MADE, "lambda r: None,\n)", "transforms must return two functions, of training and test images"),
    "onemore": (MADE, "lambda r: (len, ) * 3,\n)", "transforms must return two functions, .* got tuple"),
    "nofunctions": (MADE, "lambda r: (1, 2),\n)", "transforms must return two functions, .* got tuple"),
    "bytes": (
        MADE,
        "lambda r: (lambda i, g: i, ) * 2,\n)",
        r"must give finite floats .* got torch.uint8 \(2, 1, 32, 32\)",
    ),
    "triple": ("uint8), labels", "uint8), labels, labels", "must return images and labels, got tuple"),
    "noload": ("load=load", "load=None", "load and transforms must be functions"),
    "notransforms": (MADE, "None,\n)", "load and transforms must be functions"),
    "nobackbone": ('"glyph_vit"', "3", "backbone must be a name, got int"),
    "nosizes": ("num_tasks=2", "num_tasks=2, sizes=None", "sizes must be a tuple of whole numbers"),
    "closing": ("generator =", "raise GeneratorExit; generator =", r"load\('train'\) failed \(GeneratorExit in"),
    "escape": ("import torch", "raise RuntimeError('\\x1b[31m')", r"RuntimeError: \?\[31m in"),
    "type": ("OWN = BenchmarkSource(", "OWN = dict(", "'OWN' must be a BenchmarkSource, got dict"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_with_it(kind: str, folder: Path, ask: Ask) -> None:
    old, new, message = BROKEN[kind]
    assert old in GOOD
    (folder / f"own_{kind}.py").write_text(GOOD.replace(old, new))
    code, out, err = ask("search", f"own_{kind}:OWN", "finetune", "--trials", "1")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert re.search(message, err) and f"own_{kind}:OWN" in err or kind == "backbone", err
    assert not (folder / "tausearch-runs").exists()
    sys.modules.pop(f"own_{kind}", None)


def test_a_whole_one_is_taken(folder: Path) -> None:
    from tausearch.api import SearchRequest, plan_search

    (folder / "own_whole.py").write_text(GOOD)
    allow_code("own_whole:OWN")
    assert plan_search(SearchRequest("own_whole:OWN", "finetune", storage=folder / "runs")).spec.steps == 2
    assert plan_search(SearchRequest("own_whole:OWN", "finetune", classes_per_task=4, storage=folder)).spec.steps == 1


def test_a_package_brings_a_benchmark_but_not_under_a_name_of_ours(
    folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    names = ("brought", "broken", "digits", "cifar100")
    points = {f"benchmarks {name}": "own_brought:OWN" for name in names} | {"benchmarks broken": "own_brought:load"}
    install(folder, "pack", points, own_brought=GOOD)
    ref = reference("brought?epochs=3")
    assert ref.is_own and ref.in_code and get_source("brought?epochs=3").epochs == 3
    claim = "tausearch itself and package 'pack' (own_brought:OWN) have one of this name; uninstall all but one"
    for name, fault in {
        "digits": claim,
        "cifar100": claim,
        "broken": "of package 'pack': 'load' must be a BenchmarkSource, got function",
    }.items():
        code, out, err = ask("search", name, "finetune")
        assert (code, out, err.count("\n")) == (2, "", 1) and fault in err, err
    sys.modules.pop("own_brought", None)


def test_both_parts_may_not_be_the_same(folder: Path) -> None:
    from tausearch.api import open_benchmark

    (folder / "own_same.py").write_text(GOOD.replace("manual_seed(len(part))", "manual_seed(0)"))
    allow_code("own_same:OWN")
    opened = open_benchmark("own_same:OWN", None)
    with pytest.raises(InputError, match="the same images for both parts"):
        opened.require("final", 0, Backbone("glyph_vit").input)


Read = Callable[..., BenchmarkSource]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Returns the benchmark of a module: digits with some fields changed."""
    monkeypatch.setitem(user_code._allowed, "own_made:OWN", "")

    def read(**changes: Any) -> BenchmarkSource:
        monkeypatch.setitem(sys.modules, "own_made", SimpleNamespace(OWN=replace(BENCHMARKS["digits"], **changes)))
        return from_module.source_in_code("own_made:OWN")

    return read


@pytest.mark.parametrize(
    ("sizes", "names", "fault"),
    [
        ((4, 6), ("first", None), None),
        ((), (), None),
        ((1, 9), (), "sizes must be the classes of 2 tasks, at least 2 each and 10 together"),
        ((4, 5), (), "sizes must be"),
        ((4, 3, 3), (), "sizes must be"),
        ((4, 6), ("first",), "task_names must be 2, one for each task"),
        ((4, 6), ("2", "1"), "task_names: the name of a task must not be a number, .*, got '2'"),
        ((4, 6), (2019, 2020), "task_names: the name of a task must have .* characters, got 2019"),
        ((4, 6), ("a", "a"), "task_names: two tasks are named 'a'"),
        ((4, 6), ("a,b", None), "task_names: the name of a task must .* have no comma: .* got 'a,b'"),
        ((4, 6), (" ", None), "task_names: the name of a task must have 1 to 60 printable characters, got ' '"),
        ((4, 6), ("a" * 61, None), "task_names: the name of a task must have 1 to 60 printable characters"),
        ((4, 6), ("a" * 60, None), None),
    ],
)
def test_its_tasks_have_all_classes(sizes: tuple[int, ...], names: tuple[str, ...], fault: str, read: Read) -> None:
    if fault is None:
        assert read(num_tasks=2, sizes=sizes, task_names=names).sizes == sizes
    else:
        with pytest.raises(InputError, match=f"benchmark 'own_made:OWN': {fault}"):
            read(num_tasks=2, sizes=sizes, task_names=names)


@pytest.mark.parametrize("wrong", [0, 1])
def test_transforms_of_training_and_of_evaluation_must_both_fit(wrong: int, read: Read) -> None:
    pair: list[Any] = [Normalise(), Normalise()]
    reads = Backbone().input
    from_module.require_fits(build_benchmark(read(transforms=lambda reads: tuple(pair)), "search"), reads)
    pair[wrong] = lambda images, generator: Normalise()(images)[..., 1:]
    with pytest.raises(
        InputError, match=r"transforms must give finite floats \(2, 1, 32, 32\) .* got torch.float32 \(2, 1, 32, 31\)"
    ):
        from_module.require_fits(build_benchmark(read(transforms=lambda reads: tuple(pair)), "search"), reads)


def test_the_tasks_that_a_reference_asks_for_replace_all_of_its_own(read: Read) -> None:
    read(num_tasks=2, sizes=(4, 6), task_names=("low", "high"))
    for text, sizes, labels in (
        ("", [4, 6], ["low", "high"]),
        ("?tasks=2", [5, 5], ["0, 1, 2, 3, 4", "5, 6, 7, 8, 9"]),
        ("?class_order=3", [4, 6], ["7, 2, 3, 8", "1, 0, 5, 6, 9, 4"]),  # other classes than "low" and "high" name
        ("?classes_per_task=3", [3, 3, 2, 2], ["0, 1, 2", "3, 4, 5", "6, 7", "8, 9"]),
    ):
        source = get_source(f"own_made:OWN{text}")
        assert [len(classes) for classes in source.task_classes] == sizes
        assert [task.label for task in source.named_tasks] == labels
