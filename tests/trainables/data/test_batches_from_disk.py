"""Batches of images on disk: the same by many threads and from any form, and none leads to an evaluation image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.layouts import put
from tests.support.reachable import reachable
from tests.support.stored_images import images_of
from tests.trainables.data.own_data import dataset, images, silent
from trainables.backbones import Backbone
from trainables.data import build_benchmark, get_source
from trainables.metrics import repeatable
from trainables.sequence import IncrementalSequence


def test_images_of_several_sizes_are_read_alike_by_one_and_by_many_threads(
    tmp_path: Path, generator: torch.Generator
) -> None:
    put(tmp_path, images())
    task = build_benchmark(get_source(f"folder:{tmp_path}?tasks=2"), "search", reads=Backbone().input).tasks[0]
    before, batches = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            draws = torch.Generator().manual_seed(5)
            batches.append([batch.x for batch in task.train.batches(2, draws, shuffle=True)])
    finally:
        torch.set_num_threads(before)
    assert len(batches[0]) == 3 and all(torch.equal(*pair) for pair in zip(*batches, strict=True))


@pytest.mark.parametrize("form", [None, "array", "parquet"])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_of_a_batch_from_disk_lead_to_its_images_again(
    form: Any, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, images())
    if form is not None:
        dataset(tmp_path).prepare(form, silent)
    task = build_benchmark(get_source(f"folder:{tmp_path}?tasks=2"), "search", reads=Backbone().input).tasks[1]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    draws, again = (torch.Generator().manual_seed(5) for _ in range(2))
    torch.randperm(len(task.train), generator=again)  # a pass draws its order before anything else
    sizes = set()
    for x, y, chosen in task.train.batches(4, draws, shuffle=True):
        pixels = task.train.pixels(chosen)
        sizes |= {image.shape for image in pixels}
        assert all(image.dtype == torch.uint8 for image in pixels) and len(pixels) == len(chosen)
        assert torch.equal(task.train.prepare(pixels, again), x) and torch.equal(task.train.labels[chosen], y)
        for row, image in zip(chosen, pixels, strict=True):
            alone = task.train.pixels(row[None])  # one image has one size
            assert isinstance(alone, torch.Tensor) and torch.equal(alone[0], image)
    assert len(sizes) == 2  # so that some batches are lists of images


@pytest.mark.parametrize("form", [None, "array", "parquet"])
@pytest.mark.parametrize("purpose", ["search", "final"])
def test_nothing_reachable_from_tasks_leads_to_an_evaluation_image(form: Any, purpose: Any, tmp_path: Path) -> None:
    put(tmp_path, images())
    if form is not None:
        dataset(tmp_path).prepare(form, silent)
    source = get_source(f"folder:{tmp_path}?tasks=2")
    benchmark = build_benchmark(source, purpose, reads=Backbone().input)
    evaluation = set(images_of(reachable(benchmark.evaluation)))
    assert len(evaluation) == sum(map(len, benchmark.evaluation))
    found = images_of(reachable(benchmark.tasks))
    assert len(found) == sum(len(task.train) for task in benchmark.tasks) and not set(found) & evaluation


def test_raw_and_prepared_data_give_the_same_numbers(tmp_path: Path) -> None:
    put(tmp_path, images())
    results = []
    for form in (None, "array", "parquet"):
        if form is not None:
            dataset(tmp_path).prepare(form, silent)  # type: ignore[arg-type]
        source = get_source(f"folder:{tmp_path}?tasks=2&epochs=2")
        benchmark = build_benchmark(source, "final", reads=Backbone().input)
        sequence = IncrementalSequence(benchmark, "finetune", {"lr": 0.001}, backbone=Backbone())
        rows = [sequence.run_next_task() for _ in range(2)]
        results.append([repeatable(row) for row in rows])
    assert results[0] == results[1] == results[2]
