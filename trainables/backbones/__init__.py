"""Pre-trained ViTs: theta_0, and which of its weights the composable learners tune."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import timm
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from trainables.backbones import glyph_vit
from trainables.backbones.class_token import read_class_token_only
from trainables.backbones.few_tokens import attend_plainly
from trainables.backbones.inputs import InputSpec
from trainables.errors import InputError

__all__ = ["EMBEDDED", "Backbone", "InputSpec", "tuned_layers"]

EMBEDDED = "glyph_vit"
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

    def load(self, device: torch.device | str = "cpu") -> VisionTransformer:
        """Build the ViT with its pre-trained weights, in eval mode, no head: `(b, c, h, w)` to CLS features `(b, d)`.

        Args:
            device: Where it will compute.

        Returns:
            The network, on `device`.

        Raises:
            InputError: If timm knows no ViT of that name, or the weights cannot be had or do not fit.
        """
        with torch.random.fork_rng(devices=[]):  # timm first fills the weights from the global generator
            if self.name == EMBEDDED:
                model = glyph_vit.build()
                _load_weights(model, self.weights or glyph_vit.WEIGHTS)
            else:
                model = _load_timm(self.name, self.weights)
        read_class_token_only(model)
        if torch.device(device).type == "cpu":
            attend_plainly(model)
        return model.eval().to(device)

    @property
    def input(self) -> InputSpec:
        """What it reads; known without its weights.

        Raises:
            InputError: If timm knows no model of that name.
        """
        if self.name == EMBEDDED:
            return glyph_vit.INPUT
        config = timm.get_pretrained_cfg(self.name) if timm.is_model(self.name) else None
        if config is None:
            raise InputError(f"unknown backbone {self.name!r}; allowed: {EMBEDDED} or a timm VisionTransformer")
        channels, size, _ = config.input_size
        return InputSpec(channels, size, tuple(config.mean), tuple(config.std))

    @property
    def digest(self) -> str:
        """sha256 over names and values of all weights; the same wherever they were read from."""
        state = None if self.weights is None or not self.weights.exists() else self.weights.stat()
        return _digest(self, None if state is None else (state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=8)
def _digest(backbone: Backbone, _file_state: tuple[int, int] | None) -> str:
    """Digest a backbone's weights once per process, and again if the file has changed."""
    digest = hashlib.sha256()
    for name, value in sorted(backbone.load().state_dict().items()):
        digest.update(name.encode())
        digest.update(memoryview(value.contiguous().numpy()).cast("B"))
    return digest.hexdigest()


def tuned_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """Return the linear layers whose weights have a task vector: qkv, proj, fc1, fc2 of every block, in block order."""
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and name.endswith(_TUNED_SUFFIXES)
    }
    if not layers:
        raise InputError(f"{type(model).__name__} has no layer named {', '.join(_TUNED_SUFFIXES)}")
    return layers


def _load_weights(model: nn.Module, path: Path) -> None:
    """Load a safetensors file; the classifier of the pre-training, which files from the hub have, is left out."""
    try:
        state = {name: value for name, value in load_file(path).items() if not name.startswith("head.")}
    except (OSError, SafetensorError) as error:
        raise InputError(f"weights {path}: cannot be read as safetensors ({error})") from error
    problem = _misfit(model.state_dict(), state)
    if problem:
        raise InputError(f"weights {path}: do not fit the backbone: {problem}")
    model.load_state_dict(state)


def _misfit(wanted: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> str | None:
    """Say what is wrong with the first tensor that is."""
    for name in sorted(wanted.keys() | state.keys()):
        if name not in state:
            return f"{name!r} is missing"
        if name not in wanted:
            return f"{name!r} is not a part of it"
        if wanted[name].shape != state[name].shape:
            return f"{name!r} is {tuple(state[name].shape)}, must be {tuple(wanted[name].shape)}"
        if not state[name].isfinite().all():
            return f"{name!r} holds values that are not finite"
    return None


def _load_timm(name: str, weights: Path | None) -> VisionTransformer:
    if not timm.is_model(name):
        raise InputError(f"unknown backbone {name!r}; allowed: {EMBEDDED} or a timm VisionTransformer")
    with torch.device("meta"):  # its kind, before anything is fetched
        model = timm.create_model(name, pretrained=False, num_classes=0)
    if not isinstance(model, VisionTransformer):
        raise InputError(f"backbone {name!r} is a {type(model).__name__}, needs a timm VisionTransformer")
    if weights is not None:
        model = timm.create_model(name, pretrained=False, num_classes=0)
        _load_weights(model, weights)
    else:
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its retries; the line below says how it ended
        try:
            model = timm.create_model(name, pretrained=True, num_classes=0)
        except Exception as error:  # the hub's client raises many kinds; each means "no weights"
            first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(
                f"backbone {name!r}: its weights cannot be fetched ({first_line}); give a local file with --weights"
            ) from error
    return model
