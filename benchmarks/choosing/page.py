"""Write table, figure and data of docs/explanation/what-helps.md: the gain of each way to choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.choosing.kept import measured
from benchmarks.choosing.measuring import PRICES, Estimate, Outcome, best_test
from benchmarks.choosing.strategies import CANDIDATES, ROUNDS
from benchmarks.results.page import as_table, replaced
from checked_input.names import counted
from tausearch.studies import ConfigurationTable, table_files

DOCS = Path(__file__).parents[2] / "docs"
PAGE, DATA = DOCS / "explanation" / "what-helps.md", DOCS / "explanation" / "what-helps.csv"
PICTURE = DOCS / "images" / "choosing.png"
SHOWN = ("random, re-evaluated", "tpe", "tpe, re-evaluated", "tpe, asha", "tpe, median", "tpe, paper first")
_ROW = 0.26  # inches
_COLOURS = ("#c8ccd2", "#8b929c", "#c2410c")  # of the prices


def write_page() -> None:
    """Replay on the tables that have not been measured, and write what they all say to the page."""
    known = [measured(path) for path in table_files()]
    found = [outcomes for _, outcomes in known]
    texts = ["![what each way to choose gains over random search](../images/choosing.png)", as_summary(found)]
    text = "\n\n".join([*texts, "The tables:\n\n" + "\n".join(f"- {about(*each)}" for each in known)])
    page = replaced(PAGE.read_text(encoding="utf-8"), "choosing", text)
    PAGE.write_text(replaced(page, "by benchmark", by_benchmark(known)), encoding="utf-8")
    write_data(DATA, known)
    draw(known).savefig(PICTURE)
    print(f"written: {PAGE}, {DATA}, {PICTURE}")


def write_data(path: Path, known: Sequence[tuple[ConfigurationTable, Sequence[Outcome]]]) -> None:
    """Write every way to choose on every table as CSV: accuracy and gain in percentage points, with 95 % intervals."""
    rows = [_row(table.spec.benchmark, each) for table, found in known for each in found]
    pd.DataFrame(rows).to_csv(path, index=False)


def _row(benchmark: str, each: Outcome) -> dict[str, object]:
    """Return a row of the data."""
    search = {"algorithm": each.search.algorithm, "scheduler": each.search.scheduler, "paper_first": each.search.warm}
    kinds = {"test_accuracy": each.accuracy, "gain_over_random": each.gain}
    numbers = {name: f"{estimate.mean:.3f}" for name, estimate in kinds.items()}
    ends = {f"{n}_{end}": f"{getattr(e, end):.3f}" for n, e in kinds.items() for end in ("low", "high")}
    done = {"reevaluated": each.reevaluate, "price": each.price, "searches": each.searches}
    return {"benchmark": benchmark, **search, **done, **numbers, **ends}


def as_summary(known: Sequence[Sequence[Outcome]]) -> str:
    """Return the mean gain over all tables as Markdown, by way to choose and price."""
    over = _over(known)
    prices = sorted({price for _, price in over})
    header = ("way to choose", *(f"price {price}" for price in prices))
    table = as_table(header, [(way, *(_gain(over[way, price]) for price in prices)) for way in _best_first(over)])
    unit = f"Difference to random search in points of test accuracy, mean over {counted(len(known), 'benchmark')}:"
    return f"{unit}\n\n{table}"


def by_benchmark(known: Sequence[tuple[ConfigurationTable, Sequence[Outcome]]], price: int = PRICES[1]) -> str:
    """Return the accuracy of random search on each benchmark, and what some ways gain over it, as Markdown."""
    by_way = [{each.label: each for each in found if each.price == price} for _, found in known]
    header = ("", *(f"`{table.spec.benchmark}`" for table, _ in known))
    start = ("the start", *(f"{table.test[0]:.2f}" for table, _ in known))
    plain = ("random", *(f"{each['random'].accuracy.mean:.2f}" for each in by_way))
    return as_table(header, [start, plain, *((way, *(_gain(each[way].gain) for each in by_way)) for way in SHOWN)])


def _over(known: Sequence[Sequence[Outcome]]) -> dict[tuple[str, int], Estimate]:
    """Return the mean gain over tables, by way to choose and price."""
    gains = [_gains(found) for found in known]
    return {key: Estimate.over([each[key] for each in gains]) for key in gains[0]}


def _gains(found: Sequence[Outcome]) -> dict[tuple[str, int], Estimate]:
    return {(each.label, each.price): each.gain for each in found}


def _best_first(gains: Mapping[tuple[str, int], Estimate]) -> list[str]:
    """Return the ways to choose, that with the largest gain at the highest price first."""
    last = max(price for _, price in gains)
    return sorted(dict.fromkeys(way for way, _ in gains), key=lambda way: -gains[way, last].mean)


def about(table: ConfigurationTable, found: Sequence[Outcome]) -> str:
    """Return a sentence about a table: its size, the searches on it, and the best that there is to find."""
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


def _gain(gain: Estimate) -> str:
    return f"**{gain.text('+')}**" if gain.is_settled else gain.text("+")


def draw(known: Sequence[tuple[ConfigurationTable, Sequence[Outcome]]]) -> Figure:
    """Draw the gain over random search with its interval, a panel per table, a line per way to choose."""
    ways = _best_first(_over([found for _, found in known]))[::-1]  # the axis goes upwards
    figure = Figure(figsize=(3.4 * len(known) + 2.6, 1.6 + _ROW * len(ways)), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(known), sharey=True, squeeze=False)[0]
    for axes, (table, found) in zip(panels, known, strict=True):
        _draw_gains(axes, _gains(found), ways)
        axes.set_title(f"{table.spec.method} on {table.spec.benchmark}", fontsize=10)
    panels[0].set_yticks(range(len(ways)), ways, fontsize=8)
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=8, loc="outside upper center", ncols=len(PRICES))
    note = f"95 % intervals; re-evaluated: the {CANDIDATES} best trials {ROUNDS} times each"
    figure.supxlabel(f"points of test accuracy more than random search\n{note}", fontsize=9)
    return figure


def _draw_gains(axes: Axes, gains: Mapping[tuple[str, int], Estimate], ways: Sequence[str]) -> None:
    for number, (colour, price) in enumerate(zip(_COLOURS, PRICES, strict=True)):
        shown = [gains[way, price] for way in ways]
        axes.errorbar(
            [each.mean for each in shown],
            [place + 0.22 * (number - 1) for place in range(len(ways))],
            xerr=[each.high - each.mean for each in shown],
            fmt="o",
            markersize=4,
            color=colour,
            label=f"for the price of {price} trials",
        )
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_ylim(-0.8, len(ways) - 0.2)
    axes.grid(axis="x", alpha=0.3)
