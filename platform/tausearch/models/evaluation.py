"""Evaluate compositions on the test images, one seed after another, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tausearch.models.descriptions import LINEAR
from tausearch.models.merge_weights import MergeWeights
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
    """The merging rule of a composition: `name` is "linear" or one of `trainables.composition.RULES`.

    `density` is the share of entries that the rule keeps; "linear" ignores `density`.
    """

    name: str = LINEAR
    density: float = 1.0

    def of_seed(self, seed: int) -> MergingRule | None:
        """Return the merging rule of a seed; None for the weighted sum."""
        return None if self.name == LINEAR else MergingRule(self.name, self.density, seed)  # type: ignore[arg-type]

    @property
    def suffix(self) -> str:
        """The rule's part of a composition's label."""
        return "" if self.name == LINEAR else f"-{self.name}-{self.density:g}"


def evaluate(pools: Pools, merge_weights: MergeWeights, rule: Rule, tick: Tick) -> CompositionResult:
    """Return the accuracies of a composition of every seed on each task; `tick` counts the evaluated tasks.

    Raises:
        InputError: If the logits of a composition are not finite.
    """
    with threads(pools.threads):
        rows = [
            accuracies_of(pools, pool, pool.head(), merge_weights.weights, rule.of_seed(seed), tick)
            for seed, pool in pools.by_seed.items()
        ]
    return CompositionResult(
        label=merge_weights.label + rule.suffix + _origin(pools),
        runs=tuple(source.text for source in pools.sources),
        benchmark=pools.sources[0].benchmark,
        rule=rule.name,
        density=None if rule.name == LINEAR else rule.density,
        weights=merge_weights.weights,
        seeds=tuple(pools.by_seed),
        accuracies=tuple(rows),
    )


def accuracies_of(
    pools: Pools, pool: VectorPool, head: Head, weights: Sequence[float], rule: MergingRule | None, tick: Tick
) -> tuple[float, ...]:
    """Return the accuracy of one composition of one seed on each task, percent, over the logits of all classes.

    Raises:
        InputError: If the logits are not finite.
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


def _origin(pools: Pools) -> str:
    """Return the label's part that names the sources and their tasks; empty for a single source."""
    texts = [source.text.replace("/", "_") for source in pools.sources]
    return "" if len(texts) == 1 else f"-of-{'+'.join(texts)}"
