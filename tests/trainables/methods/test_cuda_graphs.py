"""Steps that are recorded and repeated, on a CPU: a stand-in notes operations like a CUDA graph and repeats them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.cuda_graphs import Graph, launched, put_graphs_on_a_cpu
from tests.support.methods.small_digits import COMPOSABLE, run
from trainables import user_code
from trainables.data import Batch
from trainables.methods import Context
from trainables.methods.composable import penalty
from trainables.methods.cuda_graphs import GraphedStep
from trainables.methods.training import gradient_steps
from trainables.sequence import IncrementalSequence
from trainables.user_code import allow_code

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graphs that a test has made."""
    return put_graphs_on_a_cpu(monkeypatch)


def batch(size: int, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 3, generator=generator)
    return Batch(x, torch.randint(0, 2, (size,), generator=generator), torch.arange(size))


class Counting:
    """A step that counts batches, sums images times labels and factor, and returns the sum of the batch."""

    def __init__(self) -> None:
        self.batches, self.total = torch.zeros(()), torch.zeros(())
        self.rows: list[int] = []  # of every call by the CPU

    def __call__(self, batch: Batch, factor: Tensor) -> Tensor:
        self.rows.append(len(batch.rows))
        self.batches += 1
        found = (batch.x.sum(1) * batch.y).sum()
        self.total += found * factor
        return found


def test_the_first_batch_of_a_shape_runs_the_second_is_recorded_and_all_others_are_replayed(
    graphs: list[Graph],
) -> None:
    counting = Counting()
    step = GraphedStep(counting, CPU)
    for seed in range(4):
        step(batch(4, seed), 1.0)
        assert int(counting.batches) == seed + 1  # a recording is not a step
        assert counting.rows == [4, 0][: seed + 1]  # nothing of a recording depends on rows
    assert [graph.replays for graph in graphs] == [3]


def test_each_shape_has_a_recording_of_its_own(graphs: list[Graph]) -> None:
    counting = Counting()
    step = GraphedStep(counting, CPU)
    for size in (4, 2, 4, 2, 4, 3):
        step(batch(size), 1.0)
    assert int(counting.batches) == 6 and counting.rows == [4, 2, 0, 0, 3]
    assert [graph.replays for graph in graphs] == [2, 1]


def test_a_replay_has_the_images_labels_and_factor_of_its_batch_and_its_loss_is_kept(graphs: list[Graph]) -> None:
    counting, plain = Counting(), Counting()
    step = GraphedStep(counting, CPU)
    given = [(batch(4, seed), factor) for seed, factor in enumerate((1.0, 0.5, 0.5, 0.25, 0.125))]
    losses = [step(*each) for each in given]
    expected = [plain(each, torch.tensor(factor)) for each, factor in given]
    assert losses == expected and len({*map(float, losses)}) == 5  # no replay overwrites an earlier loss
    assert torch.equal(counting.total, plain.total) and graphs[0].replays == 4


def test_a_batch_stays_as_it_is() -> None:
    step, second = GraphedStep(Counting(), CPU), batch(4, 1)
    kept = second.x.clone()
    for each in (batch(4), second, batch(4, 2)):
        step(each, 1.0)
    assert torch.equal(second.x, kept)


def trained(graph_on: torch.device | None, **options: Any) -> list[Tensor]:
    """Weights and losses of a layer after six steps of two sizes with a falling factor."""
    torch.manual_seed(0)
    layer = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.3, fused=True)

    def loss(batch: Batch) -> tuple[Tensor, Tensor]:
        return F.cross_entropy(layer(batch.x), batch.y), 0.1 * layer.weight.square().sum()

    def adjust(factor: float | Tensor) -> None:
        penalty.decoupled_step([(layer.bias, 0.01 * layer.bias.detach())], factor)

    step = gradient_steps(optimizer, loss, adjust=adjust, graph_on=graph_on, **options)
    losses = [step(batch(4 - k % 2, k), 1 - k / 10) for k in range(6)]
    return [layer.weight.detach(), layer.bias.detach(), torch.stack(losses)]


