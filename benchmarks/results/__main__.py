"""Train what a campaign's table needs beside its cells, and write the tables of its pages between their markers."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.results.compositions import composition_tables
from benchmarks.results.extras import evaluate_all, train_ablations
from benchmarks.results.page import write
from benchmarks.results.tables import provenance, tables
from tausearch.campaigns import CampaignStatus, read_campaign_status
from tausearch.runs import Storage, open_storage

DOCS = Path(__file__).parents[2] / "docs" / "explanation"
PAGES = ("results.md", "results-regularised.md", "results-unlearning.md")


def main() -> None:
    """Read the command line, run what is missing, and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storage", required=True, help="folder that holds the campaign and its runs")
    parser.add_argument("--campaign", default="embedded", help="name of the campaign")
    parser.add_argument("--pages", type=Path, default=DOCS, help="folder of the pages to write to")
    arguments = parser.parse_args()
    storage = open_storage(arguments.storage, write=True)
    status = _finished(storage, arguments.campaign)
    train_ablations(storage, status)
    evaluate_all(storage, status)
    found = {"provenance": provenance(status), **tables(storage, status), **composition_tables(storage, status)}
    write(found, *(arguments.pages / name for name in PAGES))


def _finished(storage: Storage, name: str) -> CampaignStatus:
    status = read_campaign_status(storage, storage.campaign(name))
    if not status.finished:
        raise SystemExit(f"campaign {name} is not finished; go on with it first: tausearch campaign run FILE")
    return status


if __name__ == "__main__":
    main()
