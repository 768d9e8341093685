"""Runs that commands read: searches that ended in each way, final runs, and a campaign; made once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.drivers.simulated_tune import Simulation
from tests.support.runs.built_runs import BuiltRuns, built_once
from tests.support.runs.final_runs import make_final_run
from tests.support.terminal import Terminal
from tests.tausearch.reports.html.runs import add_compositions

CAMPAIGN = """
campaign: table
benchmarks: [digits, glyphs]
methods: [ita-lora, finetune]
search: {trials: 3, algorithm: random, reevaluate: 0}
train: {seeds: [0, 1]}
"""


def gallery() -> Path:
    """Return a storage root with all runs, which no test may change."""
    assert BuiltRuns.folder is not None, "the session gives it"
    return built_once(BuiltRuns.folder / "gallery", _make) / "runs"


def _make(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _run_all(Terminal(folder, patch), Simulation().installed(patch, folder / "tune"))


def _run_all(terminal: Terminal, simulation: Simulation) -> None:
    none, two = "--tracking none --algorithm random", "--objective final_accuracy --objective forgetting"
    simulation.failing, simulation.diverging = {3}, {4}
    terminal(f"search digits ita-lora --trials 8 {none} --reevaluate 2 --with-bounds --name tuned")
    simulation.failing, simulation.diverging = set(), set()
    terminal("search digits iel-lora --trials 9 --tracking none --scheduler asha --reevaluate 0 --name stopped-early")
    terminal(f"search digits ita-lora --trials 6 {none} {two} --reevaluate 0 --seed 1 --name aims")
    terminal(f"search digits,glyphs ita-lora --trials 5 {none} --reevaluate 2 --reevaluate-runs 1 --name both")
    simulation.ctrl_c_after = 8
    terminal(f"search glyphs ita-lora --trials 5 {none} --reevaluate 0 --name interrupted", code=130)
    terminal("train tuned --seeds 0,1,2 --name judged --tracking none")
    terminal("train tuned --seeds 0,1 --set alpha=5 --set lr=0.001 --name other --tracking none")
    terminal("train tuned --seeds 0,1 --class-orders 0,1 --name orders --tracking none")
    terminal("train tuned --seeds 0,1 --benchmark glyphs --name elsewhere --tracking none")
    terminal("train stopped-early --seeds 0,1 --name iel --tracking none")
    terminal("train stopped-early --seeds 0,1 --benchmark glyphs --name iel-elsewhere --tracking none")
    terminal("train stopped-early --seeds 0 --class-orders 3,4 --name iel-orders --tracking none")
    for directory in map(terminal.storage.run, ("judged", "other")):
        add_compositions(directory)
    make_final_run(terminal.storage, "published", [80.0, 82.5, None], overrides={"alpha": 5.0})
    make_final_run(terminal.storage, "published-iel", [84.0, 86.0, 88.0], method="iel-lora", pooled=[84.0, 86.0, 88.0])
    make_final_run(terminal.storage, "less-regularised", [70.0, 72.0], overrides={"regularise": "none"})
    make_final_run(terminal.storage, "shorter", [60.0], benchmark="eurosat", protocol={"tasks": 5, "precision": "bf16"})
    (terminal.folder / "table.yaml").write_text(CAMPAIGN)
    terminal("campaign run table.yaml --tracking none")
