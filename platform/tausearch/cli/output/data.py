"""Datasets, what a check of them found, and backbones, for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from checked_input.names import counted
from checked_input.text_files import escaped, shown
from tausearch import api
from tausearch.presentation import (
    Table,
    as_csv,
    console,
    print_json,
    results,
    rows_as_table,
    terminal_table,
    text_columns,
    tool,
)
from trainables.backbones import EMBEDDED
from trainables.data.dataset import DATA_VARIABLE, data_root
from trainables.user_code import OURSELVES, clash, installed

_FEWER = 4  # times fewer test images than the mean of classes, about which a check says something

if TYPE_CHECKING:  # timm takes seconds to import
    from trainables.backbones.offered import Offer


def show_states(states: Sequence[api.DataState], root: str | None) -> None:
    """Print a table of all benchmarks, and where to get what is not there."""
    out = console()
    rows = [
        (
            state.name,
            state.state,
            None if state.classes is None else len(state.classes),
            state.count("train"),
            state.count("test"),
            state.layout,
        )
        for state in states
    ]
    columns = text_columns("benchmark", "state", "classes", "train (per class)", "test (per class)", "layout")
    out.print(terminal_table(Table("", columns, rows)))
    show_installed("benchmark", {state.name: OURSELVES for state in states})
    out.print(f"looked for in {data_root(root)}/<benchmark> (--data-root, or {DATA_VARIABLE})", soft_wrap=True)
    for state in states:
        if not state.whole:
            out.print(f"{state.name}: needs {state.looks_for}\n  in {state.home}; from {state.source}", soft_wrap=True)


def show_installed(kind: str, listed: Mapping[str, str], word: str = "") -> None:
    """Print the names of a kind that installed packages bring and that contain a word, and those that clash.

    `listed` are the names that were shown before, each with what gives it.
    """
    names = [name for name in installed(kind) if word in name]
    faults = {name: clash(kind, name, *([listed[name]] if name in listed else [])) for name in names}
    if sole := [name for name in names if faults[name] is None]:
        console().print(f"of installed packages: {', '.join(sole)}", style="dim", soft_wrap=True)
    for fault in filter(None, faults.values()):
        console().print(fault, soft_wrap=True)


def show_check(found: api.CheckResult) -> None:
    """Print the classes with their numbers and sizes of images, every fault, what is left out, and how many faults."""
    out = console()
    rows = [
        (name, each.train, each.test, each.unreadable or None, _sizes(each.smallest, each.largest))
        for name, each in found.classes.items()
    ]
    columns = text_columns("class", "train", "test", "unreadable", "fewest to most pixels (width x height)")
    out.print(terminal_table(Table("", columns, rows)))
    for fault in found.faults:
        out.print(fault, soft_wrap=True)
    for line in found.repeated:
        out.print(f"{line}; no fault, it counts so often", soft_wrap=True)
    for line in found.left_out:
        out.print(f"left out: {line}", soft_wrap=True)
    readable = f"{len(found.left_out)} left out, all others readable" if found.left_out else "all of them readable"
    verdict = counted(len(found.faults), "fault") if found.faults else readable
    out.print(
        f"{found.name}: {counted(found.images, 'image')} in {Path(found.home)} ({found.layout}), {verdict}",
        soft_wrap=True,
    )
    if any(each.unreadable for each in found.classes.values()):
        out.print(
            "a search refuses images that cannot be read; with --skip-broken it lists them and leaves them out, as this"
            " check does with ?skip_broken=yes in the name",
            soft_wrap=True,
        )
    name, fewest = min(found.classes.items(), key=lambda each: each[1].test)
    if fewest.test * _FEWER * len(found.classes) < sum(each.test for each in found.classes.values()):
        out.print(
            f"class {shown(name)} has {fewest.train} images to train and {fewest.test} to test, far fewer than others;"
            " the final accuracy counts its task as much as any other",
            soft_wrap=True,
        )


def show_images(found: Sequence[api.ListedImage], output_format: str, null: bool = False) -> None:
    """Print a path a line, with `null` a NUL byte after each, or as CSV or JSON path, class and split of each image."""
    rows = [each.as_dict() for each in found]
    if output_format == "json":
        print_json(rows)
    elif output_format == "csv":
        print(as_csv(rows_as_table(rows)), end="", file=results())
    elif sys.stdout.isatty() and not null:
        print("\n".join(escaped(each.image) for each in found))
    else:  # another program gets the bytes of each name, with which it can open the file
        sys.stdout.flush()
        end = b"\0" if null else b"\n"
        sys.stdout.buffer.write(b"".join(os.fsencode(each.image) + end for each in found))
    if inside := sum(not os.path.isfile(each.image) for each in found):
        images = counted(inside, "image")
        print(f"in no file of their own, so predict and other programs cannot open them: {images}", file=sys.stderr)


def _sizes(smallest: tuple[int, int] | None, largest: tuple[int, int] | None) -> str | None:
    sizes = [f"{width} x {height}" for width, height in filter(None, (smallest, largest))]
    return " to ".join(dict.fromkeys(sizes)) or None


def show_backbones(offers: Sequence[Offer], word: str) -> None:
    """Print backbones: without a word those whose weights are here, and how to see the others."""
    out = console()
    show_installed("backbone", {each.name: OURSELVES if each.name == EMBEDDED else "timm" for each in offers}, word)
    if not offers:
        out.print(f"no backbone of timm has {word!r} in its name", soft_wrap=True)
        return
    rows = [
        (
            each.name,
            f"{each.size} x {each.size} {'grey' if each.channels == 1 else 'RGB'}",
            "embedded" if each.name == EMBEDDED else "here" if each.here else "on the hub",
            each.tried or "",
            ", ".join(f"{size} x {size}" for size in each.tested),
        )
        for each in offers
        if word or each.here
    ]
    out.print(
        terminal_table(Table("", text_columns("backbone", "reads", "weights", "tried by hand as", "in tests at"), rows))
    )
    if not word:
        others = sum(not each.here for each in offers)
        out.print(f"timm offers {others} more: {tool()} list backbones WORD, such as vit_base", soft_wrap=True)
        out.print(
            "they are fetched when first used; a local file: --backbone NAME --backbone-weights FILE; another size of"
            " images: --backbone NAME?img_size=224",
            soft_wrap=True,
        )
