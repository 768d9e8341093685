"""Checkpoints from before `state.safetensors`: one `state.pt`, a nested dict that `torch.save` wrote.

The only place that knows them. No release wrote them, so this module can go with the first release; from then on, a
search that was begun before can be continued only by the version that began it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainables.errors import InputError
from trainables.state.contents import State


def path_in(folder: Path) -> Path:
    """Return where such a checkpoint lies."""
    return folder / "state.pt"


def check(folder: Path) -> bool:
    """Whether a folder holds a whole one. It has to be loaded for that."""
    try:
        read(folder)
    except InputError:
        return False
    return True


def read(folder: Path) -> State:
    """Read one; only tensors and plain values are ever unpickled.

    Returns:
        The state: names are what leads to a tensor or value, joined by `/`.

    Raises:
        InputError: If it cannot be read.
    """
    path = path_in(folder)
    try:
        nested = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling what is damaged raises nearly anything
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"checkpoint {path}: cannot be read ({reason})") from error
    leaves = dict(_leaves(nested))
    tensors = {name: value for name, value in leaves.items() if isinstance(value, Tensor)}
    return State(tensors, values={name: value for name, value in leaves.items() if name not in tensors})


def _leaves(nested: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{name}/")
        else:
            yield f"{before}{name}", value
