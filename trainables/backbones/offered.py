"""The available backbones: the embedded one and timm's ViTs, and whether their weights are on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import timm
from huggingface_hub import try_to_load_from_cache

from trainables.backbones import glyph_vit
from trainables.backbones.inputs import EMBEDDED

_FILES = ("model.safetensors", "pytorch_model.bin")


@dataclass(frozen=True)
class Offer:
    """A backbone that `--backbone` accepts, and its images `(channels, size, size)`."""

    name: str
    channels: int
    size: int
    here: bool  # whether its weights are on this machine; else they are fetched from Hugging Face's hub


def offers(word: str = "") -> Iterator[Offer]:
    """List the backbones whose names contain a word; the embedded one comes first."""
    if word in EMBEDDED:
        yield Offer(EMBEDDED, glyph_vit.INPUT.channels, glyph_vit.INPUT.size, True)
    for name in timm.list_models(module="vision_transformer", pretrained=True):
        config = timm.get_pretrained_cfg(name)
        if word in name and config is not None:
            channels, size, _ = config.input_size
            yield Offer(name, channels, size, is_here(name))


def is_here(name: str) -> bool:
    """Whether the weights of a timm model lie in the cache of Hugging Face's hub."""
    config = timm.get_pretrained_cfg(name)
    repository = None if config is None else config.hf_hub_id
    return repository is not None and any(isinstance(try_to_load_from_cache(repository, each), str) for each in _FILES)
