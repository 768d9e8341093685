"""The five rows of measured numbers in README.md are what the kept files and written tables say."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.authors import page as authors
from benchmarks.choosing.kept import measured
from benchmarks.choosing.page import as_summary
from benchmarks.performance import kept
from benchmarks.performance.kept import Measured
from benchmarks.soak import command as soak
from tausearch.studies import table_files

ROOT = Path(__file__).parents[2]
CELLS = [
    line.strip("| ").split(" | ")[1:]
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and line.count("](docs/explanation/")
]


def table_of(page: Path, name: str) -> str:
    found = re.search(rf"<!-- table: {name} -->\n(.*?)<!-- end -->", page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def first_number(cell: str) -> float:
    return float(cell.split()[0])


def test_there_are_five_rows() -> None:
    assert len(CELLS) == 5 and all(len(each) == 2 for each in CELLS)


def test_the_share_of_cpu_time_with_the_cache() -> None:
    line = next(
        line for line in table_of(ROOT / "docs/explanation/performance.md", "today").splitlines() if "`sharing`" in line
    )
    share = float(line.split(" | ")[1])
    assert CELLS[0][0] == f"16 trials take {share:.2f} of the CPU time"
    assert kept.read(["sharing"])  # the file from which the table is written


def test_the_kills() -> None:
    kills, lost, doubled = (
        re.search(pattern, table_of(soak._PAGE, "soak summary"))[1]  # type: ignore[index]
        for pattern in (r"\*\*(\d+) kills", r"lost\*\*: (\d+) trials", r"doubled\*\*: (\d+) entries")
    )
    assert lost == doubled == "0" and CELLS[1][0] == f"{kills} kills, 0 trials lost or doubled"


def test_the_gain_of_reevaluating() -> None:
    summary = as_summary([found for _, found in map(measured, table_files())])
    line = next(line for line in summary.splitlines() if line.startswith("| tpe, re-evaluated |"))
    gain = re.match(r"\*\*\+([\d.]+) \(\+([\d.]+) to \+([\d.]+)\)", line.split(" | ")[2])  # for the price of 18 trials
    assert gain is not None
    mean, low, high = gain.groups()
    assert CELLS[2][0] == f"+{mean} points of test accuracy ({low} to {high}) over random search of the same price"


def test_parity_and_time_beside_the_authors_code() -> None:
    fixed = Measured.of(authors.FIXED, authors.MEASURED).rows
    gaps = [abs(first_number(row["ours"]) - first_number(row["theirs"])) for row in fixed]
    assert len(gaps) == 6 and max(gaps) <= 3
    ratios = [
        row["ratio"] for row in Measured.of("authors", authors.MEASURED).rows if row["what"].startswith("one trial")
    ]
    times = f"{min(ratios):.2f} to {max(ratios):.2f}"
    assert CELLS[3][0] == f"regularised ITA and IEL within 3 points, a trial of `ita-lora` in {times} of the time"


def test_the_systems_that_no_trial_made_better() -> None:
    said = table_of(ROOT / "docs/explanation/results.md", "digits searches")
    unbeaten = re.findall(r"`((?:ita|iel)-\w+)`", said.partition("No trial beat the start of")[2])
    assert CELLS[4][0] == f'"no better than the start" on {len(unbeaten)} of 6 systems on `digits`'
