"""What the contract offers beyond class features and a cross-entropy, each used by a tiny method in a sequence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tausearch.cluster import first_rows
from tests.support.methods.recorded import Recorded, shown
from tests.support.methods.small_digits import SOURCE, run, small_digits
from tests.support.methods.tiny_methods import ENTRIES, KEEPING, TARGET
from trainables.backbones import Backbone
from trainables.backbones.token_vit import TokenViT
from trainables.config import Precision
from trainables.data import Batch, Task, build_benchmark
from trainables.errors import DivergedError
from trainables.methods import METHODS, Context, register
from trainables.methods.training import (
    BLOWN_UP,
    CHANCE_BINARY_CROSS_ENTROPY,
    chance_cross_entropy,
    chance_square_loss,
    fit,
)
from trainables.sequence import IncrementalSequence

Trials = Callable[[str], Recorded]
LR = {
    **{"mean-token": 0.03, "prefix": 0.1, "prompt": 0.03, "tangent": 0.03, "moment": 0.1},
    **{"wide": 0.1, "grown": 0.1, "rehearsal": 0.1, "square": 0.003},
}
FLOORS = {  # the lowest of four seeds less 8
    **{"mean-token": 58, "prefix": 62, "prompt": 79, "tangent": 75, "moment": 62},
    **{"wide": 50, "grown": 75, "rehearsal": 79, "square": 83},
}


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    for entry in ENTRIES.values():
        register(entry)
    yield
    for name in ENTRIES:
        del METHODS[name]


@pytest.fixture(scope="module")
def trial(recorded: Callable[[str, dict[str, Any]], Recorded]) -> Trials:
    """Returns the recorded trial of a method. No test may change it."""
    return lambda method: recorded(method, {"lr": LR[method]})


def make(method: str, precision: Precision = "fp32", **options: Any) -> IncrementalSequence:
    hyperparameters = {"lr": LR[method], **options}
    return IncrementalSequence(small_digits(), method, hyperparameters, backbone=Backbone(), precision=precision)


def after(tasks: int, trial: Recorded) -> IncrementalSequence:
    """A new sequence that goes on after so many tasks of a recorded trial."""
    sequence = make(trial.sequence.entry.name)
    sequence.load_state(trial.state(tasks))
    return sequence


def images(sequence: IncrementalSequence) -> Tensor:
    return next(sequence.benchmark.evaluation[0].batches(4, None, shuffle=False)).x


@pytest.mark.parametrize("method", ENTRIES)
def test_learns_and_resumes(method: str, trial: Trials) -> None:
    unbroken = trial(method)
    assert unbroken.rows[-1]["test/final_accuracy"] >= FLOORS[method]
    assert run(after(1, unbroken)) == unbroken.rows[1:]
    assert unbroken.tasks[-1].logits.shape == (8, 6)


@pytest.mark.parametrize("method", ENTRIES)
def test_bf16_stays_close(method: str, trial: Trials) -> None:
    full, half = trial(method).rows[0]["train/loss"], make(method, "bf16").run_next_task()["train/loss"]
    assert half != full and half == pytest.approx(full, abs=0.005)


def test_all_tokens_are_read() -> None:
    method: Any = make("mean-token").method
    x = images(make("mean-token"))
    tokens = method.model.vit.vit.forward_features(x)
    assert tokens.shape == (4, 17, 64)
    torch.testing.assert_close(method.model(x), tokens[:, 0] + tokens.mean(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("method", "name"), [("prefix", "rows"), ("prompt", "prompt"), ("tangent", "tau")])
def test_what_is_added_is_trained_and_nothing_else_of_the_network(method: str, name: str, trial: Trials) -> None:
    untrained: Any = make(method).method
    trained: Any = trial(method).sequence.method
    before, found = untrained.model.state_dict(), trained.model.state_dict()
    assert {each for each, value in found.items() if not torch.equal(value, before[each])} == {name}


def test_prompts_are_read_and_seen_by_no_other_token(trial: Trials) -> None:
    sequence = trial("prompt").sequence
    method: Any = sequence.method
    model, x = method.model, images(sequence)
    with torch.inference_mode():
        tokens, own = model.tokens(x), model.vit.vit.forward_features(x)
        assert tokens.shape == (4, 19, 64)
        torch.testing.assert_close(tokens[:, [0, *range(3, 19)]], own, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(model(x), (tokens[:, 1] + tokens[:, 2]) / 2)
        seen = model.vit(x, insert=model.prompt)  # without the mask they would be
        assert (seen[:, 0] - own[:, 0]).abs().max() > 0.01


def test_a_linearised_network_is_its_own_derivative(trial: Trials) -> None:
    sequence = after(1, trial("tangent"))
    method: Any = sequence.method
    model = method.model
    x, tau = images(sequence), model.tau.detach().clone()
    with torch.no_grad():
        read, weight, value = model(x), model.vit.blocks[0].norm1.weight, model.vit(x)
        theta_0 = weight.clone()
        step = 1e-2 / tau.norm()
        weight.copy_(theta_0 + step * tau)
        more = model.vit(x)
        weight.copy_(theta_0 - step * tau)
        along = (more - model.vit(x)) / (2 * step)
        weight.copy_(theta_0)
    assert along.norm() > 0
    assert (read - value - along).norm() < 0.02 * along.norm()


def test_fused_attention_has_no_forward_mode_where_plain_has() -> None:
    sequence = make("tangent")
    method: Any = sequence.method
    model, x = method.model, images(sequence)
    assert model(x).shape == (4, 64)
    model.vit = Backbone().load(attention="fused").requires_grad_(False)
    with pytest.raises(NotImplementedError, match="forward AD"):
        model(x)


def second_moment(tasks: Iterable[Task]) -> Tensor:
    """Of what the last block's qkv reads of all training images, from the stages of an opened ViT."""
    vit, total = TokenViT(Backbone().load(tokens="all")), torch.zeros(64, 64)
    with torch.no_grad():
        for task in tasks:
            tokens = vit.embed(shown(task.unaugmented))
            for k in range(vit.depth - 1):
                tokens = vit.block(k, tokens)
            read = vit.vit.blocks[vit.depth - 1].norm1(tokens).flatten(0, 1)
            total += read.T @ read
    return total


