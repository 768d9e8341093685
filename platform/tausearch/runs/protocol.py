"""The protocol of an experiment, made from a benchmark and a backbone, and the resources of its trials."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, PositiveInt

from checked_input import ranges
from checked_input.schema import UNUSED, Strict
from trainables.config import Precision

if TYPE_CHECKING:  # torch takes seconds to import; to read what was asked for must not
    from trainables.backbones import Backbone
    from trainables.data import BenchmarkSpec


_GIB = 2**30
_LONGEST = 100  # characters of a benchmark in the title of a figure; the names of classes are part of it


class ExperimentProtocol(Strict):
    """The settings besides hyperparameters and seed on which the numbers of an experiment depend."""

    tasks: Annotated[int, AfterValidator(ranges.TASKS.checked)]  # T
    epochs: Annotated[int, AfterValidator(ranges.EPOCHS.checked)]  # of fine-tuning, per task
    batch_size: Annotated[int, AfterValidator(ranges.BATCH.checked)]
    split_seed: Annotated[int, AfterValidator(ranges.SEED.checked)]  # of the validation split
    backbone: str
    backbone_weights: str | None = None  # path of a local file; None for the weights that timm offers
    weights_digest: str  # sha256 of the pre-trained weights, theta_0
    initial_head: str | None = None  # path of a file of embeddings of the class names
    initial_head_digest: str | None = None  # sha256 of the rows at which heads start; None for drawn ones
    precision: Precision = "fp32"
    class_orders: tuple[int, ...] | None = None  # seeds, in a final run; None for the benchmark's own order

    @property
    def orders_text(self) -> str:
        """The class orders in words; empty for the benchmark's own."""
        return "" if self.class_orders is None else f"class orders {' '.join(map(str, self.class_orders))}"


