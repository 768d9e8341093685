"""The available backbones: the embedded one and those of timm, and whether their weights are on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import timm
from huggingface_hub import try_to_load_from_cache

from trainables.backbones import glyph_vit
from trainables.backbones.inputs import EMBEDDED

# Each has learned two tasks of six images with random weights, and was composed, exported and predicted: by hand as the
# name says, at its own size of images or the one behind `?`; in the (mostly slow) tests at the sizes beside it, pixels.
TRIED: Mapping[str, tuple[int, ...]] = {
    "vit_tiny_patch16_224": (96, 224),
    "deit_small_patch16_224": (96,),
    "deit_small_distilled_patch16_224": (96,),
    "vit_small_patch14_dinov2?img_size=224": (84,),
    "vit_small_patch14_reg4_dinov2?img_size=224": (84,),
    "vit_base_patch16_clip_224": (96,),
    "vit_small_patch16_dinov3": (96,),
    "vit_small_plus_patch16_dinov3": (96,),
    "eva02_tiny_patch14_224": (84,),
}
_MODULES = ("vision_transformer", "deit", "eva")  # of timm: those whose networks we know
_FILES = ("model.safetensors", "pytorch_model.bin")


@dataclass(frozen=True)
class Offer:
    """A backbone that `--backbone` accepts, and its images `(channels, size, size)`."""

    name: str
    channels: int
    size: int
    here: bool  # whether its weights are on this machine; else they are fetched from Hugging Face's hub
    tried: str | None = None  # the name under which its architecture was run by hand, with random weights
    tested: tuple[int, ...] = ()  # the sizes of images, pixels, at which tests run its architecture


def offers(word: str = "") -> Iterator[Offer]:
    """List the backbones whose names contain a word; the embedded one comes first."""
    if word in EMBEDDED:
        size = glyph_vit.INPUT.size
        yield Offer(EMBEDDED, glyph_vit.INPUT.channels, size, True, EMBEDDED, (size,))
    for name in sorted({each for module in _MODULES for each in timm.list_models(module=module, pretrained=True)}):
        config = timm.get_pretrained_cfg(name)
        if word in name and config is not None:
            channels, size, _ = config.input_size
            tried = next((each for each in TRIED if each.partition("?")[0] == name.partition(".")[0]), None)
            yield Offer(name, channels, size, is_here(name), tried, TRIED[tried] if tried else ())


def is_here(name: str) -> bool:
    """Whether the weights of a timm model lie in the cache of Hugging Face's hub."""
    config = timm.get_pretrained_cfg(name.partition("?")[0])
    repository = None if config is None else config.hf_hub_id
    return repository is not None and any(isinstance(try_to_load_from_cache(repository, each), str) for each in _FILES)
