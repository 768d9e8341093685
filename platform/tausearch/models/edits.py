"""The paper's protocol of editing: specialisation on three tasks, and unlearning of each task in three readings.

Source: the paper, section "On the compositional skills of ITA and IEL", Tables 3 and 7. Heads stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tausearch.models.edit_results import Accuracies, EditedSeed, EditResult
from tausearch.models.evaluation import Tick, accuracies_of
from tausearch.models.merge_weights import COEFFICIENTS, central_three, dropping, keeping, uniform
from tausearch.models.pools import Pools
from trainables.composition import VectorPool
from trainables.process import threads


def edit_pools(pools: Pools, tick: Tick) -> EditResult:
    """Run the protocol.

    Args:
        pools: The task vectors, of one source.
        tick: Told of every task that has been evaluated.

    Returns:
        Accuracies of all compositions of all seeds.
    """
    source, kept = pools.sources[0], central_three(pools.tasks)
    with threads(pools.threads):
        seeds = [_edit_seed(pools, seed, pool, kept, tick) for seed, pool in pools.by_seed.items()]
    return EditResult(
        run=source.text, benchmark=source.benchmark, methods=source.methods, kept=kept, seeds=tuple(seeds)
    )


def evaluations(tasks: int, seeds: int) -> int:
    """Return how many test sets the protocol evaluates: that many ticks."""
    return (2 + len(COEFFICIENTS) * tasks) * tasks * seeds


def _edit_seed(pools: Pools, seed: int, pool: VectorPool, kept: Sequence[int], tick: Tick) -> EditedSeed:
    head, count = pool.head(), pools.tasks

    def reached(weights: Sequence[float]) -> Accuracies:
        return accuracies_of(pools, pool, head, weights, None, tick)

    return EditedSeed(
        seed=seed,
        whole=reached(uniform(count).weights),
        specialised=reached(keeping(count, kept).weights),
        unlearned={
            name: tuple(reached(dropping(count, [task], name).weights) for task in range(1, count + 1))
            for name in COEFFICIENTS
        },
    )
