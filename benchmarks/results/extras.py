"""What the page shows beside the campaign's cells: ablations of what is regularised, and compositions."""

from __future__ import annotations

from collections.abc import Iterator

import tausearch
from tausearch.campaigns import CampaignStanding, CellStanding
from tausearch.models import read_evaluation
from tausearch.runs import Storage

REGULARISED = ("head", "none")  # in place of all
ABLATED = ("ita-fft", "ita-lora", "ita-ia3", "iel-fft", "iel-lora", "iel-ia3")
EVALUATED = ("ita-lora", "iel-lora", "tmc")


def train_ablations(storage: Storage, standing: CampaignStanding) -> None:
    """Train the chosen configurations of ITA and IEL with less regularised; what has been trained is not again."""
    for cell, variant, name in _ablations(standing):
        assert cell.cell.search is not None, "configurations are ablated that a search has chosen"
        best = tausearch.load_best(storage.run(cell.cell.search).best_file)
        tausearch.train(best, set={"regularise": variant}, name=name, resume_if_exists=True, storage=storage.root)


def evaluate_all(storage: Storage, standing: CampaignStanding) -> None:
    """Run the paper's protocol of specialisation and unlearning on all runs that the page shows it for."""
    names = [each.cell.final for each in standing.cells if each.cell.method in EVALUATED]
    names += [
        name for cell, variant, name in _ablations(standing) if cell.cell.method in EVALUATED and variant == "none"
    ]
    for name in names:
        if read_evaluation(storage.run(name)) is None:
            tausearch.evaluate([name], storage=storage.root)


def _ablations(standing: CampaignStanding) -> Iterator[tuple[CellStanding, str, str]]:
    for cell in standing.cells:
        for variant in REGULARISED if cell.cell.method in ABLATED and cell.state == "done" else ():
            yield cell, variant, f"{cell.cell.final}-{variant}"
