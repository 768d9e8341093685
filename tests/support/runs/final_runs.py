"""Final runs made by hand, through the functions that write real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tausearch.runs import DataFacts, ExperimentProtocol, FinalSpec, Resources, Storage, TrialSummary
from tests.support.runs.built_runs import make_run
from trainables.methods import METHODS

BACKBONE = "vit_base_patch16_224.augreg_in21k"
PROTOCOL = ExperimentProtocol(
    tasks=10, epochs=20, batch_size=128, split_seed=0, backbone=BACKBONE, weights_digest="0" * 64
)


def make_final_run(
    storage: Storage,
    name: str,
    accuracies: Sequence[float | None],
    *,
    benchmark: str = "cifar100",
    method: str = "ita-lora",
    tuned_on: str | None = None,
    overrides: dict[str, Any] | None = None,
    protocol: dict[str, Any] | None = None,
    pooled: Sequence[float | None] = (),
    data: DataFacts | None = None,
) -> FinalSpec:
    """Put a final run into a storage root: one accuracy per seed, None for a seed that failed.

    The accuracy over all images together is given seed by seed, or not at all: seeds of an older version lack it. The
    average incremental accuracy is 6 points more.
    """
    needed = {"alpha": 1.0, "beta": 1.0, "strength": 1.0}
    needed |= dict.fromkeys(("alpha_cls", "beta_cls", "alpha_cls_prior", "beta_cls_prior"), 0.1)
    names = METHODS[method].config.__dataclass_fields__
    chosen = {"lr": 0.001, **{k: v for k, v in needed.items() if k in names}, **(overrides or {})}
    seeds = len(accuracies) // len((protocol or {}).get("class_orders") or (None,))
    spec = FinalSpec(
        name=name,
        benchmark=benchmark,
        method=method,
        protocol=PROTOCOL.model_copy(update=protocol or {}),
        resources=Resources(),
        trials=len(accuracies),
        steps=1,
        fixed=asdict(METHODS[method].parse(chosen)),
        seeds=tuple(range(seeds)),
        source=f"{tuned_on or benchmark}-{method}-1",
        tuned_on=tuned_on or benchmark,
        overrides=overrides or {},
        data=data,
    )
    together = [*pooled, *[None] * (len(accuracies) - len(pooled))]
    trials = [
        _trial(number, number % seeds, *pair) for number, pair in enumerate(zip(accuracies, together, strict=True))
    ]
    make_run(storage, spec, trials)
    return spec


def _trial(number: int, seed: int, accuracy: float | None, pooled: float | None) -> TrialSummary:
    if accuracy is None:
        return TrialSummary(number, seed, "failed", {}, error="out of memory")
    row = {"task": 10.0, "test/average_accuracy": accuracy, "test/final_accuracy": accuracy, "test/forgetting": 3.0}
    if pooled is not None:  # both are lacking in a seed of an older version
        row |= {"test/pooled_accuracy": pooled, "test/average_incremental_accuracy": pooled + 6}
    return TrialSummary(number, seed, "complete", {}, [row], accuracy)
