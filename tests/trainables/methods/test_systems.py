"""What every method declares about itself: the platform knows a method by this alone."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from trainables.backbones import Backbone
from trainables.methods import METHODS, Capabilities, Scenario

VECTORS = Capabilities(composable=True, initial_head=True)
CURVED = Capabilities(composable=True, initial_head=True, curvature=True)
STARTED = Capabilities(initial_head=True)
COMPOSABLE = {"regularise": "all", "formulation": "paper", "heads": "concatenated", "curvature": "diagonal"}
LOCAL = {"cross_entropy": "local"}
EULER = ("train/euler_factor",)
PROBED = ("lr_pre", "epochs_pre")

# Capabilities, neutral values, metrics, and hyperparameters with other values for the user's own images.
DECLARED: dict[str, tuple[Capabilities, dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(("ita-fft", "ita-lora", "ita-ia3"), (CURVED, COMPOSABLE, EULER, PROBED)),
    **dict.fromkeys(("iel-fft", "iel-lora", "iel-ia3"), (CURVED, COMPOSABLE, EULER, PROBED)),
    "probe": (STARTED, {}, (), PROBED),
    "finetune": (STARTED, LOCAL, (), ()),
    "joint": (Capabilities(joint=True, initial_head=True), LOCAL, (), ()),
    "ewc": (Capabilities(tasks_to_peak=2, initial_head=True), LOCAL, EULER, ()),
    "lwf-mc": (Capabilities(tasks_to_peak=2, initial_head=True), {}, (), ()),
    "derpp": (STARTED, LOCAL, (), ()),
    **dict.fromkeys(("l2p", "coda", "apt", "inflora"), (Capabilities(), {}, (), ())),
    "seed": (Capabilities(tasks_to_peak=6), {}, (), ()),  # five experts, then a copy of the trained one
    "tmc": (Capabilities(composable=True, whole_classifier=True), {}, (), ()),
    "tak": (VECTORS, {"regularise": "all", "references": "past", "head": "frozen"}, (), PROBED),
}


@pytest.mark.parametrize("name", METHODS)
def test_declarations(name: str) -> None:
    entry, scenario = METHODS[name], Scenario(Backbone(), (range(2), range(2, 4)))
    metrics, own = (metric.name for metric in entry.metrics), entry.own_data_defaults(scenario, 3)
    assert entry.name == name
    assert (entry.remnants is None) != entry.capabilities.composable
    assert (entry.capabilities, entry.neutral_values, tuple(metrics), tuple(own)) == DECLARED[name]
    defaults = {each.name: each.default for each in fields(entry.config)}
    for given, idle in entry.idle.items():
        assert defaults.keys() >= {*dict(given), *idle} and all(defaults[key] != value for key, value in given)
