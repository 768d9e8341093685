"""DER++ in float64: its reservoir against the authors' and against chance, three tasks against plain SGD."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.methods.tiny_trials import EXACT, Weights, learn
from tests.trainables.methods.sequential.tiny_sequence import (
    CONTEXT,
    TASKS,
    assert_same,
    local_cross_entropy,
    logits_of,
    make,
    plain_sgd,
    weights_of,
)
from trainables.data import Batch, Task
from trainables.methods.sequential import buffer as reservoir
from trainables.methods.sequential.buffer import ReservoirBuffer, uniform_up_to
from trainables.methods.sequential.derpp import DERpp, DERppConfig
from trainables.randomness import make_generator

LR, ALPHA, BETA = 0.02, 0.3, 0.8
ORACLE = np.load(Path(__file__).parent / "oracles" / "mammoth_reservoir.npz", allow_pickle=False)


def make_derpp(**options: Any) -> DERpp:
    derpp = make(DERpp, DERppConfig(**{"lr": LR, "alpha": ALPHA, "beta": BETA, "buffer_size": 6, **options}))
    derpp.buffer.logits = derpp.buffer.logits.double()
    return derpp


def filled(size: int, count: int, batch: int, generator: torch.Generator) -> ReservoirBuffer:
    """A buffer that was offered ids 0, 1, ...; image, label and logits say which id they belong to."""
    found = ReservoirBuffer(size, 2, torch.device("cpu"))
    for ids in torch.arange(count).split(batch):
        images = ids.to(torch.uint8)[:, None, None, None]
        found.offer(images.__getitem__, ids, torch.stack([ids, -ids], 1).float(), generator)
    return found


class PlainRehearsal:
    """The loss of DER++ and its buffer, one example at a time, in three passes."""

    def __init__(self, size: int, minibatch: int, classes: int | None) -> None:
        self.size, self.minibatch, self.classes = size, minibatch, classes
        self.stored: list[tuple[Tensor, int, Tensor]] = []
        self.count = 0

    def begin(self, task: Task) -> None:
        self.task = task
        self.draws, self.choice = (
            make_generator(CONTEXT.seed, what, task.index) for what in ("rehearsal", "reservoir")
        )

    def draw(self) -> tuple[Tensor, Tensor, Tensor]:
        slots = torch.randperm(len(self.stored), generator=self.draws)[: self.minibatch].tolist()
        images, labels, logits = zip(*(self.stored[slot] for slot in slots), strict=True)
        return self.task.train.transform(torch.stack(images), self.draws), torch.tensor(labels), torch.stack(logits)

    def loss(self, weights: Weights, batch: Batch) -> Tensor:
        outputs = logits_of(weights, batch.x)
        total = local_cross_entropy(outputs, batch.y, self.task.classes)
        if self.stored:
            x, _, z = self.draw()
            total = total + ALPHA * ((logits_of(weights, x) - z) ** 2).sum() / z.numel()
            x, y, _ = self.draw()
            seen = range(self.classes or self.task.classes.stop)
            total = total + BETA * local_cross_entropy(logits_of(weights, x), y, seen)
        for k, chance in enumerate(torch.rand(len(batch.y), dtype=torch.float64, generator=self.choice).tolist()):
            example = (self.task.train.images[batch.rows[k]], int(batch.y[k]), outputs[k].detach())  # type: ignore[index]
            slot = self.count if self.count < self.size else int(chance * (self.count + 1))
            self.count += 1
            self.stored[slot : slot + 1] = [example] if slot < self.size else []
        return total


@pytest.mark.parametrize(
    ("size", "options"),
    [(6, {}), (6, {"minibatch_size": 2, "rehearsal_classes": "seen"}), (100, {"minibatch_size": 50})],
)
def test_three_tasks_are_those_of_plain_sgd(size: int, options: dict[str, Any]) -> None:
    derpp = make_derpp(buffer_size=size, **options)
    weights = weights_of(derpp)
    classes = None if "rehearsal_classes" in options else CONTEXT.num_classes
    plain = PlainRehearsal(size, options.get("minibatch_size", CONTEXT.batch_size), classes)
    for task in TASKS:
        plain.begin(task)
        weights = plain_sgd(task, weights=weights, loss=plain.loss, lr=LR)
        learn(derpp, task)
        assert_same(derpp, weights)
        for slot, (image, label, logits) in enumerate(plain.stored):
            assert torch.equal(derpp.buffer.images[slot], image) and int(derpp.buffer.labels[slot]) == label
            torch.testing.assert_close(derpp.buffer.logits[slot], logits, **EXACT)
        assert len(derpp.buffer) == len(plain.stored)


def test_the_reservoir_is_that_of_the_authors() -> None:
    integers = iter(ORACLE["randint_0_to_n_inclusive_for_n_10_to_49"].tolist())

    def drawn(highest: Tensor, generator: torch.Generator) -> Tensor:
        return torch.tensor([next(integers) if n >= 10 else n for n in highest.tolist()])

    buffer = ReservoirBuffer(10, 1, torch.device("cpu"))
    with mock.patch.object(reservoir, "uniform_up_to", drawn):
        for ids, slots in zip(torch.arange(50).split(7), ORACLE["slots_after_each_batch_of_7"], strict=True):
            buffer.offer(ids[:, None, None, None].__getitem__, ids, ids[:, None].float(), make_generator(0, "unused"))
            assert buffer.numbers.tolist() == slots.tolist()
            filled = [slot for slot, number in enumerate(slots) if number >= 0]
            for found in (buffer.labels, buffer.logits[:, 0]):
                assert found[filled].tolist() == slots[filled].tolist()
            assert [int(buffer.images[slot]) for slot in filled] == slots[filled].tolist()
    assert next(integers, None) is None
    for slots in ORACLE["draws_of_4"]:
        order = torch.tensor([*slots, *(slot for slot in range(10) if slot not in slots)])
        with mock.patch.object(torch, "randperm", lambda count, generator, order=order: order):
            assert buffer.draw(4, make_generator(0, "unused")).labels.tolist() == buffer.numbers[slots].tolist()


def test_every_example_of_the_stream_stays_equally_often() -> None:
    """Chi-square of how often each of 40 ids is among the 8 kept, over 1,000 streams; wrong once in 10,000 if uniform.

    The counts of one stream sum to 8, so their covariance is that of drawing without replacement, and the sum of
    squares over m p (1 - p) n / (n - 1) has a chi-square distribution with n - 1 degrees of freedom.
    """
    n, size, m = 40, 8, 1000
    generator = make_generator(0, "streams")
    buffers = [filled(size, n, 7, generator) for _ in range(m)]
    counts = sum(torch.bincount(buffer.numbers, minlength=n) for buffer in buffers)
    assert isinstance(counts, Tensor)
    p = size / n
    chi_square = float(((counts - m * p) ** 2).sum()) / (m * p * (1 - p) * n / (n - 1))
    assert chi_square < 80.0  # the 0.9999 quantile of 39 degrees of freedom is 79.4
    positions = sum(F.one_hot(buffer.draw(1, generator).labels, n)[0] for buffer in buffers)
    assert isinstance(positions, Tensor)
    assert float(((positions - m / n) ** 2).sum()) / (m / n) < 80.0  # what is drawn is uniform over the stream, too


def test_whole_numbers_up_to_n_are_uniform() -> None:
    drawn = uniform_up_to(torch.full((60_000,), 5), make_generator(0, "numbers"))
    counts = torch.bincount(drawn)
    assert len(counts) == 6
    assert float(((counts - 10_000) ** 2).sum()) / 10_000 < 25.8  # the 0.9999 quantile of 5 degrees of freedom


def test_draws_are_without_replacement_and_no_more_than_there_are() -> None:
    buffer = filled(10, 4, 3, make_generator(0, "offer"))
    assert len(buffer) == 4
    generator = make_generator(0, "draw")
    for count in (1, 3, 4, 9):
        labels = buffer.draw(count, generator).labels.tolist()
        assert len(labels) == len(set(labels)) == min(count, 4)
    found = buffer.draw(3, generator)
    assert isinstance(found.images, Tensor) and found.images.dtype == torch.uint8
    assert found.images.flatten().tolist() == found.labels.tolist() == found.logits[:, 0].tolist()
    assert len({tuple(buffer.draw(4, generator).labels.tolist()) for _ in range(20)}) > 1


def test_only_images_that_stay_are_read() -> None:
    buffer = filled(5, 5, 5, make_generator(0, "offer"))
    read = mock.Mock(side_effect=lambda places: torch.zeros(len(places), 1, 1, 1, dtype=torch.uint8))
    generator, before = make_generator(0, "more"), set(buffer.numbers.tolist())
    for ids in torch.arange(5, 305).split(10):
        buffer.offer(read, ids, torch.zeros(len(ids), 2), generator)
    asked = sum(len(call.args[0]) for call in read.call_args_list)
    assert before.isdisjoint(buffer.numbers.tolist()) and 5 <= asked <= 60  # 5 ln(305 / 5) = 20.6 are expected


def test_images_of_several_sizes_are_kept_as_they_are() -> None:
    buffer = ReservoirBuffer(4, 1, torch.device("cpu"))
    images = [torch.full((3, 2 + k, 5), k, dtype=torch.uint8) for k in range(4)]
    buffer.offer(lambda places: [images[k] for k in places], torch.arange(4), torch.zeros(4, 1), make_generator(0, ""))
    found = buffer.draw(4, make_generator(0, "draw"))
    assert [image.shape[1] - 2 for image in found.images] == found.labels.tolist()
    other = ReservoirBuffer(4, 1, torch.device("cpu"))
    other.load_state(buffer.state())
    assert all(torch.equal(other.images[k], images[k]) for k in range(4)) and other.offered == 4


def test_an_image_is_constant_under_its_place_in_the_stream() -> None:
    generator = make_generator(0, "offer")
    buffer = filled(5, 20, 4, generator)
    state = buffer.state()
    assert set(state.constant) == {f"images/{number}" for number in buffer.numbers.tolist()}
    assert all(int(image) == int(name.split("/")[1]) for name, image in state.constant.items())
    assert not any(name.startswith("images") for name in state.tensors)
    other = ReservoirBuffer(5, 2, torch.device("cpu"))
    other.load_state(state)
    for each in (buffer, other):
        each.offer(
            lambda places: torch.zeros(len(places), 1, 1, 1), torch.arange(9), torch.ones(9, 2), make_generator(1, "")
        )
    assert other.numbers.tolist() == buffer.numbers.tolist() and other.labels.tolist() == buffer.labels.tolist()
    assert torch.equal(other.logits, buffer.logits) and other.offered == buffer.offered == 29


def test_the_scale_of_divergence_is_that_of_both_cross_entropies() -> None:
    derpp, seen = make_derpp(), make_derpp(rehearsal_classes="seen")
    for each in (derpp, seen):
        each.begin_task(TASKS[0])
    assert derpp.chance_loss(TASKS[0]) == pytest.approx(math.log(3) + BETA * math.log(6))
    assert seen.chance_loss(TASKS[0]) == pytest.approx((1 + BETA) * math.log(3))
