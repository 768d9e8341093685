"""The protocol of an experiment, made from a benchmark and a backbone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from checked_input import bounds
from checked_input.schema import Strict
from trainables.config import Precision

if TYPE_CHECKING:  # torch takes seconds to import; to read what was asked for must not
    from trainables.backbones import Backbone
    from trainables.data import BenchmarkSpec


class ExperimentProtocol(Strict):
    """The settings besides hyperparameters and seed on which the numbers of an experiment depend.

    Attributes:
        tasks: Number of tasks, T.
        epochs: Epochs of fine-tuning, per task.
        batch_size: Examples per optimiser step.
        split_seed: Seed of the validation split.
        backbone: Name of the backbone.
        weights: Path of a local weights file; None for the weights that timm offers.
        weights_digest: sha256 digest of the pre-trained weights, theta_0.
        precision: Precision of fine-tuning and evaluation.
        class_orders: Seeds of the class orders of a final run; None for the benchmark's own order.
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
    """The images of a run, for people who filter runs by their data; not part of the protocol.

    Attributes:
        digest: Digest of images, labels, split, transforms and task sizes.
        train: Number of training images.
        per_task: Number of training images of each task; empty in the recorded tables of benchmarks.
        evaluation: Number of validation images in a search, of test images in a final run.
    """

    digest: str
    train: int
    per_task: tuple[int, ...] = ()
    evaluation: int


def shown_benchmark(text: str) -> str:
    """Return the name of a benchmark for figures and papers, without the path of its folder."""
    return re.sub(r"\b(folder|parquet):[^?\n]*/", r"\1:", text)


def protocol_of(
    spec: BenchmarkSpec,
    split_seed: int,
    backbone: Backbone,
    precision: Precision = "fp32",
    class_orders: tuple[int, ...] | None = None,
) -> ExperimentProtocol:
    """Return the protocol of a benchmark, with the digest of the backbone's weights."""
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
