"""Commands that read runs: what they print and write."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.terminal import Terminal
from tests.tausearch.transcripts.gallery import gallery

RUNS = ("tuned", "stopped-early", "aims", "both", "interrupted", "judged", "orders", "elsewhere", "tuned-probe")


@pytest.fixture
def read(terminal: Terminal) -> Terminal:
    """A person in a folder with a copy of all runs."""
    shutil.copytree(gallery(), terminal.storage.root)
    return terminal


def test_states(read: Terminal, kept: SnapshotAssertion) -> None:
    for name in ("", *RUNS, "tuned --protocols", "both --protocols"):
        read(f"status {name}".strip())
    assert read.transcript == kept


def test_states_for_programs(read: Terminal, kept: SnapshotAssertion) -> None:
    for name in ("", "tuned", "both", "judged"):
        read(f"status {name} --format json")
    assert read.transcript == kept


def test_comparisons(read: Terminal, kept: SnapshotAssertion) -> None:
    for words in (
        "",
        "digits",
        "judged other",
        "other judged iel",
        "--transfer",
        "--ablation",
        "--composition",
        "--campaign table",
    ):
        read(f"compare {words}".strip())
    read("compare --paper --format latex cifar100")
    read("compare --paper", code=2)
    read("compare tuned aims", code=2)
    read.add_text_of([read.storage.root / "compare.png"])
    for form in ("json", "csv", "markdown", "latex"):
        read(f"compare digits --format {form}")
        read(f"compare cifar100 eurosat --format {form}")
        for kind in ("--transfer", "--ablation", "--composition"):
            read(f"compare {kind} --format {form}")
    assert read.transcript == kept


def test_replays(read: Terminal, kept: SnapshotAssertion) -> None:
    read("runs replay tuned --algorithm tpe --seeds 0,1")  # `gp` computes with torch: other processors, other digits
    read("runs replay stopped-early --algorithm random --scheduler asha --seeds 0,1")
    read("runs replay both --trials 3 --algorithm random --seeds 0,1 --format json")
    assert read.transcript == kept


def test_campaigns(read: Terminal, kept: SnapshotAssertion) -> None:
    for words in ("status", "status table", "status table --format json", "report table"):
        read(f"campaign {words}")
    folder = read.storage.campaign("table").path
    read.add_text_of(sorted(folder.glob("comparison.*")))
    read.add_text_of(sorted(folder.rglob("*.png")))
    read.add(words_of(folder / "report.html"))
    assert read.transcript == kept


def test_files_of_the_best(read: Terminal, kept: SnapshotAssertion) -> None:
    for words in ("tuned", "both", "digits iel-lora", "aims --format json"):
        read(f"export {words}")
    read("export digits ita-lora", code=2)
    read.add_text_of(sorted(read.folder.glob("*.yaml")))
    assert read.transcript == kept


def test_plans(read: Terminal, kept: SnapshotAssertion) -> None:
    for words in (
        "digits ita-lora --trials 20",
        "glyphs iel-lora --algorithm grid",
        "digits,glyphs ita-lora --trials 6 --warm-start tuned,both --scheduler median",
        "digits ita-lora --trials 6 --warm-start paper,tuned --target 90 --patience 3 --with-bounds --format json",
        "digits joint --tasks 2 --class-order 3 --epochs 1",
    ):
        read(f"search {words} --dry-run")
    for words in ("tuned --seeds 0,1", "both --benchmark glyphs", "digits iel-lora --class-orders 0,1 --with-bounds"):
        read(f"train {words} --dry-run")
    assert read.transcript == kept


def test_tidying_up(read: Terminal, kept: SnapshotAssertion) -> None:
    read("runs note judged 'the best so far'")
    read("runs rename other another")
    read("runs delete another --yes")
    read("runs sync --tracking none")
    read("runs cache")
    read("status")
    assert read.transcript == kept


@pytest.mark.parametrize("name", ["tuned", "both", "orders"])
def test_pages_of_runs(read: Terminal, kept: SnapshotAssertion, name: str) -> None:
    read(f"report {name} --output {name}.html")
    read.add(words_of(read.folder / f"{name}.html"))
    assert read.transcript == kept


class _Words(HTMLParser):
    """Collects the words of a page, a line for each piece, and the numbers of its plots."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._skipped = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._skipped = tag == "style" or (tag == "script" and given.get("type") != "application/json")
        self.lines += [f"[{name} {given[name]}]" for name in ("href", "title", "alt", "aria-label") if given.get(name)]

    def handle_endtag(self, tag: str) -> None:
        self._skipped = False

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._skipped:
            self.lines.append(" ".join(data.split()))


def words_of(page: Path) -> str:
    parser = _Words()
    parser.feed(page.read_text(encoding="utf-8"))
    return "\n".join(parser.lines) + "\n"
