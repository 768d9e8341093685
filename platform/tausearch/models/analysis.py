"""Numbers of the paper's figures, from the saved task vectors: risk and its bound, Theorem 1, cosines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tausearch.models.evaluation import Tick
from tausearch.models.pools import Pools
from trainables.composition import ComposedNetwork, VectorPool
from trainables.composition.alignment import composed_cosine, cosines, inner_products
from trainables.composition.bound import theorem_1
from trainables.errors import InputError
from trainables.evaluation import risk
from trainables.process import threads

SCALES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # factors of all task vectors; 1 is as they were learned
Rows = list[dict[str, Any]]  # of a table: column to value


def risk_rows(pools: Pools, tick: Tick) -> Rows:
    """Return the terms of eq. (jensencl) on the test images of all tasks, mean cross-entropies in nats.

    Args:
        pools: The task vectors.
        tick: Told of every risk that is measured; there are T + 2 for each seed.

    Returns:
        A row for each seed: the uniform composition, the mean of theta_0 + tau_t with the heads of all tasks, and
        theta_0 with h0.
    """
    with threads(pools.threads):
        return [_risks(pools, seed, pool, tick) for seed, pool in pools.by_seed.items()]


def theorem_rows(pools: Pools, tick: Tick) -> Rows:
    """Return both sides of Theorem 1 on the test images, for task vectors scaled by `SCALES`; of the first seed.

    Args:
        pools: The task vectors.
        tick: Told of everything that is measured: (T + 1) times one more than there are scales.

    Returns:
        A row for each scale: the size of the scaled vectors, the risks in nats, and the gap; none of a linearised
        network, whose risk is no function of displaced weights.
    """
    if not pools.network.displaces_weights:
        return []
    seed, pool = next(iter(pools.by_seed.items()))
    network = type(pools.network)(pools.backbone, pools.device, "fp32", "plain")
    sizes = inner_products(network.theta_0, list(pool)).diagonal().sqrt()
    with threads(pools.threads):
        points = theorem_1(network, pool, pools.benchmark.evaluation, SCALES, lambda it: _risk(pools, it), tick)
    return [
        {
            "run": pools.sources[0].text,
            "seed": seed,
            "scale": point.scale,
            "size": point.scale * float(sizes.mean()),
            "composed": point.composed,
            "bound": point.bound,
            "omega": point.omega,
            "second_order": point.second_order,
            "gap": point.gap,
        }
        for point in points
    ]


def cosine_rows(pools: Pools) -> Rows:
    """Return the cosines of all pairs of task vectors of a run.

    Returns:
        A row for each seed and pair of tasks, both orders and each task with itself.
    """
    tasks, rows = range(pools.tasks), []
    for seed, pool in pools.by_seed.items():
        found = cosines(inner_products(pools.network.theta_0, list(pool)))
        pairs = [(s, t) for s in tasks for t in tasks]
        rows += [{"seed": seed, "task": s + 1, "other": t + 1, "cosine": float(found[s, t])} for s, t in pairs]
    return rows


def alignment_rows(first: Pools, second: Pools) -> Rows:
    """Return how the task vectors of two runs lie to each other, task by task, and their uniform compositions.

    Returns:
        A row for each seed that both have, and task; the composed ones are the row of task 0.

    Raises:
        InputError: If they have no seed in common.
    """
    seeds = [seed for seed in first.by_seed if seed in second.by_seed]
    names = {"run": first.sources[0].text, "other": second.sources[0].text}
    if not seeds:
        raise InputError(f"{names['run']} and {names['other']}: have no seed in common")
    count, rows = first.tasks, []
    for seed in seeds:
        vectors = [*first.by_seed[seed], *second.by_seed[seed]]
        gram = inner_products(first.network.theta_0, vectors)
        both = cosines(gram)
        pooled = composed_cosine(gram, range(count), range(count, 2 * count))
        values = [pooled, *(float(both[task, count + task]) for task in range(count))]
        rows += [{**names, "seed": seed, "task": task, "cosine": value} for task, value in enumerate(values)]
    return rows


def measurements(pools: Sequence[Pools]) -> int:
    """Return how many ticks `risk_rows` and `theorem_rows` of some runs are."""
    return sum((each.tasks + 2) * len(each.by_seed) + (each.tasks + 1) * (len(SCALES) + 1) for each in pools)


def _risks(pools: Pools, seed: int, pool: VectorPool, tick: Tick) -> dict[str, Any]:
    count, head = pools.tasks, pool.head()

    def measured(weights: Sequence[float]) -> float:
        pools.network.compose(pool, weights, head)
        tick(1)
        return _risk(pools, pools.network)

    found: dict[str, Any] = {"run": pools.sources[0].text, "seed": seed, "composed": measured([1 / count] * count)}
    found["individuals"] = sum(measured([float(s == t) for s in range(count)]) for t in range(count)) / count
    pools.network.compose(pool, [0.0] * count, pool.anchor())
    found["pretrained"] = _risk(pools, pools.network)
    tick(1)
    return found


def _risk(pools: Pools, network: ComposedNetwork) -> float:
    return risk(network.predict, pools.benchmark.evaluation, pools.device)
