"""What the page shows beside the campaign's cells: ablations of what is regularised, and compositions."""

from __future__ import annotations

from collections.abc import Iterator

import tausearch
from tausearch.campaigns import CampaignStatus, CellStatus
from tausearch.models import read_evaluation
from tausearch.runs import Storage

REGULARISED = ("head", "none")  # in place of all
ABLATED = ("ita-fft", "ita-lora", "ita-ia3", "iel-fft", "iel-lora", "iel-ia3")
EVALUATED = ("ita-lora", "iel-lora", "tmc")


def train_ablations(storage: Storage, status: CampaignStatus) -> None:
    """Train the chosen configurations of ITA and IEL with less regularised; what has been trained is not again."""
    for cell, variant, name in _ablations(status):
        assert cell.runs.search is not None, "configurations are ablated that a search has chosen"
        best = tausearch.load_best(storage.run(cell.runs.search).best_file)
        tausearch.train(best, set={"regularise": variant}, name=name, resume_if_exists=True, storage=storage.root)


def evaluate_all(storage: Storage, status: CampaignStatus) -> None:
    """Run the paper's protocol of specialisation and unlearning on all runs that the page shows it for."""
    names = [each.runs.final for each in status.cells if each.runs.method in EVALUATED]
    names += [name for cell, variant, name in _ablations(status) if cell.runs.method in EVALUATED and variant == "none"]
    for name in names:
        if read_evaluation(storage.run(name)) is None:
            tausearch.evaluate([name], storage=storage.root)


def _ablations(status: CampaignStatus) -> Iterator[tuple[CellStatus, str, str]]:
    for cell in status.cells:
        for variant in REGULARISED if cell.runs.method in ABLATED and cell.state == "done" else ():
            yield cell, variant, f"{cell.runs.final}-{variant}"
