"""Compose and evaluate: seeds one after another, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tausearch.models.descriptions import LINEAR
from tausearch.models.merge_weights import Weighing
from tausearch.models.pools import Pools
from tausearch.models.results import CompositionResult
from trainables.composition import MergingRule, VectorPool
from trainables.data import ImageSet
from trainables.errors import InputError
from trainables.evaluation import accuracy
from trainables.heads import Head
from trainables.process import threads

Tick = Callable[[int], None]


@dataclass(frozen=True)
class Rule:
    """How vectors are put together.

    Attributes:
        name: "linear", or a rule of `trainables.composition.RULES`.
        density: Share of entries that a merging rule keeps; without meaning for "linear".
    """

    name: str = LINEAR
    density: float = 1.0

    def of_seed(self, seed: int) -> MergingRule | None:
        """Return the merging rule of a seed; None for the weighted sum."""
        return None if self.name == LINEAR else MergingRule(self.name, self.density, seed)  # type: ignore[arg-type]

    @property
    def suffix(self) -> str:
        """What it adds to a composition's label."""
        return "" if self.name == LINEAR else f"-{self.name}-{self.density:g}"


def evaluate(pools: Pools, weighing: Weighing, rule: Rule, tick: Tick) -> CompositionResult:
    """Compose on theta_0 and measure the accuracy on the test images of every task.

    Args:
        pools: The task vectors.
        weighing: The weight of each.
        rule: How they are put together.
        tick: Told of every task that has been evaluated.

    Returns:
        Accuracies of all seeds.

    Raises:
        InputError: If the logits of a composition are not finite.
    """
    rows = []
    with threads(pools.threads):
        for seed, pool in pools.by_seed.items():
            rows.append(accuracies_of(pools, pool, pool.head(), weighing.weights, rule.of_seed(seed), tick))
    return CompositionResult(
        label=weighing.label + rule.suffix + _others(pools),
        runs=tuple(source.text for source in pools.sources),
        benchmark=pools.sources[0].benchmark,
        rule=rule.name,
        density=None if rule.name == LINEAR else rule.density,
        weights=weighing.weights,
        seeds=tuple(pools.by_seed),
        accuracies=tuple(rows),
    )


def accuracies_of(
    pools: Pools, pool: VectorPool, head: Head, weights: Sequence[float], rule: MergingRule | None, tick: Tick
) -> tuple[float, ...]:
    """Return the accuracy of one composition of one seed on each task, percent, over the logits of all classes.

    Raises:
        InputError: If its logits are not finite.
    """
    pools.network.compose(pool, weights, head, rule)

    def predict(images: Tensor) -> Tensor:
        logits = pools.network.predict(images)
        if not bool(torch.isfinite(logits).all()):
            raise InputError(f"{', '.join(source.text for source in pools.sources)}: the composition is not finite")
        return logits

    def measured(images: ImageSet) -> float:
        found = accuracy(predict, images, pools.device)
        tick(1)
        return found

    return tuple(measured(images) for images in pools.benchmark.evaluation)


def _others(pools: Pools) -> str:
    """Say in the label of which runs, and of which tasks of them, where a composition is not of one run alone."""
    texts = [source.text.replace("/", "_") for source in pools.sources]
    return "" if len(texts) == 1 else f"-of-{'+'.join(texts)}"
