"""SEED: the authors' losses and predictions, and five tasks against plain loops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal
from torch.func import functional_call

from tests.support.methods.tiny_trials import (
    TinyBackbone,
    Weights,
    learn,
    plain_training,
    tiny_context,
    tiny_tasks,
)
from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import Backbone
from trainables.data import Batch, Task
from trainables.errors import InputError
from trainables.methods import Context, Scenario, get_method
from trainables.methods.seed.gaussians import fit_gaussians
from trainables.methods.seed.learner import SEED, SEEDConfig

ORACLE: Any = np.load(Path(__file__).parent / "oracles" / "seed_gaussians.npz", allow_pickle=False)
TINY: dict[str, Any] = {"lr": 0.01, "experts": 2, "features": 3, "clip": 0.5, "alpha": 0.6, "tau": 2.0}


class Fixed(torch.nn.Module):
    """An expert whose features are columns of what it is shown."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def features(self, context: Context, x: Tensor) -> Tensor:
        return x[:, self.number]


def oracle(name: str) -> Tensor:
    return torch.from_numpy(ORACLE[name])


def of_the_oracle(classes: range) -> SEED:
    tasks = [range(0, 2), range(2, 4), range(4, 6)]
    context = Context(Backbone(), tuple(tasks), 1, 1, 0, torch.device("cpu"))
    method = SEED(context, SEEDConfig(lr=0.1, experts=2, features=8))
    method.experts = [Fixed(0), Fixed(1)]  # type: ignore[list-item]
    method.known = [
        [fit_gaussians([oracle(f"features_e{e}_c{c}") for c in task if c in classes]) for task in tasks[e:]]
        for e in (0, 1)
    ]
    return method


def test_predictions_are_those_of_the_authors_code() -> None:
    x, method = oracle("x"), of_the_oracle(range(6))
    posteriors = method.predict(x)
    assert torch.equal(posteriors.argmax(1), oracle("pred_class_il"))
    densities = oracle("log_probs")
    wanted = (densities / 3).softmax(2).sum(1) / torch.tensor([1, 1, 2, 2, 2, 2])
    torch.testing.assert_close(posteriors, wanted, rtol=1e-3, atol=1e-5)
    last = (densities[:, :, 4:] / 3).softmax(2).sum(1).argmax(1) + 4  # the same rule over the classes of task 3 alone
    assert torch.equal(last, oracle("pred_task_aware_t2"))


def test_losses_are_those_of_the_authors_code() -> None:
    method = of_the_oracle(range(6))
    logits, now, old = oracle("crit_logits"), oracle("crit_features"), oracle("crit_old")
    method.head.current = [
        torch.nn.Parameter(each) for each in (torch.linalg.lstsq(now, logits).solution.T, torch.zeros(2))
    ]
    x, y = torch.stack([now, old], 1), oracle("crit_targets")
    assert float(method._loss(x, y)) == pytest.approx(float(ORACLE["crit_first"]), rel=1e-4)
    method._before = Fixed(1)  # type: ignore[assignment]
    assert float(method._loss(x, y)) == pytest.approx(float(ORACLE["crit_finetune"]), rel=1e-5)


def test_a_density_below_that_of_the_unknown_classes_of_the_authors_code_still_wins() -> None:
    method = of_the_oracle(range(6))
    far = torch.full((1, 2, 8), 1e5)
    assert float(method.known[1][0].log_density(far[:, 1]).max()) < -1e8
    alone = method.predict(far) * torch.tensor([1, 1, 2, 2, 2, 2])
    torch.testing.assert_close(alone[0, :2].sum() + alone[0, 2:].sum(), torch.tensor(2.0))
    first = torch.cat([each.log_density(far[:, 0]) for each in method.known[0]], 1)
    torch.testing.assert_close(alone[:, :2], (first / 3).softmax(1)[:, :2])


