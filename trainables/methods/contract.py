"""The contract between an incremental learner and the sequence that drives it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, overload, runtime_checkable

import torch
from torch import Tensor, nn

from trainables import precision
from trainables.backbones import Backbone
from trainables.backbones.compiling import PAYS_FROM, as_compiled, can_compile, compile_blocks
from trainables.composition import Origin, SavedVector
from trainables.config import Precision
from trainables.curvature import TaskCurvature
from trainables.data import Task
from trainables.errors import InputError
from trainables.preconsolidation import Preparation
from trainables.state import SILENT, Epoch, State

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Capabilities:
    """What a method declares about itself, so that no caller asks for its name.

    Attributes:
        composable: The method learns one task vector per task and predicts by their composition; see `Composable`.
            A final run writes the vectors.
        joint: The method sees all tasks at once, so its sequence has one step.
        tasks_to_peak: Number of tasks until memory use has peaked; a pilot runs so many.
        whole_classifier: Each task trains a classifier of all classes, those of other tasks included, alone from
            theta_0. So a task depends on the number of classes, and on no image of another task.
        initial_head: Its heads start at `Context.initial_head` where there is one.
        curvature: The method, which is composable, has a curvature of each task; see `Curved`. A final run can save it
            with the vectors.
    """

    composable: bool = False
    joint: bool = False
    tasks_to_peak: int = 1
    whole_classifier: bool = False
    initial_head: bool = False
    curvature: bool = False


@dataclass(frozen=True)
class ExtraMetric:
    """A metric that one method reports beside the metrics of every method.

    Attributes:
        name: The name in the metrics row, which begins with `train/`, such as `train/euler_factor`.
        unit: The unit to show; "1" for a ratio.
        limit: The value from which on a trial gets a warning, as it does for NaN; None for no warning.
        warning: Template of the warning, with the fields `trial` (number), `worst` (largest value), `task` (first task
            at the limit or above) and `limit`.
    """

    name: str
    unit: str
    limit: float | None = None
    warning: str = ""

    def warn(self, trial: int, rows: Iterable[Mapping[str, Any]]) -> str | None:
        """Return the warning about a trial that reached the limit, else None; a row without the metric is below it."""
        values = {int(row["task"]): row[self.name] for row in rows if self.name in row}
        reached = [task for task, value in values.items() if self.limit is not None and not value < self.limit]
        if not reached:
            return None
        worst = max(values.values(), key=lambda value: (math.isnan(value), value))
        return self.warning.format(trial=trial, worst=worst, task=reached[0], limit=self.limit)


EULER_FACTOR = "train/euler_factor"  # metric: largest step size times curvature of a penalty during a task
# Weights of a backbone up to which a CPU launches a step more slowly than a GPU computes it.
LAUNCH_BOUND: dict[Precision, int] = {"fp32": 1_000_000, "tf32": 1_000_000, "bf16": 50_000_000}
EULER_LIMIT = 2.0  # explicit Euler: theta <- theta - step * curvature * theta diverges above it


def euler_factor(formula: str, steps: str) -> ExtraMetric:
    """Declare the metric of a quadratic penalty; `formula` names the product and `steps` its steps in the warning."""
    warning = (
        f"trial {{trial}}: {formula} reaches {{worst:.3g}} (from task {{task}}); {steps} are stable below {{limit:g}}"
    )
    return ExtraMetric(EULER_FACTOR, unit="1", limit=EULER_LIMIT, warning=warning)


@dataclass(frozen=True)
class Scenario:
    """What is known of a trial before any image or weight is read: enough to refuse a trial that cannot run.

    Attributes:
        backbone: The pre-trained network, by name.
        task_classes: Classes of every task in order; consecutive positions in the class order.
    """

    backbone: Backbone
    task_classes: tuple[range, ...]

    @property
    def num_tasks(self) -> int:
        """Number of tasks, T; 1 for a method that sees all tasks at once."""
        return len(self.task_classes)

    @property
    def num_classes(self) -> int:
        """Number of classes of all tasks together, C."""
        return self.task_classes[-1].stop


def require_blocks(method: str, scenario: Scenario) -> None:
    """Refuse a backbone without `blocks`, in which a method of tangents finds its layers, by an InputError."""
    if not scenario.backbone.shape.blocks:
        raise InputError(
            f"{method}: backbone {scenario.backbone.name!r} has no `blocks`, a ModuleList or Sequential as in timm's"
            f" ViT, in which {method} finds the layers that it trains"
        )


class Prepare(Protocol):
    """How a method says what it wants prepared of each task."""

    @overload
    def __call__(self, preparation: Preparation[R]) -> Callable[[Task], R]: ...
    @overload
    def __call__(self, preparation: Preparation[R], *, before: Literal[True]) -> Callable[[Task], R | None]: ...
    def __call__(self, preparation: Preparation[R], *, before: bool = False) -> Callable[[Task], R | None]:
        """Return the function that gives the result for a task; all trials share it through the cache.

        With `before` it gives the result of the task before, and None for the first task. So no result of the last
        task is computed.
        """


def _nothing_prepared(preparation: Preparation[R], *, before: bool = False) -> Callable[[Task], R]:
    raise RuntimeError("nothing is prepared outside of a trial")


class Waiting:
    """Counts the seconds until each batch is there, those of reading and transforming images."""

    def __init__(self) -> None:
        self.seconds = 0.0  # over all iterations

    def counted(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items."""
        start = time.perf_counter()
        for item in items:
            self.seconds += time.perf_counter() - start
            yield item
            start = time.perf_counter()
        self.seconds += time.perf_counter() - start


