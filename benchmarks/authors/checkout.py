"""A copy of a checkout of mammoth that runs here: four blocks, small grey images, and no packages that it can spare."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

Change = tuple[str, str, str, int]  # file, a regular expression, what takes its place, how often it fits
_TUNERS = [
    (f"models/lora_prototype_utils/tuners/{name}_tuner.py", r"list\(range\(12\)\)", "list(range(4))", 1)
    for name in ("lora", "full", "ia3")
]
_VIT = (
    "models/lora_prototype_utils/lora_vit.py",
    r"vit_model = cls\(\n",
    "vit_model = cls(\nimg_size=32, patch_size=8, in_chans=1,\n",
    1,
)
_IMPORTS_OF_ALL = [
    (f"{package}/__init__.py", r"# import all files in the [^\n]*\nfor file in [^\n]*\n[^\n]*\n[^\n]*\n", "", 1)
    for package in ("backbone", "datasets")
]
_OPTIONAL_PACKAGES = [
    ("models/utils/continual_model.py", pattern, instead, 1)
    for pattern, instead in (
        (r"import kornia\n", ""),
        (r"from utils\.buffer import Buffer\n", ""),
        (r"from utils\.kornia_utils import to_kornia_transform\n", ""),
        (r"Union\[transforms\.Compose, kornia\.augmentation\.AugmentationSequential\]", "transforms.Compose"),
    )
]
_CODA = (  # adding to a leaf in place is an error, and on a CPU this is one
    "models/coda_prompt_utils/vit.py",
    r"torch\.zeros\(\(1,\), requires_grad=True\)\.to\(x\.device\)",
    "torch.zeros((1,), device=x.device)",
    1,
)
_ALWAYS: list[Change] = [*_TUNERS, _VIT, *_IMPORTS_OF_ALL, *_OPTIONAL_PACKAGES, _CODA]


def make_runnable(checkout: Path, folder: Path, changes: Iterable[Change] = ()) -> Path:
    """Copy a checkout into a folder that does not exist, change what must be changed, and more; return the folder.

    Raises:
        ValueError: If the checkout is of another version, in which a change has no place.
    """
    shutil.copytree(checkout, folder, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    for name, pattern, instead, times in [*_ALWAYS, *changes]:
        path = folder / name
        text, count = re.subn(pattern, instead, path.read_text(encoding="utf-8")) if path.exists() else ("", 0)
        if count != times:
            raise ValueError(
                f"{checkout} is not a version of mammoth that this knows: {name} has {count} x {pattern!r}"
            )
        path.write_text(text, encoding="utf-8")
    return folder
