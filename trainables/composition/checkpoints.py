"""Whole models for other tools: safetensors with a table of contents, and folders that timm opens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import timm
import torch
from timm.models import save_for_hf
from torch import Tensor, nn

from checked_input.text_files import TextFileError, read_json
from trainables.backbones import EMBEDDED, Backbone, glyph_vit
from trainables.backbones.loading import computed_as_ours
from trainables.backbones.timm_names import created, skeleton, timm_name
from trainables.composition.merging import composed
from trainables.composition.networks import ComposedNetwork
from trainables.composition.pool import VectorPool
from trainables.data.transforms.cropping import ResizeCenterCrop
from trainables.data.transforms.normalisation import Normalise, Transform
from trainables.errors import InputError
from trainables.heads import Head
from trainables.tensor_files import read_weights, readable, save_tensors, sealed

_WEIGHTS, _TABLE, _CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
_EMBEDDED_AS = "vit_tiny_patch16_224"  # a timm name whose sizes are replaced by those of the embedded ViT


def write_models(folder: Path, network: ComposedNetwork, pool: VectorPool) -> None:
    """Write theta_0, and theta_0 + tau_t of each task, as folders `theta_0`, `task_1`, ...

    All have the same names and shapes, as tools for merging checkpoints expect. Each has the heads of all tasks, so any
    average of the models keeps the heads. One model is in memory at a time beside theta_0. The folder is made if
    missing.
    """
    head = pool.head()
    _write_model(folder / "theta_0", _tensors(network, network.theta_0, head))
    for task, vector in enumerate(pool, start=1):
        if task in pool.empty:  # a copy of theta_0 would count in an average of the models
            continue
        _write_model(folder / f"task_{task}", _tensors(network, composed(network.theta_0, [vector], [1.0]), head))


def write_timm_folder(
    folder: Path, backbone: Backbone, network: ComposedNetwork, head: Head, labels: Sequence[str], images: Transform
) -> None:
    """Write a network's composition so that `timm.create_model("local-dir:FOLDER", pretrained=True)` opens it.

    The head has the rows `(C, d)` and `(C,)`, and `labels` the names of the C classes. The transform of test images
    becomes timm's data configuration. The folder is made if missing.
    """
    model = _timm_skeleton(backbone.name, len(labels))
    tensors = _tensors(network, network.weights, head)
    model.load_state_dict(tensors, assign=True)
    config = {"label_names": list(labels)}
    save_for_hf(
        model,
        folder,
        model_config=config,
        model_args={} if backbone.name == EMBEDDED else timm_name(backbone.name).options,
        safe_serialization=True,
        data_config=_data_config(images, backbone),
    )
    save_tensors(folder / _WEIGHTS, tensors, sealed({"format": "pt"}, tensors))  # timm's own has no digest


def read_timm_folder(folder: Path, backbone: str, labels: Sequence[str], device: torch.device) -> nn.Module:
    """Return the model of `write_timm_folder` in eval mode, `(b, c, h, w)` to logits `(b, C)`.

    timm's own reader would build any model of any size that `config.json` names, and would unpickle weights. Here the
    backbone's name defines the network, and `model.safetensors` must have exactly its tensors; else an InputError.
    """
    model, path = _timm_skeleton(backbone, len(labels)), folder / _WEIGHTS
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    with readable(path, f"weights of {backbone}"):
        tensors, _ = read_weights(path, shapes)
    _require_labels(folder / _CONFIG, labels)
    if set(dict(model.named_buffers())) - set(shapes):  # rotary positions, which no file has
        model = created(backbone, len(labels)).to(device)
    else:
        model.to_empty(device=device)
    model.load_state_dict(tensors)
    computed_as_ours(model, device)
    return model.requires_grad_(False).eval()


def _require_labels(path: Path, labels: Sequence[str]) -> None:
    try:
        config = read_json(path)
    except (OSError, TextFileError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    if not isinstance(config, dict) or config.get("label_names") != list(labels):
        raise InputError(f"{path}: its label_names are not the classes of the description beside it")


def _timm_skeleton(backbone: str, classes: int) -> nn.Module:
    """Build timm's model for a backbone with a classifier on the meta device: without memory for its weights."""
    if backbone != EMBEDDED:
        return skeleton(backbone, classes)
    with torch.device("meta"):
        model = timm.create_model(_EMBEDDED_AS, pretrained=False, num_classes=classes, **glyph_vit.ARCHITECTURE)
    model.pretrained_cfg = {**glyph_vit.CONFIG, "architecture": _EMBEDDED_AS}  # else the origin of other weights
    return model


def _data_config(transform: Transform, backbone: Backbone) -> dict[str, Any]:
    """Return timm's data configuration of a transform."""
    reads = backbone.input
    config: dict[str, Any] = {"input_size": (reads.channels, reads.size, reads.size), "crop_pct": 1.0}
    normalise = getattr(transform, "normalise", transform)
    if type(normalise) is Normalise:  # a subclass may compute otherwise
        config |= {"mean": normalise.mean, "std": normalise.std}
    if type(transform) is ResizeCenterCrop:
        mode = "center" if transform.keep_ratio else "squash"
        config |= {"crop_pct": _crop_share(transform.size, transform.resize), "crop_mode": mode}
        config["interpolation"] = transform.interpolation
    return config


def _crop_share(size: int, resize: int) -> float:
    """Return timm's `crop_pct`. timm divides the size by it and rounds down, which must give `resize`."""
    share = size / resize
    return share if int(size / share) == resize else size / (resize + 0.5)


def _tensors(network: ComposedNetwork, weights: dict[str, Tensor], head: Head) -> dict[str, Tensor]:
    """Return all tensors of a timm model with a classifier, by timm's names, as safetensors writes them."""
    tensors = {**network.model.state_dict(), **weights}
    for name in ("head", "head_dist"):  # a distilled model averages two classifiers of two tokens
        if name == "head" or hasattr(network.model, name):
            tensors |= {f"{name}.weight": head[0].clone(), f"{name}.bias": head[1].clone()}
    return {name: value.to("cpu").contiguous() for name, value in tensors.items()}


def _write_model(folder: Path, tensors: dict[str, Tensor]) -> None:
    folder.mkdir(parents=True)
    save_tensors(folder / _WEIGHTS, tensors, {"format": "pt"})
    size = sum(value.numel() * value.element_size() for value in tensors.values())
    table = {"metadata": {"total_size": size}, "weight_map": dict.fromkeys(tensors, _WEIGHTS)}
    (folder / _TABLE).write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
