"""The time of a training step of a backbone on this machine's CPU, known without its weights."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

from trainables.backbones import Backbone, glyph_vit
from trainables.backbones.inputs import EMBEDDED
from trainables.backbones.timm_names import skeleton
from trainables.process import threads

_IMAGES = 2  # of a step; ViT-B takes seconds for more
_STEPS, _SECONDS = 5, 1.0  # as many are timed, or as fit that time: other processes disturb short ones
_WEIGHT = 0.02  # of every parameter: their values cost no time, but denormal numbers would


def seconds_per_image(name: str, cpus: int) -> float:
    """Return the seconds per image of a forward and a backward pass through all weights: the fastest of a few steps."""
    if name == EMBEDDED:
        model, reads = glyph_vit.build(), glyph_vit.INPUT
    else:
        model, reads = skeleton(name).to_empty(device="cpu"), Backbone(name).input
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(_WEIGHT)
    images = torch.full((_IMAGES, reads.channels, reads.size, reads.size), 0.5)
    with threads(cpus):
        times = [_step(model, images)]  # the first allocates memory
        while len(times) <= _STEPS and (len(times) < 2 or sum(times[1:]) < _SECONDS):
            times.append(_step(model, images))
    return min(times[1:]) / _IMAGES


def _step(model: nn.Module, images: Tensor) -> float:
    start = time.perf_counter()
    model(images).sum().backward()
    return time.perf_counter() - start
