"""Commands that run trials: what they print, and what their runs leave behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.drivers.simulated_tune import Simulation
from tests.support.imports import ROOT
from tests.support.terminal import Terminal
from tests.tausearch.tracking.memory_store import Store

RANDOM = "--algorithm random --tracking none"
CAMPAIGN = """
campaign: table
benchmarks: [digits, glyphs]
methods: [ita-lora, finetune]
search: {trials: 3, algorithm: random, reevaluate: 2, reevaluate_runs: 1}
train: {seeds: [0, 1]}
cells:
  - {method: joint, search: null}
"""
SMALL = """
campaign: table
benchmarks: [digits]
methods: [ita-lora, finetune]
search: {{trials: {trials}, algorithm: random, reevaluate: 0}}
train: {{seeds: {seeds}}}
{more}
"""
CALLBACK = """
from pathlib import Path

class Printed:
    def on_event(self, event):
        words = [type(event).__name__, event.run.spec.name]
        for name in ("trial", "task", "status", "best", "path", "conclusion"):
            value = getattr(event, name, None)
            words += [] if value is None else [f"{name} {getattr(value, 'number', value)}"]
        with Path("told.txt").open("a") as file:
            print(*words, file=file)
"""


def test_trials_that_fail_and_fresh_runs_of_the_best(
    terminal: Terminal, simulation: Simulation, kept: SnapshotAssertion
) -> None:
    simulation.failing, simulation.diverging = {3}, {4}
    terminal(f"search digits ita-lora --trials 7 {RANDOM} --reevaluate 2 --name first")
    terminal.add_run("first")
    assert terminal.transcript == kept


def test_early_stopping_constraints_and_a_choice_beside_bounds(terminal: Terminal, kept: SnapshotAssertion) -> None:
    terminal(
        "search digits ita-lora --trials 9 --tracking none --scheduler asha --pruner-option reduction_factor=2"
        " --constraint 'forgetting <= 4' --set lr_pre=0.1 --reevaluate 0 --with-bounds --name bounded"
    )
    terminal.add_run("bounded")
    assert terminal.transcript == kept


def test_several_aims(terminal: Terminal, kept: SnapshotAssertion) -> None:
    aims = "--objective final_accuracy --objective forgetting"
    terminal(f"search digits iel-lora --trials 6 {RANDOM} {aims} --reevaluate 2 --name aims")
    terminal.add_run("aims")
    terminal(f"search digits iel-lora --trials 4 {RANDOM} {aims} --prefer forgetting --reevaluate 0 --name other")
    assert terminal.transcript == kept


def test_several_benchmarks_stopped_and_continued(
    terminal: Terminal, simulation: Simulation, kept: SnapshotAssertion
) -> None:
    simulation.ctrl_c_after = 17
    terminal(f"search digits,glyphs ita-lora --trials 5 {RANDOM} --reevaluate 2 --name both", code=130)
    terminal("status both")
    terminal("resume both")
    terminal.add_run("both")
    assert terminal.transcript == kept


def test_several_benchmarks_by_rank_with_a_pruner_and_a_part_that_fails(
    terminal: Terminal, simulation: Simulation, kept: SnapshotAssertion
) -> None:
    simulation.failing = {5}
    terminal(
        "search digits,glyphs ita-lora --trials 6 --tracking none --scheduler median --across rank --reevaluate 0"
        " --constraint 'forgetting <= 9' --name ranked"
    )
    terminal.add_run("ranked")
    terminal("extend ranked --trials 8 --reevaluate 1 --reevaluate-runs 1")
    few = "--trials 1 --tracking none --reevaluate 0 --across mean --constraint 'forgetting <= 5'"
    terminal(f"search digits,glyphs ita-lora {few} --name none-keeps-it", code=1)
    assert terminal.transcript == kept


def test_a_search_that_is_extended_and_ends_at_its_target(terminal: Terminal, kept: SnapshotAssertion) -> None:
    terminal(f"search digits ita-lora --trials 3 {RANDOM} --reevaluate 0 --name long --seed 3")
    terminal("status")
    terminal("extend long --trials 12 --target 85 --reevaluate 2 --reevaluate-runs 1")
    terminal.add_run("long")
    terminal("resume long --patience 2")
    terminal("status")
    assert terminal.transcript == kept


def test_a_grid_and_what_earlier_searches_know(terminal: Terminal, kept: SnapshotAssertion) -> None:
    (terminal.folder / "space.yaml").write_text(
        "space:\n  lr: {low: 0.001, high: 0.1, log: true, grid: [0.003, 0.03]}\n"
        "  alpha: {low: 0.1, high: 10, log: true, grid: [0.5, 5]}\nstart:\n  default: {alpha: 1, lr: 0.01}\n"
    )
    terminal("search digits ita-lora --algorithm grid --space space.yaml --reevaluate 0 --tracking none --name grid")
    terminal("search glyphs ita-lora --trials 4 --warm-start paper,grid --reevaluate 0 --tracking none --name warm")
    terminal.add_run("warm")
    assert terminal.transcript == kept


def test_final_runs(terminal: Terminal, simulation: Simulation, kept: SnapshotAssertion) -> None:
    terminal(f"search digits ita-lora --trials 4 {RANDOM} --reevaluate 0 --name tuned")
    simulation.failing = {2}
    terminal("train tuned --seeds 0,1,2 --name judged --tracking none", code=1)
    terminal.add_run("judged")
    simulation.failing = set()
    terminal("train tuned --seeds 0,1 --class-orders 0,1 --set lr=0.01 --name orders --tracking none")
    terminal.add_run("orders")
    terminal("train tuned --seeds 0,1 --benchmark glyphs --name elsewhere --tracking none")
    assert terminal.transcript == kept


def test_a_campaign_stopped_and_continued(
    terminal: Terminal, simulation: Simulation, kept: SnapshotAssertion, tmp_path: Path
) -> None:
    (tmp_path / "table.yaml").write_text(CAMPAIGN)
    (tmp_path / "orders.yaml").write_text(CAMPAIGN.replace("seeds: [0, 1]", "seeds: [0, 1], class_orders: [0, 1, 2]"))
    terminal("campaign plan orders.yaml")
    terminal("campaign plan table.yaml")
    simulation.ctrl_c_after = 40
    simulation.failing = {2}
    terminal("campaign run table.yaml --tracking none", code=130)
    terminal("campaign status table")
    terminal("campaign run table.yaml")
    terminal("campaign status table")
    terminal("campaign report table")
    terminal.add_files("table", terminal.storage.campaign("table").path)
    terminal("campaign run table.yaml --redo digits/finetune")
    assert terminal.transcript == kept


def test_a_campaign_whose_file_grows(terminal: Terminal, kept: SnapshotAssertion) -> None:
    file = terminal.folder / "table.yaml"
    file.write_text(SMALL.format(trials=2, seeds="[0]", more=""))
    terminal("campaign run table.yaml --tracking none --data-root data")
    terminal.add_text_of([terminal.storage.campaign("table").spec_file])
    other = "\n  - {method: ewc, search: {trials: null, set: {lr: 0.01}}}\n  - {method: joint, search: null}"
    file.write_text(SMALL.format(trials=4, seeds="[0, 1]", more=f"cells: {other}"))
    terminal("campaign plan table.yaml")
    terminal("campaign run table.yaml")
    joint = terminal.storage.run("table-digits-joint-final")
    terminal.add_text_of([joint.results_file, *sorted(joint.figures.glob("*.png"))])
    terminal.add_text_of(sorted(terminal.storage.campaign("table").path.glob("comparison.*")))
    file.write_text(SMALL.format(trials=4, seeds="[0, 1]", more="").replace("ita-lora, ", ""))
    terminal("campaign run table.yaml")
    terminal("campaign run table.yaml --redo digits/ewc", code=2)
    assert terminal.transcript == kept


def test_callbacks_and_trackers(
    terminal: Terminal, store: Store, simulation: Simulation, kept: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(terminal.folder)
    (terminal.folder / "own_callback.py").write_text(CALLBACK)
    simulation.failing, simulation.ctrl_c_after = {1}, 7
    search = "search digits ita-lora --trials 3 --algorithm random --reevaluate 2 --reevaluate-runs 1 --name told"
    terminal(f"{search} --callback own_callback:Printed --tracking mlflow", code=130)
    terminal.add(store.in_words())
    terminal("resume told --callback own_callback:Printed --tracking mlflow,tensorboard")
    simulation.failing = set()
    terminal("train told --seeds 0,1 --name judged --tracking mlflow")
    terminal.add((terminal.folder / "told.txt").read_text())
    terminal.add(store.in_words())
    assert terminal.transcript == kept


def test_code_and_tasks_of_ones_own_and_no_trial_that_finishes(
    terminal: Terminal, store: Store, simulation: Simulation, kept: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    simulation.failing, simulation.ctrl_c_after = {0, 1}, 3
    tasks = "--task 0,1 --task few=2,6 --task 7,8"
    terminal(f"search digits own_method:Linear {tasks} --trials 2 --name own", code=130)
    terminal("resume own --allow-code own_method:Linear", code=1)
    terminal.add_run("own")
    terminal.add(store.in_words())
    assert terminal.transcript == kept


def test_answers_for_programs(terminal: Terminal, kept: SnapshotAssertion) -> None:
    terminal(
        f"search digits ita-lora --trials 4 {RANDOM} --reevaluate 2 --reevaluate-runs 1 --name first --format json"
    )
    terminal("train first --seeds 0,1 --name judged --format json --tracking none")
    assert terminal.transcript == kept
