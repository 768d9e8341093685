"""The contract tests that anybody can run: a whole method of a package passes, and each break is noticed."""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tausearch.testing import check_method
from tausearch.testing.benchmarks import small_digits
from tausearch.testing.methods import (
    check_declarations,
    check_learning,
    check_predictions,
    check_secrecy,
    check_vectors,
    require_same,
)
from tausearch.testing.reachable_objects import images_of
from tausearch.testing.recording import shown, watch
from tests.support.imports import ROOT
from tests.support.methods.small_digits import COMPOSABLE
from tests.support.packages import install_example
from trainables import user_code
from trainables.state import State
from trainables.user_code import allow_code

FOUND, LOGITS = "        found = self.statistics(task)\n", "self.weight, self.bias)\n\n    def state"
NOISE = "        self.bias += 0.001 * torch.randn(1, generator=GENERATOR)\n\n    @torch.no_grad()\n    def train"
NAN = """task.unaugmented), "train/more": float("nan")}

    from trainables.methods import ExtraMetric
    metrics = (ExtraMetric("train/more", "1"),)
"""
BREAKS = {
    "learns": ("self.weight = directions", "self.weight = -directions", "final accuracy .* %, not 80 %"),
    "draws": (FOUND, f"        torch.rand(1)\n{FOUND}", "draws from torch's global generator"),
    "repeats": ("\n    @torch.no_grad()\n    def train", NOISE, "a resumed trial ends in another state"),
    "resumes": (
        '        self.means = state.tensors["means"].to("cpu", copy=True)\n',
        "",
        "out of bounds.* in .*, line",
    ),
    "numbers": (LOGITS, LOGITS.replace("bias)", "bias) * float('nan')"), "^train/loss is nan at task 1$"),
    "raises": (
        FOUND,
        f"        1 / 0\n{FOUND}",
        r"^ZeroDivisionError: division by zero in .*broken_raises.py, line \d+$",
    ),
    "asserts": (FOUND, f"        assert task.index > 1\n{FOUND}", r"^AssertionError in .*broken_asserts.py, line \d+$"),
    "copies": ('.to("cpu", copy=True)', "", "a resumed trial has another row"),
    "columns": (
        "{TRAIN_LOSS: float",
        "{'train/more': 1.0, TRAIN_LOSS: float",
        "returns 'train/more', which metrics does not declare",
    ),
    "nan": ("task.unaugmented)}\n", NAN, "^metrics are NaN: train/more$"),
    "graph": (LOGITS, LOGITS.replace("bias)", "bias).requires_grad_()"), "logits keep a graph"),
}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The module of the example's method, on the path, and forgotten afterwards."""
    monkeypatch.setattr(user_code, "_allowed", {})
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(install_example(tmp_path))
    yield tmp_path / "tausearch_example" / "slda.py"
    for name in [name for name in sys.modules if name.startswith(("tausearch_example", "broken_"))]:
        del sys.modules[name]


def test_a_method_of_an_installed_package_passes(source: Path) -> None:
    check_method("slda", {"shrinkage": 0.01}, least=80)  # 100 was measured


def test_the_method_of_the_page_and_the_example_with_gradients_pass(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "own-method.md").read_text(encoding="utf-8")
    first, gradients, _ = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert textwrap.indent(gradients, "    ") in (ROOT / "examples" / "own_method.py").read_text(encoding="utf-8")
    (tmp_path / "page_method.py").write_text(first, encoding="utf-8")
    allow_code("page_method:Mean", tmp_path)
    allow_code("own_method:Linear", ROOT / "examples")
    check_method("page_method:Mean", {}, least=80)
    check_method("own_method:Linear", {"lr": 1.0}, least=50)


def test_code_among_the_hyperparameters_is_imported_as_one_that_you_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_code, "_allowed", {})
    with pytest.raises(AssertionError, match="'string:Template': the class Template lacks"):  # it was imported
        check_method("ita-lora", {**COMPOSABLE["ita-lora"], "curvature": "string:Template"})


