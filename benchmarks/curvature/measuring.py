"""What the page says of each cell of the study, as one small JSON file per cell under `measured/`.

A cell that has its file is not measured again, so that the page can be written without the task vectors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import tausearch
from benchmarks.curvature.running import BENCHMARKS, MEASURED, Variant, campaign_name, measured_file, variants
from benchmarks.curvature.views import views
from benchmarks.performance.kept import rounded
from tausearch import models
from tausearch.api.composition import open_pools
from tausearch.api.requests import EvaluateRequest
from tausearch.campaigns import CellStatus, read_campaign_status
from tausearch.models import EvaluationResult
from tausearch.runs import Storage, open_storage

READING = models.PAPER_UNLEARNING_MODE


def measure_all(storage: Path, benchmarks: Sequence[str] = BENCHMARKS, folder: Path = MEASURED) -> None:
    """Write the file of every cell that is done and has none."""
    folder.mkdir(exist_ok=True)
    opened = open_storage(storage, write=True)
    for benchmark in benchmarks:
        for variant in variants(storage / "generic.safetensors"):
            for cell in _done(opened, variant, benchmark):
                file = measured_file(benchmark, variant.name, cell.runs.method, folder)
                if not file.exists():
                    found = {"benchmark": benchmark, "curvature": variant.name, "method": cell.runs.method}
                    found |= _measured(opened, cell)
                    file.write_text(json.dumps(rounded(found)) + "\n", encoding="utf-8")
                    print(f"measured: {file.stem}")


def read_all(folder: Path = MEASURED) -> list[dict[str, Any]]:
    """Return what was measured of every cell."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]


def _done(storage: Storage, variant: Variant, benchmark: str) -> Iterator[CellStatus]:
    campaign = storage.campaign(campaign_name(variant, benchmark))
    if campaign.exists():
        yield from (cell for cell in read_campaign_status(storage, campaign).cells if cell.state == "done")


def _measured(storage: Storage, cell: CellStatus) -> dict[str, Any]:
    run = cell.runs.final
    found = _evaluated(storage, run)
    specialised, unlearned = found.specialisation(), found.unlearning(READING)
    pools = open_pools([models.find_source(storage, run)], EvaluateRequest([run]))
    risks = models.risk_rows(pools, lambda count: None)
    terms = ("composed", "individuals", "pretrained")
    return {
        "searched": _searched(storage, cell),
        "test": {name: [score.mean, score.std] for name, score in (cell.scores or {}).items()},
        "specialisation": {name: [score.mean, score.std] for name, score in specialised.items()},
        "unlearning": {name: [score.mean, score.std] for name, score in unlearned.items()},
        "risk": {term: fmean(row[term] for row in risks) for term in terms},
        "cosine": fmean(row["cosine"] for row in models.cosine_rows(pools) if row["task"] < row["other"]),
        "views": views(pools),
    }


def _evaluated(storage: Storage, run: str) -> EvaluationResult:
    if models.read_evaluation(storage.run(run)) is None:
        tausearch.evaluate([run], storage=storage.root)
    found = models.read_evaluation(storage.run(run))
    assert found is not None, f"{run}: was evaluated just now"
    return found


def _searched(storage: Storage, cell: CellStatus) -> dict[str, Any]:
    assert cell.runs.search is not None and cell.search is not None, "every cell of the study is searched"
    best = tausearch.load_best(storage.run(cell.runs.search).best_file)
    values = [trial.value for trial in cell.search.trials]
    lost = sum(trial.status != "complete" for trial in cell.search.trials)
    assert best.selection is not None, "so a search writes it"
    return {
        "start": values[0],
        "best": max(value for value in values if value is not None),
        "not complete": lost,
        "trial": best.selection.trial,
        "values": {name: value for name, value in best.hyperparameters.items() if name != "factors"},  # a path
    }
