"""All objects reachable from an object, to show that another is not, and the images that they hold."""

from __future__ import annotations

import gc
import math
import types
from collections.abc import Iterable

import numpy as np
import torch


def reachable(root: object, limit: int = 2_000_000) -> Iterable[object]:
    """Yield all objects reachable from an object: attributes, bases and objects of arrays, closures and defaults.

    Modules, classes and functions' global names are not followed: from those everything can be imported. A walk that
    is longer than `limit` objects fails, because what it did not see would pass for unreachable.
    """
    seen: set[int] = set()
    queue: list[object] = [root]
    while queue:
        assert len(seen) < limit, f"more than {limit} objects can be reached"
        item = queue.pop()
        if id(item) in seen or isinstance(item, type(math) | type):
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, types.FunctionType):
            queue += [cell.cell_contents for cell in item.__closure__ or ()]
            queue += [item.__defaults__, item.__kwdefaults__, vars(item)]
            continue
        queue += gc.get_referents(item)
        if isinstance(item, torch.Tensor) and item._base is not None:
            queue.append(item._base)
        if isinstance(item, np.ndarray):
            queue += [] if item.base is None else [item.base]
            queue += item.flatten().tolist() if item.dtype == object else []  # the collector does not look into it


def images_of(items: Iterable[object]) -> list[bytes]:
    """Return all images that tensors or arrays hold, or that anything which reads images can read: `(c, h, w)` each.

    Images are stored in uint8 and shown in float32; other tensors hold none.
    """
    read = []
    for item in list(items):
        if isinstance(item, torch.Tensor) and item.dim() == 4 and _is_plain(item):
            read += [image.contiguous().numpy().tobytes() for image in item.detach().resolve_neg().cpu()]
        elif isinstance(item, np.ndarray) and item.dtype == np.uint8 and item.ndim in (3, 4) and item.size:
            read += [image.transpose(2, 0, 1).tobytes() for image in item.reshape(-1, *item.shape[-3:])]
        elif not isinstance(item, torch.Tensor) and hasattr(item, "encoded") and hasattr(item, "image"):
            read += [item.image(row).contiguous().numpy().tobytes() for row in range(len(item))]  # type: ignore[arg-type]
    return read


def _is_plain(tensor: torch.Tensor) -> bool:
    whole = tensor.layout == torch.strided and not tensor.is_meta
    return whole and tensor.dtype in (torch.uint8, torch.float32)
