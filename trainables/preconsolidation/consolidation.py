"""Pre-consolidation of a task, before fine-tuning: mixtures, linear probing, alignment, Fisher update.

Source: the paper, Algorithm 1 (task pre-consolidation) and section Implementation details. The result depends on the
data, theta_0 and `PreconsolidationConfig`, and on no hyperparameter of fine-tuning, so trials share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from trainables.backbones import tuned_layers
from trainables.curvature import (
    Curvature,
    DiagonalCurvature,
    EstimatedCurvature,
    TaskCurvature,
    checked_estimate,
    curvature_called,
)
from trainables.data import Task
from trainables.heads import Head, first_head
from trainables.preconsolidation.mixtures import Mixture, fit_mixture
from trainables.preconsolidation.preparation import Basis
from trainables.preconsolidation.probing import align, linear_probe
from trainables.randomness import derive_seed, make_generator

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

FORWARD_BATCH = 256
FISHER_BATCH = 64
_MIXTURE_PARTS = ("weights", "means", "variances")  # fields of `Mixture`, in order


@dataclass(frozen=True, kw_only=True)
class PreconsolidationConfig:
    """Hyperparameters of pre-consolidation."""

    lr_pre: float = 0.01  # step size of linear probing
    epochs_pre: int = 3  # of linear probing
    components: int = 5  # K, number of Gaussians per class
    draws: int = 256  # N, number of features drawn per class for alignment and for the head's Fisher
    fisher_passes: int | None = 8  # backward passes per batch of the curvature; None: the exact one; 0: no curvature
    curvature: str = field(default="diagonal", metadata={"newer": True})  # of the tuned weights; see `curvature_called`

    @property
    def kind(self) -> type[EstimatedCurvature]:
        """The class of the curvature; without passes it is of no weight, and the diagonal stands for any."""
        return DiagonalCurvature if self.fisher_passes == 0 else curvature_called(self.curvature)

    augmented_only: ClassVar[bool] = True

    @property
    def uses(self) -> tuple[type, ...]:
        """The classes whose code the results depend on, beside this one."""
        return (self.kind,)

    def prepare(self, task: Task, previous: Consolidation | None, basis: Basis) -> dict[str, Tensor]:
        """Return the tensors of a task's pre-consolidation."""
        result = consolidate(task, previous, self, basis)
        tensors = {f"fisher/{name}": value for name, value in result.curvature.tensors().items()}
        tensors |= {"head/weight": result.head[0], "head/bias": result.head[1]}
        tensors["examples"] = torch.tensor(result.examples)
        for c, mixture in enumerate(result.mixtures):
            tensors |= {f"mixture/{c}/{part}": getattr(mixture, part) for part in _MIXTURE_PARTS}
        return tensors

    def read(self, tensors: dict[str, Tensor], task: Task, previous: Consolidation | None) -> Consolidation:
        """Return a task's pre-consolidation from its tensors."""
        head, classes = (tensors["head/weight"], tensors["head/bias"]), range(len(tensors["head/weight"]))
        mixtures = tuple(Mixture(*(tensors[f"mixture/{c}/{part}"] for part in _MIXTURE_PARTS)) for c in classes)
        parts = {name.removeprefix("fisher/"): part for name, part in tensors.items() if name.startswith("fisher/")}
        curvature, examples = self.kind.from_tensors(parts), int(tensors["examples"])
        before = None if previous is None else replace(previous, previous=None)  # memory holds only two tasks' results
        return Consolidation(task.index, head, mixtures, curvature, examples, before)