VECTOR = "return replace(found, scale=self.settings.scaling)"
OWN = "self.prepared(task).own_curvature()"
BROKEN_VECTORS = {
    "scale": (VECTOR, "return found", r"weights 1/T .* predicts .* `scale`"),
    "other": ("composed(self.vectors.theta_0, vectors, weights)", "self.vectors.theta_0", "another composition than"),
    "back": ("        yield\n        self._compose()\n", "        yield\n", "after `composed` the method predicts"),
    "after": ("            self.heads.end()\n", "", "a resumed trial ends in another state"),
    "images": (OWN, f"replace({OWN}, examples=7)", "the curvature of task 1 is over 7 images, and the task has 24"),
}


def test_a_composable_method_of_an_installed_package_passes(source: Path) -> None:
    check_method("arithmetic", {"lr": 0.003, "scaling": 1.5}, least=60)


@pytest.mark.parametrize("what", BROKEN_VECTORS)
def test_each_break_of_the_contract_of_task_vectors_is_noticed(what: str, source: Path, tmp_path: Path) -> None:
    old, new, message = BROKEN_VECTORS[what]
    text = source.with_name("arithmetic.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    (tmp_path / f"broken_{what}.py").write_text(text.replace(old, new), encoding="utf-8")
    allow_code(f"broken_{what}:TaskArithmetic", tmp_path)
    with pytest.raises(AssertionError, match=message):
        check_method(f"broken_{what}:TaskArithmetic", {"lr": 0.003, "scaling": 1.5})


@pytest.mark.parametrize("what", BREAKS)
def test_each_break_of_the_contract_is_noticed(what: str, source: Path, tmp_path: Path) -> None:
    old, new, message = BREAKS[what]
    text = source.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    broken = text.replace(old, new, 1).replace("\n\n@dataclass", "\n\nGENERATOR = torch.Generator()\n\n\n@dataclass", 1)
    (tmp_path / f"broken_{what}.py").write_text(broken, encoding="utf-8")
    method = f"broken_{what}:SLDA"  # typed here, so that it needs no permission
    if what == "learns":
        method = vars(importlib.import_module(f"broken_{what}"))["SLDA"]
    with pytest.raises(AssertionError, match=message):
        check_method(method, {"shrinkage": 0.01}, least=80)


@pytest.mark.parametrize(
    ("logits", "words"),
    [
        (torch.zeros(4, 6), r"logits are \(4, 6\)"),
        (torch.zeros(3, 2), r"logits are \(3, 2\)"),
        (torch.full((4, 2), math.inf), "logits are not finite"),
    ],
)
def test_logits_are_of_all_images_and_of_the_classes_seen_alone(logits: Tensor, words: str) -> None:
    tasks = [SimpleNamespace(classes=range(2)), SimpleNamespace(classes=range(2, 4))]
    sequence = SimpleNamespace(benchmark=SimpleNamespace(evaluation=[range(4)]), tasks=tasks)
    done: Any = [SimpleNamespace(logits=logits), SimpleNamespace(logits=torch.zeros(4, 4))]
    with pytest.raises(AssertionError, match=words):
        check_predictions(SimpleNamespace(sequence=sequence, tasks=done))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("composable", "files", "right"),
    [(True, [2, 4], True), (True, [2, 2], False), (False, [0, 0], True), (False, [0, 1], False)],
)
def test_vectors_are_left_after_each_task_or_never(composable: bool, files: list[int], right: bool) -> None:
    entry = SimpleNamespace(capabilities=SimpleNamespace(composable=composable))
    trial: Any = SimpleNamespace(sequence=SimpleNamespace(entry=entry), tasks=[])
    trial.tasks += [SimpleNamespace(artifacts=count) for count in files]
    with nullcontext() if right else pytest.raises(AssertionError):
        check_vectors(trial)


@dataclasses.dataclass
class Config:
    """Hyperparameters of a method."""

    lr: float = 0.1
    rank: int = 4


