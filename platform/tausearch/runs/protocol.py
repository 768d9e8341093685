"""The protocol of an experiment, and how it is read off a benchmark and a backbone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from search_spaces import bounds
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
        class_orders: Seeds of the class orders that a final run is judged over; None for the benchmark's own alone.
    """

    tasks: Annotated[int, AfterValidator(bounds.TASKS.checked)]
    epochs: Annotated[int, AfterValidator(bounds.EPOCHS.checked)]
    batch_size: Annotated[int, AfterValidator(bounds.BATCH.checked)]
    split_seed: Annotated[int, AfterValidator(bounds.SEED.checked)]
    backbone: str
    weights: str | None = None
    weights_digest: str
    precision: Precision = "fp32"
    class_orders: tuple[int, ...] | None = None


class DataFacts(Strict):
    """What images a run sees; for people who filter runs by their data, and no part of the protocol.

    Attributes:
        digest: Of everything that training can see: images, labels, split, transforms, task sizes.
        train: Number of training images.
        per_task: The same for each task, in their order; empty in runs from before it was noted.
        evaluation: Number of images that evaluate: validation images in a search, test images in a final run.
    """

    digest: str
    train: int
    per_task: tuple[int, ...] = ()
    evaluation: int


def shown_benchmark(text: str) -> str:
    """Return what a benchmark is called, for figures and papers: without the way to its folder."""
    return re.sub(r"\b(folder|parquet):[^?\n]*/", r"\1:", text)


def protocol_of(
    spec: BenchmarkSpec,
    split_seed: int,
    backbone: Backbone,
    precision: Precision = "fp32",
    class_orders: tuple[int, ...] | None = None,
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
        class_orders=class_orders,
    )
