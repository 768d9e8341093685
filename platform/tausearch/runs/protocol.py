"""The protocol of an experiment, and how it is read off a benchmark and a backbone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from search_spaces.schema import Strict
from trainables.config import Precision

if TYPE_CHECKING:  # torch takes seconds to import; to read what was asked for must not
    from trainables.backbones import Backbone
    from trainables.data import BenchmarkSpec


class ExperimentProtocol(Strict):
    """The protocol of an experiment: what, besides hyperparameters and seed, its numbers depend on.

    Attributes:
        tasks: Number of tasks, T.
        epochs: Epochs of fine-tuning, per task.
        batch_size: Examples per optimiser step.
        split_seed: Seed of the validation split.
        backbone: Name of the backbone.
        weights: The backbone's local weights file, if one was given.
        weights_digest: sha256 digest of the pre-trained weights, theta_0.
        precision: Precision of fine-tuning and evaluation: "fp32" or "bf16".
    """

    tasks: int
    epochs: int
    batch_size: int
    split_seed: int
    backbone: str
    weights: str | None = None
    weights_digest: str
    precision: Precision = "fp32"


def shown_benchmark(text: str) -> str:
    """Return what a benchmark is called, for figures and papers: without the way to its folder."""
    return re.sub(r"\b(folder|parquet):[^?\n]*/", r"\1:", text)


def protocol_of(
    spec: BenchmarkSpec, split_seed: int, backbone: Backbone, precision: Precision = "fp32"
) -> ExperimentProtocol:
    """Return a benchmark's protocol with the digest of the weights that will be used."""
    return ExperimentProtocol(
        tasks=spec.num_tasks,
        epochs=spec.epochs,
        batch_size=spec.batch_size,
        split_seed=split_seed,
        backbone=backbone.name,
        weights=None if backbone.weights is None else str(backbone.weights),
        weights_digest=backbone.digest,
        precision=precision,
    )
