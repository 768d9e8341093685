"""timm's backbones by name: `NAME`, or `NAME?img_size=224` for another size of images than the model's own."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import timm
import torch
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from checked_input.names import choices, meant
from trainables.backbones.inputs import EMBEDDED, InputSpec
from trainables.errors import InputError
from trainables.user_code import BY_CODE, installed

_KNOWN = (VisionTransformer, Eva)  # networks whose features, blocks and linear layers we know
_OPTION = "img_size"
_LARGEST = 2048  # pixels


class TimmName(NamedTuple):
    """A name of timm, and the side of the images in pixels if it is not the model's own."""

    architecture: str
    size: int | None

    @property
    def options(self) -> dict[str, Any]:
        """What `timm.create_model` takes besides the architecture."""
        return {} if self.size is None else {_OPTION: self.size}


@cache
def is_of_timm(architecture: str) -> bool:
    """Whether timm has a model of this name, with the weights that may stand behind its dot."""
    try:
        return timm.is_model(architecture) and timm.get_pretrained_cfg(architecture) is not None
    except RuntimeError:
        return False


def timm_name(name: str) -> TimmName:
    """Return the parts of a backbone's name; a model, weights or option that timm does not have is an InputError."""
    architecture, _, option = name.partition("?")
    if not timm.is_model(architecture):
        own = (EMBEDDED, *installed("backbone"))
        allowed = f"allowed: {', '.join(own)}, a VisionTransformer or Eva of timm, {BY_CODE}"
        raise InputError(f"unknown backbone {name!r}; {allowed}{meant(architecture, [*own, *timm.list_models()])}")
    _require_tag(architecture)
    if not option:
        return TimmName(architecture, None)
    key, _, value = option.partition("=")
    if key != _OPTION or not value.isdecimal() or not 1 <= int(value) <= _LARGEST:
        raise InputError(f"backbone {name!r}: behind ? goes {_OPTION}=PIXELS, at most {_LARGEST}")
    return TimmName(architecture, int(value))


def _require_tag(architecture: str) -> None:
    """Refuse weights of a model that timm does not know: `augreg` of `vit_tiny_patch16_224.augreg`."""
    try:
        timm.get_pretrained_cfg(architecture)
    except RuntimeError:
        model, _, tag = architecture.partition(".")
        tags = [each.partition(".")[2] for each in timm.list_pretrained(f"{model}.*")]
        raise InputError(f"backbone {architecture!r}: unknown weights {tag!r}; {choices(tag, tags)}") from None


def skeleton(name: str, classes: int = 0) -> VisionTransformer:
    """Return a network on the meta device, without memory for weights; one that we cannot use is an InputError."""
    with torch.device("meta"):
        model = created(name, classes)
    if not isinstance(model, _KNOWN):
        raise InputError(f"backbone {name!r} is a {type(model).__name__}, needs a VisionTransformer or Eva of timm")
    patch, size = model.patch_embed.patch_size[0], timm_name(name).size
    if size is not None and size % patch:
        raise InputError(f"backbone {name!r}: the size must be a multiple of {patch} pixels, the side of a patch")
    return model


def created(name: str, classes: int | None = 0, *, pretrained: bool = False) -> nn.Module:
    """Return timm's model; see `timm_name`. None classes keep its own last layer. Errors of a download are timm's."""
    found = timm_name(name)
    options = found.options if classes is None else {"num_classes": classes, **found.options}
    try:
        model: nn.Module = timm.create_model(found.architecture, pretrained=pretrained, **options)
    except (TypeError, AssertionError) as error:
        if found.size is None:
            raise
        why = f"has one size of images ({error})" if isinstance(error, TypeError) else "cannot read images of this size"
        raise InputError(f"backbone {name!r}: {why}") from error
    for module in model.modules():
        if getattr(module, "q_bias", None) is not None:
            # Else EVA-02 adds its bias in one product with the weight, and no layer is called that tau could be in.
            module.qkv_bias_separate = True  # type: ignore[assignment]  # timm's own switch
    return model


def input_of(name: str) -> InputSpec:
    """Return the images that a model reads; an InputError if timm has no such model, or does not know its images."""
    found = timm_name(name)
    config = timm.get_pretrained_cfg(found.architecture)
    if config is None:
        raise InputError(f"backbone {name!r}: timm does not say which images it reads")
    channels, size, _ = config.input_size
    return InputSpec(channels, found.size or size, tuple(config.mean), tuple(config.std))
