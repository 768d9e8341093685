"""Probe is ITA without task vectors: the anchors h0_t of all tasks on theta_0, and no Fisher."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F

from tausearch.testing.recording import Recorded, shown
from tests.support.methods.small_digits import ITA, run
from trainables.backbones import EMBEDDED, Backbone
from trainables.data import get_source
from trainables.methods import get_method
from trainables.sequence import IncrementalSequence

PROBED = {"lr_pre": 0.1, "epochs_pre": 8}


def test_it_is_theta_0_with_the_anchors_of_ita_side_by_side(
    make: partial[IncrementalSequence], recorded: Callable[[str, dict[str, Any]], Recorded]
) -> None:
    trial, ita = recorded("probe", PROBED), make("ita-lora", {**ITA, **PROBED})
    (provider,) = ita.preparer.providers
    heads = [provider.task(t).head for t in (1, 2, 3)]
    rows = [slice(0, 2), slice(2, 4), slice(4, 6)]
    weight, bias = (torch.cat([head[part][own] for head, own in zip(heads, rows, strict=True)]) for part in (0, 1))
    assert not torch.equal(weight, heads[-1][0])  # later tasks move the anchors of earlier ones
    theta_0 = Backbone().load()
    for task, row in enumerate(trial.rows, start=1):
        seen = slice(0, 2 * task)
        for k, images in enumerate(trial.sequence.benchmark.evaluation[:task], start=1):
            with torch.inference_mode():
                logits = F.linear(theta_0(shown(images)), weight[seen], bias[seen])
            right = (logits.argmax(1) == images.labels).double().mean()
            assert row[f"test/accuracy/task_{k}"] == pytest.approx(100 * float(right))
    with torch.inference_mode():
        first = shown(trial.sequence.benchmark.evaluation[0])
        torch.testing.assert_close(F.linear(theta_0(first), weight, bias), trial.tasks[-1].logits)


def test_it_trains_no_weight_and_estimates_no_fisher(make: partial[IncrementalSequence]) -> None:
    sequence = make("probe", PROBED, cache=None)
    with mock.patch("trainables.curvature.DiagonalCurvature.estimate") as estimate:
        run(sequence)
    estimate.assert_not_called()
    learner: Any = sequence.method
    theta_0 = Backbone().load().state_dict()
    assert all(torch.equal(value, theta_0[name]) for name, value in learner.model.state_dict().items())


def test_own_images_are_probed_as_by_ita() -> None:
    spec, (probe, ita) = get_source("digits").spec, map(get_method, ("probe", "ita-lora"))
    scenario = probe.scenario(spec, Backbone(EMBEDDED))
    values = probe.own_data_defaults(scenario, 8)
    assert values == ita.own_data_defaults(scenario, 8) == {"lr_pre": 0.035, "epochs_pre": 13}
