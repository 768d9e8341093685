"""Linear classifiers on a backbone's features: initial rows, one head per task, and one head for all classes.

Rows are in class order, so the rows of a task follow those of earlier tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.state import State

Head = tuple[Tensor, Tensor]  # weight (classes, d) and bias (classes,)
HeadStart = Literal["normal", "linear"]
HeadUse = Literal["concatenated", "averaged"]
"""How a composition of T tasks takes the rows h_t: as trained, or with 1/T of their way h_t - h0_t."""
HEAD_STD = 0.02  # as timm initialises classifiers


def new_head(classes: int, width: int, generator: torch.Generator) -> Head:
    """Return fresh head rows: weight `(classes, width)`, truncated normal with standard deviation 0.02; zero bias."""
    weight = torch.empty(classes, width)
    torch.nn.init.trunc_normal_(weight, std=HEAD_STD, generator=generator)
    return weight, torch.zeros(classes)


def first_head(classes: range, width: int, generator: torch.Generator, initial: Tensor | None) -> Head:
    """Return the first rows of a head of some classes: those in `initial`, `(C, width)`, and a zero bias, or drawn."""
    if initial is None:
        return new_head(len(classes), width, generator)
    return initial[classes.start : classes.stop].clone(), torch.zeros(len(classes))


def uniform_head(classes: int, width: int, generator: torch.Generator) -> Head:
    """Return weight `(classes, width)` and bias, uniform within 1/sqrt(width), in one draw for both."""
    start = torch.empty(classes, width + 1).uniform_(-(width**-0.5), width**-0.5, generator=generator)
    return start[:, :-1].contiguous(), start[:, -1].contiguous()


def linear_head(classes: int, width: int, generator: torch.Generator) -> Head:
    """Return the rows that torch's `nn.Linear` draws: weight, then bias, uniform within 1/sqrt(width)."""
    bound = width**-0.5
    weight, bias = torch.empty(classes, width), torch.empty(classes)
    return weight.uniform_(-bound, bound, generator=generator), bias.uniform_(-bound, bound, generator=generator)


HEAD_STARTS: dict[HeadStart, Callable[[int, int, torch.Generator], Head]] = {"normal": new_head, "linear": linear_head}


def part_of_way(start: Head, end: Head, share: float) -> Head:
    """Return a head that has gone a share of the way from one to another."""
    return end if share == 1 else (start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1]))


class Heads:
    """Frozen heads h_1, ..., h_{t-1} of finished tasks, and the trainable head h_t, on features of width d.

    Attributes:
        weight: Rows of finished heads, `(C_past, d)`.
        bias: Their biases, `(C_past,)`.
        current: The parameters of h_t, weight `(c_t, d)` and bias `(c_t,)`; empty between tasks.
    """

    def __init__(self, width: int, device: torch.device) -> None:
        self.weight = torch.empty(0, width, device=device)
        self.bias = torch.empty(0, device=device)
        self.current: list[nn.Parameter] = []

    def begin(self, start: Head) -> None:
        """Begin the head of a new task at the given rows, `(c, d)` and `(c,)`."""
        self.current = [nn.Parameter(part.detach().clone().to(self.weight.device)) for part in start]

    def end(self) -> None:
        """Freeze the current head: its rows join the finished ones."""
        weight, bias = (part.detach() for part in self.current)
        self.weight, self.bias = torch.cat([self.weight, weight]), torch.cat([self.bias, bias])
        self.current = []

    def local_logits(self, features: Tensor) -> Tensor:
        """Return logits of the current task's classes alone: `(b, d)` to `(b, c_t)`.

        Their cross-entropy equals that of all logits with past classes masked by -inf.
        """
        weight, bias = self.current
        return F.linear(features, weight, bias)

    def logits(self, features: Tensor) -> Tensor:
        """Return logits of all finished classes: `(b, d)` to `(b, C)`."""
        return F.linear(features, self.weight, self.bias)

    def state(self) -> State:
        """Return the rows of finished heads."""
        return State({"weight": self.weight, "bias": self.bias})

    def load_state(self, state: State) -> None:
        """Load the rows of finished heads."""
        self.weight = state.tensors["weight"].to(self.weight.device, copy=True)
        self.bias = state.tensors["bias"].to(self.bias.device, copy=True)


class WideHead:
    """One trainable classifier on features of width d, over the classes seen so far or over all classes.

    It begins without rows. Call `grow` with a task's rows at each task, or once with the rows of all classes.
    """

    def __init__(self, width: int, device: torch.device) -> None:
        self.weight = nn.Parameter(torch.empty(0, width, device=device))  # (C, d)
        self.bias = nn.Parameter(torch.empty(0, device=device))

    def parameters(self) -> list[nn.Parameter]:
        """Return weight and bias; `grow` replaces both, so build the optimiser afterwards."""
        return [self.weight, self.bias]

    def grow(self, head: Head) -> None:
        """Append rows, `(c, d)` and `(c,)`; earlier rows keep their values."""
        weight, bias = (part.detach().to(self.weight.device) for part in head)
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), weight]))
        self.bias = nn.Parameter(torch.cat([self.bias.detach(), bias]))

    def logits(self, features: Tensor) -> Tensor:
        """Return logits of all rows: `(b, d)` to `(b, C)`."""
        return F.linear(features, self.weight, self.bias)

    def local_logits(self, features: Tensor, classes: range) -> Tensor:
        """Return logits of consecutive classes alone: `(b, d)` to `(b, c)`.

        The local cross-entropy uses them with labels relative to the first of the classes. Other classes are not in its
        softmax and get no gradient. In evaluation the classes are all that were seen.
        """
        rows = slice(classes.start, classes.stop)
        return F.linear(features, self.weight[rows], self.bias[rows])

    def state(self) -> State:
        """Return all rows."""
        return State({"weight": self.weight.detach(), "bias": self.bias.detach()})
