"""Campaigns on the command line: what is planned, what stands, in words and as values, without running anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tausearch.runs import Record, Storage
from tests.support.command_line import run
from tests.support.runs.trials import make_trial
from tests.tausearch.campaigns.test_plans import planned, started


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A campaign of three cells whose first search has one trial of four, of 40 seconds."""
    plan = started(tmp_path)
    trial = make_trial(0, tasks=5, value=80.0)
    for row in trial.rows:
        row["seconds/training"] = 8.0
    Record(plan.cells[0].search.directory.record, {}, tasks=5).write(trial)
    return plan.storage


def shown(
    storage: Storage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int, str, str]:
    monkeypatch.setenv("COLUMNS", "160")
    return run(["campaign", *words, "--storage", str(storage.root)], capsys, monkeypatch)


def test_a_plan_says_cells_sizes_and_time(
    storage: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "t.yaml")
    code, out, _ = shown(storage, capsys, monkeypatch, "plan", file)
    assert code == 0 and "campaign t" in out and "3 cells, 8 trials to search, 6 seeds to train, 62 tasks" in out
    (row,) = (line for line in out.splitlines() if "digits/ita-lora" in line)
    assert "stopped" in row and "4 trials, random" in row and "2 seeds" in row
    assert "and 2 cells of unknown time" in out and "left to do: " in out
    (joint,) = (line for line in out.splitlines() if "digits/joint" in line)
    assert "not searched" in joint and "?" in joint
    cells = json.loads(shown(storage, capsys, monkeypatch, "plan", file, "--json")[1])["cells"]
    assert [each["seconds_left"] is None for each in cells] == [False, True, True]


def test_nothing_known_says_how_to_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(tmp_path)
    _, out, _ = shown(plan.storage, capsys, monkeypatch, "plan", str(tmp_path / "t.yaml"))
    assert "the time is unknown; measure it with --pilot" in out
    assert shown(plan.storage, capsys, monkeypatch, "status")[1] == "no campaigns yet\n"


def test_what_stands_in_one_line_and_in_full(
    storage: Storage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, err = shown(storage, capsys, monkeypatch, "status")
    row = [part.strip() for part in out.splitlines()[3].split("│")[1:6]]
    assert err == "" and row == ["t", "stopped", "3", "0", "0"]
    _, out, _ = shown(storage, capsys, monkeypatch, "status", "t")
    assert "t: stopped; 0/3 cells done" in out and "80.00" in out and out.count("waiting") == 2
    content = json.loads(shown(storage, capsys, monkeypatch, "status", "t", "--json")[1])
    assert [each["state"] for each in content["cells"]] == ["stopped", "waiting", "waiting"]
    (listed,) = json.loads(shown(storage, capsys, monkeypatch, "status", "--json")[1])
    assert listed == content
    code, _, err = shown(storage, capsys, monkeypatch, "status", "nope")
    assert code == 2 and err.count("\n") == 1 and "nope" in err


def test_a_report_is_written(
    storage: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    code, out, _ = shown(storage, capsys, monkeypatch, "report", "t", "--output", str(page))
    assert code == 0 and out == f"report: {page}\n" and "ita-lora" in page.read_text(encoding="utf-8")
    told = json.loads(shown(storage, capsys, monkeypatch, "report", "t", "--output", str(page), "--json")[1])
    assert told == {"report": str(page)}