@dataclass(frozen=True)
class Consolidation:
    """theta_0 after the pre-consolidation of task t."""

    task: int  # t
    head: Head  # h0 with all rows seen so far: weight (C, d) and bias (C,)
    mixtures: tuple[Mixture, ...]  # of features, one per class seen so far
    curvature: Curvature  # of the tuned weights by name, summed over the examples of tasks 1 to t
    examples: int  # in that sum
    previous: Consolidation | None  # for task t - 1, without its own previous; None for t = 1

    def own_curvature(self) -> TaskCurvature:
        """Return the curvature over the images of task t alone, on the CPU: the sum without that of earlier tasks.

        It is exact to the rounding of the sums. That of a diagonal has no negative entry: a rounded sum is not smaller
        than its parts.
        """
        curvature, examples = self.curvature, self.examples
        if self.previous is not None:
            curvature = curvature.plus(self.previous.curvature, -1.0)
            examples -= self.previous.examples
        return TaskCurvature(curvature.mean_over(examples), examples)


def consolidate(
    task: Task, previous: Consolidation | None, config: PreconsolidationConfig, basis: Basis
) -> Consolidation:
    """Return the pre-consolidation of task t, on the CPU; every stage draws from a generator of its own.

    `previous` is the result for task t - 1, None for t = 1. Linear probing has the batch size of `basis`, and starts at
    its initial head, or at drawn rows.
    """
    t, backbone, seed, device = task.index, basis.theta_0, basis.seed, basis.device
    features, labels = _features(task, backbone, make_generator(seed, "mixtures", t), device)
    features, labels = features.cpu(), labels.cpu()
    mixtures = tuple(
        fit_mixture(features[labels == c], config.components, derive_seed(seed, "mixture", c)) for c in task.classes
    )
    rows = first_head(task.classes, backbone.num_features, make_generator(seed, "h0", t), basis.initial_head)
    generator = make_generator(seed, "probe", t)

    def draw_features() -> Iterator[tuple[Tensor, Tensor]]:
        # Extract in large batches, train in small ones: the same features, faster.
        features, labels = _features(task, backbone, generator, device)
        for chosen in torch.randperm(len(labels), generator=generator).split(basis.batch_size):
            yield features[chosen], labels[chosen] - task.classes.start

    weight, bias = linear_probe(_head_on(device, rows), config.epochs_pre, config.lr_pre, draw_features)
    rows = weight.cpu(), bias.cpu()
    if previous is not None:
        mixtures = previous.mixtures + mixtures
        rows = (torch.cat([previous.head[0], rows[0]]), torch.cat([previous.head[1], rows[1]]))
    head = align(rows, list(mixtures), t, config.draws, device, make_generator(seed, "align", t))
    curvature, examples = _curvature(task, head, config, basis)
    if previous is not None:
        curvature = curvature.plus(previous.curvature)
        examples += previous.examples
    return Consolidation(t, head, mixtures, curvature, examples, previous)


def _curvature(task: Task, head: Head, config: PreconsolidationConfig, basis: Basis) -> tuple[Curvature, int]:
    """Return the task's curvature on the CPU, summed over examples, and their number; of no weight for 0 passes."""
    if config.fisher_passes == 0:
        return DiagonalCurvature({}), 0
    augmentation, device = make_generator(basis.seed, "fisher", task.index), basis.device
    answer = config.kind.estimate(
        basis.theta_0,
        tuned_layers(basis.theta_0),
        _head_on(device, head),
        (batch.x for batch in task.train.batches(FISHER_BATCH, augmentation, shuffle=False, device=device)),
        passes=config.fisher_passes,
        generator=make_generator(basis.seed, "fisher-signs", task.index),
    )
    total, examples = checked_estimate(f"curvature {config.curvature!r}", answer)
    return total.to(torch.device("cpu")), examples


@torch.no_grad()
def _features(
    task: Task, backbone: VisionTransformer, generator: torch.Generator, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return theta_0's features `(n, d)` of the augmented training images in order, and their labels `(n,)`."""
    batches = task.train.batches(FORWARD_BATCH, generator, shuffle=False, device=device)
    pairs = [(backbone(batch.x), batch.y) for batch in batches]
    features, labels = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    return features, labels


def _head_on(device: torch.device, head: Head) -> Head:
    return head[0].to(device), head[1].to(device)
