"""Pre-consolidation of a task, before fine-tuning: mixtures, linear probing, alignment, Fisher update.

Source: the paper, Algorithm 1 (task pre-consolidation) and section Implementation details. The result depends on the
data, theta_0 and `PreconsolidationConfig`, and on no hyperparameter of fine-tuning, so trials share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainables.backbones import tuned_layers
from trainables.data import ImageSet, Task
from trainables.heads import Head, new_head
from trainables.preconsolidation.fisher import Fisher, layer_fisher
from trainables.preconsolidation.mixtures import Mixture, fit_mixture
from trainables.preconsolidation.probing import align, linear_probe
from trainables.randomness import derive_seed, make_generator

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

FORWARD_BATCH = 256
FISHER_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class PreconsolidationConfig:
    """Hyperparameters of pre-consolidation."""

    lr_pre: float = 0.01  # step size of linear probing
    epochs_pre: int = 3  # of linear probing
    components: int = 5  # K, number of Gaussians per class
    draws: int = 256  # N, number of features drawn per class for alignment and for the head's Fisher
    fisher_passes: int | None = 8  # backward passes per batch of the Fisher; None for the exact one


@dataclass(frozen=True)
class Consolidation:
    """theta_0 after the pre-consolidation of task t."""

    task: int  # t
    head: Head  # h0 with all rows seen so far: weight (C, d) and bias (C,)
    mixtures: tuple[Mixture, ...]  # of features, one per class seen so far
    fisher: Fisher  # tuned weight name to the Fisher summed over the examples of tasks 1 to t, (out, in)
    examples: int  # in that sum
    previous: Consolidation | None  # for task t - 1, without its own previous; None for t = 1

    @staticmethod
    def shorten(previous: Consolidation | None) -> Consolidation | None:
        """Return `previous` without its own previous, so that memory holds only two tasks' results."""
        return None if previous is None else replace(previous, previous=None)


def consolidate(
    task: Task,
    previous: Consolidation | None,
    *,
    backbone: VisionTransformer,
    config: PreconsolidationConfig,
    batch_size: int,
    seed: int,
    device: torch.device,
) -> Consolidation:
    """Return the pre-consolidation of task t, on the CPU; every stage draws from a generator of its own.

    `previous` is the result for task t - 1, None for t = 1. `backbone` is theta_0 on `device`, in eval mode.
    `batch_size` is that of linear probing.
    """
    t = task.index
    mixtures = _fit_classes(task, backbone, config, seed, device)
    rows = new_head(len(task.classes), backbone.num_features, make_generator(seed, "h0", t))
    rows = _probe(task, rows, backbone, config, batch_size, make_generator(seed, "probe", t), device)
    if previous is not None:
        mixtures = previous.mixtures + mixtures
        rows = (torch.cat([previous.head[0], rows[0]]), torch.cat([previous.head[1], rows[1]]))
    head = align(rows, list(mixtures), t, config.draws, device, make_generator(seed, "align", t))
    fisher, examples = _fisher(task, head, backbone, config.fisher_passes, seed, device)
    if previous is not None:
        fisher = {name: previous.fisher[name] + local for name, local in fisher.items()}
        examples += previous.examples
    return Consolidation(t, head, mixtures, fisher, examples, Consolidation.shorten(previous))


@torch.no_grad()
def _features(
    images: ImageSet, batch_size: int, backbone: VisionTransformer, generator: torch.Generator, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield theta_0's features of augmented training images in order."""
    for x, y, _ in images.batches(batch_size, generator, shuffle=False, device=device):
        yield backbone(x), y


def _fit_classes(
    task: Task, backbone: VisionTransformer, config: PreconsolidationConfig, seed: int, device: torch.device
) -> tuple[Mixture, ...]:
    generator = make_generator(seed, "mixtures", task.index)
    pairs = list(_features(task.train, FORWARD_BATCH, backbone, generator, device))
    features, labels = (torch.cat(parts).cpu() for parts in zip(*pairs, strict=True))
    return tuple(
        fit_mixture(features[labels == c], config.components, derive_seed(seed, "mixture", c)) for c in task.classes
    )


def _probe(
    task: Task,
    rows: Head,
    backbone: VisionTransformer,
    config: PreconsolidationConfig,
    batch_size: int,
    generator: torch.Generator,
    device: torch.device,
) -> Head:
    def draw_features() -> Iterator[tuple[Tensor, Tensor]]:
        # Extract in large batches, train in small ones: the same features, faster.
        pairs = list(_features(task.train, FORWARD_BATCH, backbone, generator, device))
        features, labels = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        for chosen in torch.randperm(len(labels), generator=generator).split(batch_size):
            yield features[chosen], labels[chosen] - task.classes.start

    weight, bias = linear_probe(
        (rows[0].to(device), rows[1].to(device)), config.epochs_pre, config.lr_pre, draw_features
    )
    return weight.cpu(), bias.cpu()


def _fisher(
    task: Task,
    head: Head,
    backbone: VisionTransformer,
    passes: int | None,
    seed: int,
    device: torch.device,
) -> tuple[Fisher, int]:
    generator = make_generator(seed, "fisher", task.index)
    images = (batch.x for batch in task.train.batches(FISHER_BATCH, generator, shuffle=False, device=device))
    fisher, examples = layer_fisher(
        backbone,
        tuned_layers(backbone),
        (head[0].to(device), head[1].to(device)),
        images,
        passes=passes,
        generator=make_generator(seed, "fisher-signs", task.index),
    )
    return {name: value.detach().cpu() for name, value in fisher.items()}, examples
