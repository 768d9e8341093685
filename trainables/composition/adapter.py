"""The factors of a LoRA task vector in PEFT's format.

Source: https://huggingface.co/docs/peft/developer_guides/checkpoint.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from trainables.tensor_files import save_tensors


def write_adapter(folder: Path, parameters: dict[str, dict[str, Tensor]]) -> None:
    """Write an adapter: `PeftModel.from_pretrained(backbone, folder)` gives theta_0 + tau.

    Args:
        folder: The folder to write to; made if missing.
        parameters: Tuned weight name to `A` `(r, in)` and `B` `(out, r)`.
    """
    # peft takes more than a second to import, and a search saves no task vectors: so not at the head of the file.
    from peft import LoraConfig

    factors = {name.removesuffix(".weight"): parts for name, parts in parameters.items()}
    ranks = {name: len(parts["A"]) for name, parts in factors.items()}
    config = LoraConfig(
        r=min(ranks.values()),
        lora_alpha=min(ranks.values()),
        target_modules=list(ranks),
        rank_pattern=ranks,
        alpha_pattern=ranks,
        inference_mode=True,
    )
    config.save_pretrained(str(folder))
    tensors = {
        f"base_model.model.{name}.lora_{letter}.weight": parts[letter].contiguous()
        for name, parts in factors.items()
        for letter in "AB"
    }
    save_tensors(folder / "adapter_model.safetensors", tensors, {"format": "pt"})
