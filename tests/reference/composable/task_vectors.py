"""The ways to run ITA and IEL, and tau_t in each: the paper, section Algorithm(s)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

Weights = dict[str, Tensor]  # by name: tuned weights (out, in), or the parameters that are trained


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to run ITA or IEL.

    Attributes:
        ensemble: IEL, which trains the composed model, or ITA, which trains the learner alone.
        kind: What tau is: "fft", "lora" or "ia3".
        official: What the authors' code does, or the paper's equations.
        strength: alpha or beta.
        cls: alpha_CLS or beta_CLS.
        prior: alpha_CLS-prior or beta_CLS-prior.
        lr: Of AdamW, at the start.
        rank: r of proj, fc1 and fc2.
        regularise: "all", "head" or "none".
    """

    ensemble: bool
    kind: str
    official: bool = False
    strength: float
    cls: float = 0.1
    prior: float = 0.01
    lr: float = 0.01
    rank: int = 2
    regularise: str = "all"

    @property
    def coupled(self) -> bool:
        """The paper, section Optimization: decoupled for LoRA and (IA)^3 only; the authors' code decouples always."""
        return self.kind == "fft" and not self.official


def start(s: Setting, theta_0: Weights, generator: torch.Generator) -> Weights:
    """Section Initialization: tau_t = 0. LoRA: B = 0; A Gaussian with deviation 1/r, in the authors' code uniform."""
    parameters: Weights = {}
    for name, weight in theta_0.items():
        if s.kind == "fft":
            parameters[f"{name}.tau"] = torch.zeros_like(weight)
        elif s.kind == "ia3":
            parameters[f"{name}.l"] = torch.ones(len(weight))
        else:
            r, fan_in = (3 * s.rank if "qkv" in name else s.rank), weight.shape[1]
            a, bound = torch.empty(r, fan_in), 1 / math.sqrt(r * fan_in)
            if s.official:
                a.uniform_(-bound, bound, generator=generator)
            else:
                a.normal_(0, 1 / r, generator=generator)
            parameters |= {f"{name}.A": a, f"{name}.B": torch.zeros(len(weight), r)}
    return {name: value.requires_grad_() for name, value in parameters.items()}


def tau_of(s: Setting, parameters: Weights, theta_0: Weights) -> Weights:
    """Full: tau itself. LoRA: B A. (IA)^3: (l - 1) theta_0, row by row."""
    if s.kind == "fft":
        return {name: parameters[f"{name}.tau"] for name in theta_0}
    if s.kind == "lora":
        return {name: parameters[f"{name}.B"] @ parameters[f"{name}.A"] for name in theta_0}
    return {name: (parameters[f"{name}.l"] - 1)[:, None] * weight for name, weight in theta_0.items()}
