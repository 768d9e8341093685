"""One configuration of ours, as the authors' code has it and no cache: `python -m benchmarks.authors.ours JSON`."""

from __future__ import annotations

import sklearn.mixture  # noqa: F401  # else it is imported at its first use: theirs has all before its clock starts

from benchmarks.authors.point import EPOCHS_PRE, LR_PRE, Point, report
from trainables.backbones import Backbone
from trainables.data import build_benchmark, get_source
from trainables.process import settle
from trainables.sequence import IncrementalSequence


def main() -> None:
    """Run the configuration that the first argument has."""
    point = Point.given()
    settle(point.threads)
    hyperparameters = {
        "alpha": point.alpha,
        "alpha_cls": point.alpha_cls,
        "alpha_cls_prior": point.alpha_cls_prior,
        "lr": point.lr,
        "lr_pre": LR_PRE,
        "epochs_pre": EPOCHS_PRE,
        "formulation": "official",
    }
    benchmark = build_benchmark(get_source(point.benchmark), "search")
    sequence = IncrementalSequence(benchmark, "ita-lora", hyperparameters, backbone=Backbone(), seed=point.seed)

    def next_task() -> list[float]:
        sequence.run_next_task()
        return sequence.accuracies[-1]

    report(next_task for _ in benchmark.tasks)


if __name__ == "__main__":
    main()
