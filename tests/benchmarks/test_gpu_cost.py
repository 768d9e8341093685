"""What a search costs on a GPU: how the benchmark scales what it measured, a small run on the CPU, and its tables."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu import NO_GPU, cost, named, page, precisions as precision_benchmark
from benchmarks.gpu.cost import Case, Place, processes, rows
from benchmarks.gpu.drawn import Counts, Cut, Shape, draw
from benchmarks.gpu.page import OTHERWISE, PAGES, write_pages
from benchmarks.gpu.scaling import Measured, TaskCost, gpu_hours, whole
from benchmarks.performance import kept
from trainables.backbones import Backbone
from trainables.data.published import PUBLISHED
from trainables.methods import METHODS

CUT = Cut(images=40, first=20, classes=5, evaluated=10, epochs=2, fisher=8)
MEASURED = Measured(
    images=512,
    first_images=256,
    epochs=3,
    evaluated=256,
    classes=10,
    fisher_images=64,
    begin=0.5,
    training=7.0,
    epoch=2.0,
    first_epoch=1.2,
    evaluation=1.0,
    statistics=3.0,
    first_statistics=2.0,
    alignment=3.0,
    fisher=2.0,
)


def test_each_part_of_a_task_scales_with_what_it_does() -> None:
    tasks = whole(MEASURED, Shape(tasks=3, epochs=10, images=1024, evaluated=64, classes=20))
    # An epoch of twice the images: 2.0 + 2 * 0.8. Once per task 7.0 - 3 * 2.0.
    assert [task.training for task in tasks] == pytest.approx([1.0 + 10 * 3.6] * 3)
    # 256 images took 1.0; there are 64, 128 and 192.
    assert [task.evaluation for task in tasks] == pytest.approx([0.25, 0.5, 0.75])
    # 3.0 + 2 * 1.0 for statistics, 2.0 * 16 for the Fisher; alignment of 10 classes for 15 epochs took 3.0.
    alignment = [0.02 * 20 * 10, 0.02 * 40 * 15, 0.02 * 60 * 20]
    assert [task.shared for task in tasks] == pytest.approx([5.0 + 32.0 + each for each in alignment])
    assert [task.own for task in tasks] == pytest.approx([37.75, 38.0, 38.25])


def test_a_training_that_is_faster_than_its_epochs_takes_nothing_once() -> None:
    (task,) = whole(replace(MEASURED, training=5.9), Shape(tasks=1, epochs=1, images=512, evaluated=1, classes=1))
    assert task.training == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("shared", "early", "seconds"),
    [
        (True, False, 24 * 7 * 10 + 7 * 100),
        (False, False, 24 * 7 * 110),
        (True, True, (24 * 3 + 12 * 3 + 6) * 10 + 7 * 100),
        (False, True, (24 * 3 + 12 * 3 + 6) * 110),
    ],
)
def test_hours_of_a_search(shared: bool, early: bool, seconds: float) -> None:
    tasks = [TaskCost(shared=100.0, begin=1.0, training=6.0, evaluation=3.0)] * 7
    assert gpu_hours(tasks, 24, 0.5, shared=shared, early_stopping=early) == pytest.approx(seconds / 7200)


def test_nothing_stops_after_the_last_task() -> None:
    tasks = [TaskCost(0.0, 0.0, 3600.0, 0.0)] * 3
    assert gpu_hours(tasks, 4, 1.0, shared=True, early_stopping=True) == 12


@pytest.mark.parametrize("dataset", PUBLISHED)
def test_a_cut_is_no_larger_than_it_says(dataset: str) -> None:
    cut = Cut()
    counts, shape = Counts.of(dataset, cut), Shape.of(dataset)
    first, second = (counts.classes * each for each in counts.train)
    assert 400 < second <= cut.images and second / 2 - counts.classes <= first <= cut.first
    assert counts.train[1] <= shape.images / shape.classes + 1 and counts.classes >= cut.classes
    assert counts.classes * counts.test <= cut.evaluated + counts.classes / 2


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(cost, "settle", lambda threads: None)
    draw(tmp_path, "cub200", CUT)
    return Place(tmp_path, tmp_path / "cache", Backbone(), torch.device("cpu"), CUT)


def test_a_small_run_on_the_cpu(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case(dataset, method) for dataset in ("cub200", "cifar100") for method in (None, *cost.METHODS)]
    found = rows(cases, lambda case: [place.measure(case)] * 2, CUT)
    assert [(row["dataset"], row["method"]) for row in found] == [(c.dataset, c.method) for c in cases if c.method]
    for row in found:
        assert "fault" not in row and row["hit"] == 1 and row["trials on one GPU"] == 2
        assert 0 < row["waiting"] < row["training"] and row["trial: training"] > row["training"]
        parts = [row[name] for name in ("statistics", "alignment", "fisher", "trial: pre-consolidation")]
        assert all(part > 0 for part in parts) == (row["method"] != "finetune") == any(parts)
        assert row["GPU hours, early stopping"] < row["GPU hours"] <= row["GPU hours, not shared"]
    folder = place.root / "measured"
    kept.measure(named.COST, lambda: found, folder, commit="abc1234")
    lines = page.cost(folder)["cost"].splitlines()
    assert len(lines) == 2 + len(found) + 2 and lines[2].startswith("| `cifar100` | `ita-lora` |")
    assert "commit abc1234: one " in lines[-1]


def test_what_failed_or_came_too_late_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = rows([Case("cub200", None), Case("cub200", "ita-lora")], lambda case: [{"fault": "out of memory"}], CUT)
    assert row["fault"] == "out of memory"
    without = replace(place, cache=place.root / "empty")
    nothing = dict.fromkeys(("first_statistics", "statistics", "alignment", "fisher", "peak"), 0.0)
    row = cost.row_of(Case("cub200", "ita-lora"), [without.measure(Case("cub200", "ita-lora"))], nothing, CUT)
    assert row["fault"] == "the cache did not have the pre-consolidation"
    monkeypatch.setattr(cost, "BUDGET", -1.0)
    (row,) = rows([Case("cub200", None), Case("cub200", "finetune")], lambda case: [{}], CUT)
    assert row["fault"].startswith("left out")


@pytest.mark.slow
def test_processes_measure_at_the_same_time_and_may_end(tmp_path: Path) -> None:
    with processes(2, 0, tmp_path, Backbone(), CUT) as measure:
        found = rows([Case("cifar100", None), Case("cifar100", "finetune")], measure, CUT)
        assert "fault" not in found[0]
        measure(None)  # ends them
        assert measure(Case("cifar100", "finetune")) == [{"fault": "a process ended"}]


def test_every_case_follows_its_pre_consolidation() -> None:
    known = set()
    for case in cost.CASES:
        if case.method is None:
            known.add((case.dataset, case.threads))
        assert (case.dataset, case.threads) in known
    assert {case.dataset for case in cost.CASES} == set(PUBLISHED)


@pytest.mark.parametrize("name", ["gpu", "gpu-speed", "gpu-steps", "precision"])
def test_the_pages_are_what_the_kept_files_say(name: str, tmp_path: Path) -> None:
    for each in PAGES.glob("*.md"):
        (tmp_path / each.name).write_text(each.read_text(encoding="utf-8"), encoding="utf-8")
    write_pages(tmp_path)
    assert (tmp_path / f"{name}.md").read_text(encoding="utf-8") == (PAGES / f"{name}.md").read_text(encoding="utf-8")


def test_differences_of_precisions_are_taken_seed_by_seed() -> None:
    rows = [
        {**vars(case), "accuracy": 50 + 10 * case.seed + (0 if case.precision == "fp32" else case.seed)}
        for case in precision_benchmark.cases()
    ]
    first = next(precision_benchmark.table(rows))
    assert first[1:4] == ("60.0", "+1.0 ± 0.6", "+1.0 ± 0.6")  # seeds 0, 1, 2 differ by 0, 1, 2
    sums = list(precision_benchmark.summary(rows))
    assert [line[0] for line in sums] == [
        f"{p}, `{b}`" for p in ("tf32", "bf16") for b in precision_benchmark.BENCHMARKS
    ]
    assert sums[0][1:] == (str(3 * len(METHODS)), "+1.00 ± 0.11", "+0.0", "+2.0")


def test_the_tables_of_a_kept_file(tmp_path: Path) -> None:
    hours = {"GPU hours": 1.0, "GPU hours, early stopping": 0.5, "GPU hours, not shared": 2.0}
    row: dict[str, Any] = {
        **{"dataset": "cub200", "method": "ita-lora", "precision": "bf16", "threads": 1, "peak": 19.44},
        **{"waiting": 1.0, "training": 4.0},
        **{"trial: pre-consolidation": 90.0, "trial: beginning": 6.0, "trial: training": 54.0, "trial: evaluation": 0},
        **{**hours, "GPU hours, early stopping, not shared": 1.25},
    }
    none = {**row, "method": "finetune", "trial: pre-consolidation": 0.0}
    fault = {"dataset": "imagenet_r", "method": "ita-fft", "precision": "bf16", "threads": 1, "fault": "left out"}
    other = {**row, "threads": 8}
    machine = {"processor": "P", "cores": 16, "instructions": None, "gibibytes": 128, "torch": "2.11.0"}
    about = {"day": "2026-11-26", "commit": "abc1234", "machine": {**machine, "gpu": "H", "driver": "580"}}
    (tmp_path / f"{named.COST}.json").write_text(json.dumps({**about, "rows": [row, none, fault, other]}))
    found = page.cost(tmp_path)
    assert found["cost"].splitlines()[2:] == [
        "| `cub200` | `ita-lora` | 1.0 | 25 % | 1.5 | 1.00 | 0.50 | 2.00 | 1.25 | 19.4 |",
        "| `cub200` | `finetune` | 1.0 | 25 % | none | 1.00 | 0.50 |  |  | 19.4 |",
        "",
        "Figures of 2026-11-26, commit abc1234: one H with driver 580, 16 cores, PyTorch 2.11.0."
        " No figures of `ita-fft` on `imagenet_r` (left out).",
    ]
    assert [line.split(" | ")[3] for line in found[OTHERWISE].splitlines()[2:]] == ["1", "8"]


def test_without_a_gpu_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert all(named.measured(name, tmp_path) == NO_GPU for name in named.ON_GPUS)
    assert not list(tmp_path.iterdir())


def test_it_runs_where_ray_is_not_installed() -> None:
    program = "import sys, benchmarks.gpu.__main__; print([m for m in ('ray', 'mlflow', 'optuna', 'tausearch', 'rich')"
    found = subprocess.run([sys.executable, "-c", f"{program} if m in sys.modules])"], capture_output=True, text=True)
    assert found.stdout == "[]\n"
