"""Pre-consolidation stage by stage, in float32 as trials run it; `tests/reference` has the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.support.methods.small_digits import small_digits
from trainables.backbones import Backbone
from trainables.curvature import CurvatureKind, DiagonalCurvature, Factors, KroneckerCurvature
from trainables.preconsolidation import Basis, Consolidation, PreconsolidationConfig, consolidation
from trainables.preconsolidation.consolidation import consolidate
from trainables.preconsolidation.mixtures import Mixture
from trainables.preconsolidation.probing import align, linear_probe
from trainables.randomness import derive_seed, make_generator

CPU = torch.device("cpu")


def test_probing_leaves_the_start_and_no_epoch_leaves_the_rows(generator: torch.Generator) -> None:
    batch = (torch.randn(6, 3, generator=generator), torch.arange(6) % 2)
    start = (torch.zeros(2, 3), torch.zeros(2))
    got = linear_probe(start, 3, 0.1, lambda: [batch])
    assert got[0].any() and got[1].any() and not any(part.requires_grad for part in got)
    assert not start[0].any() and not start[1].any()
    assert all(torch.equal(a, b) for a, b in zip(linear_probe(got, 0, 0.1, lambda: [batch]), got, strict=True))


def test_alignment_draws_every_class_anew_in_every_epoch_and_leaves_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, original = list[int](), Mixture.sample
    monkeypatch.setattr(Mixture, "sample", lambda self, n, g: draws.append(n) or original(self, n, g))
    mixtures = [Mixture(torch.ones(1), torch.full((1, 3), 4.0 * c), torch.ones(1, 3)) for c in range(2)]
    start = (0.01 * torch.ones(2, 3), torch.tensor([0.1, 0.0]))
    weight, _ = align(start, mixtures, 4, 50, CPU, make_generator(0, "align"))
    assert draws == [50] * 2 * 25
    assert torch.equal(start[0], 0.01 * torch.ones(2, 3)) and not torch.equal(weight, start[0])


CONFIG = PreconsolidationConfig(lr_pre=0.2, epochs_pre=2, components=3, draws=7, fisher_passes=1)


def consolidated(
    seed: int, config: PreconsolidationConfig = CONFIG, t: int = 1, previous: Consolidation | None = None
) -> Consolidation:
    task, backbone = small_digits().tasks[t - 1], Backbone().load()
    return consolidate(task, previous, config, Basis(backbone, batch_size=5, seed=seed, device=CPU))


def test_the_stages_come_in_the_order_of_the_algorithm_and_are_given_their_hyperparameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order, given_to = [], dict[str, tuple[Any, ...]]()
    for name in ("fit_mixture", "linear_probe", "align", "estimate"):
        owner: Any = DiagonalCurvature if name == "estimate" else consolidation
        original = getattr(owner, name)

        def spy(*args: object, name: str = name, original=original, **given: object) -> object:  # type: ignore[no-untyped-def]
            order.append(name)
            given_to[name] = (*args, given.get("generator"), given.get("passes"))
            return original(*args, **given)

        monkeypatch.setattr(owner, name, spy)
    consolidated(0)
    assert order == ["fit_mixture", "fit_mixture", "linear_probe", "align", "estimate"]
    assert given_to["fit_mixture"][1] == 3 and given_to["align"][3] == 7 and given_to["estimate"][-1] == 1
    epochs, lr, draw = given_to["linear_probe"][1:4]
    assert given_to["estimate"][-2].initial_seed() == derive_seed(0, "fisher-signs", 1)
    assert (epochs, lr) == (2, 0.2) and [len(labels) for _, labels in draw()] == [5, 5, 5, 5, 4]


def test_the_curvature_is_of_the_kind_that_is_asked_for_and_adds_up_over_tasks() -> None:
    config = replace(CONFIG, curvature="kronecker")
    one = consolidated(0, config)
    two, alone = consolidated(0, config, 2, one), consolidated(0, config, 2, replace(one, curvature=nothing_of(one)))
    assert isinstance(two.curvature, KroneckerCurvature) and (two.examples, two.curvature.tasks) == (48, 2)
    for name, factors in one.curvature.factors.items():  # type: ignore[attr-defined]
        sums, new = two.curvature.factors[name], alone.curvature.factors[name]  # type: ignore[attr-defined]
        torch.testing.assert_close(sums.inputs, factors.inputs + new.inputs)
        torch.testing.assert_close(sums.outputs, (factors.outputs + 2 * new.outputs) / 2)
    none = consolidated(0, replace(config, fisher_passes=0))
    assert none.curvature.tensors() == {} and none.examples == 0


def nothing_of(one: Consolidation) -> KroneckerCurvature:
    """A curvature of zeros in the place of the first task's."""
    factors = one.curvature.factors  # type: ignore[attr-defined]
    zeros = {n: Factors(torch.zeros_like(f.inputs), torch.zeros_like(f.outputs)) for n, f in factors.items()}
    return KroneckerCurvature(zeros)


def test_another_seed_is_another_pre_consolidation() -> None:
    one, other = consolidated(0), consolidated(1)
    assert not torch.allclose(one.head[0], other.head[0], atol=1e-4)
    assert not torch.equal(one.mixtures[0].means, other.mixtures[0].means)


@pytest.mark.parametrize(("passes", "examples"), [(None, 24), (1, 24), (0, 0)])
def test_an_exact_fisher_is_of_all_examples_and_no_pass_of_none(passes: int | None, examples: int) -> None:
    assert consolidated(0, replace(CONFIG, fisher_passes=passes)).examples == examples


@pytest.mark.parametrize("kind", ["diagonal", "kronecker"])
def test_the_curvature_of_a_task_alone_is_the_sum_without_the_tasks_before(kind: CurvatureKind) -> None:
    config = replace(CONFIG, curvature=kind)
    first = consolidated(0, config)
    second = consolidated(0, config, 2, first)
    task, basis = small_digits().tasks[1], Basis(Backbone().load(), batch_size=5, seed=0, device=CPU)
    wanted, examples = consolidation._curvature(task, second.head, config, basis)
    found = second.own_curvature()
    assert found.examples == examples == len(task.train) and first.own_curvature().examples == first.examples
    for name, value in wanted.mean_over(examples).tensors().items():
        torch.testing.assert_close(found.mean.tensors()[name], value, rtol=2e-5, atol=2e-5 * float(value.abs().max()))
    if kind == "diagonal":
        assert all(bool((value >= 0).all()) for value in found.mean.tensors().values())
