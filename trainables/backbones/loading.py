"""Build a ViT with its pre-trained weights: embedded, from a local file, or from the hub."""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

import huggingface_hub
import torch
from timm.layers import resample_abs_pos_embed
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from trainables.backbones import glyph_vit
from trainables.backbones.attention import write_out
from trainables.backbones.class_token import read_class_token_only
from trainables.backbones.few_tokens import attend_among_few
from trainables.backbones.inputs import EMBEDDED, AttentionKind, Shape, Tokens
from trainables.backbones.own import OwnBackbone
from trainables.backbones.timm_names import created, skeleton
from trainables.backbones.token_vit import reason_closed
from trainables.errors import InputError, NotFetchedError
from trainables.tensor_files import misfit, weights_given


def load(
    name: str,
    own: OwnBackbone | None,
    weights: Path | None,
    device: torch.device,
    tokens: Tokens,
    attention: AttentionKind,
) -> nn.Module:
    """Load a backbone as `Backbone.load` says; `own` is what the user's code has under the name."""
    with torch.random.fork_rng(devices=[]):  # timm first fills the weights from the global generator
        if own is not None:
            model = own.network(name)
            if weights is not None:
                _load(model, weights, weights_given(weights, "weights"))
        elif name == EMBEDDED:
            model = glyph_vit.build()
            _load_timm_weights(model, weights or glyph_vit.WEIGHTS)
        else:
            model = _load_timm(name, weights)
    if own is None:
        computed_as_ours(model, device, tokens)
    if attention == "plain":
        write_out(model)
    return model.eval().to(device)


def computed_as_ours(model: nn.Module, device: torch.device, tokens: Tokens = "class") -> None:
    """Replace the blocks of a timm ViT that can do with less work; in bf16 the others would round otherwise."""
    if isinstance(model, VisionTransformer):
        if tokens == "class":
            read_class_token_only(model)
        if device.type == "cpu":
            attend_among_few(model)


@cache
def shape_of(name: str) -> Shape:
    """Return the shape of a timm ViT; see `Backbone.shape`. A method asks for it at every task."""
    vit = skeleton(name)
    parameters = sum(each.numel() for each in vit.parameters())
    return Shape(vit.embed_dim, len(vit.blocks), parameters, reason_closed(vit))


def projection_of(name: str, weights: Path | None) -> Tensor | None:
    """Return the last layer of a timm model's pre-training, `(p, d)`, as CLIP's projection; None if it has none."""
    if weights is not None:
        return weights_given(weights, "weights").get("head.weight")
    with torch.random.fork_rng(devices=[]):
        head = getattr(_fetched(name, classes=None), "head", None)
    return head.weight.detach() if isinstance(head, nn.Linear) else None


def _load_timm_weights(model: nn.Module, path: Path) -> None:
    """Load a safetensors file without the classifier of the pre-training, which files from the hub have."""
    state = {
        n: value for n, value in weights_given(path, "weights").items() if not n.startswith(("head.", "head_dist."))
    }
    _resample_positions(model, state)
    _load(model, path, state)


def _load(model: nn.Module, path: Path, state: dict[str, Tensor]) -> None:
    """Load the weights of a file, which must be those of the model."""
    wanted = {name: value.shape for name, value in model.state_dict().items()}
    if problem := misfit(wanted, {name: value.shape for name, value in state.items()}):
        raise InputError(f"weights {path}: do not fit the backbone: {problem}")
    model.load_state_dict(state)


def _resample_positions(model: VisionTransformer, state: dict[str, Tensor]) -> None:
    """Resample the position embeddings of a file to the model's size of images, as timm does with those of the hub."""
    wanted, found = getattr(model, "pos_embed", None), state.get("pos_embed")
    if wanted is None or found is None or found.ndim != 3 or found.shape[1] == wanted.shape[1]:
        return
    prefix = 0 if getattr(model, "no_embed_class", False) else model.num_prefix_tokens
    if (patches := found.shape[1] - prefix) < 1 or math.isqrt(patches) ** 2 != patches:
        return  # a file of other prefix tokens; `misfit` says so
    grid = model.patch_embed.grid_size
    state["pos_embed"] = resample_abs_pos_embed(found, grid, num_prefix_tokens=prefix)


def _load_timm(name: str, weights: Path | None) -> nn.Module:
    skeleton(name)  # refuses an unknown or unsuitable name before a download
    if weights is None:
        return _fetched(name, classes=0)
    model = created(name)
    _load_timm_weights(model, weights)
    return model


def _fetched(name: str, classes: int | None) -> nn.Module:
    """Return a model of timm with weights of the hub; its last layer is that of the pre-training for None classes."""
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # hides its retries
    try:
        with _not_waiting_for_the_hub():
            return created(name, classes, pretrained=True)
    except Exception as error:  # the hub's client raises many kinds; each means "no weights"
        raise NotFetchedError(
            f"backbone {name!r}: its weights cannot be fetched ({_why(error)}); give a local file with"
            f" --backbone-weights, or take the embedded --backbone {EMBEDDED}, which reads small grey images"
        ) from error


def _why(error: Exception) -> str:
    """Return the reason of a failed download, one line."""
    if isinstance(error, huggingface_hub.errors.LocalEntryNotFoundError):
        return "the hub does not answer, and no earlier download lies here"
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


@contextmanager
def _not_waiting_for_the_hub() -> Iterator[None]:
    """Use earlier downloads alone if the hub does not answer; its client would retry for most of a minute."""
    constants = huggingface_hub.constants
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = not hub_answers()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def hub_answers() -> bool:
    """Whether weights can be asked of the hub: it is allowed, and its server listens."""
    constants = huggingface_hub.constants
    return not constants.HF_HUB_OFFLINE and _answers(constants.ENDPOINT)


def _answers(address: str) -> bool:
    """Whether a server listens at an address; always true behind a proxy."""
    parts = urlsplit(address)
    if getproxies() or parts.hostname is None:
        return True
    try:
        socket.create_connection((parts.hostname, parts.port or 443), timeout=5).close()
    except OSError:
        return False
    return True
