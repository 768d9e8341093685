"""Compositions of tangents: equal to TMC's own predictions, and f_lin at any weighted sum."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.support.methods.small_digits import small_digits
from trainables.backbones import Backbone
from trainables.backbones.linearised.network import CLASSIFIER
from trainables.composition import VectorPool, choose_rule, network_for, vector_folders
from trainables.composition.networks import TangentNetwork
from trainables.errors import InputError
from trainables.methods.tmc import TMC
from trainables.sequence import IncrementalSequence

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[TMC, VectorPool, Tensor]:
    folder = tmp_path_factory.mktemp("tmc")
    sequence = IncrementalSequence(small_digits(), "tmc", {"lr": 0.003}, backbone=Backbone(), artifacts=folder)
    while not sequence.finished:
        sequence.run_next_task()
    assert isinstance(sequence.method, TMC)
    x = next(sequence.benchmark.evaluation[0].batches(4, None, shuffle=False)).x
    return sequence.method, VectorPool(tuple(vector_folders(folder))), x


def composed(pool: VectorPool, weights: list[float]) -> TangentNetwork:
    network = network_for(pool, Backbone(), CPU)
    assert isinstance(network, TangentNetwork) and not network.displaces_weights
    classes, names = [range(2), range(2, 4), range(4, 6)], [("0", "1"), ("2", "3"), ("4", "5")]
    pool.require_fit(classes, network.theta_0, network.width, Backbone().digest, names)
    network.compose(pool, weights, pool.head())
    return network


def test_the_uniform_composition_is_what_the_method_predicts_bit_for_bit(
    trained: tuple[TMC, VectorPool, Tensor],
) -> None:
    method, pool, x = trained
    assert torch.equal(composed(pool, [1 / 3] * 3).predict(x), method.predict(x))


def test_any_weights_are_the_linearised_network_at_their_sum(trained: tuple[TMC, VectorPool, Tensor]) -> None:
    method, pool, x = trained
    weights = [0.7, -0.2, 0.0]
    tau = {
        name: sum(w * vector.parameters[name]["tau"] for w, vector in zip(weights, pool, strict=True))
        for name in method.tau
    }
    assert set(CLASSIFIER) < tau.keys()
    wanted = method.model.logits(x, {name: torch.as_tensor(value) for name, value in tau.items()})
    torch.testing.assert_close(composed(pool, weights).predict(x), wanted)


def test_no_weight_at_all_is_the_pretrained_network_with_its_random_classifier(
    trained: tuple[TMC, VectorPool, Tensor],
) -> None:
    method, pool, x = trained
    network = composed(pool, [1.0, 0.0, 0.0])
    network.compose(pool, [0.0] * 3, pool.anchor())
    torch.testing.assert_close(network.predict(x), method.model.logits(x, method.model.zero()))


def test_a_merging_rule_is_refused(trained: tuple[TMC, VectorPool, Tensor]) -> None:
    _, pool, _ = trained
    network = composed(pool, [1.0, 0.0, 0.0])
    with pytest.raises(InputError, match="--rule ties: of tangents only weighted sums have a meaning"):
        network.compose(pool, [1 / 3] * 3, pool.head(), choose_rule("ties", {}))


def test_half_precision_is_passed_on(trained: tuple[TMC, VectorPool, Tensor]) -> None:
    _, pool, x = trained
    network = network_for(pool, Backbone(), CPU, "bf16")
    network.compose(pool, [1.0, 0.0, 0.0], pool.head())
    whole, half = composed(pool, [1.0, 0.0, 0.0]).predict(x), network.predict(x)
    assert not torch.equal(half, whole)
    torch.testing.assert_close(half, whole, atol=0.05, rtol=0.1)