class DataFacts(Strict):
    """The images of a run, for people who filter runs by their data; not part of the protocol."""

    digest: str  # of training images, labels, split, transforms and task sizes
    train: int  # training images
    per_task: tuple[int, ...] = ()  # training images of each task; empty in the recorded tables of benchmarks
    evaluation: int  # validation images in a search, test images in a final run
    evaluation_digest: str | None = None  # of these, with labels; None in runs of earlier versions
    classes_digest: Annotated[str | None, UNUSED] = None  # of classes and numbers of images on disk; None if older
    evaluation_per_task: Annotated[tuple[PositiveInt, ...], UNUSED] = ()  # empty in recorded tables and older runs

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of images to train and to evaluate on; see `trainables.data.Benchmark.counts`."""
        return self.train, self.evaluation

    @property
    def accuracy_resolution(self) -> float:
        """The largest step of the final accuracy that one image makes, percent: one of the task with the fewest images.

        The final accuracy is a mean over tasks, so an image counts the more the fewer its task has. Of runs of earlier
        versions only the number of all images is known; there each counts as if tasks had equally many.
        """
        tasks = self.evaluation_per_task
        return 100.0 / (len(tasks) * min(tasks) if tasks else self.evaluation)

    def has_split_of(self, other: DataFacts) -> bool:
        """Whether both have as many images of each class, from which a split is drawn; true where one is not known."""
        digests = {self.classes_digest, other.classes_digest}
        return None in digests or len(digests) == 1

    def has_images_of(self, other: DataFacts) -> bool:
        """Whether both train and evaluate on the same images; of runs of earlier versions the number must be equal."""
        digests = {self.evaluation_digest, other.evaluation_digest}
        same = (self.digest, self.evaluation) == (other.digest, other.evaluation)
        return same and (None in digests or len(digests) == 1)


class Pilot(Strict):
    """The memory that a pilot trial took of a whole GPU, from which the share of each trial follows."""

    peak_bytes: PositiveInt
    gpu_bytes: PositiveInt

    def __str__(self) -> str:
        return f"{self.peak_bytes / _GIB:.2f} of {self.gpu_bytes / _GIB:.1f} GiB"


class Resources(Strict):
    """The share of a machine that each trial gets; without a maximum, `execution.concurrent_trials` limits them."""

    cpus_per_trial: Annotated[int, AfterValidator(ranges.THREADS.checked)] = 1
    gpus_per_trial: Annotated[float, AfterValidator(ranges.SHARE.checked)] = 0  # 1/k of a GPU; 0: on the CPU
    gpus_from: Annotated[Literal["request", "rule"] | None, UNUSED] = None  # who chose the share; None without a GPU
    pilot: Annotated[Pilot | None, UNUSED] = None  # the measurement behind the share, if there is one
    precision_from: Annotated[Literal["auto"] | None, UNUSED] = None  # the device chose it; None: it did not
    max_concurrent_trials: Annotated[int, AfterValidator(ranges.CONCURRENT.checked)] | None = None

    @property
    def share(self) -> str:
        """The device of a trial in words."""
        if not self.gpus_per_trial:
            return "the CPU"
        k = round(1 / self.gpus_per_trial)
        return "a whole GPU" if k == 1 else f"1/{k} of a GPU"

    @property
    def why(self) -> str:
        """Why a trial has its share, in words; empty where nobody has chosen."""
        if self.pilot is not None:
            return f"a pilot trial took {self.pilot}"
        reasons = {"request": "as asked for", "rule": "the default where there is one", None: ""}
        return reasons[self.gpus_from]

    def words(self, precision: str) -> str:
        """Return device, precision and reason in words; nothing where there is no GPU to speak of."""
        if not self.gpus_per_trial and self.gpus_from is None and self.precision_from is None:
            return ""
        why = "; ".join(each for each in (self.why, self.why_precision(precision)) if each)
        return f"{self.share} in {precision}" + (f" ({why})" if why else "")

    def why_precision(self, precision: str) -> str:
        """Return why "auto" has chosen a precision, in words; empty where it has not."""
        if self.precision_from is None:
            return ""
        if not self.gpus_per_trial:
            return f"precision auto: {'as the run began' if precision == 'bf16' else 'bf16 is for GPUs'}"
        return f"precision auto: {'the GPUs have bf16' if precision == 'bf16' else 'a GPU may lack bf16'}"


def with_one_slash(benchmark: str) -> str:
    """Return one name or several without the second slash in `folder://PATH`, which earlier versions kept."""
    return re.sub("(^|,)(folder:|parquet:)//(?!/)", r"\1\2/", benchmark)


def shown_benchmark(text: str) -> str:
    """Return the name of a benchmark for figures and papers, without the path of its folder, cut where it is long."""
    shown = without_folder_paths(text)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def shown_benchmarks(texts: Sequence[str]) -> dict[str, str]:
    """Return `shown_benchmark` of each, and the whole text where two would be shown as one."""
    shown = {text: shown_benchmark(text) for text in texts}
    return {text: name if [*shown.values()].count(name) == 1 else text for text, name in shown.items()}


def without_folder_paths(text: str) -> str:
    """Return a text in which benchmarks on disk are named by their last folder alone."""
    return re.sub(r"\b(folder|parquet):(?:(?!\b(?:folder|parquet):)[^?\n])*/", r"\1:", text)


def protocol_of(
    spec: BenchmarkSpec,
    split_seed: int,
    backbone: Backbone,
    precision: Precision = "fp32",
    class_orders: tuple[int, ...] | None = None,
) -> ExperimentProtocol:
    """Return the protocol of a benchmark, with the digests of the backbone's weights and of its initial head."""
    from trainables.backbones.initial_head import rows_digest  # torch takes seconds to import

    if backbone.own is not None:
        _ = backbone.shape  # builds and tries it
    rows = backbone.initial_head(sorted(spec.class_names))  # sorted: the same in all class orders
    return ExperimentProtocol(
        tasks=spec.num_tasks,
        epochs=spec.epochs,
        batch_size=spec.batch_size,
        split_seed=split_seed,
        backbone=backbone.name,
        backbone_weights=None if backbone.weights is None else str(backbone.weights),
        weights_digest=backbone.digest,
        initial_head=None if backbone.head is None else str(backbone.head),
        initial_head_digest=None if rows is None else rows_digest(rows),
        precision=precision,
        class_orders=class_orders,
    )
