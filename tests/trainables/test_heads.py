"""The head that all classes share: it grows by rows, and trains the classes that a loss is taken of."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.heads import Heads, WideHead, new_head, uniform_head
from trainables.randomness import make_generator

CPU = torch.device("cpu")


def head(*sizes: int) -> WideHead:
    made = WideHead(4, CPU)
    for k, size in enumerate(sizes):
        made.grow(new_head(size, 4, make_generator(k, "head")))
    return made


@pytest.fixture
def features() -> Tensor:
    return torch.randn(6, 4, generator=make_generator(0, "features"))


def test_rows_start_small_and_the_width_bounds_uniform_ones() -> None:
    weight, bias = uniform_head(3, 400, make_generator(0, "head"))
    assert 0.049 < weight.abs().max() < 0.05 and 0 < bias.abs().max() < 0.05
    assert float(new_head(3, 400, make_generator(0, "head"))[0].std()) == pytest.approx(0.02, rel=0.1)


def test_it_grows_by_rows_and_keeps_what_it_has_learned(features: Tensor) -> None:
    grown = head(2)
    assert grown.logits(features).shape == (6, 2)
    with torch.no_grad():
        grown.bias += 1
    before = grown.logits(features)
    rows = new_head(3, 4, make_generator(1, "head"))
    grown.grow(rows)
    torch.testing.assert_close(grown.logits(features)[:, :2], before)
    torch.testing.assert_close(grown.logits(features)[:, 2:], F.linear(features, *rows))
    assert [part.requires_grad for part in grown.parameters()] == [True, True]


def test_local_logits_are_rows_of_all(features: Tensor) -> None:
    wide, classes = head(2, 3, 2), range(2, 5)
    torch.testing.assert_close(wide.local_logits(features, classes), wide.logits(features)[:, 2:5])


def test_a_local_loss_moves_neither_past_nor_future_classes(features: Tensor) -> None:
    wide, classes, y = head(2, 3, 2), range(2, 5), torch.tensor([2, 3, 4, 2, 3, 4])
    loss = F.cross_entropy(wide.local_logits(features, classes), y - classes.start)
    torch.testing.assert_close(loss, F.cross_entropy(wide.logits(features)[:, 2:5], y - 2))
    loss.backward()
    for part in wide.parameters():
        assert part.grad is not None and part.grad[2:5].any()
        assert not part.grad[:2].any() and not part.grad[5:].any()


def test_finished_heads_are_loaded_as_copies(features: Tensor) -> None:
    heads, loaded = Heads(4, CPU), Heads(4, CPU)
    for _ in range(2):
        heads.begin((torch.ones(2, 4), torch.ones(2)))
        heads.end()
    loaded.load_state(heads.state())
    expected = heads.logits(features)
    for part in heads.state().tensors.values():
        part.zero_()
    torch.testing.assert_close(loaded.logits(features), expected)
