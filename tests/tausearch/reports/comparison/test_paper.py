"""The paper's results as data: whole, in agreement with themselves, and equal to what is printed where it was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from search_spaces import METHODS_WITH_SPACE, paper_benchmarks
from tausearch.reports import paper_results
from tausearch.reports.comparison.paper import FILE, PaperCell, PaperResults

MISPRINT = ("mit67", "iel-lora", "control")  # 32.57 + 52.02 is not 84.49


def test_it_has_every_method_and_benchmark() -> None:
    results = paper_results()
    assert set(results.methods) <= set(METHODS_WITH_SPACE) and len(results.methods) == 17
    assert set(results.benchmarks) == set(paper_benchmarks())
    assert [(b.tasks, b.epochs) for b in results.benchmarks.values()] == [
        *((10, 30), (10, 20), (10, 50), (10, 5), (10, 5), (9, 30), (7, 5))
    ]
    assert (results.backbone, results.batch_size, results.runs) == ("vit_base_patch16_224.augreg_in21k", 128, 3)
    for benchmark in results.benchmarks:
        for method in results.methods:
            cell = results.cell(benchmark, method)
            assert cell is not None and cell.std is not None and (cell.forgetting is None) == (method == "joint")
    for rows in (results.final_accuracy, results.standard_deviation, results.forgetting):
        assert set(rows) == set(results.methods) and {len(row) for row in rows.values()} == {len(results.benchmarks)}
    assert set(results.ablations) == {m for m in results.methods if m.startswith(("ita-", "iel-"))}
    for rows in results.ablations.values():
        assert set(rows) == {"head", "none"} and {len(row) for row in rows.values()} == {len(results.benchmarks)}
        assert all(None not in row for row in rows.values())
    assert set(results.composition) == set(results.benchmarks)
    assert all(set(methods) == {"ita-lora", "iel-lora", "tmc"} for methods in results.composition.values())


@pytest.mark.parametrize(
    ("benchmark", "method", "variant", "expected"),
    [
        ("imagenet_r", "ita-lora", "all", PaperCell(77.79, 0.26, 8.00)),
        ("cropdisease", "derpp", "all", PaperCell(98.77, 1.29, 0.76)),
        ("resisc45", "apt", "all", PaperCell(49.99, 1.94, 27.74)),
        ("resisc45", "inflora", "all", PaperCell(79.92, 1.16, 10.77)),
        ("cub200", "joint", "all", PaperCell(87.12, 0.41, None)),
        ("mit67", "ita-fft", "none", PaperCell(12.01, None, None)),
        ("cifar100", "ita-ia3", "head", PaperCell(90.48, None, None)),
        ("caltech256", "iel-lora", "none", PaperCell(70.71, None, None)),
    ],
)
def test_cells(benchmark: str, method: str, variant: str, expected: PaperCell) -> None:
    assert paper_results().cell(benchmark, method, variant) == expected


def test_methods_that_the_paper_lacks_have_the_last_place() -> None:
    paper = paper_results()
    assert [paper.place(method) for method in ("joint", "tak")] == [0, len(paper.methods)]


def test_what_the_paper_does_not_have() -> None:
    results = paper_results()
    assert results.cell("digits", "ita-lora") is None
    assert results.cell("cifar100", "nope") is None
    assert results.cell("cifar100", "ewc", "head") is None


def test_unlearning_agrees_with_the_final_accuracy() -> None:
    results = paper_results()
    off = []
    for benchmark, methods in results.composition.items():
        for method, composition in methods.items():
            cell, unlearning = results.cell(benchmark, method), composition.unlearning
            assert cell is not None
            for part in ("target", "control"):
                whole = getattr(unlearning, part) - getattr(unlearning, f"{part}_gain")
                if abs(whole - cell.accuracy) > 0.011:
                    off.append((benchmark, method, part))
    assert off == [MISPRINT]


def drop(*path: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for key in path[:-1]:
            content = content[key]
        del content[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("forgetting"), "forgetting\n.*Field required"),
        (lambda c: c["final_accuracy"]["ewc"].__setitem__(0, 586.4), "less than or equal to 100"),
        (lambda c: c.update(more=1), "more\n.*not permitted"),
    ],
)
def test_a_damaged_file_is_refused(change: Callable[[dict[str, Any]], None], message: str) -> None:
    content = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    change(content)
    with pytest.raises(ValidationError, match=message):
        PaperResults.model_validate(content)
