"""Curvature of a network against curvlinops, in float64, on batches of unequal sizes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor, nn

from trainables.curvature import DiagonalCurvature, KroneckerCurvature
from trainables.heads import Head

curvlinops = pytest.importorskip("curvlinops", reason="needs curvlinops-for-pytorch (`make setup`)")
pytestmark = pytest.mark.filterwarnings("ignore")  # it and its packages warn of what torch will change
EXACT = {"rtol": 1e-9, "atol": 1e-11}
TOKENS, CLASSES = 3, 5


class Features(nn.Module):
    """Tokens `(b, n, 4)` to features `(b, 6)`: two layers, of which all tokens share the first."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.last = nn.Linear(4, 5), nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.shared(x).tanh().mean(1, keepdim=True))[:, 0]

    @property
    def layers(self) -> dict[str, nn.Linear]:
        return {"shared": self.shared, "last": self.last}


@pytest.fixture
def features(generator: torch.Generator) -> Features:
    made = Features().double().eval()
    for parameter in made.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return made


@pytest.fixture
def head(generator: torch.Generator) -> Head:
    weight = torch.randn(CLASSES, 6, generator=generator, dtype=torch.float64)
    return weight, torch.randn(CLASSES, generator=generator, dtype=torch.float64)


@pytest.fixture
def batches(generator: torch.Generator) -> list[Tensor]:
    return [torch.randn(size, TOKENS, 4, generator=generator, dtype=torch.float64) for size in (4, 3)]


def classifier(features: Features, head: Head) -> nn.Module:
    """The network as curvlinops takes it: a module from images to logits."""
    last = nn.Linear(6, CLASSES).double()
    last.load_state_dict({"weight": head[0], "bias": head[1]})
    return nn.Sequential(features, last).requires_grad_(False)


def labelled(batches: Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return [(x, torch.zeros(len(x), dtype=torch.int64)) for x in batches]  # neither matrix depends on labels


def dense(operator: object, size: int) -> Tensor:
    return operator @ torch.eye(size, dtype=torch.float64)  # type: ignore[operator, no-any-return]


@pytest.mark.parametrize("name", ["shared", "last"])
def test_kronecker_factors_are_those_of_its_kfac(
    name: str, features: Features, head: Head, batches: list[Tensor], generator: torch.Generator
) -> None:
    network, layer = classifier(features, head), features.layers[name]
    layer.weight.requires_grad_(True)
    theirs = curvlinops.KFACLinearOperator(
        *(network, nn.CrossEntropyLoss(reduction="sum"), [layer.weight], labelled(batches)),
        fisher_type="type-2",
        kfac_approx="expand",
        num_per_example_loss_terms=1,
    )
    curvature, examples = KroneckerCurvature.estimate(
        features, {name: layer}, head, batches, passes=None, generator=generator
    )
    assert isinstance(curvature, KroneckerCurvature) and examples == 7
    factors = curvature.factors[f"{name}.weight"]
    ours = torch.kron(factors.outputs[0].detach(), factors.inputs[0].detach())
    torch.testing.assert_close(ours, dense(theirs, layer.weight.numel()), **EXACT)


@pytest.mark.parametrize("name", ["shared", "last"])
def test_the_diagonal_is_that_of_its_generalised_gauss_newton_matrix(
    name: str, features: Features, head: Head, batches: list[Tensor], generator: torch.Generator
) -> None:
    network, layer = classifier(features, head), features.layers[name]
    layer.weight.requires_grad_(True)
    loss = nn.CrossEntropyLoss(reduction="sum")
    theirs = curvlinops.GGNLinearOperator(network, loss, [layer.weight], labelled(batches))
    fisher, examples = DiagonalCurvature.estimate(
        features, {name: layer}, head, batches, passes=None, generator=generator
    )
    assert isinstance(fisher, DiagonalCurvature) and examples == 7
    ours = fisher.values[f"{name}.weight"].flatten()
    torch.testing.assert_close(ours, dense(theirs, layer.weight.numel()).diagonal(), **EXACT)
