"""LoRA: tau = B A, carried by peft's layers. B = 0 at the start, so tau = 0.

Source: Hu et al. 2021, https://arxiv.org/abs/2106.09685. The scale alpha / r of that paper is 1. Rank r for proj, fc1
and fc2, 3 r for qkv, whose weight is three matrices in one.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import Linear as LoraLinear
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from trainables.backbones import tuned_layers

Init = Literal["gaussian", "uniform"]
_ADAPTER = "default"
BUILT_BELOW = 2  # times the multiplications of the factors


class _LoRALinear(LoraLinear):
    """peft's layer, which adds tau to the weight where that takes less time than adding tau x to the output.

    Per token, forward and backward, the factors cost 3 r (in + out) multiplications and several more passes over the
    output; a weight that is built costs its own gradient instead, in * out. Narrow layers with a large r are cheaper
    built, at about the factor `BUILT_BELOW`: all of the embedded ViT's, none of ViT-B's.
    """

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """See `peft.tuners.lora.Linear.forward`."""
        base = self.get_base_layer()
        a, b = self.lora_A[_ADAPTER].weight, self.lora_B[_ADAPTER].weight
        if self.disable_adapters or base.weight.numel() >= BUILT_BELOW * 3 * (a.numel() + b.numel()):
            return super().forward(x, *args, **kwargs)
        return F.linear(x, torch.addmm(base.weight, b, a, alpha=self.scaling[_ADAPTER]), base.bias)


class LoRATaskVectors:
    """See `TaskVectors`. Two parameters per weight: A `(r, in)` and B `(out, r)`.

    Args:
        model: The backbone; its tuned layers are replaced by peft's.
        rank: r.
        init: How A starts. "gaussian": standard deviation 1/r, as the paper says and peft does; "uniform": within
            +-1/sqrt(r * in), as the authors' code does.
    """

    def __init__(self, model: VisionTransformer, rank: int = 16, init: Init = "gaussian") -> None:
        targets = tuned_layers(model)
        self.theta_0 = {f"{name}.weight": layer.weight.detach().clone() for name, layer in targets.items()}
        ranks = {name: 3 * rank if name.endswith("qkv") else rank for name in targets}
        config = LoraConfig(
            r=rank, lora_alpha=rank, target_modules=list(targets), rank_pattern=ranks, alpha_pattern=dict(ranks)
        )
        config._register_custom_module({nn.Linear: _LoRALinear})
        self.init = init
        with torch.random.fork_rng(devices=[]):  # peft fills A from the global generator; `begin` draws it anew
            self.model: nn.Module = get_peft_model(model, config)
        self.layers: dict[str, LoraLinear] = {
            f"{name}.weight": self.model.get_submodule(f"base_model.model.{name}") for name in targets
        }
        self._factors: dict[str, list[nn.Parameter]] = {
            name: [layer.lora_A[_ADAPTER].weight, layer.lora_B[_ADAPTER].weight] for name, layer in self.layers.items()
        }

    def begin(self, scale: float, generator: torch.Generator) -> None:
        """See `TaskVectors`."""
        self.model.enable_adapter_layers()  # type: ignore[operator]
        for name, layer in self.layers.items():
            layer.scaling[_ADAPTER] = scale
            a, b = self.parameters_of(name)
            rank, fan_in = a.shape
            start = torch.empty(a.shape, dtype=a.dtype)  # drawn on the CPU: the same start on every device
            if self.init == "gaussian":
                start.normal_(0, 1 / rank, generator=generator)
            else:
                bound = 1 / math.sqrt(rank * fan_in)
                start.uniform_(-bound, bound, generator=generator)
            with torch.no_grad():
                a.copy_(start)
                b.zero_()

    def set_base(self, name: str, weight: Tensor) -> None:
        """See `TaskVectors`."""
        with torch.no_grad():
            self.layers[name].base_layer.weight.copy_(weight)

    def disable(self) -> None:
        """See `TaskVectors`."""
        self.model.disable_adapter_layers()  # type: ignore[operator]

    def parameters(self) -> list[nn.Parameter]:
        """See `TaskVectors`."""
        return [parameter for name in self.theta_0 for parameter in self.parameters_of(name)]

    def parameters_of(self, name: str) -> list[nn.Parameter]:
        """See `TaskVectors`."""
        return self._factors[name]

    def dense(self, name: str) -> Tensor:
        """See `TaskVectors`."""
        a, b = self.parameters_of(name)
        return b @ a

    def pull_back(self, name: str, gradient: Tensor) -> list[Tensor]:
        """See `TaskVectors`: gA = B^T g and gB = g A^T."""
        a, b = self.parameters_of(name)
        return [b.T @ gradient, gradient @ a.T]

    def save(self, folder: Path) -> None:
        """Write the adapter in PEFT's format: `PeftModel.from_pretrained(backbone, folder)` gives theta_0 + tau."""
        self.model.save_pretrained(str(folder), save_embedding_layers=False)  # type: ignore[operator]
