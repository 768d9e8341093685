"""What a trial's device, precision, backbone and images decide: recorded steps, compiled blocks, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.methods.small_digits import COMPOSABLE, run
from tests.support.methods.tiny_trials import Pixels
from trainables.backbones import Backbone, OwnBackbone
from trainables.backbones.compiling import PAYS_FROM
from trainables.config import PRECISIONS, Precision
from trainables.data import ImageSet, Task
from trainables.methods import Context, contract
from trainables.sequence import IncrementalSequence

GPU, CPU = torch.device("cuda"), torch.device("cpu")
GLYPH = Backbone()  # 0.2 million weights
TINY, SMALL, BASE = (Backbone(f"vit_{size}_patch16_224.augreg_in21k") for size in ("tiny", "small", "base"))
TASKS, EPOCHS = 2, 5
ENOUGH = PAYS_FROM // (TASKS * EPOCHS)  # training images of a task


def context(backbone: Backbone, precision: Precision, device: torch.device = GPU) -> Context:
    return Context(backbone, (range(2), range(2, 4)), EPOCHS, 10, 0, device, precision)


def task(images: int) -> Task:
    part = ImageSet(torch.zeros(images, 0), torch.zeros(images), Pixels())
    return Task(1, range(2), part, part)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every backbone one of the user's code, of the size that it has."""
    monkeypatch.setattr(Backbone, "shape", GLYPH.shape)
    monkeypatch.setattr(Backbone, "own", object.__new__(OwnBackbone))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """The models that would be compiled."""
    models: list[nn.Module] = []
    monkeypatch.setattr(contract, "compile_blocks", models.append)
    monkeypatch.setattr(contract, "can_compile", lambda: True)
    return models


@pytest.mark.parametrize(
    ("backbone", "recorded"), [(GLYPH, PRECISIONS), (TINY, ("bf16",)), (SMALL, ("bf16",)), (BASE, ())]
)
def test_steps_of_backbones_that_wait_for_launches_are_recorded(
    backbone: Backbone, recorded: tuple[Precision, ...]
) -> None:
    assert tuple(each for each in PRECISIONS if context(backbone, each).graphs_on == GPU) == recorded
    assert {context(backbone, each).graphs_on for each in PRECISIONS} <= {GPU, None}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_backbone_at_the_bound_is_recorded(precision: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    for bound, recorded in ((GLYPH.shape.parameters, GPU), (GLYPH.shape.parameters - 1, None)):
        monkeypatch.setitem(contract.LAUNCH_BOUND, precision, bound)
        assert context(GLYPH, precision).graphs_on == recorded


@pytest.mark.parametrize("precision", PRECISIONS)
def test_nothing_is_recorded_on_a_cpu(precision: Precision) -> None:
    assert context(GLYPH, precision, CPU).graphs_on is None


def test_a_backbone_of_the_users_code_is_neither_recorded_nor_compiled(own: None, compiled: list[nn.Module]) -> None:
    assert context(GLYPH, "bf16").graphs_on is None
    context(GLYPH, "bf16").make_ready(nn.Identity(), task(ENOUGH))
    assert compiled == []


@pytest.mark.parametrize(
    ("changes", "images", "expected"),
    [
        ({}, ENOUGH, True),
        ({}, ENOUGH - 1, False),
        ({"precision": "fp32"}, ENOUGH, False),
        ({"precision": "tf32"}, ENOUGH, False),
        ({"backbone": SMALL}, ENOUGH, False),  # is recorded
        ({"device": CPU}, ENOUGH, False),
    ],
)
def test_blocks_are_compiled_in_bf16_if_no_step_is_recorded_and_there_are_images_enough(
    changes: dict[str, Any], images: int, expected: bool, compiled: list[nn.Module]
) -> None:
    given: dict[str, Any] = {"backbone": BASE, "precision": "bf16", **changes}
    model = nn.Identity()
    context(**given).make_ready(model, task(images))
    assert compiled == ([model] if expected else [])


def test_nothing_is_compiled_without_a_compiler(compiled: list[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "can_compile", lambda: False)
    context(BASE, "bf16").make_ready(nn.Identity(), task(ENOUGH))
    assert compiled == []


@pytest.mark.parametrize(("images", "full"), [(10, True), (30, True), (9, False), (11, False)])
def test_full_batches_alone_may_run_compiled(images: int, full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, bool]] = []
    as_compiled = contract.as_compiled

    def noting(model: Any, *, full_batch: bool) -> Any:
        seen.append((model, full_batch))
        return as_compiled(model, full_batch=full_batch)

    monkeypatch.setattr(contract, "as_compiled", noting)
    model = nn.Identity()
    context(GLYPH, "fp32", CPU).features(model, torch.zeros(images, 1))
    assert seen == [(model, full)]


@pytest.mark.parametrize(
    ("method", "hyperparameters", "ready"),
    [
        ("finetune", {"lr": 0.003}, True),
        ("ewc", {"lr": 0.03, "epsilon": 10.0}, True),
        ("lwf-mc", {"lr": 0.03}, True),
        ("derpp", {"lr": 0.03, "alpha": 0.3, "beta": 0.8, "buffer_size": 12}, True),
        ("tmc", {"lr": 0.03}, True),
        ("tak", {"lr": 0.03, "strength": 0.1}, True),
        *((f"{rule}-lora", COMPOSABLE[f"{rule}-lora"], True) for rule in ("ita", "iel")),
        *((f"ita-{kind}", COMPOSABLE[f"ita-{kind}"], True) for kind in ("fft", "ia3")),
        *((f"iel-{kind}", COMPOSABLE[f"iel-{kind}"], False) for kind in ("fft", "ia3")),  # 1/t in the layers
    ],
)
def test_a_method_is_made_ready_for_every_task_unless_its_layers_change(
    method: str,
    hyperparameters: dict[str, Any],
    ready: bool,
    make: Callable[..., IncrementalSequence],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[nn.Module, int]] = []
    monkeypatch.setattr(Context, "make_ready", lambda context, model, task: made.append((model, task.index)))
    sequence = make(method, hyperparameters)
    run(sequence)
    vectors, model = (getattr(sequence.method, name, None) for name in ("vectors", "model"))
    network = vectors.model if vectors else getattr(model, "vit", model)
    assert made == ([(network, task) for task in (1, 2, 3)] if ready else [])
