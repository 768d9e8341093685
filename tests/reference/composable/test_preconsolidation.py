"""Pre-consolidation against the reference, joint by joint and task by task."""

from __future__ import annotations

import pytest
import torch

from tests.reference.composable.conftest import Product
from tests.reference.composable.preconsolidation import PreTrained

TASKS = [1, 2, 3]
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


@pytest.mark.parametrize("t", TASKS)
def test_the_mixture_of_every_class_seen(product: Product, pre_trained: list[PreTrained], t: int) -> None:
    got, want = product.consolidations[t - 1].mixtures, pre_trained[t - 1].mixtures
    assert len(got) == len(want) == (3, 5, 7)[t - 1]
    for ours, theirs in zip(got, want, strict=True):
        for part in ("weights", "means", "variances"):
            torch.testing.assert_close(getattr(ours, part), getattr(theirs, part), **CLOSE)


@pytest.mark.parametrize("t", TASKS)
def test_the_probed_rows(product: Product, pre_trained: list[PreTrained], t: int) -> None:
    torch.testing.assert_close(product.probed[t - 1], pre_trained[t - 1].probed, **CLOSE)


@pytest.mark.parametrize("t", TASKS)
def test_all_rows_after_alignment(product: Product, pre_trained: list[PreTrained], t: int) -> None:
    now = pre_trained[t - 1]
    torch.testing.assert_close(product.consolidations[t - 1].head, now.head, **CLOSE)
    if now.before is not None:  # old rows move, too
        assert not torch.allclose(now.head[0][: len(now.before.head[0])], now.before.head[0], atol=1e-3)


@pytest.mark.parametrize("t", TASKS)
def test_the_fisher_summed_over_tasks(product: Product, pre_trained: list[PreTrained], t: int) -> None:
    got, want = product.consolidations[t - 1], pre_trained[t - 1]
    assert got.examples == want.images == (72, 109, 138)[t - 1]
    torch.testing.assert_close(got.curvature.tensors(), want.fisher, **CLOSE)


def test_each_result_knows_the_one_before_it_and_no_more(product: Product, pre_trained: list[PreTrained]) -> None:
    one, two, three = product.consolidations
    assert one.previous is None and two.previous is not None and three.previous is not None
    assert [two.previous.task, three.previous.task, three.previous.previous] == [1, 2, None]
    assert three.previous.examples == 109
    torch.testing.assert_close(three.previous.curvature.tensors(), pre_trained[1].fisher, **CLOSE)
