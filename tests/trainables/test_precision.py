"""The precision of forward and backward passes: what TF32 covers, and what stays in float32. No GPU is needed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils._python_dispatch import TorchDispatchMode

from tausearch.testing.recording import shown
from tests.support.methods.small_digits import COMPOSABLE, small_digits
from trainables import precision
from trainables.backbones import Backbone
from trainables.backbones.linearised.network import LinearisedFeatures, LinearisedViT
from trainables.precision import autocast, features
from trainables.sequence import IncrementalSequence

CPU, GPU = torch.device("cpu"), torch.device("cuda")
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward", "linear", "matmul"}


def settings() -> tuple[str, str]:
    """What torch multiplies and convolves float32 in on a GPU; "none" and "ieee" are float32 itself."""
    return torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `device.claim` leaves a trial on a GPU."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def tf32_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the settings of TF32, which change nothing on a CPU, be made for trials on it."""
    monkeypatch.setattr(precision, "_is_tf32", lambda given, device: given == "tf32")


class Noting(Function):
    """The identity, which notes the settings in its forward and its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, noted: list[str]) -> Tensor:
        ctx.noted = noted
        noted.append(settings()[0])
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.noted.append(settings()[0])
        return gradient, None


@pytest.mark.parametrize(("given", "device", "tf32"), [("fp32", GPU, 0), ("tf32", GPU, 1), ("tf32", CPU, 0)])
def test_products_and_convolutions_are_in_tf32_in_the_context_alone(
    given: Any, device: torch.device, tf32: int
) -> None:
    before = settings()
    with pytest.raises(KeyError), autocast(given, device):
        assert settings() == (("tf32", "tf32") if tf32 else before)
        raise KeyError
    assert settings() == before and "tf32" not in before


def test_bf16_leaves_float32_as_it_is() -> None:
    before = settings()
    with autocast("bf16", CPU):
        assert torch.ones(1, 1).mm(torch.ones(1, 1)).dtype == torch.bfloat16 and settings() == before


def test_a_backbone_is_in_tf32_forward_and_backward_and_all_around_it_in_float32() -> None:
    weight, before = torch.ones(2, requires_grad=True), settings()
    backbone: list[str] = []
    head: list[str] = []
    regulariser: list[str] = []
    batches = [features(lambda x: Noting.apply(x * weight, backbone), torch.ones(3, 2), "tf32", GPU) for _ in range(2)]
    loss = sum(Noting.apply(each, head).sum() for each in batches) + Noting.apply(weight, regulariser).sum()
    assert isinstance(loss, Tensor)
    loss.backward()
    assert backbone == ["tf32"] * 4 and weight.grad is not None
    assert set(head) == set(regulariser) == {before[0]} and settings() == before


@pytest.mark.parametrize("given", ["fp32", "tf32"])
def test_features_without_a_gradient_are_those_of_the_model(given: Any) -> None:
    with torch.no_grad():
        assert torch.equal(features(torch.neg, torch.ones(1, 2), given, GPU), -torch.ones(1, 2))
    assert features(torch.neg, torch.ones(1, 2, dtype=torch.float64), given, GPU).dtype == torch.float64


@pytest.mark.parametrize("classifier", [False, True])
def test_a_linearised_network_is_in_tf32_until_its_features(classifier: bool, tf32_here: None) -> None:
    vit = Backbone().load(CPU, attention="plain")  # has forward-mode derivatives
    head = (torch.randn(3, vit.num_features), torch.zeros(3))
    model = LinearisedViT(vit, head, "tf32", CPU) if classifier else LinearisedFeatures(vit, "tf32", CPU)
    forward: list[str] = []
    backward: list[str] = []
    losses: list[str] = []
    vit.blocks[0].register_forward_hook(lambda *_: forward.append(settings()[0]))
    model.theta_0["blocks.0.attn.qkv.weight"].register_hook(lambda _: backward.append(settings()[0]))

    def loss(read: Tensor) -> Tensor:
        return Noting.apply(read, losses).square().sum()

    images = torch.randn(2, 1, 32, 32)
    if isinstance(model, LinearisedViT):
        model.gradients(images, model.zero(), loss)
    else:
        model.feature_gradients(images, model.zero(), loss)
    assert (forward, backward) == (["tf32"], ["tf32"])
    assert "tf32" not in losses and len(losses) == 2 and "tf32" not in settings()


class Products(TorchDispatchMode):
    """Notes the products of a block: the sizes of all factors, and whether they are in TF32."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[set[int], bool]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.removeprefix("aten::") in PRODUCTS:
            shapes = [each.shape for each in args if isinstance(each, Tensor) and each.ndim > 1]
            self.found.append(({size for shape in shapes for size in shape}, settings()[0] == "tf32"))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("method", "hyperparameters", "fisher"),
    [
        ("ita-lora", COMPOSABLE["ita-lora"], "begin_task"),
        ("ita-fft", {**COMPOSABLE["ita-fft"], "curvature": "kronecker"}, "begin_task"),
        ("ewc", {"epsilon": 10.0, "lr": 0.03}, "end_task"),
        ("derpp", {"alpha": 0.3, "beta": 0.8, "buffer_size": 12, "lr": 0.03}, None),
    ],
)
def test_fisher_and_heads_are_in_float32_in_a_trial_in_tf32(
    method: str, hyperparameters: dict[str, Any], fisher: str | None, tf32_here: None
) -> None:
    sequence = IncrementalSequence(small_digits(), method, hyperparameters, backbone=Backbone(), precision="tf32")
    task, images, found = sequence.tasks[0], shown(sequence.benchmark.evaluation[0]), {}
    for stage, given in {"begin_task": task, "train_task": task, "end_task": task, "predict": images}.items():
        with Products() as products:
            getattr(sequence.method, stage)(given)
        found[stage] = products.found
    assert not any(tf32 for stage in ("begin_task", "end_task") for _, tf32 in found[stage])
    assert fisher is None or len(found[fisher]) > 50
    for stage in ("train_task", "predict"):
        heads = {tf32 for sizes, tf32 in found[stage] if len(task.classes) in sizes}
        assert heads == {False} and any(tf32 for _, tf32 in found[stage])
    assert sum(tf32 for _, tf32 in found["train_task"]) > 300
