"""A finished task vector outside its network: the parameters it was learned as, its head, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainables.data import TransformSpec
from trainables.heads import Head
from trainables.task_vectors import Parametrisation, TaskVectors
from trainables.task_vectors.ia3 import ia3_tau
from trainables.task_vectors.lora import lora_tau

PARTS: dict[Parametrisation, tuple[str, ...]] = {
    "full": ("tau",),
    "lora": ("A", "B"),
    "ia3": ("l",),
    "tangent": ("tau",),
}
_DENSE: dict[Parametrisation, Callable[[dict[str, Tensor], Tensor], Tensor]] = {
    "full": lambda parts, _: parts["tau"],
    "lora": lambda parts, _: lora_tau(parts["A"], parts["B"]),
    "ia3": lambda parts, theta_0: ia3_tau(parts["l"], theta_0),
    "tangent": lambda parts, _: parts["tau"],
}


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a task vector comes from.

    Attributes:
        method: Name of the method that learned it.
        task: t, from 1.
        classes: Positions of the task's classes in the class order; consecutive.
        backbone: Name of theta_0.
        backbone_digest: sha256 over names and values of theta_0, see `Backbone.digest`.
        class_names: The names of the task's classes, in their order; empty in files from before they were kept.
        transform: What test images went through; None in such files, and where it is somebody's own.
    """

    method: str
    task: int
    classes: range
    backbone: str
    backbone_digest: str
    class_names: tuple[str, ...] = ()
    transform: TransformSpec | None = None


@dataclass(frozen=True, kw_only=True)
class SavedVector:
    """One task's tau_t and h_t.

    Attributes:
        parametrisation: What `parameters` are of.
        parameters: Tuned weight name to the parts of tau on it. "full": `tau` `(out, in)`; "lora": `A` `(r, in)` and
            `B` `(out, r)`; "ia3": `l` `(out,)`; "tangent": `tau` in the shape of the weight, biases, norms and all rows
            of the classifier (`classifier.weight`, `classifier.bias`) among them, and what counts is not theta_0 + tau
            but the model linearised at theta_0, f + J tau.
        scale: Factor of the dense form of the parameters that gives tau.
        head: h_t, rows `(c, d)` and `(c,)`.
        anchor: h0_t, the same rows of the pre-training classifier as they were at task t; theta_0 with h0 is the
            pre-trained model. None in files from before it was kept.
        origin: None in files from before it was kept.
    """

    parametrisation: Parametrisation
    parameters: dict[str, dict[str, Tensor]]
    scale: float = 1.0
    head: Head
    anchor: Head | None
    origin: Origin | None

    @torch.no_grad()
    def dense(self, name: str, theta_0: Tensor) -> Tensor:
        """Return tau on one tuned weight.

        Args:
            name: Of the weight.
            theta_0: Its pre-trained value `(out, in)`, which (IA)^3 multiplies.

        Returns:
            `(out, in)`, on the device of `theta_0`, in memory of its own.
        """
        # Copies, as memory of their own is aligned: products of numbers in a mapped file may round in another order.
        parts = {part: value.to(theta_0.device, copy=True) for part, value in self.parameters[name].items()}
        tau = _DENSE[self.parametrisation](parts, theta_0)
        return tau if self.scale == 1 else self.scale * tau

    def shape(self, name: str, theta_0: Tensor) -> torch.Size:
        """Return the shape that tau has on one tuned weight, without computing it; see `dense`."""
        parts = self.parameters[name]
        if self.parametrisation == "ia3":
            return torch.Size((len(parts["l"]), *theta_0.shape[1:]))
        return parts["tau"].shape if "tau" in parts else torch.Size((len(parts["B"]), parts["A"].shape[1]))


def saved_vector(vectors: TaskVectors, head: Head, anchor: Head | None, origin: Origin) -> SavedVector:
    """Return the task vector that a network has just learned.

    Args:
        vectors: Whose tau is the task's; what is returned holds no memory of it.
        head: h_t.
        anchor: h0_t.
        origin: The run, task and backbone that it comes from.

    Returns:
        The vector, on the CPU.
    """
    parameters = {
        name: {part: _own(value) for part, value in vectors.parameters_of(name).items()} for name in vectors.theta_0
    }
    return SavedVector(
        parametrisation=vectors.parametrisation,
        parameters=parameters,
        head=_rows(head),
        anchor=None if anchor is None else _rows(anchor),
        origin=origin,
    )


def _rows(rows: Head) -> Head:
    return _own(rows[0]), _own(rows[1])


def _own(value: Any) -> Tensor:
    return value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
