"""The way from the command to the config of a trial.

The code takes it, and docs/explanation/architecture.md describes it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from operator import attrgetter

import pytest

from tests.support.imports import ROOT

MOST = 20
WAY = [  # step, its module, and the step that calls it; Tune calls `suggest` of the searcher that it is given
    ("search", "cli.launch", None),
    ("SearchRequest", "api.requests", "search"),
    ("search_with", "api.searches", "search"),
    ("plan_search", "api.plans.searches", "search_with"),
    ("Plan.open_locked", "runs.creation", "search_with"),
    ("SearchRun", "api.searches", "search_with"),
    ("run_search", "api.searches", "search_with"),
    ("drive", "execution.driver", "run_search"),
    ("Driver.run", "execution.driver", "drive"),
    ("Driver._run_on_ray", "execution.driver", "Driver.run"),
    ("run_on_tune", "execution.tune_adapters", "Driver._run_on_ray"),
    ("TuneSearcher.suggest", "execution.tune_adapters", "run_on_tune"),
    ("Dispatcher.next", "execution.dispatcher", "TuneSearcher.suggest"),
    ("Run.next_trial", "execution.run", "Dispatcher.next"),
    ("OptunaSearcher.next", "studies.searchers", "Run.next_trial"),
    ("SearchStudy.ask", "studies.study", "OptunaSearcher.next"),
    ("Run.config", "execution.run", "TuneSearcher.suggest"),
    ("RunSpec.trial_config", "runs.specs.run", "Run.config"),
    ("TrialTrainable", "trainables.trial", None),  # Tune gets the class, and makes it in a worker from the config
]
MODULES = {step: module for step, module, _ in WAY}


def calls(step: str) -> set[str]:
    """The last names of what the code of a step calls, or gives to what it calls: `request_of(SearchRequest, ...)`."""
    code = attrgetter(step)(importlib.import_module(f"tausearch.{MODULES[step]}"))
    nodes = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(code))))
    called = [part for node in nodes if isinstance(node, ast.Call) for part in (node.func, *node.args[:1])]
    return {ast.unparse(part).rpartition(".")[2] for part in called}


@pytest.mark.parametrize(("step", "caller"), [(step, caller) for step, _, caller in WAY if caller is not None])
def test_each_step_is_called_by_an_earlier_one(step: str, caller: str) -> None:
    steps = list(MODULES)
    assert steps.index(caller) < steps.index(step)
    assert calls(caller) & set(step.split("."))


def test_the_page_has_every_step_and_the_way_is_short() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## From the command to the first step of a trial")[2].partition("\n\nIn Python")[0]
    rows = re.findall(r"^\| (\d+)(?:-(\d+))? \| (.*)$", table, re.MULTILINE)
    numbered = [(number, row) for first, last, row in rows for number in range(int(first), int(last or first) + 1)]
    assert [number for number, _ in numbered] == list(range(1, len(WAY) + 1))
    for (number, row), (step, module) in zip(numbered, MODULES.items(), strict=True):
        assert f"`{module}`" in row and f"`{step.replace('Driver._', '_')}`" in row, f"step {number}: {step}"
    assert len(WAY) <= MOST