def test_the_second_moment_of_what_a_layer_reads_is_accumulated_over_tasks(trial: Trials) -> None:
    sequence, rows = trial("moment").sequence, trial("moment").rows
    method: Any = sequence.method
    torch.testing.assert_close(method.moment, second_moment(sequence.tasks), rtol=1e-3, atol=1e-2)
    traces = [row["train/moment"] for row in rows]
    assert traces[0] == 0 < traces[1] < traces[2] < float(method.moment.trace())


def test_its_file_is_written_after_every_task_where_artifacts_are_asked_for(trial: Trials) -> None:
    moment = trial("moment")
    assert [task.artifacts for task in moment.tasks] == [1, 2, 3]
    for done in (1, 2, 3):
        saved = load_file(moment.folder / "artifacts" / f"task_{done}" / "moment.safetensors")
        wanted = second_moment(moment.sequence.tasks[:done])
        torch.testing.assert_close(saved["moment"], wanted, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("method", ENTRIES)
def test_artifacts_are_written_where_declared(method: str, trial: Trials) -> None:
    assert (trial(method).tasks[0].artifacts > 0) == ENTRIES[method].capabilities.writes_artifacts


@pytest.mark.parametrize(("method", "tasks"), [("moment", 2), ("wide", 1)])
def test_a_pilot_runs_as_many_tasks_as_its_entry_declares(method: str, tasks: int) -> None:
    sequence = make(method)
    assert len(list(first_rows(sequence, sequence.entry.capabilities.tasks_to_peak))) == tasks
    assert sequence.tasks_done == tasks


def test_a_head_grows_with_the_classes_seen(trial: Trials) -> None:
    past = torch.empty(0, 64)
    for task in trial("grown").sequence.tasks:
        weight = trial("grown").state(task.index).tensors["method/head/weight"]
        assert weight.shape == (task.classes.stop, 64)
        assert torch.equal(weight[: len(past)], past)
        past = weight


def test_a_binary_cross_entropy_has_its_own_scale() -> None:
    threes = build_benchmark(dataclasses.replace(SOURCE, num_tasks=2), "final")  # chance among three is ln 3
    with pytest.raises(DivergedError, match=r"\(chance loss 0.69\)"):
        run(IncrementalSequence(threes, "grown", {"lr": 1e4}, backbone=Backbone()))
    method: Any = IncrementalSequence(threes, "grown", {"lr": 0.1}, backbone=Backbone()).method
    task = threes.tasks[0]
    method.begin_task(task, None)
    method.head.weight.data.zero_()
    batch = next(task.train.batches(8, torch.Generator(), shuffle=False))
    assert float(method.loss(task, batch).detach()) == pytest.approx(CHANCE_BINARY_CROSS_ENTROPY)


def test_a_wide_head_trains_the_rows_of_the_current_task_alone(trial: Trials) -> None:
    untrained: Any = make("wide").method
    before = untrained.head.weight
    for task in trial("wide").sequence.tasks:
        weight = trial("wide").state(task.index).tensors["method/head/weight"]
        assert (weight != before).any(1).nonzero().flatten().tolist() == list(task.classes)
        before = weight


def test_rehearsal_keeps_pixels_labels_and_logits(trial: Trials) -> None:
    sequence, without = make("rehearsal"), trial("wide").rows
    method: Any = sequence.method
    for task in sequence.tasks:
        row = sequence.run_next_task()
        assert len(method.kept) == task.index
        kept, train = method.kept[-1], task.train
        assert kept.pixels.dtype == torch.uint8 and kept.labels.tolist() == list(task.classes)
        first = torch.stack([train.images[train.labels == label][0] for label in task.classes])
        assert torch.equal(kept.pixels, first)
        x = task.unaugmented.prepare(first, None)
        assert torch.equal(kept.logits, method.predict(x)) and kept.logits.shape == (2, task.classes.stop)
        alike = row["train/loss"] == pytest.approx(without[task.index - 1]["train/loss"], rel=1e-5)
        assert alike == (task.index == 1)  # to rounding: a head of other rows is another product of matrices
    state = sequence.method.state()
    assert len(state.constant) == 9 and not any(name.startswith("kept") for name in state.tensors)


def test_kept_examples_are_augmented_anew_in_every_batch(trial: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    sequence = after(1, trial("rehearsal"))
    method: Any = sequence.method
    (kept,), seen, loss = method.kept, [], method.loss

    def recording_loss(task: Any, batch: Batch) -> Tensor:
        seen.append(batch)
        return loss(task, batch)

    monkeypatch.setattr(method, "loss", recording_loss)
    sequence.run_next_task()
    assert len(seen) == 6 and all((batch.rows >= 0).sum() == len(batch.y) - 2 for batch in seen)
    assert all(torch.equal(batch.y[-2:], kept.labels) for batch in seen)
    plain = sequence.tasks[0].unaugmented.prepare(kept.pixels, None)
    again = [batch.x[-2:] for batch in seen]
    assert len({tuple(x.flatten().tolist()) for x in again}) > 1
    assert any(not torch.equal(x, plain) for x in again)


def test_the_loss_of_rehearsal_holds_kept_logits(trial: Trials) -> None:
    sequence = after(1, trial("rehearsal"))
    method: Any = sequence.method
    (kept,) = method.kept
    x = sequence.tasks[0].unaugmented.prepare(kept.pixels, None)
    batch = Batch(x, kept.labels, torch.full((2,), -1))
    at_them = float(method.loss(sequence.tasks[0], batch).detach())
    method.kept = [kept._replace(logits=kept.logits + 1)]
    assert float(method.loss(sequence.tasks[0], batch).detach()) == pytest.approx(at_them + KEEPING, rel=1e-4)


def context(epochs: int = 2) -> Context:
    classes = tuple(task.classes for task in small_digits().tasks)
    return Context(Backbone(), classes, epochs, 8, 0, torch.device("cpu"))


def test_a_context_knows_the_tasks() -> None:
    assert context().task_classes == (range(2), range(2, 4), range(4, 6))
    assert (context().num_tasks, context().num_classes) == (3, 6)


def test_features_are_computed_in_the_precision_of_the_context() -> None:
    layer, seen = torch.nn.Linear(2, 3), []
    layer.register_forward_hook(lambda _, read, returned: seen.append(returned.dtype))
    for precision in ("fp32", "bf16"):
        given = dataclasses.replace(context(), precision=precision)
        assert given.features(layer, torch.ones(1, 2)).dtype == torch.float32
        with given.autocast():
            layer(torch.ones(1, 2))
    assert seen == [torch.float32] * 2 + [torch.bfloat16] * 2


def test_default_batches_are_shuffled_anew_and_its_own_are_passed_over_as_they_are() -> None:
    task, seen = small_digits().tasks[1], []

    def step(batch: Batch, factor: float) -> Tensor:
        seen.append((batch.rows.tolist(), factor))
        assert torch.equal(batch.y, task.train.labels[batch.rows])
        return torch.tensor(float(len(batch.y)))

    assert fit(task, context(), step) == 8.0
    order = [row for rows, _ in seen for row in rows]
    assert len(seen) == 6 and sorted(order[:24]) == sorted(order[24:]) == list(range(24)) and order[:24] != order[24:]
    seen.clear()

    def own(epoch: int) -> list[Batch]:
        rows = torch.arange(epoch + 1)
        return [Batch(torch.zeros(epoch + 1, 1), task.train.labels[rows], rows)] * 2 + [
            Batch(torch.zeros(1, 1), task.train.labels[:1], rows[:1])
        ]

    assert fit(task, context(), step, batches=own) == pytest.approx((2 * 2 + 2 * 2 + 1) / 5)  # mean per example
    assert [rows for rows, _ in seen] == [[0], [0], [0], [0, 1], [0, 1], [0]]
    assert seen[0][1] == 1.0 and seen[-1][1] == pytest.approx(0.0157, abs=1e-4)


def test_the_scale_of_divergence_is_the_losss_own() -> None:
    task = small_digits().tasks[0]

    def attempt(loss: float, **options: Any) -> float:
        return fit(task, context(1), lambda batch, factor: torch.tensor(loss), **options)

    assert attempt(BLOWN_UP * math.log(2) * 0.99) == pytest.approx(BLOWN_UP * math.log(2) * 0.99)
    with pytest.raises(DivergedError, match=r"regularised loss of 70 \(chance loss 0.69\) at task 1, step 3"):
        attempt(70.0)
    assert attempt(70.0, chance_loss=10.0) == 70.0
    with pytest.raises(DivergedError, match=r"regularised loss of 1.01e\+03 \(chance loss 10\)"):
        attempt(10.0, chance_loss=10.0, penalty=lambda: 1e3)
    method: Any = make("square").method
    untrained = method.head.logits(torch.zeros(1, 64))
    assert untrained.square().mean() == 0 and chance_square_loss(6, TARGET) == pytest.approx(37.5)
    with pytest.raises(DivergedError, match=r"\(chance loss 38\)"):
        run(make("square", lr=0.5))


@pytest.mark.parametrize("classes", [2, 7])
def test_chance_losses_are_those_of_zero_logits(classes: int) -> None:
    zero, y = torch.zeros(1, classes), torch.tensor([1])
    hot = torch.nn.functional.one_hot(y, classes).float()
    assert chance_cross_entropy(classes) == pytest.approx(float(torch.nn.functional.cross_entropy(zero, y)))
    assert (
        pytest.approx(float(torch.nn.functional.binary_cross_entropy_with_logits(zero, hot)))
        == CHANCE_BINARY_CROSS_ENTROPY
    )
    assert chance_square_loss(classes, 3.0) == pytest.approx(float(torch.nn.functional.mse_loss(zero, 3 * hot)))
    assert chance_cross_entropy(1) == chance_cross_entropy(2)
