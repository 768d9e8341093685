"""Record factors, penalty and first steps of mammoth's `TAK` on a tiny ViT.

`TAUSEARCH_MAMMOTH=CHECKOUT python -m benchmarks.authors.parity.tak_record FILE` writes the record that
`tests/trainables/methods/tak/test_parity.py` reads; `tests/trainables/methods/tak/oracles/README.md` describes it.

The second of three tasks is learned, held by the first and the third as their code does it: it looks at a later task.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.authors.checkout import make_runnable
from benchmarks.authors.parity.mammoth import CHECKOUT
from benchmarks.authors.parity.tak import TRAIN, make_model

NETWORK = {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": 8, "depth": 2, "num_heads": 2, "mlp_ratio": 2}
IMAGES, BATCH, EPOCHS, WARM_UP = (5, 7, 4), 3, 2, 2  # images of each task, images of a batch, epochs, and steps
KEPT = (1, 2, 3, 6)  # steps of which the vector is recorded
GIVEN = {"lr": 0.01, "reg_lambda": 2.0, "fisher_norm_scaler": 4.0}
_NAMES = (  # of theirs, and timm's
    (r"^transformer\.resblocks\.(\d)\.(attn\..*)$", r"blocks.\1.\2"),
    (r"^transformer\.resblocks\.(\d)\.mlp\.c_fc\.(.*)$", r"blocks.\1.mlp.fc1.\2"),
    (r"^transformer\.resblocks\.(\d)\.mlp\.c_proj\.(.*)$", r"blocks.\1.mlp.fc2.\2"),
    (r"^transformer\.resblocks\.(\d)\.ln_(\d)\.(.*)$", r"blocks.\1.norm\2.\3"),
    (r"^ln_pre\.(.*)$", r"norm_pre.\1"),
    (r"^ln_post\.(.*)$", r"norm.\1"),
    (r"^cls_token_layer\.class_embedding$", "cls_token"),
)


class _Images:
    """One task's images: in batches to train, at once to test; their code sets the transform."""

    transform = TRAIN

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y, self.dataset = x, y, self

    def __len__(self) -> int:
        return -(-len(self.x) // BATCH)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        size = BATCH if self.transform == TRAIN else len(self.x)
        return zip(self.x.split(size), self.y.split(size), strict=True)


class _Dataset:
    """Three tasks of two classes."""

    NAME, SETTING, N_TASKS, N_CLASSES, N_CLASSES_PER_TASK = "tiny", "class-il", 3, 6, 2

    def __init__(self, tasks: list[_Images]) -> None:
        self.tasks = self.test_loaders = tasks
        self.train_loader = tasks[0]

    def get_offsets(self, task: int) -> tuple[int, int]:
        """Return the first class of a task and the one after its last."""
        return 2 * task, 2 * task + 2

    def get_class_names(self) -> list[str]:
        """Return no names: the heads are given."""
        return []


def _timm(name: str) -> str | None:
    """Return timm's name of a weight of theirs; None for one that is not trained."""
    found = (re.sub(pattern, instead, name) for pattern, instead in _NAMES if re.match(pattern, name))
    return next(found, None)


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, np.ndarray]:
    named = {_timm(name): value for name, value in tensors.items()}
    return {f"{prefix}/{name}": value.detach().numpy().copy() for name, value in named.items() if name}


def _inputs(generator: torch.Generator) -> tuple[Any, tuple[Tensor, Tensor], list[_Images]]:
    """Return network, rows of all classes, and tasks."""
    from timm.models.vision_transformer import VisionTransformer

    norm = partial(nn.LayerNorm, eps=1e-5)  # their factors of norms know no other
    vit: Any = VisionTransformer(**NETWORK, num_classes=0, pre_norm=True, norm_layer=norm)
    for parameter in vit.parameters():  # timm starts biases and norms at constants, which would hide mistakes
        nn.init.normal_(parameter, std=0.4, generator=generator)
    rows = (torch.randn(6, 8, generator=generator), torch.randn(6, generator=generator))
    tasks = [
        _Images(torch.randn(count, 1, 8, 8, generator=generator), 2 * t + torch.arange(count) % 2)
        for t, count in enumerate(IMAGES)
    ]
    return vit.eval(), rows, tasks


def record() -> dict[str, np.ndarray]:
    """Return inputs and outputs of their code by name."""
    vit, rows, tasks = _inputs(torch.Generator().manual_seed(1))
    found = {f"weight/{name}": value.numpy().copy() for name, value in vit.state_dict().items()}
    found |= {"rows": rows[0].numpy(), "bias": rows[1].numpy()}
    for t, task in enumerate(tasks):
        found |= {f"x{t}": task.x.numpy(), f"y{t}": task.y.numpy()}
    usual = argparse.Namespace(optimizer="adamw", optim_wd=0.1, optim_mom=0.0, optim_nesterov=0, n_epochs=EPOCHS)
    vars(usual).update(label_perc=1, nowand=1, debug_mode=0, batch_size=BATCH, seed=0)
    dataset = _Dataset(tasks)
    own: dict[str, Any] = {**GIVEN, "epochs_factor_reduction": 500 / WARM_UP, "fisher_cache": tempfile.mkdtemp()}
    model = make_model(vit, rows, dataset, usual, factors="all", **own)
    for t, task in enumerate(tasks):
        dataset.train_loader, model._current_task = task, t
        model.begin_task(dataset)
        g, a, f, count, _ = model.fisher_loader.load_kfac(t)
        assert count == len(task.x)
        found |= _named(a, f"A{t}") | _named(g, f"G{t}") | _named(f, f"F{t}")
    return found | _learned(model, dataset)


def _learned(model: Any, dataset: _Dataset) -> dict[str, np.ndarray]:
    """Learn the second task step by step."""
    model.args.load_fisher, model._current_task, dataset.train_loader = 1, 1, dataset.tasks[1]
    model.meta_begin_task(dataset)
    found: dict[str, np.ndarray] = {}
    losses, step = [], 0
    for epoch in range(EPOCHS):
        dataset.train_loader.transform = TRAIN
        for x, y in dataset.train_loader:
            losses.append(model.meta_observe(x, y, x, epoch=epoch))
            step += 1
            if step in KEPT:
                found |= _named({name: parts[0] for name, parts in model.delta_w_dict.items()}, f"tau{step}")
    layers, norms, projection, token = (float(part) for part in model.penalty_weight())
    assert projection == 0  # it is not trained: a ViT has none
    return found | {"losses": np.array(losses), "penalty": np.array([layers, norms + token])}


def main() -> None:
    """Run their code from the checkout that the environment names, and write what it finds."""
    file = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        code = make_runnable(Path(os.environ[CHECKOUT]), Path(folder, "code"))
        sys.path.insert(0, str(code))
        np.savez_compressed(file, **record())  # type: ignore[arg-type]  # its stubs take no names
    print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
