"""Digests of everything in the embedded benchmarks: run as a module, it prints them as JSON."""

from __future__ import annotations

import hashlib
import json
from typing import get_args

from torch import Tensor

from trainables.config import Purpose
from trainables.data import BENCHMARKS, Benchmark, build_benchmark


def embedded_digests() -> dict[str, list[str]]:
    """Return digests of training and of evaluation images, for each benchmark and purpose."""
    return {
        f"{name} {purpose}": _digests(build_benchmark(BENCHMARKS[name], purpose))
        for name in BENCHMARKS
        for purpose in get_args(Purpose)
    }


def _digests(benchmark: Benchmark) -> list[str]:
    evaluation = hashlib.sha256()
    for images in benchmark.evaluation:
        assert isinstance(images.images, Tensor)
        evaluation.update(images.images.numpy().tobytes() + images.labels.numpy().tobytes())
    return [benchmark.fingerprint[:16], evaluation.hexdigest()[:16]]


if __name__ == "__main__":
    print(json.dumps(embedded_digests()))
