"""Write the tables of docs/explanation/gpu.md, gpu-speed.md, gpu-steps.md and precision.md from the kept files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.named import COST, GRAPHS, MEASURED, PACKING, PRECISIONS, READING, STEPS, SYSTEMS
from benchmarks.gpu.precisions import HEADER, summary, table
from benchmarks.gpu.reading import THREADS
from benchmarks.performance.kept import Kept, Measured
from benchmarks.planning.table import DATASETS
from benchmarks.results.page import as_table, write
from trainables.backbones import EMBEDDED

PAGES = Path(__file__).parents[2] / "docs" / "explanation"
OTHERWISE = "cost otherwise"
COLUMNS = (
    "a trial, min",
    "waits",
    "shared, min",
    "24 trials, GPU h",
    "`asha`",
    "no cache",
    "no cache, `asha`",
    "peak, GiB",
)


def write_pages(pages: Path = PAGES, folder: Path = MEASURED) -> None:
    """Write all tables of these pages."""
    tables = {
        "gpu": cost(folder) | reading(folder),
        "gpu-speed": rates(folder),
        "gpu-steps": graphs(folder) | steps(folder),
        "precision": precisions(folder),
    }
    for name, found in tables.items():
        write(found, pages / f"{name}.md")


def cost(folder: Path = MEASURED) -> dict[str, str]:
    """Return the tables of what a search costs, by place."""
    found = Kept.of(COST, folder)
    rows = [row for row in found.rows if "fault" not in row]
    usual = [row for row in rows if _is_usual(row)]
    others = [row for row in rows if not _is_usual(row)]
    beside = [row for row in usual if any(_same(row, other) for other in others)]
    missing = {usual: " ".join(_missing(found.rows, usual)) for usual in (True, False)}
    otherwise = _table(("dataset", "method", "precision", "threads"), [*beside, *others])
    return {
        "cost": f"{_table(('dataset', 'method'), usual)}\n\n{_when(found)} {missing[True]}".rstrip(),
        OTHERWISE: otherwise if others else missing[False],
    }


def _missing(rows: Iterable[Mapping[str, Any]], usual: bool) -> Iterator[str]:
    """Yield a sentence for each reason why rows have no figures."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if "fault" in row and _is_usual(row) is usual:
            by_reason.setdefault(row["fault"], []).append(f"`{row['method']}` on `{row['dataset']}`")
    for reason, cases in by_reason.items():
        yield f"No figures of {', '.join(cases)} ({reason})."


def precisions(folder: Path = MEASURED) -> dict[str, str]:
    """Return the tables of what a precision costs, by place."""
    found = Kept.of(PRECISIONS, folder)
    summed = as_table(("", "pairs", "mean", "lowest", "highest"), summary(found.rows))
    return {"precisions": f"{as_table(HEADER, table(found.rows))}\n\n{_when(found)}", "summary": summed}


def rates(folder: Path = MEASURED) -> dict[str, str]:
    """Return the tables of gpu-speed.md, by place."""
    of_systems, packed = (Measured.of(name, folder) for name in (SYSTEMS, PACKING))
    return {
        "systems": f"{_systems(of_systems.rows)}\n\n{_when_carried(of_systems)}",
        "packing": f"{_packing(packed.rows)}\n\n{_when_carried(packed)}",
    }


