"""The file that keeps what was measured on a table. A change of either is measured again."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow.parquet as pq
from pydantic import BaseModel

from benchmarks.choosing.measuring import PRICES, RESAMPLES, SEARCHED, SEARCHES, Outcome, outcomes
from benchmarks.choosing.strategies import CANDIDATES, ROUNDS
from tausearch.studies import ConfigurationTable, read_table

MEASURED = Path(__file__).parent / "measured"


class Kept(BaseModel):
    """The file."""

    of: str  # SHA-256 of the table's rows and of what is measured on them
    outcomes: list[Outcome]  # every way to choose, at every price


def measured(path: Path, folder: Path = MEASURED) -> tuple[ConfigurationTable, list[Outcome]]:
    """Return a table and what every way to choose is worth on it, measured only if the folder does not keep it."""
    file, table, key = folder / f"{path.stem}.json", read_table(path), _key(path)
    if file.exists() and (kept := Kept.model_validate_json(file.read_text())).of == key:
        return table, kept.outcomes
    print(f"measuring on {path.stem}: forty minutes of a core", flush=True)
    kept = Kept(of=key, outcomes=outcomes(table))
    file.write_text(kept.model_dump_json(indent=1) + "\n")
    return table, kept.outcomes


def _key(path: Path) -> str:
    rows = pq.read_table(path).to_pylist()
    content = repr((rows, PRICES, RESAMPLES, SEARCHES, SEARCHED, CANDIDATES, ROUNDS))
    return hashlib.sha256(content.encode()).hexdigest()