class Plain:
    """SEED by loops over images, classes and pairs, with torch's distributions."""

    def __init__(self, context: Context, config: SEEDConfig, bottleneck: tuple[Tensor, Tensor]) -> None:
        self.context, self.config, self.net = context, config, make_tiny_vit()
        self.first = {name: value.detach().clone() for name, value in self.net.named_parameters()}
        self.first |= {"W": bottleneck[0], "b": bottleneck[1]}
        self.experts: list[Weights] = []
        self.gaussians: list[dict[int, MultivariateNormal]] = []
        self.chosen: list[int] = []

    def features(self, weights: Weights, x: Tensor) -> Tensor:
        inner = {name: value for name, value in weights.items() if name not in ("W", "b")}
        return functional_call(self.net, inner, (x,)) @ weights["W"].T + weights["b"]

    def fit(self, weights: Weights, task: Task) -> dict[int, MultivariateNormal]:
        found = {}
        for c in task.classes:
            rows = []
            for row in (task.unaugmented.labels == c).nonzero()[:, 0]:
                x = task.unaugmented.prepare(task.unaugmented.pixels(row[None]), None)
                shown = [x, torch.flip(x, dims=(3,))] if self.config.flip else [x]
                rows += [self.features(weights, each)[0] for each in shown]
            mean = sum(rows) / len(rows)
            covariance = sum(torch.outer(row - mean, row - mean) for row in rows) / len(rows)
            found[c] = MultivariateNormal(mean.detach(), (covariance + 1e-8 * torch.eye(3)).detach())
        return found

    def choose(self, task: Task) -> int:
        def apart(weights: Weights) -> float:
            new = list(self.fit(weights, task).values())
            return sum(float(torch.distributions.kl_divergence(p, q)) for p in new for q in new) / len(new) ** 2

        return max(range(len(self.experts)), key=lambda k: apart(self.experts[k]))

    def learn(self, task: Task, head: tuple[Tensor, Tensor]) -> None:
        old = None
        if len(self.experts) < self.config.experts:
            self.experts.append(dict(self.experts[0] if self.experts else self.first))
            self.gaussians.append({})
            self.chosen.append(len(self.experts) - 1)
        else:
            self.chosen.append(self.choose(task))
            old = self.experts[self.chosen[-1]]
        trained = self.trained({**self.experts[self.chosen[-1]], "hW": head[0], "hb": head[1]}, old, task)
        self.experts[self.chosen[-1]] = {name: v for name, v in trained.items() if name not in ("hW", "hb")}
        for weights, known in zip(self.experts, self.gaussians, strict=True):
            known.update(self.fit(weights, task))

    def trained(self, weights: Weights, old: Weights | None, task: Task) -> Weights:
        def loss(leaves: Weights, batch: Batch) -> Tensor:
            features = self.features(leaves, batch.x)
            scores = features @ leaves["hW"].T + leaves["hb"]
            entropy = -scores.log_softmax(1)[torch.arange(len(batch.y)), batch.y - task.classes.start].mean()
            if old is None:
                return entropy
            distance = ((features - self.features(old, batch.x).detach()) ** 2).mean()
            return (1 - self.config.alpha) * entropy + self.config.alpha * distance

        return plain_training(task, self.context, weights, loss, lr=self.config.lr, clip=self.config.clip)

    def posterior(self, x: Tensor, classes: int) -> Tensor:
        rows = []
        for image in x:
            row = []
            for c in range(classes):
                shares = []
                for weights, known in zip(self.experts, self.gaussians, strict=True):
                    if c in known:
                        feature = self.features(weights, image[None])[0]
                        powers = {o: known[o].log_prob(feature) / self.config.tau for o in known}
                        shares.append((powers[c] - torch.logsumexp(torch.stack(list(powers.values())), 0)).exp())
                row.append(sum(shares) / len(shares))
            rows.append(torch.stack(row))
        return torch.stack(rows).detach()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("flip", [True, False])
def test_five_uneven_tasks_are_those_of_plain_loops(flip: bool) -> None:
    tasks = tiny_tasks((2, 3, 2, 2, 2), per_class=6)
    context, config = tiny_context(tasks), SEEDConfig(**{**TINY, "experts": 3, "flip": flip})
    method, plain, choices = SEED(context, config), None, []
    for task in tasks:
        method.begin_task(task)
        expert = method.experts[method._current]
        start = (expert.weight.detach().clone(), expert.bias.detach().clone())
        plain = plain or Plain(context, config, start)
        choices.append(method._current)
        head = [part.detach().clone() for part in method.head.current]
        method.train_task(task)
        method.end_task(task)
        plain.learn(task, (head[0], head[1]))
        assert choices == plain.chosen
        x = task.unaugmented.prepare(task.unaugmented.pixels(torch.arange(0, 12, 3)), None)
        torch.testing.assert_close(method.predict(x), plain.posterior(x, task.classes.stop), rtol=0, atol=1e-9)
        for ours, theirs in zip(method.experts, plain.experts, strict=True):
            torch.testing.assert_close(ours.weight.detach(), theirs["W"], rtol=0, atol=1e-9)
            for name, weight in ours.vit.named_parameters():
                torch.testing.assert_close(weight.detach(), theirs[name], rtol=0, atol=1e-9)
    assert choices[:3] == [0, 1, 2] and (choices[3] != choices[4] or not flip)
    assert method._before is None and not method.head.current


