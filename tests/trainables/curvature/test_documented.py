"""The curvatures that docs/how-to/own-curvature.md and the example package write keep the contract."""

from __future__ import annotations

import re
import runpy
from typing import Any

import torch

from tausearch.testing import check_curvature, check_estimate
from tests.support.imports import ROOT
from tests.support.packages import EXAMPLE

SHAPES = {"a": (3, 2), "b": (3, 2), "c": (4,)}


def test_the_curvature_of_the_page_keeps_the_contract() -> None:
    page = (ROOT / "docs" / "how-to" / "own-curvature.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(# my_curvature\.py\n.*?)```", page, re.DOTALL)
    assert block is not None
    module: dict[str, Any] = {"__name__": "my_curvature"}
    exec(compile(block[1], "my_curvature.py", "exec", dont_inherit=True), module)
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.rand(len(SHAPES), generator=generator, dtype=torch.float64) for _ in range(3)]
    check_curvature([module["PerLayer"](dict(zip(SHAPES, h.unbind(), strict=True))) for h in drawn], SHAPES)
    check_estimate(module["PerLayer"])


def test_the_curvature_of_the_example_package_keeps_the_contract_of_those_that_a_run_can_name() -> None:
    module = runpy.run_path(str(EXAMPLE / "tausearch_example" / "per_layer.py"))
    check_estimate(module["PerLayer"])