@pytest.mark.parametrize("options", [{}, {"clip_norm": 0.1}], ids=["plain", "clipped"])
def test_recorded_steps_lead_to_the_same_weights(
    options: dict[str, Any], graphs: list[Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = trained(None, **options)
    assert not graphs
    monkeypatch.setattr(penalty, "_clip", lambda gradients: None)  # on a CPU it looks at the norms
    recorded = trained(CPU, **options)
    assert [graph.replays for graph in graphs] == [2, 2]
    for a, b in zip(recorded, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("graph_on", [CPU, None])
def test_an_optimiser_that_can_is_told_of_a_recording(graph_on: torch.device | None) -> None:
    adam = torch.optim.AdamW([torch.zeros(1, requires_grad=True)])
    gradient_steps(adam, lambda batch: torch.zeros(()), graph_on=graph_on)
    assert adam.param_groups[0]["capturable"] is (graph_on is not None)
    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    gradient_steps(sgd, lambda batch: torch.zeros(()), graph_on=graph_on)
    assert "capturable" not in sgd.param_groups[0]


def test_a_step_that_reads_a_value_cannot_be_recorded() -> None:
    """So the stand-in refuses what a GPU refuses."""
    step = GraphedStep(lambda batch, factor: batch.x.sum() * float(factor), CPU)
    step(batch(4), 1.0)
    with pytest.raises(RuntimeError, match="reads a value"):
        step(batch(4), 1.0)


@pytest.mark.parametrize(
    ("method", "hyperparameters"),
    [
        ("ita-lora", COMPOSABLE["ita-lora"]),
        ("ita-fft", COMPOSABLE["ita-fft"]),
        ("iel-ia3", COMPOSABLE["iel-ia3"]),
        ("iel-lora", {**COMPOSABLE["iel-lora"], "curvature": "kronecker", "heads": "averaged"}),
        ("ita-fft", {**COMPOSABLE["ita-fft"], "curvature": "kronecker", "formulation": "official"}),
        ("finetune", {"lr": 0.03, "optimizer": "sgd"}),  # Adam would enlarge the rounding of gradients that are zero
        ("ewc", {"lr": 0.03, "epsilon": 10.0}),
        ("lwf-mc", {"lr": 0.03, "wd": 0.01}),
        ("derpp", {"alpha": 0.3, "beta": 0.8, "buffer_size": 12, "lr": 0.03}),
    ],
)
def test_a_trial_with_recorded_steps_finds_the_same(
    method: str,
    hyperparameters: dict[str, Any],
    make: Callable[..., IncrementalSequence],
    graphs: list[Graph],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(penalty, "_clip", lambda gradients: None)  # on a CPU it looks at the norms
    monkeypatch.setattr(F, "one_hot", lambda y, classes: (y[:, None] == torch.arange(classes)).long())  # and at labels
    plain = make(method, hyperparameters)
    run(plain)
    monkeypatch.setattr(Context, "graphs_on", CPU)
    recorded = make(method, hyperparameters)
    run(recorded)
    assert [graph.replays for graph in graphs] == ([] if method == "derpp" else [5] * 3)
    monkeypatch.setattr(GraphedStep, "__call__", launched)
    one_by_one = make(method, hyperparameters)
    run(one_by_one)
    found, same, near = (each.state().tensors for each in (recorded, one_by_one, plain))
    assert found.keys() == same.keys() == near.keys()
    for name in found:
        assert torch.equal(found[name], same[name])
        torch.testing.assert_close(found[name], near[name], rtol=1e-4, atol=2e-5)


def test_a_trial_with_a_curvature_of_the_users_code_is_not_recorded(
    make: Callable[..., IncrementalSequence], graphs: list[Graph], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may look at values, which the contract of curvatures allows."""
    text = "from trainables.curvature import DiagonalCurvature\n\nclass Mine(DiagonalCurvature):\n    pass\n"
    (tmp_path / "a_curvature.py").write_text(text)
    monkeypatch.setattr(user_code, "_allowed", {})
    allow_code("a_curvature:Mine", tmp_path)
    monkeypatch.setattr(Context, "graphs_on", CPU)
    make("ita-lora", {**COMPOSABLE["ita-lora"], "curvature": "a_curvature:Mine"}).run_next_task()
    monkeypatch.delitem(sys.modules, "a_curvature")
    assert graphs == []