def learned(**changes: Any) -> tuple[SEED, tuple[Task, ...]]:
    tasks = tiny_tasks((2, 2, 2), per_class=4)
    method = SEED(tiny_context(tasks), SEEDConfig(**{**TINY, **changes}))
    learn(method, *tasks)
    return method, tasks


@pytest.mark.usefixtures("float64")
def test_an_expert_that_no_task_trains_is_asked_for_features_once_per_task(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    tasks = tiny_tasks((2, 2, 2), per_class=4)
    method = SEED(tiny_context(tasks), SEEDConfig(**TINY))
    fit = method._fit_gaussians
    monkeypatch.setattr(
        method, "_fit_gaussians", lambda experts, task: asked.append(len(experts)) or fit(experts, task)
    )
    learn(method, *tasks)
    assert asked == [1, 2, 2, 1]  # at task 3 both are asked before it, and only the one that learned it again


@pytest.mark.usefixtures("float64")
def test_the_state_names_an_expert_by_the_task_that_it_last_learned() -> None:
    method, _ = learned()
    state = method.state()
    assert not state.tensors
    chosen = method._current
    assert state.values["trained_at"] == [3 if k == chosen else k + 1 for k in (0, 1)]
    names = {"/".join(name.split("/")[:3]) for name in state.constant if name.startswith("experts")}
    assert names == {f"experts/{k}/{3 if k == chosen else k + 1}" for k in (0, 1)}
    assert state.constant["gaussians/0/0/factors"].shape == (2, 6)


def test_the_bottleneck_starts_elsewhere_with_another_seed_and_there_again_with_the_same() -> None:
    tasks, starts = tiny_tasks((2, 2), per_class=4), []
    for seed in (0, 1, 0):
        method = SEED(tiny_context(tasks, seed=seed), SEEDConfig(**TINY))
        method.begin_task(tasks[0])
        starts.append(method.experts[0].weight.detach())
    assert torch.equal(starts[0], starts[2]) and not torch.isclose(starts[0], starts[1]).any()


@pytest.mark.usefixtures("float64")
def test_sgd_has_momentum() -> None:
    method, _ = learned(optimizer="sgd")
    (group,) = method._optimizer(list(method.experts[0].parameters())).param_groups
    assert (group["momentum"], group["weight_decay"]) == (0.9, 0.0)


def test_a_bottleneck_wider_than_the_backbone_is_refused() -> None:
    entry, scenario = get_method("seed"), Scenario(TinyBackbone(), (range(2), range(2, 4)))
    with pytest.raises(InputError, match="seed: features must be at most the backbone's width, 8, got 9"):
        entry.validate(entry.parse({"lr": 0.1, "features": 9}), scenario)
    entry.validate(entry.parse({"lr": 0.1, "features": 8}), scenario)


def test_more_experts_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    entry, tasks = get_method("seed"), tuple(range(2 * t, 2 * t + 2) for t in range(8))
    one = 4 * TinyBackbone().shape.parameters
    monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_PAGE_SIZE" else 7 * one)
    config = {"lr": 0.1, "features": 4}
    with pytest.raises(InputError, match=r"seed: experts must be at most 3, which fill .* memory, got 4"):
        entry.validate(entry.parse({**config, "experts": 4}), Scenario(TinyBackbone(), tasks))
    entry.validate(entry.parse({**config, "experts": 3}), Scenario(TinyBackbone(), tasks))
    entry.validate(entry.parse({**config, "experts": 99}), Scenario(TinyBackbone(), tasks[:3]))  # only three are made
    monkeypatch.setattr(os, "sysconf", lambda name: 1)
    with pytest.raises(InputError, match="at most 0"):
        entry.validate(entry.parse({**config, "experts": 1}), Scenario(TinyBackbone(), tasks))
