"""The curvature that docs/extend.md writes keeps the contract."""

from __future__ import annotations

import re
from typing import Any

import torch

from tausearch.testing import check_curvature
from tests.support.imports import ROOT

SHAPES = {"a": (3, 2), "b": (3, 2), "c": (4,)}


def test_the_curvature_of_the_page_keeps_the_contract() -> None:
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(# my_curvature\.py\n.*?)```", page, re.DOTALL)
    assert block is not None
    module: dict[str, Any] = {"__name__": "my_curvature"}
    exec(compile(block[1], "my_curvature.py", "exec", dont_inherit=True), module)
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.rand(len(SHAPES), generator=generator, dtype=torch.float64) for _ in range(3)]
    check_curvature([module["Scalars"](dict(zip(SHAPES, h.unbind(), strict=True))) for h in drawn], SHAPES)
