"""What the search of docs/how-to/removability.md chooses on the pictures of docs/tutorials/own-images.md.

The search looks for task vectors whose tasks fall without them. Its choice is trained and tested on three seeds.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tausearch
from benchmarks.own_pictures.measuring import draw_shapes
from tausearch.runs import RunDirectory, read_status

BENCHMARKS = {"removability-10": 10, "removability-60": 60}  # name to the number of pictures of each shape
_SEEDS = (0, 1, 2)
_REST = "removability/rest <= 3"
_ASKED: Mapping[str, Any] = {
    "backbone": "glyph_vit",
    "trials": 16,
    "reevaluate": 3,
    "objective": ["final_accuracy", "removability/target"],
    "constraint": [_REST, "removability/target >= 30"],
}


def run(number: int) -> list[dict[str, Any]]:
    """Measure with a number of pictures of each shape; accuracies in percent, gains in percentage points."""
    with tempfile.TemporaryDirectory() as folder:
        return list(measure(number, Path(folder)))


def measure(number: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Search, train and test in a folder."""
    images, storage = folder / "shapes", folder / "runs"
    draw_shapes(images, seed=0, number=number)
    how: dict[str, Any] = {"storage": storage, "progress_to": "stderr", "max_concurrent_trials": 1}
    best = tausearch.search(f"folder:{images}?tasks=2", "ita-lora", **_ASKED, **how).best
    assert best is not None and best.selection is not None and best.selection.reevaluation is not None
    chosen, again = best.selection, best.selection.reevaluation
    name = tausearch.train(best, seeds=_SEEDS, **how).name
    finals = [trial.final for trial in read_status(RunDirectory(storage / name)).trials]
    about = {"pictures of a shape": number, "lr": best.hyperparameters["lr"]}
    yield about | row("validation, in the search", [_on_validation(chosen.objectives, chosen.measured)])
    yield about | row("validation, fresh runs", [_on_validation(again.objectives, again.measured)])
    yield about | row("test, three seeds", [_on_test(final) for final in finals])


def row(images: str, found: Sequence[tuple[float, float, float]]) -> dict[str, Any]:
    """Return means and, of several runs, sample deviations.

    Args:
        images: What was measured on.
        found: Of each run the accuracy, the fall of the task without its vector, and the fall of the others.
    """
    columns = {
        "all": [whole for whole, _, _ in found],
        "without": [whole - target for whole, target, _ in found],
        "gain": [-rest for _, _, rest in found],
    }
    means = {name: statistics.fmean(values) for name, values in columns.items()}
    stds = {f"{n} std": statistics.stdev(values) for n, values in columns.items() if len(values) > 1}
    return {"measured on": images, **means, **stds}


def _on_validation(objectives: Mapping[str, float], measured: Mapping[str, float]) -> tuple[float, float, float]:
    return objectives["val/final_accuracy"], objectives["val/removability/target"], measured[f"val/{_REST}"]


def _on_test(final: Mapping[str, float]) -> tuple[float, float, float]:
    return final["test/final_accuracy"], final["test/removability/target"], final["test/removability/rest"]
