"""`tausearch report`: one file for a search, for a final run, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tausearch.runs import Storage
from tests.support.command_line import run
from tests.tausearch.report.runs import make_final, make_search

pytestmark = pytest.mark.usefixtures("quick_report")


def test_the_report_lies_in_the_runs_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_search(Storage(tmp_path))
    make_final(Storage(tmp_path))
    code, out, err = run(["report", "the-final", "--storage", str(tmp_path)], capsys, monkeypatch)
    file = tmp_path / "the-final" / "report.html"
    assert (code, out, err) == (0, f"report: {file}\n", "")
    page = file.read_text(encoding="utf-8")
    assert "<title>ita-lora on digits: the-final</title>" in page and "the paper has no digits" in page
    assert page.count('class="run"') == 2  # with its search


def test_another_file_can_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_search(Storage(tmp_path / "runs"))
    file = tmp_path / "new" / "page.html"
    words = ["report", "the-search", "--storage", str(tmp_path / "runs"), "--output", str(file), "--json"]
    code, out, _ = run(words, capsys, monkeypatch)
    assert code == 0 and json.loads(out) == {"report": str(file)} and file.stat().st_size > 1e6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "none"], "no run named 'none' in"),
        (["report", "../x"], "name '../x': must be letters"),
        (
            ["report", "the-search", "--output", "/proc/none/page.html"],
            "report /proc/none/page.html: cannot be written",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_search(Storage(tmp_path))
    code, out, err = run([*words, "--storage", str(tmp_path)], capsys, monkeypatch)
    assert code == 2 and out == "" and err.count("\n") == 1 and message in err
