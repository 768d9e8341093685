"""A rehearsal buffer: a uniform sample of a stream of examples, each with its label and logits.

Reservoir sampling: example n (from 0) goes to slot n while there is room. After that it draws r uniformly from
0, ..., n and takes slot r if that slot exists. So after n examples each is in the buffer with probability M / n.

Source: Vitter 1985, https://doi.org/10.1145/3147.3165, algorithm R; in this use Buzzega et al. 2020,
https://arxiv.org/abs/2004.07211, and the authors' code (mammoth, `utils/buffer.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from trainables.data import Images, stacked
from trainables.state import State

EMPTY = -1  # no slot, or no example in a slot


class Rehearsed(NamedTuple):
    """Some examples of the buffer."""

    images: Images  # as stored, uint8 on the CPU
    labels: Tensor  # int64 (b,)
    logits: Tensor  # (b, C), of the step in which each example was seen


class ReservoirBuffer:
    """A buffer of M slots for examples of a stream; labels and C logits are on a device, images on the CPU."""

    def __init__(self, size: int, classes: int, device: torch.device) -> None:
        self.offered = 0  # examples that the stream has had
        self.numbers = torch.full((size,), EMPTY)  # (M,), place in the stream of each slot's example
        self.images: dict[int, Tensor] = {}  # by slot
        self.labels = torch.zeros(size, dtype=torch.int64, device=device)
        self.logits = torch.zeros(size, classes, device=device)

    def __len__(self) -> int:
        return min(self.offered, len(self.numbers))

    def offer(
        self, read: Callable[[Tensor], Images], labels: Tensor, logits: Tensor, generator: torch.Generator
    ) -> None:
        """Offer the next b examples of the stream; some of them stay.

        `read` gets places `(k,)` among these examples and returns their raw images. Labels are `(b,)`, logits `(b, C)`
        without gradient.
        """
        numbers = torch.arange(self.offered, self.offered + len(labels))
        self.offered += len(labels)
        taken = enumerate(self._slots(numbers, generator).tolist())
        last = {slot: place for place, slot in taken if slot != EMPTY}  # a later example replaces an earlier one
        if not last:
            return
        slots, places = torch.tensor(list(last)), torch.tensor(list(last.values()))
        self.numbers[slots] = numbers[places]
        self.images |= {slot: image.clone() for slot, image in zip(last, read(places), strict=True)}
        slots, places = slots.to(labels.device), places.to(labels.device)
        self.labels[slots], self.logits[slots] = labels[places], logits[places]

    def _slots(self, numbers: Tensor, generator: torch.Generator) -> Tensor:
        """Return the slot that each example of the stream takes: `(b,)`."""
        size = len(self.numbers)
        slots = torch.where(numbers < size, numbers, uniform_up_to(numbers, generator))
        return torch.where(slots < size, slots, EMPTY)

    def draw(self, count: int, generator: torch.Generator) -> Rehearsed:
        """Return up to `count` examples drawn without replacement, in the order of the draw."""
        slots = torch.randperm(len(self), generator=generator)[:count]
        images = stacked([self.images[slot] for slot in slots.tolist()])
        slots = slots.to(self.labels.device)
        return Rehearsed(images, self.labels[slots], self.logits[slots])

    def state(self) -> State:
        """Return the buffer's content; an image is written once, under its place in the stream."""
        images = {f"images/{int(self.numbers[slot])}": image for slot, image in self.images.items()}
        tensors = {"numbers": self.numbers, "labels": self.labels, "logits": self.logits}
        return State(tensors, images, {"offered": self.offered})

    def load_state(self, state: State) -> None:
        """Continue from the `state` of a buffer of the same size."""
        for tensor, name in ((self.numbers, "numbers"), (self.labels, "labels"), (self.logits, "logits")):
            tensor.copy_(state.tensors[name])
        kept = ((slot, number) for slot, number in enumerate(self.numbers.tolist()) if number != EMPTY)
        self.images = {slot: state.constant[f"images/{number}"] for slot, number in kept}
        self.offered = int(str(state.values["offered"]))


def uniform_up_to(highest: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a whole number from 0, ..., n for each n: int64 `(b,)` to `(b,)`."""
    return (torch.rand(len(highest), dtype=torch.float64, generator=generator) * (highest + 1)).long()
