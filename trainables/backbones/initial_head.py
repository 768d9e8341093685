"""Where heads start: embeddings of class names, of CLIP's text tower for example, as rows on features."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from trainables.errors import InputError
from trainables.task_names import listed, same_letters
from trainables.tensor_files import weights_given

ROW_STD = 0.02  # root mean square of the entries of a row: that of drawn rows, `heads.HEAD_STD`


def embeddings_in(path: Path, class_names: Sequence[str]) -> Tensor:
    """Return the embeddings `(C, p)` of classes, a vector under each name in a file; a wrong file is an InputError."""
    what = f"initial head {path}"
    found = _read(path, path.stat().st_mtime_ns if path.exists() else 0)
    class_names = [same_letters(name, found) for name in class_names]
    if missing := [name for name in class_names if name not in found]:
        raise InputError(f"{what}: lacks the classes {listed(missing)}")
    sizes = {tuple(found[name].shape) for name in class_names}
    if len(sizes) > 1 or len(next(iter(sizes))) != 1:
        raise InputError(f"{what}: must have one vector for each class, all of one size, got {sorted(sizes)}")
    return torch.stack([found[name].float() for name in class_names])


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int) -> Mapping[str, Tensor]:
    return weights_given(path, "initial head")


def head_rows(what: str, embeddings: Tensor, width: int, projection: Tensor | None) -> Tensor:
    """Return the first weights of a head over features of width d, `(C, d)`, from the classes' embeddings, `(C, p)`.

    Each embedding is normalised. One of another size than d is taken into the space of features by the transposed
    projection P, `(p, d)`, if the pre-training has one, so that its logit is t^T P f, as in CLIP. One factor, which
    does not depend on the classes, scales all rows to the usual size of drawn ones. So the class with the largest logit
    is the one with the largest cosine. `what` names the embeddings in errors.

    Raises:
        InputError: If an embedding is zero or not finite, or of a size that the backbone does not have.
    """
    lengths = torch.linalg.vector_norm(embeddings, dim=1, keepdim=True)
    if not bool(torch.isfinite(embeddings).all()) or bool((lengths == 0).any()):
        raise InputError(f"{what}: has an embedding that is zero or not finite")
    rows, size = embeddings / lengths, embeddings.shape[1]
    length = 1.0  # of a row, root mean square over all directions of an embedding
    if size != width:
        if projection is None or tuple(projection.shape) != (size, width):
            of = "no projection" if projection is None else f"a projection to {projection.shape[0]}"
            raise InputError(
                f"{what}: its embeddings have {size} numbers; the features have {width}, and the pre-training has {of}"
            )
        rows, length = rows @ projection, float(projection.square().sum() / size) ** 0.5
    return rows * (ROW_STD * width**0.5 / length)


def rows_digest(rows: Tensor) -> str:
    """Return the sha256 of rows of a head."""
    values = rows.contiguous().numpy()
    return hashlib.sha256(values.tobytes()).hexdigest()
