"""Pre-trained ViTs: theta_0, and which of its weights the composable learners tune.

timm takes two seconds to import, and the driver of a search on an embedded benchmark does not need it. So timm is
imported when a network is built.

Not here: classifiers on the features (`heads`), and changes of the weights (`task_vectors`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import nn

from trainables.backbones import glyph_vit
from trainables.backbones.inputs import EMBEDDED, SMALL, AttentionKind, InputSpec, Shape, Tokens
from trainables.errors import InputError

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

__all__ = ["EMBEDDED", "SMALL", "AttentionKind", "Backbone", "InputSpec", "Shape", "Tokens", "tuned_layers"]


_TUNED_SUFFIXES = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")


@dataclass(frozen=True)
class Backbone:
    """A pre-trained ViT by name.

    Attributes:
        name: `glyph_vit` (embedded) or any timm VisionTransformer, such as `vit_base_patch16_224.augreg_in21k`.
        weights: A local safetensors file to read instead of the embedded file or the hub.
    """

    name: str = EMBEDDED
    weights: Path | None = None

    @classmethod
    def of(cls, name: str, weights: str | None) -> Backbone:
        """Return the backbone that a file names, with the path of its weights as text."""
        return cls(name, None if weights is None else Path(weights))

    def load(
        self, device: torch.device | str = "cpu", *, tokens: Tokens = "class", attention: AttentionKind = "fused"
    ) -> VisionTransformer:
        """Return the ViT with its pre-trained weights, in eval mode, no head: `(b, c, h, w)` to CLS features `(b, d)`.

        Args:
            device: The device of the network.
            tokens: "class" skips computations of the last block that the class token does not need; "all" keeps the
                block whole, so that every token can be read and `TokenViT` can open it.
            attention: "fused" is the fastest; "plain" writes attention as explicit products, which have forward-mode
                derivatives (`torch.func.jvp`) and the same values up to the order of sums.

        Raises:
            InputError: If timm knows no ViT of that name, or the weights cannot be fetched, read or fitted.
        """
        from trainables.backbones.loading import load  # imports timm, which takes two seconds

        return load(self.name, self.weights, torch.device(device), tokens, attention)

    @property
    def input(self) -> InputSpec:
        """The images that the backbone reads; known without its weights.

        Raises:
            InputError: If timm knows no model of that name.
        """
        if self.name == EMBEDDED:
            return glyph_vit.INPUT
        import timm  # takes two seconds to import

        config = timm.get_pretrained_cfg(self.name) if timm.is_model(self.name) else None
        if config is None:
            raise InputError(f"unknown backbone {self.name!r}; allowed: {EMBEDDED} or a timm VisionTransformer")
        channels, size, _ = config.input_size
        return InputSpec(channels, size, tuple(config.mean), tuple(config.std))

    @property
    def shape(self) -> Shape:
        """The backbone's size, and whether `TokenViT` can open it; known without its weights.

        Raises:
            InputError: If timm knows no ViT of that name.
        """
        if self.name == EMBEDDED:
            return glyph_vit.SHAPE
        from trainables.backbones.loading import shape_of  # imports timm, which takes two seconds

        return shape_of(self.name)

    @property
    def here(self) -> bool:
        """Whether the weights are on this machine; else they are fetched from Hugging Face's hub."""
        if self.name == EMBEDDED or self.weights is not None:
            return True
        from trainables.backbones.offered import is_here  # imports timm, which takes two seconds

        return is_here(self.name)

    @property
    def digest(self) -> str:
        """sha256 over names and values of all weights, wherever they were read from."""
        state = None if self.weights is None or not self.weights.exists() else self.weights.stat()
        return _digest(self, None if state is None else (state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=8)
def _digest(backbone: Backbone, _file_state: tuple[int, int] | None) -> str:
    """Digest a backbone's weights, once per process and state of the file."""
    digest = hashlib.sha256()
    # The embedded file has exactly the network's tensors, so no network needs to be built.
    state = load_file(glyph_vit.WEIGHTS) if backbone == Backbone() else backbone.load().state_dict()
    for name, value in sorted(state.items()):
        digest.update(name.encode())
        digest.update(memoryview(value.contiguous().numpy()).cast("B"))
    return digest.hexdigest()


def tuned_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """Return the linear layers that have a task vector: qkv, proj, fc1, fc2 of every block, in block order."""
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and name.endswith(_TUNED_SUFFIXES)
    }
    if not layers:
        raise InputError(f"{type(model).__name__} has no layer named {', '.join(_TUNED_SUFFIXES)}")
    return layers
