"""Numbers of the paper's figures, from saved task vectors: risk and its bound, Theorem 1, cosines."""

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
    """Return the terms of eq. (jensencl) on the test images of all tasks: mean cross-entropies in nats, a row per seed.

    The terms are the risk of the uniform composition, the mean risk of theta_0 + tau_t with the heads of all tasks, and
    the risk of theta_0 with h0. `tick` counts the measured risks; each seed has T + 2.
    """
    with threads(pools.threads):
        return [_risks(pools, seed, pool, tick) for seed, pool in pools.by_seed.items()]


def theorem_rows(pools: Pools, tick: Tick) -> Rows:
    """Return both sides of Theorem 1 on the test images, for the first seed's task vectors: a row for each of `SCALES`.

    A row has the mean norm of the scaled vectors, risks in nats, and the gap. A linearised network has no rows, since
    its risk is no function of displaced weights. `tick` counts the measurements, (T + 1) for each scale and one more.
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
    """Return the cosines of a run's task vectors: a row for each seed and ordered pair of tasks, equal tasks too."""
    tasks, rows = range(pools.tasks), []
    for seed, pool in pools.by_seed.items():
        found = cosines(inner_products(pools.network.theta_0, list(pool)))
        pairs = [(s, t) for s in tasks for t in tasks]
        rows += [{"seed": seed, "task": s + 1, "other": t + 1, "cosine": float(found[s, t])} for s, t in pairs]
    return rows


def alignment_rows(first: Pools, second: Pools) -> Rows:
    """Return the cosines of two runs, a row for each common seed and task; task 0 stands for their compositions."""
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


def n_measurements(pools: Sequence[Pools]) -> int:
    """Return the number of ticks of `risk_rows` and `theorem_rows` for some runs."""
    risks = sum((each.tasks + 2) * len(each.by_seed) for each in pools)
    return risks + sum((each.tasks + 1) * (len(SCALES) + 1) for each in pools if each.network.displaces_weights)


def _risks(pools: Pools, seed: int, pool: VectorPool, tick: Tick) -> dict[str, Any]:
    count, head = pools.tasks, pool.head()

    def risk_of(weights: Sequence[float]) -> float:
        pools.network.compose(pool, weights, head)
        tick(1)
        return _risk(pools, pools.network)

    found: dict[str, Any] = {"run": pools.sources[0].text, "seed": seed, "composed": risk_of([1 / count] * count)}
    found["individuals"] = sum(risk_of([float(s == t) for s in range(count)]) for t in range(count)) / count
    pools.network.compose(pool, [0.0] * count, pool.anchor())
    found["pretrained"] = _risk(pools, pools.network)
    tick(1)
    return found


def _risk(pools: Pools, network: ComposedNetwork) -> float:
    return risk(network.predict, pools.benchmark.evaluation, pools.device)
