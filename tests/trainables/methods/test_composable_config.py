"""What ITA and IEL alone have: formulations and ablations, task vectors that are saved, and their hyperparameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from tausearch.testing.recording import Recorded, shown
from tests.support.methods.small_digits import COMPOSABLE, IEL, ITA, run
from trainables.backbones import EMBEDDED, Backbone
from trainables.composition import Origin, composed, read_vector, vector_folders
from trainables.data import described, get_source
from trainables.errors import DivergedError
from trainables.methods import get_method
from trainables.preconsolidation import PreconsolidationConfig
from trainables.sequence import IncrementalSequence

Run = partial[IncrementalSequence]
Trials = Callable[[str, dict[str, Any]], Recorded]


@pytest.mark.parametrize("method", ["ita-lora", "iel-fft"])
@pytest.mark.parametrize(("given", "passes"), [("all", None), (3, 3)])
def test_probing_and_fisher_are_as_they_are_asked_for(method: str, given: int | str, passes: int | None) -> None:
    name = "alpha" if method.startswith("ita") else "beta"
    strengths = {each: 1.0 for each in (name, f"{name}_cls", f"{name}_cls_prior")}
    asked = {"lr": 0.1, "lr_pre": 0.07, "epochs_pre": 5, "fisher_passes": given, "curvature": "kronecker", **strengths}
    config = get_method(method).parse(asked)
    wanted = PreconsolidationConfig(lr_pre=0.07, epochs_pre=5, fisher_passes=passes, curvature="kronecker")
    assert config.preconsolidation == wanted  # type: ignore[attr-defined]


def test_probing_of_own_images_is_the_papers_at_the_papers_width_and_takes_larger_steps_below_it() -> None:
    spec, vit = get_source("digits").spec, "vit_base_patch16_224.augreg_in21k"
    for name in ("ita-lora", "iel-fft"):
        entry = get_method(name)
        large, small = (entry.scenario(spec, Backbone(backbone)) for backbone in (vit, EMBEDDED))
        assert entry.own_data_defaults(large, 8) == {
            "lr_pre": 0.01,
            "epochs_pre": 13,
        }  # of eight batches an epoch, 100 steps
        assert entry.own_data_defaults(small, 8) == {"lr_pre": 0.035, "epochs_pre": 13}
        assert entry.own_data_defaults(large, 1000)["epochs_pre"] == 3
    ewc = get_method("ewc")
    assert ewc.own_data_defaults(ewc.scenario(spec, Backbone()), 8) == {}


@pytest.mark.parametrize("method", ["ita-lora", "iel-fft", "ita-ia3"])
def test_official_formulation_and_ablations_differ(method: str, make: Run, recorded: Trials) -> None:
    base = COMPOSABLE[method]
    losses = {recorded(method, base).rows[1]["train/loss"]}
    others = ({"formulation": "official"}, {"regularise": "head"}, {"regularise": "none"}, {"curvature": "kronecker"})
    for setting in others:
        sequence = make(method, {**base, **setting})
        losses.add([sequence.run_next_task() for _ in range(2)][1]["train/loss"])
    assert len(losses) == 5


@pytest.mark.parametrize("method", ["ita-lora", "ita-fft", "iel-ia3"])
def test_no_regularisation_is_zero_strength(method: str, make: Run) -> None:
    base = COMPOSABLE[method]
    zero = {k: 0.0 for k in base if k != "lr"}
    none, zeros = (run(make(method, {**base, **change})) for change in ({"regularise": "none"}, zero))
    for row in zeros:
        row.pop("train/euler_factor", None)  # only known where there is a regulariser
    assert none == zeros


@pytest.mark.parametrize("strength", ["alpha_cls", "alpha_cls_prior"])
def test_each_of_the_two_strengths_of_the_head_counts_alone(strength: str, make: Run) -> None:
    base = {**COMPOSABLE["ita-lora"], "alpha": 0.0, "alpha_cls": 0.0, "alpha_cls_prior": 0.0}
    without, alone = (make("ita-lora", {**base, **change}) for change in ({}, {strength: 5.0}))
    assert without.run_next_task()["train/loss"] != alone.run_next_task()["train/loss"]


@pytest.mark.parametrize(("method", "change"), [("ita-fft", {"alpha": 1e9, "lr": 3e-3}), ("ita-lora", {"alpha": 1e9})])
def test_a_finite_penalty_that_blows_up_is_divergence(make: Run, method: str, change: dict[str, float]) -> None:
    with pytest.raises(DivergedError, match=r"regularised loss of \d.* \(chance loss 0.69\) at task \d"):
        run(make(method, {**COMPOSABLE[method], **change}))


@pytest.mark.parametrize("method", COMPOSABLE)
def test_saved_task_vectors_compose_to_the_model_that_was_evaluated(method: str, recorded: Trials) -> None:
    trial = recorded(method, COMPOSABLE[method])
    learner: Any = trial.sequence.method
    theta_0, folders = learner.vectors.theta_0, vector_folders(trial.folder / "artifacts")
    weights = composed(theta_0, map(read_vector, folders), [1 / 3] * 3)
    for name, total in learner.composition.sums.items():
        assert torch.equal(weights[name], theta_0[name] + 1 / 3 * total)
    saved = [read_vector(folder) for folder in folders]
    assert torch.equal(torch.cat([vector.head[0] for vector in saved]), learner.heads.weight)
    assert torch.equal(torch.cat([vector.head[1] for vector in saved]), learner.heads.bias)
    plain = Backbone().load()
    plain.load_state_dict({**plain.state_dict(), **weights})
    x = shown(trial.sequence.benchmark.evaluation[0])
    with torch.inference_mode():
        torch.testing.assert_close(learner.heads.logits(plain(x)), trial.tasks[-1].logits)


@pytest.mark.parametrize("formulation", ["paper", "official"])
def test_saved_task_vectors_say_where_they_come_from(formulation: str, recorded: Trials) -> None:
    given = IEL if formulation == "paper" else {**IEL, "formulation": formulation}
    trial = recorded("iel-ia3", given)
    sequence = trial.sequence
    (provider,) = sequence.preparer.providers
    for t, folder in enumerate(vector_folders(trial.folder / "artifacts"), start=1):
        vector = read_vector(folder)
        assert vector.parametrisation == "ia3"
        assert vector.origin == Origin(
            method="iel-ia3",
            task=t,
            classes=range(2 * t - 2, 2 * t),
            backbone=EMBEDDED,
            backbone_digest=Backbone().digest,
            class_names=tuple("0123456789"[2 * t - 2 : 2 * t]),
            transform=described(sequence.benchmark.evaluation[0].transform, 32),
        )
        rows = provider.task(t).head  # h0 as it was at task t, not as later tasks move it
        assert all(torch.equal(a, b[2 * t - 2 : 2 * t]) for a, b in zip(vector.anchor, rows, strict=True))


def test_the_line_about_an_unstable_trial() -> None:
    (metric,) = get_method("ita-lora").metrics
    rows = [{"task": float(t), metric.name: value} for t, value in ((1, 1.5), (2, 2.0), (3, 51.74), (4, 3.0))]
    assert metric.warn(7, [*rows, {"task": 5.0}]) == (
        "trial 7: strength * max curvature reaches 51.7 (from task 2); decoupled steps are stable below 2"
    )
    nan = [rows[0], {"task": 2.0, metric.name: float("nan")}, rows[2]]
    assert "reaches nan (from task 2)" in str(metric.warn(7, nan))
    assert metric.warn(7, rows[:1]) is None and metric.warn(7, [{"task": 1.0}]) is None
    assert dataclasses.replace(metric, limit=None).warn(7, rows) is None


def test_stability_of_decoupled_steps_is_reported(make: Run, caplog: pytest.LogCaptureFixture) -> None:
    calm, wild = (make("ita-lora", {**ITA, "alpha": alpha}).run_next_task() for alpha in (1e-3, 2e2))
    assert calm["train/euler_factor"] < 2 <= wild["train/euler_factor"]
    assert "decoupled steps need < 2" in caplog.text
    assert wild["train/euler_factor"] / calm["train/euler_factor"] == pytest.approx(2e5, rel=1e-4)
    assert "train/euler_factor" not in make("ita-fft", COMPOSABLE["ita-fft"]).run_next_task()  # coupled
