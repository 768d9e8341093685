"""The views of the study on curvature: where approximations are exact they are equal, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from benchmarks.curvature import views
from tests.support.tiny_network import as_double, tiny_network
from trainables.composition import ComposedNetwork
from trainables.data import ImageSet

FIRST, SECOND = "blocks.0.attn.qkv.weight", "blocks.1.mlp.fc1.weight"


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> ComposedNetwork:
    return tiny_network(monkeypatch)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def moved(network: ComposedNetwork, **parts: Tensor) -> dict[str, Tensor]:
    return {name: parts.get(name, torch.zeros_like(weight)) for name, weight in network.theta_0.items()}


def test_a_move_of_one_number_is_the_same_in_the_gauss_newton_matrix_its_blocks_and_its_diagonal(
    network: ComposedNetwork,
) -> None:
    images = ImageSet(drawn(9, 1, 8, 8).mul(64).byte(), torch.arange(9) % 4, as_double)
    head = drawn(4, 8), drawn(4)
    network.compose([], [], head)
    one = torch.zeros_like(network.theta_0[FIRST])
    one[17, 2] = 0.7
    diagonal = views._along(views._curvature("diagonal", network, head, images), moved(network, **{FIRST: one}))
    assert diagonal > 1e-9
    assert views._along_gauss_newton(network, {FIRST: one}, head, images) == pytest.approx(diagonal, rel=1e-9)

    def whole(**parts: Tensor) -> float:
        return views._along_gauss_newton(network, parts, head, images)

    first, second = drawn(*network.theta_0[FIRST].shape), drawn(*network.theta_0[SECOND].shape)
    both = whole(**{FIRST: first, SECOND: second}) + whole(**{FIRST: first, SECOND: -second})
    blocks = whole(**{FIRST: first}) + whole(**{SECOND: second})
    assert both == pytest.approx(2 * blocks, rel=1e-9)  # a quadratic form
    assert abs(whole(**{FIRST: first, SECOND: second}) - blocks) > 0.01 * blocks  # with something between the blocks
