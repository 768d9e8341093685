"""Pre-trained ViTs: theta_0, and which of its weights the composable learners tune.

timm takes two seconds to import, and the driver of a search on an embedded benchmark does not need it. So timm is
imported when a network is built.

Not here: classifiers on the features (`heads`), and changes of the weights (`task_vectors`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from trainables.backbones import glyph_vit
from trainables.backbones.initial_head import embeddings_in, head_rows
from trainables.backbones.inputs import (
    EMBEDDED as EMBEDDED,
    SMALL as SMALL,
    AttentionKind as AttentionKind,
    InputSpec as InputSpec,
    Shape as Shape,
    Tokens as Tokens,
)
from trainables.backbones.own import TUNED, TUNED_SUFFIXES, OwnBackbone as OwnBackbone
from trainables.errors import InputError
from trainables.tensor_files import bytes_of
from trainables.user_code import OURSELVES, commands_started, find, installed, is_code, require_sole

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer


@dataclass(frozen=True)
class Backbone:
    """A pre-trained ViT by name.

    Attributes:
        name: `glyph_vit` (embedded); a VisionTransformer or Eva of timm, such as `vit_base_patch16_224.augreg_in21k`,
            or `vit_small_patch14_dinov2.lvd142m?img_size=224` for another size of images than its own; or an
            `OwnBackbone` of the user's code, `MODULE:NAME` or the name that an installed package gives to it.
        weights: A local safetensors file to read instead of the embedded file or the hub.
        head: A safetensors file with an embedding of each class name, at which heads start; see `initial_head`.
    """

    name: str = EMBEDDED
    weights: Path | None = None
    head: Path | None = None

    @classmethod
    def of(cls, name: str, weights: str | None, head: str | None = None) -> Backbone:
        """Return the backbone that a file names, with the paths of its files as text."""
        return cls(name, None if weights is None else Path(weights), None if head is None else Path(head))

    def load(
        self, device: torch.device | str = "cpu", *, tokens: Tokens = "class", attention: AttentionKind = "fused"
    ) -> VisionTransformer:
        """Return the network with its pre-trained weights, in eval mode, no head: `(b, c, h, w)` to features `(b, d)`.

        The features are those of the class token, or what the model itself gives to its classifier. All weights require
        gradients, and eval mode is kept in training: dropout stays off.

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

        return load(self.name, self.own, self.weights, torch.device(device), tokens, attention)

    @property
    def own(self) -> OwnBackbone | None:
        """What the user's code has under the name, None for other backbones; wrong or forbidden code: InputError."""
        if not is_code(self.name):
            bare, brought = self.name.partition("?")[0], installed("backbone")
            if bare in brought:
                require_sole("backbone", bare, *_others(bare))
            if self.name not in brought:
                return None
        found = find("backbone", self.name, {}, OwnBackbone)
        found.require(self.name)
        return found

    @property
    def input(self) -> InputSpec:
        """The images that the backbone reads, known without its weights; an InputError if timm knows no such model."""
        if self.own is not None:
            return self.own.input
        if self.name == EMBEDDED:
            return glyph_vit.INPUT
        from trainables.backbones.timm_names import input_of  # imports timm, which takes two seconds

        return input_of(self.name)

    @property
    def shape(self) -> Shape:
        """The backbone's size, and whether `TokenViT` can open it, known without its weights; errors as of `input`."""
        if self.own is not None:
            return self.own.shape(self.name)
        if self.name == EMBEDDED:
            return glyph_vit.SHAPE
        from trainables.backbones.loading import shape_of  # imports timm, which takes two seconds

        return shape_of(self.name)

    @property
    def here(self) -> bool:
        """Whether the weights are on this machine; else they are fetched from Hugging Face's hub."""
        if self.name == EMBEDDED or self.weights is not None or self.own is not None:
            return True
        from trainables.backbones.offered import is_here  # imports timm, which takes two seconds

        return is_here(self.name)

    @property
    def needs_download(self) -> bool:
        """Whether reading the weights downloads them now: they are not here, and the hub answers."""
        if self.here:
            return False
        from trainables.backbones.loading import hub_answers  # imports timm, which takes two seconds

        return hub_answers()

    def initial_head(self, class_names: Sequence[str]) -> Tensor | None:
        """Return the first weights of a head of these classes, `(C, d)`; None where the backbone offers none.

        They are made of embeddings of the names: those of the file `head`, or those that an `OwnBackbone` gives. See
        `initial_head.head_rows`.

        Raises:
            InputError: If the embeddings cannot be read, lack a class, or have a size that the backbone does not have.
        """
        own = self.own
        if self.head is not None:
            embeddings, what = embeddings_in(self.head, class_names), f"initial head {self.head}"
        elif own is not None and own.initial_head is not None:
            embeddings, what = own.embeddings(self.name, class_names), f"backbone {self.name!r}: initial_head"
        else:
            return None
        width, projection = self.shape.width, None
        if embeddings.shape[1] != width and own is None and self.name != EMBEDDED:
            from trainables.backbones.loading import projection_of  # imports timm, which takes two seconds

            projection = projection_of(self.name, self.weights)
        return head_rows(what, embeddings, width, projection)

    @property
    def digest(self) -> str:
        """sha256 over names and values of all weights, wherever they were read from."""
        if self.weights is not None and self.weights.exists():
            state = self.weights.stat()
            return _digest(self, (state.st_size, state.st_mtime_ns))
        return _digest(self, None if self.own is None else (commands_started(),))  # its build may read other weights


@lru_cache(maxsize=8)
def _digest(backbone: Backbone, _state: tuple[int, ...] | None) -> str:
    """Digest a backbone's weights, once per process and state of the file; those of an own one for each command."""
    # The embedded file has exactly the network's tensors, so no network needs to be built.
    embedded = (backbone.name, backbone.weights) == (EMBEDDED, None)
    found = _digest_of(load_file(glyph_vit.WEIGHTS) if embedded else backbone.load().state_dict())
    if backbone.own is not None and backbone.weights is None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.seed()  # as another process has another state
            again = _digest_of(backbone.load().state_dict())
        if again != found:
            raise InputError(f"backbone {backbone.name!r}: build gives other weights each time; seed what it draws")
    return found


def _others(name: str) -> tuple[str, ...]:
    """Return who has a backbone of this name beside installed packages."""
    if name == EMBEDDED:
        return (OURSELVES,)
    from trainables.backbones.timm_names import is_of_timm  # imports timm, which takes two seconds

    return ("timm",) if is_of_timm(name) else ()


def _digest_of(state: Mapping[str, Any]) -> str:
    # Files hold it, so it stays another than `tensor_files.digest_of`, which reads types and shapes, too.
    digest = hashlib.sha256()
    for name, value in sorted(state.items()):
        digest.update(name.encode())
        digest.update(bytes_of(value).numpy().data)
    return digest.hexdigest()


def tuned_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """Return the linear layers that have a task vector: qkv, proj, fc1, fc2 of every block, in block order.

    A gated MLP has two layers in place of fc1. A network of the user's code says which layers are tuned.

    Raises:
        InputError: If there is none.
    """
    ends = getattr(model, TUNED, TUNED_SUFFIXES)
    layers = {
        name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear) and name.endswith(ends)
    }
    if not layers:
        raise InputError(f"{type(model).__name__} has no layer named {', '.join(ends)}")
    return layers
