"""What a step of ITA with LoRA takes with Kronecker factors, over a step with the diagonal: CPU seconds, in turn.

One thread, batches of 32 of noise: the embedded ViT, and ViT-B/16 with random weights, whose values do not matter for
time. A step is forward, backward, the regulariser's gradient and AdamW.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.arithmetic import NAME, prepared, random_weights
from trainables.backbones import Backbone
from trainables.curvature import KINDS
from trainables.data import Batch
from trainables.methods.training import gradient_steps, local_loss
from trainables.process import settle

METHOD, BATCH = "ita-lora", 32


def _step(backbone: Backbone, kind: Any) -> Callable[[], Any]:
    """Return a function that makes one step of a task that has begun."""
    learner, task = prepared(METHOD, backbone, "cpu", "fp32", BATCH, 1, kind)
    parameters = [*learner.vectors.parameters(), *learner.heads.current]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.0, fused=True)

    def loss(batch: Batch) -> Tensor:
        return local_loss(learner.context, learner.vectors.model, learner.heads, batch.x, batch.y)

    step = gradient_steps(optimizer, loss, adjust=learner._regularise)
    return partial(step, next(iter(task.train.batches(BATCH, None, shuffle=False))), 1.0)


def measure(backbone: Backbone, repeats: int) -> dict[str, Any]:
    """Return the median seconds of both and the median of the ratios of pairs; the first pair does not count."""
    steps = {kind: _step(backbone, kind) for kind in KINDS}
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(repeats + 1):
        for kind, step in steps.items():
            start = time.process_time()
            step()
            taken[kind].append(time.process_time() - start)
        gc.collect()
    pairs = list(zip(taken["diagonal"], taken["kronecker"], strict=True))[1:]
    row: dict[str, Any] = {"method": METHOD, "backbone": backbone.name, "pairs": len(pairs)}
    for number, name in enumerate(("diagonal", "kronecker")):
        row[f"{name}, CPU seconds"] = median(pair[number] for pair in pairs)
    return row | {"kronecker over diagonal": median(kronecker / diagonal for diagonal, kronecker in pairs)}


def run() -> list[dict[str, Any]]:
    """Measure both backbones."""
    settle(1)
    with random_weights() as weights:
        return [measure(Backbone(), 30), measure(Backbone(NAME, weights), 2)]
