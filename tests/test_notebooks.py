"""The notebooks run without an error or a warning, and are stored with the output that they have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient", reason="needs nbclient and ipykernel (`make setup`)")

from tests import notebooks


def shape(notebook: Any) -> list[list[tuple[Any, ...]]]:
    """The kinds of output of each cell of code, with the columns of tables; not the numbers."""
    return [[_shape(each) for each in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def _shape(output: Any) -> tuple[Any, ...]:
    if output.output_type == "stream":
        return ("stream", output.name)
    page = output.data.get("text/html", "")
    return (output.output_type, *sorted(output.data), *re.findall("<th[^>]*>(.*?)</th>", page), page.count("<img"))


@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_as_a_run_from_top_to_bottom_left_it(path: Path) -> None:
    stored = notebooks.read(path)
    cells = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(each.get("name") == "stderr" for cell in cells for each in cell.outputs)
    shown, pictures = re.subn('data:image/png;base64,[^"]+', "", "".join(str(cell.outputs) for cell in cells))
    assert pictures and "<table>" in shown and "/tmp" not in shown and "/home" not in shown


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_quietly_and_shows_what_is_stored(path: Path, tmp_path: Path) -> None:
    run = notebooks.executed(path, tmp_path)
    assert not [each.text for cell in run.cells for each in cell.get("outputs", []) if each.get("name") == "stderr"]
    assert shape(run) == shape(notebooks.read(path))
    assert not list(tmp_path.iterdir())  # runs are in a folder that goes away


def test_there_are_two() -> None:
    assert [path.stem for path in notebooks.NOTEBOOKS] == ["1-search", "2-compose-and-unlearn"]
