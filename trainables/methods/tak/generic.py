"""The file of generic references: the curvature of a backbone's features on images of no task.

`make_generic` makes it. Source: DELTA (apanariello4/merge-and-rebase) takes pictures of ImageNet-21k in this way.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from safetensors import SafetensorError

from trainables.backbones import Backbone
from trainables.curvature import FeatureCurvature
from trainables.errors import InputError
from trainables.tensor_files import digest_of, read_weights, replace_file, require_file, sealed

VERSION = "1"  # of the file's format


def read_generic(file: str, backbone: Backbone) -> tuple[FeatureCurvature, str]:
    """Return a file's curvature, memory-mapped, and its numbers' digest; a wrong file or backbone is an InputError."""
    path, what = Path(file), f"tak: factors={file}"
    if not path.is_absolute():  # the workers of a cluster and a later resume have other working directories
        raise InputError(f"{what}: must be an absolute path, such as {path.absolute()}")
    try:
        state = require_file(path)
        curvature, digest, header = _read(path, (state.st_size, state.st_mtime_ns))
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(f"{what}: cannot be read ({str(error).splitlines()[0]})") from error
    except KeyError as error:
        raise InputError(f"{what}: has no factors of tak ({error} is missing)") from error
    if header.get("version") != VERSION:
        raise InputError(f"{what}: format version {header.get('version', 'unknown')}, this version reads {VERSION}")
    if header.get("backbone_digest") != backbone.digest:
        raise InputError(
            f"{what}: is of the backbone {header.get('backbone')} with digest"
            f" {header.get('backbone_digest', '')[:12]}; must be that of {backbone.name}, {backbone.digest[:12]}"
        )
    return curvature, digest


@lru_cache(maxsize=1)
def _read(path: Path, _file_state: tuple[int, int]) -> tuple[FeatureCurvature, str, dict[str, str]]:
    """Read and check a file once per process and state of the file: a space is checked at many points."""
    tensors, header = read_weights(path)
    return FeatureCurvature.from_tensors(tensors), digest_of(tensors), header


def write_generic(path: Path, curvature: FeatureCurvature, backbone: Backbone, images: str) -> None:
    """Write a curvature of a backbone's features; `images` says in words on which images."""
    tensors = {name: value.contiguous() for name, value in curvature.tensors().items()}
    header = {"version": VERSION, "backbone": backbone.name, "backbone_digest": backbone.digest, "images": images}
    replace_file(path, tensors, sealed(header, tensors))
