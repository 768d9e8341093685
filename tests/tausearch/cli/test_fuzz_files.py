"""Random damage to what a run or somebody else has left, JSON, Parquet and tables alike: one line, no traceback."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image

from tausearch.api import compose
from tausearch.reports.comparison.comparison import Comparison
from tausearch.reports.comparison.figure import draw
from tausearch.reports.comparison.paper import PaperResults
from tausearch.runs import open_storage
from tests.support.command_line import Ask
from tests.support.layouts import EACH, parquet, rows
from tests.support.runs.composable_runs import make_composable_run
from tests.support.runs.damage import damaged, damaged_json
from tests.tausearch.cli.test_fuzz import TABLE, listing

FOLDERS = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a final run, what was exported of it, data in Parquet, a campaign's file and an image."""
    folder = tmp_path_factory.mktemp("whole")
    storage = open_storage(folder / "runs", write=True)
    make_composable_run(storage, "final")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tausearch.models.try_to_log", lambda *_: None)  # MLflow takes seconds to start
        compose(["final"], seeds=[0], export=folder / "exported", storage=storage.root)
    (folder / "data").mkdir()
    parquet(folder / "data" / "all.parquet", rows(4, range(EACH), lambda label, n: f"{label}/{n}.png"), list("abcd"))
    (folder / "table.yaml").write_text(TABLE)
    Image.new("RGB", (8, 8)).save(folder / "picture.png")
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = shutil.copytree(whole, tmp_path / "copy")
    monkeypatch.chdir(copy)
    return copy


@pytest.fixture(autouse=True)
def _each_picture_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no comparison twice: a picture takes longer than all the rest of a command."""
    drawn: set[str] = set()

    def draw_once(comparisons: Sequence[Comparison], paper: PaperResults, path: Path) -> None:
        numbers = repr(comparisons)
        if numbers not in drawn:
            draw(comparisons, paper, path)
        drawn.add(numbers)

    monkeypatch.setattr("tausearch.reports.comparison.command.draw", draw_once)


@pytest.fixture
def asked(folder: Path, ask: Ask) -> Ask:
    """Give a command, and see that it ends in order and that what it refuses leaves nothing behind."""

    def ask_safely(*command: str) -> tuple[int, str, str]:
        before = listing(folder)
        code, out, err = ask(*command, *(["--storage", "runs"] if command[0] != "data" else []))
        assert "Traceback" not in out + err and code in (0, 1, 2), (command, code, out, err)
        if code == 2:
            lines = err.splitlines()
            assert all(lines) and (len(lines) == 1 or command[0] == "campaign"), (command, err)  # a line for each fault
            assert (out == "" or "refused" in out) and listing(folder) == before, (command, out, err)
        return code, out, err

    return ask_safely


@pytest.mark.parametrize(
    ("path", "commands"),
    [
        ("runs/final/results.json", [["compare", "--format", "csv"], ["status", "final"], ["status"]]),
        (
            "exported/vectors/model.json",
            [["predict", "exported/vectors", "picture.png"], ["compose", "exported/vectors"]],
        ),
        ("exported/timm/seed_0/model.json", [["predict", "exported/timm", "picture.png"]]),
        ("exported/timm/seed_0/config.json", [["predict", "exported/timm", "picture.png"]]),
        ("exported/adapter/seed_0/adapter_config.json", [["predict", "exported/adapter", "picture.png"]]),
    ],
)
@FOLDERS
@given(data=st.data())
def test_damaged_json_is_said_in_a_line(
    path: str, commands: list[list[str]], data: st.DataObject, folder: Path, asked: Ask
) -> None:
    text = (folder / path).read_text()
    (folder / path).write_bytes(data.draw(damaged_json(text)))
    try:
        for command in commands:
            code, out, err = asked(*command)
            assert code in (0, 1, 2) and (out or err), command  # it never ends without a word
    finally:
        (folder / path).write_text(text)


@FOLDERS
@given(data=st.data())
def test_a_damaged_table_is_said_in_a_line(data: st.DataObject, folder: Path, asked: Ask) -> None:
    (folder / "table.yaml").write_bytes(data.draw(damaged(TABLE)))
    code, out, _ = asked("campaign", "plan", "table.yaml")
    assert code == 2 or "digits" in out  # what is left of it may be a table


def test_damaged_parquet_is_said_in_a_line(folder: Path, asked: Ask) -> None:
    path, dice = folder / "data" / "all.parquet", random.Random(0)
    content, refused, faulty = path.read_bytes(), 0, 0
    tail = len(content) - 2500  # where schema, metadata and places of columns are
    for number in range(60):
        damaged = bytearray(content)
        for _ in range(dice.randint(1, 3)):
            damaged[dice.randrange(len(content)) if number % 2 else dice.randrange(tail, len(content))] ^= (
                dice.randrange(1, 256)
            )
        path.write_bytes(damaged[: dice.choice([len(content)] * 9 + [dice.randrange(len(content))])])
        code, _, _ = asked("data", "check", "parquet:data?tasks=2")
        refused, faulty = refused + (code == 2), faulty + (code == 1)
    assert refused > 10 and faulty > 3