def _systems(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a line for each method; (a) marks a peak that is an upper bound, and a fault stands in place of a rate."""
    by_method: dict[str, list[str]] = {}
    for row in rows:  # all methods in float32, then all in bf16
        rate, peak = row["images/s"], row.get("peak, GiB")
        mark = " (a)" if row.get("an upper bound") else ""
        cells = (rate if isinstance(rate, str) else f"{rate:.0f}", "" if peak is None else f"{peak:.1f}{mark}")
        by_method.setdefault(row["method"], []).extend(cells)
    header = ("", "float32, images/s", "peak, GiB", "bf16, images/s", "peak, GiB")
    return as_table(header, ((f"`{method}`", *cells) for method, cells in by_method.items()))


def _packing(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each backbone, precision and batch size, with a column for each number of trials."""
    counts = list(dict.fromkeys(row["trials on one GPU"] for row in rows))
    found: dict[str, dict[int, str]] = {}
    for row in rows:
        backbone = "embedded ViT" if row["backbone"] == EMBEDDED else "ViT-B/16"
        precision = "float32" if row["precision"] == "fp32" else row["precision"]
        rate, ratio = row["images per second"], row["over one trial's"]
        cell = rate if isinstance(rate, str) else f"{rate:.0f}" + ("" if ratio in ("", 1) else f" ({ratio:.2f})")
        found.setdefault(f"{backbone}, {precision}, batch {row['batch']}", {})[row["trials on one GPU"]] = cell
    lines = ((name, *(cells.get(count, "not measured") for count in counts)) for name, cells in found.items())
    return as_table(("trials at a time", *map(str, counts)), lines)


def steps(folder: Path = MEASURED) -> dict[str, str]:
    """Return the tables of compiled blocks and of other ways."""
    found = Kept.of(STEPS, folder)
    compiled = (
        (
            _call(row),
            *_rates(row),
            *(f"{100 * row[each]:.0f} %" for each in ("share", "share, changed")),
            f"{row['first']:.1f} s",
        )
        for row in found.rows
        if "share" in row
    )
    ways = (
        (row["what"], f"{_call(row)}{', compiled' * row['compiled']}", *_rates(row))
        for row in found.rows
        if "what" in row
    )
    shares = ("share of a product", "share, compiled", "first training")
    return {
        "compiled": as_table(("", "images/s", "compiled", "ratio", *shares), compiled) + f"\n\n{_when(found)}",
        "ways": as_table(("now", "", "images/s before", "now", "ratio"), ways),
    }


def graphs(folder: Path = MEASURED) -> dict[str, str]:
    """Return the table of CUDA graphs."""
    found = Measured.of(GRAPHS, folder)
    lines = ((_call(row), *_rates(row), f"{row['difference']:.0e}" if row["difference"] else "0") for row in found.rows)
    table = as_table(("", "images/s", "with a graph", "ratio", "difference of weights"), lines)
    return {"graphs": f"{table}\n\n{_when_carried(found)}"}


def reading(folder: Path = MEASURED) -> dict[str, str]:
    """Return the table of how many images a trial has ready in a second, by place."""
    found = Kept.of(READING, folder)
    by_case: dict[tuple[str, str], list[str]] = {}
    for row in found.rows:
        by_case.setdefault((row["dataset"], row["form"]), []).append(f"{row['images/s']:.0f}")
    lines = (
        (f"`{dataset}`", "files" if form == "files" else "prepared", *rates)
        for (dataset, form), rates in by_case.items()
    )
    header = ("dataset", "form", *(f"{count} thread{'s' * (count > 1)}" for count in THREADS))
    return {"reading": f"{as_table(header, lines)}\n\n{_when(found)}"}


def _when_carried(found: Measured) -> str:
    """Return when the figures were measured, and how where they were carried over, as a sentence."""
    by_hand = "" if found.carried_over is None else f": {found.carried_over}"
    return f"Figures of {found.day}, commit {found.commit}{by_hand}."


def _call(row: Mapping[str, Any]) -> str:
    return f"`{row['method']}`, {row['precision']}"


def _rates(row: Mapping[str, Any]) -> tuple[str, ...]:
    return f"{row['images/s']:.0f}", f"{row['images/s, changed']:.0f}", f"{row['ratio']:.2f}"


def _is_usual(row: Mapping[str, Any]) -> bool:
    return row["precision"] == "bf16" and row["threads"] == 1


def _same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (row["dataset"], row["method"]) == (other["dataset"], other["method"])


def _table(about: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> str:
    lines = (
        (*(f"`{row[each]}`" if each in ("dataset", "method") else str(row[each]) for each in about), *_cells(row))
        for row in sorted(rows, key=lambda row: [*DATASETS].index(row["dataset"]))
    )
    return as_table((*about, *COLUMNS), lines)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    own = sum(row[f"trial: {part}"] for part in ("beginning", "training", "evaluation"))
    shared = row["trial: pre-consolidation"]
    hours = ("", ", early stopping", ", not shared", ", early stopping, not shared")
    return (
        f"{own / 60:.1f}",
        f"{100 * row['waiting'] / row['training']:.0f} %",
        f"{shared / 60:.1f}" if shared else "none",
        *(f"{row[f'GPU hours{which}']:.2f}" if shared or "not" not in which else "" for which in hours),
        f"{row['peak']:.1f}",
    )


def _when(found: Kept) -> str:
    """Return where and when the figures were measured, as a sentence."""
    machine = found.machine
    card = f"one {machine.gpu or 'GPU whose model was not noted'}"
    driver = "" if machine.driver is None else f" with driver {machine.driver}"
    where = f"{card}{driver}, {machine.cores} cores, PyTorch {machine.torch}"
    return f"Figures of {found.day}, commit {found.commit}: {where}."
