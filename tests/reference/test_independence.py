"""The reference does not call the code that it checks, because it would then agree with any mistake."""

from __future__ import annotations

from pathlib import Path

from tests.support.imports import imports

ALLOWED = {"data", "backbones"}
WATCHES = {"joints", "conftest", "problem"}  # these and the tests stand between both sides


def test_the_reference_imports_nothing_of_the_science_but_data_and_backbone() -> None:
    files = [path for path in Path(__file__).parent.rglob("*.py") if not path.name.startswith("test_")]
    parts = [path for path in files if path.stem not in WATCHES]
    assert {"stages", "preconsolidation", "regularisers", "learner"} <= {path.stem for path in parts}
    for path in parts:
        taken = {each.module for each in imports(path) if each.module.split(".")[0] == "trainables"}
        assert {module.split(".")[1] for module in taken} <= ALLOWED, path
