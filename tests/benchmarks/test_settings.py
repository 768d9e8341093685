"""Settings of single methods: the methods accept them, and the accuracy within a task is among its own classes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from benchmarks.embedded import page
from benchmarks.embedded.settings import FIGURES, SETTINGS, Setting, _among, measure
from benchmarks.performance.kept import Measured
from search_spaces import load_space
from trainables.methods import get_method


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: f"{setting.method}-{setting.words}")
def test_a_method_accepts_its_settings(setting: Setting) -> None:
    space = load_space(setting.method, setting.benchmark)
    parsed = get_method(setting.method).parse({**space.fixed, **space.start, **setting.given})
    assert {name: getattr(parsed, name) for name in setting.given} == setting.given


def test_kept_figures_are_of_these_settings() -> None:
    kept = [(row["method"], row["setting"], row["judged by"]) for row in Measured.of("settings", page.MEASURED).rows]
    assert kept == [(each.method, each.words, each.purpose) for each in SETTINGS]


def test_among_the_classes_of_a_task_the_others_are_never_chosen() -> None:
    method = SimpleNamespace(predict=lambda x: x)
    task = SimpleNamespace(classes=range(1, 3))
    logits = torch.tensor([[9.0, 1.0, 2.0, 8.0], [9.0, -5.0, -6.0, 8.0]])
    assert _among(method, task, logits).argmax(1).tolist() == [2, 1]


def test_a_run_that_diverges_has_no_accuracy() -> None:
    wild = Setting("ita-fft", {"formulation": "official", "alpha": 1e9, "lr": 0.01, "epochs_pre": 0, "lr_pre": 0.01})
    assert measure(wild, seed=0) == dict.fromkeys(FIGURES)
