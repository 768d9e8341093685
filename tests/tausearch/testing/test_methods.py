"""The contract tests that anybody can run: a whole method of a package passes, and each break is noticed."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tausearch.testing import check_method
from tests.support.imports import ROOT
from tests.support.packages import install_example
from trainables import user_code
from trainables.user_code import allow_code

FOUND, LOGITS = "        found = self.statistics(task)\n", "self.weight, self.bias)\n\n    def state"
NOISE = "        self.bias += 0.001 * torch.randn(1, generator=GENERATOR)\n\n    @torch.no_grad()\n    def train"
BREAKS = {
    "learns": ("self.weight = directions", "self.weight = -directions", "final accuracy .* %, not 80 %"),
    "draws": (FOUND, f"        torch.rand(1)\n{FOUND}", "draws from torch's global generator"),
    "repeats": ("\n    @torch.no_grad()\n    def train", NOISE, "a resumed trial ends in another state"),
    "resumes": ('        self.means = state.tensors["means"].to("cpu", copy=True)\n', "", "out of bounds"),
    "copies": ('.to("cpu", copy=True)', "", "a resumed trial has another row"),
    "columns": (
        "{TRAIN_LOSS: float",
        "{'train/more': 1.0, TRAIN_LOSS: float",
        "returns 'train/more', which metrics does not declare",
    ),
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


VECTOR = "return replace(found, scale=self.settings.scaling)"
OWN = "self.prepared(task).own_curvature()"
BROKEN_VECTORS = {
    "scale": (VECTOR, "return found", "the uniform composition of the saved vectors predicts something else"),
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
    with pytest.raises((AssertionError, IndexError), match=message):
        check_method(method, {"shrinkage": 0.01}, least=80)
