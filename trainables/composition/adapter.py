"""The factors of a LoRA task vector in PEFT's format.

Source: https://huggingface.co/docs/peft/developer_guides/checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from trainables.composition.saved import SavedVector
from trainables.task_vectors.lora import lora_tau
from trainables.tensor_files import read_weights, save_tensors, sealed

ADAPTER_FILE = "adapter_model.safetensors"
_CONFIG_FILE = "adapter_config.json"
_PREFIX = "base_model.model."


def concatenated(vectors: Iterable[SavedVector], weights: Sequence[float]) -> dict[str, dict[str, Tensor]]:
    """Return exact factors of sum_t w_t tau_t on each tuned weight: `A` `(sum of r, in)` and `B` `(out, sum of r)`.

    The factors stand side by side, weight and scale in B. peft's own `add_weighted_adapter("linear")` sums A and B
    separately, and their product is another matrix. Weights may be negative. A vector of weight 0 adds no rank.
    """
    factors: dict[str, tuple[list[Tensor], list[Tensor]]] = {}
    for vector, weight in zip(vectors, weights, strict=True):
        for name, parts in vector.parameters.items() if weight else ():
            a, b = factors.setdefault(name, ([], []))
            a.append(parts["A"])
            b.append(weight * vector.scale * parts["B"])
    return {name: {"A": torch.cat(a), "B": torch.cat(b, dim=1)} for name, (a, b) in factors.items()}


def write_adapter(
    folder: Path, parameters: dict[str, dict[str, Tensor]], header: Mapping[str, str] | None = None
) -> None:
    """Write an adapter: `PeftModel.from_pretrained(backbone, folder)` gives theta_0 + tau.

    `parameters` has `A` `(r, in)` and `B` `(out, r)` of each tuned weight. `header` adds entries to the file's header,
    such as the names of the classes. The folder is made if missing.
    """
    factors = {name.removesuffix(".weight"): parts for name, parts in parameters.items()}
    ranks = {name: len(parts["A"]) for name, parts in factors.items()}
    config = {  # the other settings of `peft.LoraConfig` stay at their defaults
        "peft_type": "LORA",
        "r": min(ranks.values()),
        "lora_alpha": min(ranks.values()),
        "target_modules": list(ranks),
        "rank_pattern": ranks,
        "alpha_pattern": ranks,
        "inference_mode": True,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tensors = {
        f"{_PREFIX}{name}.lora_{letter}.weight": parts[letter].contiguous()
        for name, parts in factors.items()
        for letter in "AB"
    }
    save_tensors(folder / ADAPTER_FILE, tensors, sealed({"format": "pt", **(header or {})}, tensors))


def read_adapter(folder: Path, theta_0: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tau `(out, in)` by tuned weight name from an adapter; a missing one: OSError, a wrong one: ValueError."""
    tensors, _ = read_weights(folder / ADAPTER_FILE)
    taus = {}
    for name, weight in theta_0.items():
        prefix = f"{_PREFIX}{name.removesuffix('.weight')}"
        a, b = (tensors.pop(f"{prefix}.lora_{letter}.weight", torch.empty(0)) for letter in "AB")
        if a.ndim != 2 or b.ndim != 2 or len(a) != b.shape[1] or (len(b), a.shape[1]) != weight.shape:
            raise ValueError(f"{name!r} has the factors {tuple(a.shape)} and {tuple(b.shape)} of {tuple(weight.shape)}")
        taus[name] = lora_tau(a, b)
    if tensors:
        raise ValueError(f"{min(tensors)!r} is not a part of it")
    return taus
