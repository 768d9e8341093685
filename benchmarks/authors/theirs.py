"""One configuration of mammoth's `SecondOrder`: `python -m benchmarks.authors.theirs JSON CHECKOUT FEED`.

CHECKOUT is a folder with mammoth's code, changed by `checkout.make_runnable`. This program calls the hooks of the model
in the order of mammoth's training loop. It replaces two parts of mammoth: the batch size of linear probing, which is
128 there and the benchmark's here, and the data loader if FEED asks for ours (see `point.Feed`).
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from importlib import import_module
from typing import Any, cast

import torch
from safetensors.torch import load_file

from benchmarks.authors.feeding import Feeder
from benchmarks.authors.point import EPOCHS_PRE, LR_PRE, Feed, Point, report
from trainables.backbones import glyph_vit
from trainables.data import Benchmark, build_benchmark, get_source

EVERY = {  # what every model of mammoth reads and no run here changes
    **{"optim_wd": 0.0, "optim_mom": 0.0, "optim_nesterov": 0},
    **{"label_perc": 1, "nowand": 1, "debug_mode": 0},
}
USUAL = EVERY | {  # the same of `SecondOrder`
    "lora_r": 16,
    "learning_rate_pretuning": LR_PRE,
    "num_epochs_pretuning": EPOCHS_PRE,
    "num_samples_align_pretuning": 256,
    "batch_size_align_pretuning": 128,
    "num_epochs_align_pretuning": 10,
    "lr_align_pretuning": 0.01,
    "virtual_bs_n": 1,
    "clip_grad": 100,
    "optimizer": "adamw",
}


class Dataset:
    """The attributes of a dataset that mammoth's models read."""

    SETTING = "class-il"
    train_loader: Any

    def __init__(self, benchmark: Benchmark) -> None:
        self.test_loaders: list[Any] = []
        self.N_CLASSES, self.N_TASKS = len(benchmark.spec.class_names), len(benchmark.tasks)
        self.N_CLASSES_PER_TASK = self.N_CLASSES // self.N_TASKS

    def get_offsets(self, task: int) -> tuple[int, int]:
        """Return the first class of a task and the one after its last."""
        return self.N_CLASSES_PER_TASK * task, self.N_CLASSES_PER_TASK * (task + 1)


def build(arguments: argparse.Namespace, benchmark: Benchmark, dataset: Dataset) -> Any:
    """Return mammoth's `SecondOrder` on mammoth's ViT with our weights; `arguments` wins over `USUAL`."""
    model = import_module("models.second_order").SecondOrder
    vit = import_module("backbone.vit").VisionTransformer
    backbone = vit(img_size=32, patch_size=8, in_chans=1, embed_dim=64, depth=4, num_heads=4, num_classes=0)
    backbone.load_state_dict(load_file(glyph_vit.WEIGHTS))
    batch_size = benchmark.spec.batch_size

    class SameBatches(model):  # type: ignore[misc, valid-type]  # the base class is imported in this function
        def create_features_dataset(self, *arguments: Any, **options: Any) -> Any:
            features = super().create_features_dataset(*arguments, **options).dataset
            return torch.utils.data.DataLoader(features, batch_size=batch_size, shuffle=True)

    all_classes = {"fisher_mc_classes": dataset.N_CLASSES}  # the exact Fisher, which is mammoth's default
    given = argparse.Namespace(**USUAL | all_classes | vars(arguments))
    return SameBatches(backbone, torch.nn.functional.cross_entropy, given, None, dataset)


def _arguments(point: Point, benchmark: Benchmark) -> argparse.Namespace:
    return argparse.Namespace(
        use_iel=0,
        tuning_style="lora",
        alpha_ita=point.alpha,
        beta_iel=0.0,
        req_weight_cls=point.alpha_cls,
        simple_reg_weight_cls=point.alpha_cls_prior,
        lr=point.lr,
        n_epochs=benchmark.spec.epochs,
        batch_size=benchmark.spec.batch_size,
        seed=point.seed,
    )


def run_task(t: int, model: Any, benchmark: Benchmark, dataset: Dataset, feeder: Feeder) -> list[float]:
    """Train one task as mammoth's `train` does; returns the accuracy on each task seen so far, in percent."""
    loader = dataset.train_loader = feeder.loader(benchmark.tasks[t].train, shuffle=True)
    dataset.test_loaders.append(feeder.loader(benchmark.evaluation[t], shuffle=False))
    model.meta_begin_task(dataset)
    model.net.train()
    for epoch in range(benchmark.spec.epochs):
        for x, y, not_augmented in loader:
            model.meta_observe(x, y, not_augmented, epoch=epoch)
    model.meta_end_task(dataset)
    model.net.eval()
    return [_accuracy(model, seen) for seen in dataset.test_loaders]


@torch.no_grad()
def _accuracy(model: Any, loader: Any) -> float:
    correct = [model(x).argmax(1) == y for x, y, _ in loader]
    return 100 * float(torch.cat(correct).double().mean())


def main() -> None:
    """Run the configuration of the first argument with the code in the folder of the second."""
    point = Point.given()
    sys.path.insert(0, sys.argv[2])
    torch.set_num_threads(point.threads)
    import_module("utils.conf").set_random_seed(point.seed)
    benchmark = build_benchmark(get_source(point.benchmark), "search")
    dataset = Dataset(benchmark)
    model = build(_arguments(point, benchmark), benchmark, dataset)
    feeder = Feeder(cast(Feed, sys.argv[3]), benchmark.spec.batch_size, point.seed)
    report(partial(run_task, t, model, benchmark, dataset, feeder) for t in range(len(benchmark.tasks)))


if __name__ == "__main__":
    main()
