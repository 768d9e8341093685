"""Evaluate compositions on the test images, one seed after another, in this process; and the paper's protocol.

Source of the protocol: the paper, section "On the compositional skills of ITA and IEL", Tables 3 and 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from tausearch.models.evaluation_results import Accuracies, EvaluatedSeed, EvaluationResult
from tausearch.models.merge_configs import (
    LINEAR,
    UNLEARNING_MODES,
    MergeConfig,
    central_three,
    dropping,
    keeping,
    uniform,
)
from tausearch.models.pools import Pools
from tausearch.models.results import EVALUATION, CompositionResult, of_seeds
from tausearch.models.rule_search.results import RuleSearch
from trainables.composition import ChosenRule, VectorPool, choose_rule
from trainables.data import Removal
from trainables.errors import InputError
from trainables.evaluation import accuracy
from trainables.heads import Head
from trainables.process import threads
from trainables.user_code import digests_of

Tick = Callable[[int], None]


def evaluate(pools: Pools, merge: MergeConfig, tick: Tick, search: RuleSearch | None = None) -> CompositionResult:
    """Return the accuracies of a composition of every seed on each task; `tick` counts the evaluated tasks."""
    with threads(pools.threads):
        rows = [
            accuracies_of(pools, pool, pool.head(), merge.weights, merging_rule(merge, seed), tick)
            for seed, pool in pools.by_seed.items()
        ]
    texts = [source.text for source in pools.sources]
    tasks = pools.benchmark.spec.named_tasks
    origin = "" if len(texts) == 1 else f"-of-{'+'.join(texts).replace('/', '_')}"
    return CompositionResult(
        label=merge.label + origin + _of_few(pools),
        runs=tuple(texts),
        benchmark=pools.sources[0].benchmark,
        rule=merge.rule,
        rule_parameters=dict(merge.rule_parameters),
        weights=merge.weights,
        search=search,
        seeds=tuple(pools.by_seed),
        accuracies=tuple(rows),
        task_classes=tuple(task.classes for task in tasks),
        task_names=tuple(task.label for task in tasks),
        test_images=tuple(len(images.labels) for images in pools.benchmark.evaluation),
        code_digests=digests_of((merge.rule, pools.backbone.name, pools.sources[0].benchmark)),
    )


def _of_few(pools: Pools) -> str:
    few = set(pools.by_seed) != set(pools.sources[0].every_seed)
    return of_seeds(pools.by_seed) if few else ""


def merging_rule(merge: MergeConfig | CompositionResult, seed: int) -> ChosenRule | None:
    """Return the rule that merges a seed's task vectors; None for the weighted sum."""
    return None if merge.rule == LINEAR else choose_rule(merge.rule, merge.rule_parameters, seed)


def require_mergeable(pools: Pools, merge: MergeConfig, removal: Removal | None, retrained: bool) -> None:
    """Check that the rule may merge the task vectors, and finds the curvature of each if it reads any; none is read.

    Raises:
        InputError: If the network allows only weighted sums; if a curvature is missing, of another kind, or does not
            belong to its vector; or if classes are taken out and the tasks that depend on them are not trained again.
    """
    rule = merging_rule(merge, 0)
    pools.network.require_allowed(rule)
    if rule is None or not rule.reads_curvatures:
        return
    if removal is not None and not retrained:
        raise InputError(
            f"--forget: rule {merge.rule!r} reads curvatures, which were estimated with the rows of forgotten classes;"
            " add --retrain-later, or take another rule"
        )
    for pool in pools.by_seed.values():
        weights = (1.0,) * len(pool) if removal is not None else merge.weights
        rule.require_curvatures(vector for vector, weight in zip(pool, weights, strict=True) if weight)


def accuracies_of(
    pools: Pools, pool: VectorPool, head: Head, weights: Sequence[float], rule: ChosenRule | None, tick: Tick
) -> tuple[float, ...]:
    """Return the accuracy of a seed's composition on each task, percent, over all classes; refuse logits not finite."""
    pools.network.compose(pool, weights, head, rule)
    found = []
    for images in pools.benchmark.evaluation:
        found.append(accuracy(partial(finite_logits, pools), images, pools.device))
        tick(1)
    return tuple(found)


def finite_logits(pools: Pools, images: Tensor) -> Tensor:
    """Return the logits of the network's composition, `(b, c, h, w)` to `(b, C)`; refuse those that are not finite."""
    logits = pools.network.predict(images)
    if not bool(torch.isfinite(logits).all()):
        raise InputError(f"{', '.join(source.text for source in pools.sources)}: the composition is not finite")
    return logits


def evaluate_pools(pools: Pools, tick: Tick) -> EvaluationResult:
    """Return the protocol's result on the task vectors of one source; `tick` counts the evaluated test sets."""
    source, kept = pools.sources[0], central_three(pools.tasks)
    with threads(pools.threads):
        seeds = [_evaluate_seed(pools, seed, pool, kept, tick) for seed, pool in pools.by_seed.items()]
    return EvaluationResult(
        run=source.text,
        benchmark=source.benchmark,
        methods=source.methods,
        kept=kept,
        seeds=tuple(seeds),
        label=EVALUATION + _of_few(pools),
    )


def n_evaluations(tasks: int, seeds: int) -> int:
    """Return the number of test sets that the protocol evaluates."""
    return (2 + len(UNLEARNING_MODES) * tasks) * tasks * seeds


def _evaluate_seed(pools: Pools, seed: int, pool: VectorPool, kept: Sequence[int], tick: Tick) -> EvaluatedSeed:
    head, count, adds_up = pool.head(), pools.tasks, pools.network.adds_up

    def accuracies(merge: MergeConfig) -> Accuracies:
        return accuracies_of(pools, pool, head, merge.weights, None, tick)

    return EvaluatedSeed(
        seed=seed,
        whole=accuracies(uniform(count)),
        specialised=accuracies(keeping(count, kept)),
        unlearned={
            mode: tuple(accuracies(dropping(count, [task], mode, adds_up=adds_up)) for task in range(1, count + 1))
            for mode in UNLEARNING_MODES
        },
    )
