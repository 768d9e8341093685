"""The paper's editing protocol: specialisation on three tasks, and unlearning of each task in three modes.

Source: the paper, section "On the compositional skills of ITA and IEL", Tables 3 and 7. Heads stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tausearch.models.edit_results import Accuracies, EditedSeed, EditResult
from tausearch.models.evaluation import Tick, accuracies_of
from tausearch.models.merge_configs import UNLEARNING_MODES, MergeConfig, central_three, dropping, keeping, uniform
from tausearch.models.pools import Pools
from trainables.composition import VectorPool
from trainables.process import threads


def edit_pools(pools: Pools, tick: Tick) -> EditResult:
    """Return the protocol's result on the task vectors of one source; `tick` counts the evaluated test sets."""
    source, kept = pools.sources[0], central_three(pools.tasks)
    with threads(pools.threads):
        seeds = [_edit_seed(pools, seed, pool, kept, tick) for seed, pool in pools.by_seed.items()]
    return EditResult(
        run=source.text, benchmark=source.benchmark, methods=source.methods, kept=kept, seeds=tuple(seeds)
    )


def evaluations(tasks: int, seeds: int) -> int:
    """Return the number of test sets that the protocol evaluates."""
    return (2 + len(UNLEARNING_MODES) * tasks) * tasks * seeds


def _edit_seed(pools: Pools, seed: int, pool: VectorPool, kept: Sequence[int], tick: Tick) -> EditedSeed:
    head, count = pool.head(), pools.tasks

    def measured(merge: MergeConfig) -> Accuracies:
        return accuracies_of(pools, pool, head, merge.weights, None, tick)

    return EditedSeed(
        seed=seed,
        whole=measured(uniform(count)),
        specialised=measured(keeping(count, kept)),
        unlearned={
            mode: tuple(measured(dropping(count, [task], mode)) for task in range(1, count + 1))
            for mode in UNLEARNING_MODES
        },
    )
