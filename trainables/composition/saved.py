"""A finished task vector outside its network: its learned parameters, its head and its origin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from trainables.data import TransformSpec
from trainables.heads import Head, HeadUse, part_of_way
from trainables.task_vectors import IA3TaskVectors, Parametrisation, TaskVectors
from trainables.task_vectors.lora import lora_tau

PARTS: dict[Parametrisation, tuple[str, ...]] = {
    "full": ("tau",),
    "lora": ("A", "B"),
    "ia3": ("l",),
    "tangent": ("tau",),
    "feature-tangent": ("tau",),
}


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The origin of a task vector."""

    method: str
    task: int  # t, from 1
    classes: range  # positions of the task's classes in the class order
    backbone: str  # name of theta_0
    backbone_digest: str  # sha256 of theta_0, see `Backbone.digest`
    class_names: tuple[str, ...] = ()  # of the task's classes, in their order
    transform: TransformSpec | None = None  # of test images; None for the code of a user's own benchmark


@dataclass(frozen=True, kw_only=True)
class SavedVector:
    """One task's tau_t and h_t.

    Attributes:
        parametrisation: The kind of `parameters`.
        parameters: Tuned weight name to the parts of its tau. "full": `tau` `(out, in)`; "lora": `A` `(r, in)` and
            `B` `(out, r)`; "ia3": `l` `(out,)`; "tangent": `tau` in the shape of the weight. Tangents also have biases,
            norms and all rows of the classifier (`classifier.weight`, `classifier.bias`), and their model is not
            theta_0 + tau but linearised at theta_0, f + J tau. "feature-tangent": the same for the features alone, with
            the class token and without the classifier.
        scale: tau divided by the dense form of the parameters.
        head: h_t, rows `(c, d)` and `(c,)`.
        anchor: h0_t, the same rows of the pre-training classifier at task t; theta_0 with h0 is the pre-trained model.
        heads: How a composition takes the rows.
        origin: The method, task and backbone of the vector.
        curvature_file: The file with the curvature of the task, if there is one beside the vector.
    """

    parametrisation: Parametrisation
    parameters: dict[str, dict[str, Tensor]]
    scale: float = 1.0
    head: Head
    anchor: Head
    heads: HeadUse = "concatenated"
    origin: Origin
    curvature_file: Path | None = None

    @torch.no_grad()
    def dense(self, name: str, theta_0: Tensor) -> Tensor:
        """Return tau on one tuned weight, `(out, in)`, on the device of `theta_0` and in memory of its own.

        `theta_0` is the weight's pre-trained value `(out, in)`, which (IA)^3 multiplies.
        """
        # Copies have aligned memory. Products of tensors mapped from a file may round in another order.
        parts = {part: value.to(theta_0.device, copy=True) for part, value in self.parameters[name].items()}
        if self.parametrisation == "lora":
            tau = lora_tau(parts["A"], parts["B"])
        elif self.parametrisation == "ia3":
            tau = IA3TaskVectors.tau_of(parts["l"], theta_0)
        else:
            tau = parts["tau"]
        return tau if self.scale == 1 else self.scale * tau

    def rows(self, tasks: int) -> Head:
        """Return the task's rows `(c, d)` and `(c,)` in a composition of so many tasks."""
        return part_of_way(self.anchor, self.head, 1 / tasks) if self.heads == "averaged" else self.head

    def shape(self, name: str, theta_0: Tensor) -> torch.Size:
        """Return the shape of `dense` without computing tau."""
        parts = self.parameters[name]
        if self.parametrisation == "ia3":
            return torch.Size((len(parts["l"]), *theta_0.shape[1:]))
        return parts["tau"].shape if "tau" in parts else torch.Size((len(parts["B"]), parts["A"].shape[1]))


def saved_vector(
    vectors: TaskVectors, head: Head, anchor: Head, origin: Origin, heads: HeadUse = "concatenated"
) -> SavedVector:
    """Return the task vector that a network has just learned, copied to the CPU."""

    def own(value: Tensor) -> Tensor:
        return value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)

    parameters = {
        name: {part: own(value) for part, value in vectors.parameters_of(name).items()} for name in vectors.theta_0
    }
    return SavedVector(
        parametrisation=vectors.parametrisation,
        parameters=parameters,
        head=(own(head[0]), own(head[1])),
        anchor=(own(anchor[0]), own(anchor[1])),
        heads=heads,
        origin=origin,
    )
