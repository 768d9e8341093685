"""Blocks that are compiled for full batches of a training alone; a backend that only counts stands for inductor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import deepcopy
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

    def __call__(self, graph: fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        self.compiled += 1

        def forward(*given: Any) -> Any:
            self.runs += 1
            return graph.forward(*given)

        return forward


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    """The backend of all modules that are compiled in a test."""
    counting, compile_module = Counting(), nn.Module.compile

    def compile_by_it(module: nn.Module, **options: Any) -> None:
        compile_module(module, backend=counting, **options)

    monkeypatch.setattr(nn.Module, "compile", compile_by_it)
    yield counting
    torch.compiler.set_stance("default")
    torch._dynamo.reset()


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
    try:
        compile_blocks(model)
        compile_blocks(model)
        compile_blocks(other := make_tiny_vit())
    finally:
        torch.compiler.set_stance("default")
    assert compiled == [(block, {"dynamic": False}) for each in (model, other) for block in each.blocks]


@pytest.mark.parametrize(
    ("triton", "compilers", "can"),
    [
        (True, {"cc"}, True),
        (True, {"gcc"}, True),
        (True, {"clang"}, True),
        (True, set(), False),
        (False, {"cc"}, False),
    ],
)
def test_triton_and_a_c_compiler_are_needed(
    triton: bool, compilers: set[str], can: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda name: name if triton else None)
    monkeypatch.setattr(compiling.shutil, "which", lambda name: name if name in compilers else None)
    assert can_compile() is can
