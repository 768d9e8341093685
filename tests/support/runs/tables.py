"""A small table of configurations, made by hand."""

from __future__ import annotations

import numpy as np

from tausearch.runs import KnownPoint, SearchSpec, TrialSummary
from tausearch.studies import ConfigurationTable
from tests.support.runs.trials import FIXED, make_trial, search_spec

STEPS = 5
KNOWN = 2  # the start, and one point that the paper chose


def spec() -> SearchSpec:
    base = search_spec()
    known = (KnownPoint(origin="the paper", point={"alpha": 3.0, "lr": 0.03}),)
    protocol = base.protocol.model_copy(update={"tasks": STEPS})
    changes = {"steps": STEPS, "protocol": protocol, "algorithm": "random", "warm_start": known, "trials": 30}
    return base.model_copy(update=changes)


def a_run(number: int, seed: int, value: float, prefix: str = "val") -> TrialSummary:
    """Average accuracy falls by one with every task."""
    generator = np.random.default_rng(number)
    point = {"alpha": 1.0, "lr": 0.01} if number == 0 else {"alpha": 3.0, "lr": 0.03} if number == 1 else None
    point = point or {"alpha": 10 ** generator.uniform(-1, 1), "lr": 10 ** generator.uniform(-3, -1)}
    made = make_trial(number, tasks=STEPS, hyperparameters={**point, **FIXED})
    rows = [
        {"task": float(t), f"{prefix}/average_accuracy": value + STEPS - t, "seconds/training": 1.0}
        for t in range(1, STEPS + 1)
    ]
    rows[-1][f"{prefix}/final_accuracy"] = value
    return TrialSummary(number, seed, "complete", made.hyperparameters, rows, value)


def quality(number: int) -> float:
    return 60.0 + number


def table(noise: float = 0.0, count: int = 30) -> ConfigurationTable:
    """Later configurations are better; validation adds noise of its own on each split, the test none."""
    off = np.random.default_rng(0).normal(0, noise or 1e-9, (3, count))
    runs = {("search", s): {n: a_run(n, s, quality(n) + off[s, n]) for n in range(count)} for s in range(3)}
    runs["final", 0] = {n: a_run(n, 0, quality(n), "test") for n in range(count)}
    return ConfigurationTable(spec(), runs)  # type: ignore[arg-type]
