"""A backbone of the user's code, `MODULE:NAME`: a network, the images that it reads, and the layers that are tuned."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from trainables.backbones.inputs import InputSpec, Shape
from trainables.errors import InputError
from trainables.user_code import called, kind_of

TUNED_SUFFIXES = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc1_g", "mlp.fc1_x", "mlp.fc2")
TUNED = "tuned_layer_names"  # attribute of a network of the user: the ends of the names of the layers that are tuned
_IMAGES = 2


@dataclass(frozen=True, kw_only=True)
class OwnBackbone:
    """What `--backbone MODULE:NAME` names.

    Attributes:
        build: Returns the network with its pre-trained weights, in eval mode: images `(b, c, h, w)` to features
            `(b, d)`. It has d as `num_features`. It is called again in every process, and must give the same weights.
            A copy of what it returns is trained, each weight of it if the method trains the whole network.
        input: The images that it reads.
        tuned: The ends of the names of its linear layers that have a task vector. Each is called once per forward pass,
            with the images in its first dimension. A layer that ends in `qkv` gets three times the rank of LoRA.
        initial_head: Returns an embedding of each class name, `(C, d)`, at which heads start; None starts them at drawn
            rows.
    """

    build: Callable[[], nn.Module]
    input: InputSpec
    tuned: tuple[str, ...] = TUNED_SUFFIXES
    initial_head: Callable[[Sequence[str]], Tensor] | None = None

    def embeddings(self, name: str, class_names: Sequence[str]) -> Tensor:
        """Return what `initial_head`, which is not None, gives; something else is an InputError that names `name`."""
        assert self.initial_head is not None
        what, give = f"backbone {name!r}: initial_head", self.initial_head
        found = called(what, lambda: give(class_names))
        if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(class_names):
            got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"{what} must return a tensor ({len(class_names)}, d), got {got}")
        return found.detach().float().cpu()

    def require(self, name: str) -> None:
        """Refuse fields of a wrong type or value by an InputError that names `name`. Nothing is built."""
        if fault := self._fault():
            raise InputError(f"backbone {name!r}: {fault}")

    def _fault(self) -> str | None:
        if not callable(self.build):
            return f"build must be a function, got {kind_of(self.build)}"
        if not isinstance(self.input, InputSpec):
            return f"input must be an InputSpec, got {kind_of(self.input)}"
        if fault := self.input.fault:
            return f"input: {fault}"
        if (
            not isinstance(self.tuned, tuple)
            or not self.tuned
            or not all(each and isinstance(each, str) for each in self.tuned)
        ):
            return f"tuned must be a tuple of ends of names of layers, got {repr(self.tuned)[:100]}"
        if self.initial_head is not None and not callable(self.initial_head):
            return f"initial_head must be a function, got {kind_of(self.initial_head)}"
        return None

    def network(self, name: str) -> nn.Module:
        """Return a network of its own, marked with the layers that are tuned; `name` is for errors.

        Methods change it and say which weights they train. So it is a copy, as `build` may give one object each time,
        and all its weights can be trained, as those of timm's networks can.
        """
        model = self._built(name)
        if not _may_refer_to_itself(model) or _memory(model) & _memory(self._built(name)):
            model = called(f"backbone {name!r}: copy.deepcopy of what build returns", lambda: copy.deepcopy(model))
        for weight in model.parameters():
            if weight.is_floating_point():
                weight.requires_grad_(True)
        setattr(model, TUNED, self.tuned)
        return model

    def _built(self, name: str) -> nn.Module:
        built = called(f"backbone {name!r}: build", self.build)
        if not isinstance(built, nn.Module) or not isinstance(getattr(built, "num_features", None), int):
            got = type(built).__name__
            raise InputError(f"backbone {name!r}: build must return a torch Module with num_features, got {got}")
        return built

    def shape(self, name: str) -> Shape:
        """Return the shape of the network, tried on two black images; wrong features or layers are an InputError."""
        return _shape_of(self, name)


def _may_refer_to_itself(model: nn.Module) -> bool:
    """Whether it has a hook or a `forward` put on it, which in a copy may still run or fill the first network."""
    return any(each._forward_hooks or each._forward_pre_hooks or "forward" in vars(each) for each in model.modules())


def _memory(model: nn.Module) -> set[int]:
    """Return the places of its weights and buffers in memory, while it exists."""
    return {each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers())} - {0}


@lru_cache(maxsize=8)  # several checks of one command ask for it, and a network may be large
def _shape_of(own: OwnBackbone, name: str) -> Shape:
    what, model = f"backbone {name!r}", own.network(name).eval()
    layers = _tuned(what, model, own.tuned)
    features, rows = _tried(what, model, layers, own.input)
    wanted = (_IMAGES, int(model.num_features))  # type: ignore[arg-type]  # as `network` has checked
    if not isinstance(features, Tensor) or tuple(features.shape) != wanted or features.dtype != torch.float32:
        got = f"{features.dtype} {tuple(features.shape)}" if isinstance(features, Tensor) else kind_of(features)
        raise InputError(f"{what}: must give features torch.float32 {wanted}, as num_features says, got {got}")
    if not bool(torch.isfinite(features).all()):
        raise InputError(f"{what}: its features are not finite")
    if rows != [_IMAGES] * len(layers):
        raise InputError(f"{what}: each tuned layer must be called once, with the images in its first dimension")
    parameters = sum(each.numel() for each in model.parameters())
    blocks = isinstance(getattr(model, "blocks", None), nn.ModuleList | nn.Sequential)
    return Shape(wanted[1], len(layers), parameters, "it is a network of your own", blocks)


def _tuned(what: str, model: nn.Module, ends: tuple[str, ...]) -> list[nn.Module]:
    """Return the tuned layers of a network."""
    named = dict(model.named_modules())
    for end in ends if ends != TUNED_SUFFIXES else ():  # each kind of ViT has some of those
        if not any(name.endswith(end) for name in named):
            raise InputError(f"{what}: tuned: it has no layer whose name ends in {end!r}")
    found = {name: layer for name, layer in named.items() if name.endswith(ends)}
    if not found:
        raise InputError(f"{what}: tuned: it has no layer whose name ends in {', '.join(ends)}")
    for name, layer in found.items():
        if not isinstance(layer, nn.Linear):
            raise InputError(f"{what}: tuned: {name!r} must be a Linear, got {kind_of(layer)}")
    return list(found.values())


def _tried(what: str, model: nn.Module, layers: list[nn.Module], reads: InputSpec) -> tuple[object, list[int]]:
    """Return the features of black images, and the first dimension of the input of each call of a layer."""
    rows: list[int] = []
    handles = [layer.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0]))) for layer in layers]
    images = torch.zeros(_IMAGES, reads.channels, reads.size, reads.size)
    try:
        with torch.no_grad():
            return called(what, lambda: model(images)), rows
    finally:
        for handle in handles:
            handle.remove()