@pytest.mark.parametrize(
    ("neutral", "row", "right"),
    [
        ({"lr": 0.1, "rank": 4}, {"task": 1.0, "train/own": 1.0, "test/any": 1.0}, True),
        ({"lr": 0.1, "rank": 5}, {"task": 1.0}, False),
        ({}, {"task": 1.0, "train/other": 1.0}, False),
    ],
)
def test_neutral_values_are_defaults_and_columns_are_declared(
    neutral: dict[str, Any], row: dict[str, float], right: bool
) -> None:
    declared = {"metrics": [SimpleNamespace(name="train/own")], "capabilities": SimpleNamespace(tasks_to_peak=1)}
    entry = SimpleNamespace(config=Config, neutral_values=neutral, **declared)
    trial: Any = SimpleNamespace(sequence=SimpleNamespace(entry=entry), rows=[row])
    with nullcontext() if right else pytest.raises(AssertionError):
        check_declarations(trial)


ROW = {"task": 2.0, "train/loss": 1.0, "test/average_accuracy": 50.0, "test/final_accuracy": 50.0}
ROW |= {"test/forgetting": 0.0, "test/accuracy/task_1": 40.0, "test/accuracy/task_2": 60.0}


@pytest.mark.parametrize("change", [{}, {"test/forgetting": None}, {"test/accuracy/task_1": 41.0}])
def test_the_last_row_has_what_every_row_has_and_the_mean_over_tasks(change: dict[str, float | None]) -> None:
    last = {name: value for name, value in {**ROW, **change}.items() if value is not None}
    sequence = SimpleNamespace(benchmark=SimpleNamespace(tasks=[1, 2]), tasks=[1, 2])
    trial: Any = SimpleNamespace(draws=False, rows=[ROW, last], sequence=sequence)
    with pytest.raises(AssertionError) if change else nullcontext():
        check_learning(trial, 50.0)


def test_an_evaluation_image_within_reach_is_noticed_as_it_is_stored_and_as_it_is_shown() -> None:
    benchmark = small_digits()
    sequence: Any = SimpleNamespace(benchmark=benchmark, tasks=benchmark.tasks)
    own = [set(images_of([task.train.images])) for task in benchmark.tasks]
    check_secrecy(sequence, own)
    (stored, *_), (seen, *_) = (
        images_of([each]) for each in (benchmark.evaluation[2].images, shown(benchmark.evaluation[2]))
    )
    for reached in ([*own[:2], own[2] | {stored}], [*own[:2], own[2] | {seen}], [set(), *own[1:]]):
        with pytest.raises(AssertionError):
            check_secrecy(sequence, reached)


def test_images_that_the_preconsolidation_keeps_are_within_reach() -> None:
    image = torch.arange(12, dtype=torch.uint8).reshape(1, 3, 2, 2)
    ended: list[str] = []
    method = SimpleNamespace(end_task=ended.append)
    reached = watch(SimpleNamespace(method=method, preparer=SimpleNamespace(kept=image)))  # type: ignore[arg-type]
    method.end_task("a task")
    assert reached == [set(images_of([image]))] and ended == ["a task"]


@pytest.mark.parametrize("kind", ["tensors", "constant"])
def test_a_resumed_trial_has_the_same_tensors_those_that_never_change_among_them(kind: str) -> None:
    states = [State(**{kind: {"means": torch.full((2,), value)}}) for value in (0.0, 1.0)]  # type: ignore[arg-type]
    require_same(states[0], states[0])
    with pytest.raises(AssertionError, match="a resumed trial ends in another state: means differ"):
        require_same(*states)


def test_images_are_found_in_tensors_in_arrays_and_in_what_reads_them() -> None:
    image = torch.arange(24, dtype=torch.uint8).reshape(3, 2, 4)
    rows = image.permute(1, 2, 0).contiguous().numpy()

    class Reader:
        encoded = b""

        def __len__(self) -> int:
            return 1

        def image(self, row: int) -> Tensor:
            return image

    assert images_of([image[None], rows, rows[None], Reader(), image, [rows]]) == [image.numpy().tobytes()] * 4


def test_tensors_and_arrays_that_hold_no_images_are_passed_over() -> None:
    held = torch.zeros(1, 2, 3, 4)
    negative = held.to(torch.complex64).conj().imag
    others = [held.bfloat16(), held.to_sparse(), held.to(torch.complex64).conj(), np.zeros((0, 3, 0), np.uint8)]
    others.append(held.to("meta"))
    assert images_of(others) == [] and len(images_of([negative])) == 1