@dataclass(frozen=True)
class Context(Scenario):
    """The input of a method's constructor.

    Attributes:
        epochs: Passes over a task's training images.
        batch_size: Examples per optimiser step.
        seed: The seed of the trial.
        device: The device that computes.
        precision: Of the backbone in fine-tuning and evaluation; see `trainables.precision`.
        on_epoch: Called after every epoch with the epochs done; must return at once and change nothing.
        prepare: Returns, for a preparation, the function that gives its result for a task. A method calls `prepare` in
            its constructor, with `PreconsolidationConfig` or a preparation of its own; `begin_task` calls the function.
        initial_head: The first weights of a head of all classes, `(C, d)` in class order, of a backbone that offers
            them; see `heads.first_head`.
        waiting: Counts the seconds in which `fit` waits for its batches.
    """

    epochs: int
    batch_size: int
    seed: int
    device: torch.device
    precision: Precision = "fp32"
    on_epoch: Callable[[Epoch], None] = SILENT
    prepare: Prepare = _nothing_prepared
    initial_head: Tensor | None = None
    waiting: Waiting = field(default_factory=Waiting)

    @property
    def graphs_on(self) -> torch.device | None:
        """The GPU, if it computes a step of the backbone faster than a CPU launches its kernels; else None.

        Backbones of the user's code are left out: a CUDA graph may not hold all that they do.
        """
        small = self._known_on_gpu and self.backbone.shape.parameters <= LAUNCH_BOUND[self.precision]
        return self.device if small else None

    def make_ready(self, model: nn.Module, task: Task) -> None:
        """Compile the blocks of a backbone for training in bf16 on a GPU, if the trial has images enough for it to pay.

        In float32 and TF32 the products take most of the time, and little is gained. Backbones of the user's code are
        left out: they may do what cannot be compiled.
        """
        images = self.num_tasks * self.epochs * len(task.train)
        large = self._known_on_gpu and self.graphs_on is None
        if large and self.precision == "bf16" and images >= PAYS_FROM and can_compile():
            compile_blocks(model)

    @property
    def _known_on_gpu(self) -> bool:
        """Whether a backbone that is not the user's code runs on a GPU."""
        return self.device.type == "cuda" and self.backbone.own is None

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context for forward passes of the backbone: autocast for "bf16", TF32 products for "tf32"."""
        return precision.autocast(self.precision, self.device)

    def features(self, model: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """Return features `(b, d)` of images `(b, c, h, w)`, in the precision of the heads.

        The backbone runs under autocast if `precision` is "bf16", and in TF32 with its backward pass if it is "tf32".
        Heads never do: bf16 logits would tie, and a tie goes to the older class.
        """
        with self.as_made_ready(model, images):
            return precision.features(model, images, self.precision, self.device)

    def as_made_ready(self, model: Callable[..., object], images: Tensor) -> AbstractContextManager[object]:
        """Return a context in which full batches of a training run compiled, if `make_ready` has compiled the model.

        Several batches at once are full, too: those of rehearsed images, for example.
        """
        return as_compiled(model, full_batch=len(images) % self.batch_size == 0)


class Method(Protocol):
    """An incremental learner: begin a task, train on it, end it, predict over all classes seen so far."""

    def begin_task(self, task: Task) -> None:
        """Get ready for a task."""

    def train_task(self, task: Task) -> dict[str, float]:
        """Train on the current task; returns metrics, among them `train/loss`.

        Raises:
            DivergedError: If the loss or the weights become NaN or infinite.
        """

    def end_task(self, task: Task) -> None:
        """Compose or consolidate after training."""

    def predict(self, images: Tensor) -> Tensor:
        """Return logits over all classes seen so far: `(b, c, h, w)` to `(b, C_seen)`."""

    def state(self) -> State:
        """Return ALL state that later tasks depend on; called between tasks.

        The state may be the method's own memory: it is written before the next task begins. Tensors that no longer
        change belong under `constant`, which is written once and not with every checkpoint.
        """

    def load_state(self, state: State) -> None:
        """Continue from a `state`, on the present device.

        Tensors may be memory-mapped: those of `constant` while the trial runs, those of `tensors` only until the next
        checkpoint. Copy every tensor of `tensors` that is kept.
        """


@runtime_checkable
class Composable(Method, Protocol):
    """A method that learns one task vector per task and predicts by their composition."""

    def vector(self, origin: Origin) -> SavedVector:
        """Return a copy of the task vector that was learned last, on the CPU."""

    def composed(self, vectors: Sequence[SavedVector], weights: Sequence[float]) -> AbstractContextManager[None]:
        """Return a context in which `predict` is by another composition of all finished task vectors.

        The classifier stays as it is, but for the rows that are a part of the vectors.
        """

    def continue_after(self, vectors: Iterable[SavedVector]) -> None:
        """Continue after finished tasks, in order, from their task vectors; the method has learned no task yet.

        The state is that of the method that has learned them, bit for bit on its device.
        """


@runtime_checkable
class Curved(Composable, Protocol):
    """A composable method that has a curvature of each task, for merging rules."""

    def curvature(self, task: Task) -> TaskCurvature:
        """Return the curvature over the training images of the task that was learned last, on the CPU.

        It is a `DiagonalCurvature` or a `KroneckerCurvature` of the tuned weights, by the names of the task vector.
        """
