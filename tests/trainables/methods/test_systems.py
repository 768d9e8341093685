"""What every method declares about itself: the platform knows a method by this alone."""

from __future__ import annotations

from typing import Any

import pytest

from trainables.backbones import Backbone
from trainables.methods import METHODS, Capabilities, Scenario

VECTORS = Capabilities(composable=True)
COMPOSABLE = {"regularise": "all", "formulation": "paper", "heads": "concatenated"}
LOCAL = {"cross_entropy": "local"}
EULER = ("train/euler_factor",)
PROBED = ("lr_pre", "epochs_pre")

# Capabilities, neutral values, metrics, and hyperparameters with other values for the user's own images.
DECLARED: dict[str, tuple[Capabilities, dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(("ita-fft", "ita-lora", "ita-ia3"), (VECTORS, COMPOSABLE, EULER, PROBED)),
    **dict.fromkeys(("iel-fft", "iel-lora", "iel-ia3"), (VECTORS, COMPOSABLE, EULER, PROBED)),
    "probe": (Capabilities(), {}, (), PROBED),
    "finetune": (Capabilities(), LOCAL, (), ()),
    "joint": (Capabilities(joint=True), LOCAL, (), ()),
    "ewc": (Capabilities(tasks_to_peak=2), LOCAL, EULER, ()),
    "lwf-mc": (Capabilities(tasks_to_peak=2), {}, (), ()),
    "derpp": (Capabilities(rehearsal=True), LOCAL, (), ()),
    **dict.fromkeys(("l2p", "coda", "apt", "inflora"), (Capabilities(), {}, (), ())),
    "seed": (Capabilities(tasks_to_peak=6), {}, (), ()),  # five experts, then a copy of the trained one
    "tmc": (Capabilities(composable=True, whole_classifier=True), {}, (), ()),
}


@pytest.mark.parametrize("name", METHODS)
def test_declarations(name: str) -> None:
    entry, scenario = METHODS[name], Scenario(Backbone(), (range(2), range(2, 4)))
    metrics, own = (metric.name for metric in entry.metrics), entry.own_data_defaults(scenario, 3)
    assert entry.name == name
    assert (entry.capabilities, entry.neutral_values, tuple(metrics), tuple(own)) == DECLARED[name]


def test_the_users_own_images_are_probed_in_steps_for_the_width_and_passes_for_the_number_of_batches() -> None:
    own, scenario = METHODS["ita-lora"].own_data_defaults, Scenario(Backbone(), (range(2),))
    assert own(scenario, 3) == {"lr_pre": 0.035, "epochs_pre": 34}  # 0.01 times the root of 768 / 64; 100 steps
    assert own(scenario, 1000) == {"lr_pre": 0.035, "epochs_pre": 3}  # as many passes as the paper's at least
    wide = Scenario(Backbone("vit_base_patch16_224"), (range(2),))
    assert own(wide, 3)["lr_pre"] == 0.01
