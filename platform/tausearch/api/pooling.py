"""Task vectors of runs, with the images and the backbone that they are composed and tested on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tausearch.api.opening import open_benchmark
from tausearch.api.requests import EditRequest
from tausearch.composing import Pools, VectorSource, find_source, make_pools, require_alike
from tausearch.runs import Storage
from trainables.backbones import Backbone
from trainables.data import build_benchmark


def open_pools(storage: Storage, runs: Sequence[str], request: EditRequest) -> Pools:
    """Find the task vectors of some runs, their benchmark and their backbone, and check that they fit together.

    Args:
        storage: The storage root.
        runs: As a user names them; see `tausearch.composing.find_source`.
        request: Says which seeds, and where datasets and backbone lie.

    Returns:
        The task vectors of every seed, with the benchmark's test images.

    Raises:
        InputError: If something does not fit.
    """
    sources = [find_source(storage, text) for text in runs]
    require_alike(sources)
    first = sources[0]
    own = None if first.spec is None else first.spec.data_root
    opened = open_benchmark(first.benchmark, request.data_root or own)
    backbone = Backbone(first.protocol.backbone, _weights(first, request))
    benchmark = build_benchmark(opened.source, "final", first.protocol.split_seed, backbone.input)
    return make_pools(sources, benchmark, backbone, request.seeds)


def _weights(source: VectorSource, request: EditRequest) -> Path | None:
    """Return the weights file of theta_0; None where the backbone needs none."""
    path = request.backbone_weights or source.protocol.weights
    return None if path is None else Path(path).absolute()
