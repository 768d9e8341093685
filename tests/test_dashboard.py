"""The sample dashboard reads the gauges that the driver sets, with their labels."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tausearch.execution import gauges
from tausearch.runs import STATUSES

DASHBOARD = json.loads((Path(__file__).parents[1] / "examples" / "grafana.json").read_text())


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_it_asks_for_gauges_that_there_are() -> None:
    source = Path(gauges.__file__).read_text()
    made = {f"ray_tausearch_{name}" for name in re.findall(r'_gauge\(\s*"(\w+)"', source)}
    asked = {name for each in expressions() for name in re.findall(r"ray_\w+", each)}
    assert asked == made


def test_its_labels_and_states_are_those_of_the_gauges() -> None:
    labels = {name for each in expressions() for name in re.findall(r"(\w+)=~?\"", each)}
    assert labels == {"run", "benchmark", "method", "state", "source"}
    states = {name for each in expressions() for name in re.findall(r'state="(\w+)"', each)}
    assert states and states <= set(STATUSES)
    assert {each["name"] for each in DASHBOARD["templating"]["list"]} == {"datasource", "run", "benchmark", "method"}
