"""Blocks that are compiled for full batches of a training alone; a backend that only counts stands for inductor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import compiling
from trainables.backbones.compiling import as_compiled, can_compile, compile_blocks


class Counting:
    """A backend that leaves operations as they are, and counts what is compiled and how often it runs."""

    def __init__(self) -> None:
        self.compiled = self.runs = 0
        self.broken = False

    def __call__(self, graph: fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        if self.broken:
            raise RuntimeError("no compiler")
        self.compiled += 1

        def forward(*given: Any) -> Any:
            self.runs += 1
            return graph.forward(*given)

        return forward


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """Put torch's settings back after a test, and forget what it has compiled."""
    before = torch._dynamo.config.suppress_errors
    yield
    torch._dynamo.config.suppress_errors = before
    torch.compiler.set_stance("default")
    torch._dynamo.reset()


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """The backend of all modules that are compiled in a test."""
    counting, compile_module = Counting(), nn.Module.compile

    def compile_by_it(module: nn.Module, **options: Any) -> None:
        compile_module(module, backend=counting, **options)

    monkeypatch.setattr(nn.Module, "compile", compile_by_it)
    return counting


@pytest.fixture
def model(backend: Counting) -> nn.Module:
    """A network of two blocks that are compiled."""
    made = make_tiny_vit(dtype=torch.float32)
    compile_blocks(made)
    return made


def images(count: int) -> Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(count))


def features(model: nn.Module, count: int = 4, full: int = 4) -> Tensor:
    """Features as `Context.features` computes them for batches of a size."""
    with as_compiled(model, full_batch=count == full):
        return model(images(count))


def test_a_full_batch_runs_compiled_and_has_the_same_features_and_gradients(
    backend: Counting, model: nn.Module
) -> None:
    plain = deepcopy(model)
    found, expected = features(model), plain(images(4))
    assert (backend.compiled, backend.runs) == (1, 2)  # what is compiled for a block serves those that are like it
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    for weight, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, other.grad)
    features(model)
    assert (backend.compiled, backend.runs) == (1, 4)


def test_all_else_runs_as_it_is_before_and_after_it_is_compiled(backend: Counting, model: nn.Module) -> None:
    for expected in (0, 1):
        model(images(4))  # outside of the context
        features(model, count=3)
        with torch.inference_mode():
            features(model)
        with torch.no_grad():
            features(model)
        features(deepcopy(model))
        assert (backend.compiled, backend.runs) == (expected, 2 * expected)
        if not expected:
            features(model)


def test_another_model_runs_as_it_is_and_so_does_a_function(backend: Counting, model: nn.Module) -> None:
    other = make_tiny_vit(dtype=torch.float32)
    features(other)
    assert backend.compiled == 0
    for each in (other, torch.neg):
        assert isinstance(as_compiled(each, full_batch=True), nullcontext)


def test_blocks_are_compiled_once_for_all_tasks_of_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[nn.Module, dict[str, Any]]] = []
    monkeypatch.setattr(nn.Module, "compile", lambda module, **options: compiled.append((module, options)))
    model = make_tiny_vit()
    compile_blocks(model)
    compile_blocks(model)
    compile_blocks(other := make_tiny_vit())
    assert compiled == [(block, {"dynamic": False}) for each in (model, other) for block in each.blocks]


def test_what_cannot_be_compiled_runs_as_it_is(backend: Counting, model: nn.Module) -> None:
    plain, backend.broken = deepcopy(model), True
    assert torch.equal(features(model), plain(images(4)))
    assert (backend.compiled, backend.runs) == (0, 0)


@pytest.mark.parametrize(
    ("triton", "headers", "compilers", "can"),
    [
        (True, True, {"cc"}, True),
        (True, True, {"gcc"}, True),
        (True, True, {"clang"}, True),
        (True, True, set(), False),
        (True, False, {"cc"}, False),
        (False, True, {"cc"}, False),
    ],
)
def test_triton_python_headers_and_a_c_compiler_are_needed(
    triton: bool, headers: bool, compilers: set[str], can: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if headers:
        (tmp_path / "Python.h").touch()
    monkeypatch.setattr(compiling.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda name: name if triton else None)
    monkeypatch.setattr(compiling.shutil, "which", lambda name: name if name in compilers else None)
    assert can_compile() is can
