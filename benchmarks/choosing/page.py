"""The table and the figure of docs/choosing.md: what each way to choose is worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.choosing.measuring import PRICES, Outcome, best_test, outcomes
from benchmarks.choosing.strategies import CANDIDATES, ROUNDS
from benchmarks.choosing.tables import ConfigurationTable, tables
from benchmarks.results.page import replaced

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PICTURE = DOCS / "choosing.md", DOCS / "images" / "choosing.png"
_ROW = 0.22  # inches
_COLOURS = ("#8b929c", "#c2410c")  # of the prices


def write_page() -> None:
    """Replay on all tables, and write what they say to the page."""
    measured = [(table, outcomes(table)) for table in tables()]
    texts = [as_text(table, found) for table, found in measured]
    text = "\n\n".join([*texts, "![what each way to choose gains over random search](images/choosing.png)"])
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "choosing", text), encoding="utf-8")
    draw(measured).savefig(PICTURE)
    print(f"written: {PAGE}, {PICTURE}")


def as_text(table: ConfigurationTable, found: Sequence[Outcome]) -> str:
    """Return what a table says as Markdown: what it is, and a row per way to choose, the best at the top."""
    prices = sorted({each.price for each in found})
    rows = [_header(prices), ["---"] * (1 + 2 * len(prices))]
    by_way = {label: [each for each in found if each.label == label] for label in dict.fromkeys(e.label for e in found)}
    for label, ways in sorted(by_way.items(), key=lambda item: -item[1][-1].gain.mean):
        cells = [cell for each in ways for cell in (f"{each.accuracy.mean:.2f}", _gain(each))]
        rows.append([label, *cells])
    return "\n".join([_about(table, found), "", *(f"| {' | '.join(row)} |" for row in rows)])


def _about(table: ConfigurationTable, found: Sequence[Outcome]) -> str:
    spec, images = table.spec, 0 if table.spec.data is None else table.spec.data.evaluation
    finals = sum(purpose == "final" for purpose, _ in table.runs)
    where = " on a GPU" if spec.resources.gpus_per_trial else ""
    counts = sorted({each.searches for each in found})
    mean = sum(table.test.values()) / len(table.test)
    return (
        f"`{spec.method}` on `{spec.benchmark}`: {len(table.test)} configurations, each on {len(table.splits)} splits"
        f" of {images} validation images and in {finals} final {'run' if finals == 1 else 'runs'}{where}; {counts[-1]}"
        f" searches per row ({counts[0]} with `gp`). Test accuracy of the start {table.test[0]:.2f} %, the highest in"
        f" the table {best_test(table):.2f} %, the mean {mean:.2f} %."
    )


def _header(prices: Sequence[int]) -> list[str]:
    columns = [column for price in prices for column in (f"price {price}: test", f"price {price}: more than random")]
    return ["way to choose", *columns]


def _gain(each: Outcome) -> str:
    return f"**{each.gain.text('+')}**" if each.gain.is_settled else each.gain.text("+")


def draw(measured: Sequence[tuple[ConfigurationTable, Sequence[Outcome]]]) -> Figure:
    """Draw the gain over random search with its interval, a panel per table, a line per way to choose."""
    longest = max((len({each.label for each in found}) for _, found in measured), default=1)
    figure = Figure(figsize=(4.6 * max(1, len(measured)) + 1.5, 1.4 + _ROW * longest), dpi=150, layout="constrained")
    for number, (table, found) in enumerate(measured, start=1):
        axes = figure.add_subplot(1, len(measured), number)
        labels = sorted({each.label for each in found}, key=lambda label: _last_gain(found, label))
        for colour, price in zip(_COLOURS, PRICES, strict=True):
            shown = sorted((each for each in found if each.price == price), key=lambda each: labels.index(each.label))
            off = 0.14 if price == PRICES[-1] else -0.14
            low = [each.gain.mean - each.gain.low for each in shown]
            high = [each.gain.high - each.gain.mean for each in shown]
            axes.errorbar(
                [each.gain.mean for each in shown],
                [labels.index(each.label) + off for each in shown],
                xerr=[low, high],
                fmt="o",
                markersize=4,
                color=colour,
                label=f"for the price of {price} trials",
            )
        axes.axvline(0, color="0.6", linewidth=0.8)
        axes.set_yticks(range(len(labels)), labels, fontsize=8)
        axes.set_xlabel("points of test accuracy more than random search", fontsize=9)
        axes.set_title(f"{table.spec.method} on {table.spec.benchmark}", fontsize=10)
        axes.grid(axis="x", alpha=0.3)
    if figure.axes:
        lines = figure.axes[0].get_legend_handles_labels()
        figure.legend(*lines, fontsize=8, loc="outside upper center", ncols=len(PRICES))
    figure.supxlabel(f"95 % intervals; confirmed: the {CANDIDATES} best trials {ROUNDS} times each", fontsize=8)
    return figure


def _last_gain(found: Sequence[Outcome], label: str) -> float:
    return next(each.gain.mean for each in reversed(found) if each.label == label)
