"""Predictions as a table for people, as JSON and CSV for programs, and as pictures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checked_input.names import counted
from tausearch.models import Confusion, Model, Prediction, find_user_images, named_after, prediction_table
from tausearch.presentation import (
    Column,
    Table,
    as_csv,
    console,
    numbers,
    percent,
    print_json,
    results,
    terminal_table,
    text_columns,
)
from tausearch.runs import Storage, require_picture
from trainables.errors import InputError

_MOST_MISTAKES = 3  # wrong classes that the table of accuracies names for a class


def show_predictions(
    model: Model, predictions: Sequence[Prediction], left_out: Sequence[str], output_format: str
) -> None:
    """Print predictions on stdout; `left_out` has a line for each image that could not be read."""
    if output_format == "json":
        print_json(_as_dict(model, predictions, left_out))
    elif output_format == "csv":
        fixed = ("image", "label", "true_label", "probability")
        columns = [Column(name) for name in (*fixed, *_class_columns(fixed, model.classes))]
        rows = [
            (each.image, each.label, each.true_label, each.probability, *each.probabilities.values())
            for each in predictions
        ]
        results().write(as_csv(Table("", columns, rows)))
    else:
        console().print(terminal_table(prediction_table(predictions)))
        _show_accuracies(Confusion.of(model.classes, predictions), len(predictions))


def draw(model: Model, predictions: Sequence[Prediction], path: Path) -> Iterator[str]:
    """Draw the most and least confident predictions, or raise an `InputError`; yield lines about the picture."""
    from tausearch.presentation import draw_predictions, drawn_names  # matplotlib takes a second to import

    images = find_user_images([prediction.image for prediction in predictions], sys.maxsize)  # each was read before
    read = {each.name: each.read for each in images}
    drawn = drawn_names(model.classes)
    shown = [
        (each.image, drawn[each.label], each.probability, read[each.image], drawn.get(each.true_label or ""))
        for each in predictions
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_predictions(shown, path)
        yield f"figure: {', '.join(map(str, _pictures(path)))}"
    except (OSError, ValueError) as error:  # matplotlib's for an ending that it does not know
        raise InputError(f"--figure {path}: cannot be written ({error})") from error
    yield from _legend(drawn, {name for each in predictions for name in (each.label, each.true_label)})


def draw_confusion(model: Model, predictions: Sequence[Prediction], path: Path) -> Iterator[str]:
    """Draw the confusion matrix and write it as CSV, or raise an `InputError`; yield lines about the files."""
    from tausearch.presentation import confusion_figure, drawn_names, save

    found = Confusion.of(model.classes, predictions)
    drawn = drawn_names(model.classes)
    title = f"{', '.join(model.about.runs)}: {found.right} of {counted(found.images, 'image')} right"
    files = confusion_files(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(confusion_figure([drawn[name] for name in found.classes], found.counts, title), path)
        path.with_suffix(".csv").write_text(as_csv(_confusion_table(found)), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"--confusion {path}: cannot be written ({error})") from error
    yield f"confusion matrix: {', '.join(map(str, files))}"
    yield from _legend(drawn, set(found.classes))


def confusion_files(path: Path) -> list[Path]:
    """Return the files of a confusion matrix: the picture, beside a PNG the same as PDF, and the numbers."""
    return [*_pictures(path), path.with_suffix(".csv")]


def _pictures(path: Path) -> list[Path]:
    return [path, path.with_suffix(".pdf")] if path.suffix == ".png" else [path]


def require_figure(option: str, path: Path, images: Sequence[Path], storage: Storage) -> None:
    """Refuse, before images are looked at, a picture that cannot be made or would take the place of another file."""
    if path.resolve() in {each.resolve() for each in images}:
        raise InputError(f"{option} {path}: is one of the images")
    require_picture(storage, path, option, [path.with_suffix(".csv")] if option == "--confusion" else ())


def require_two_files(figure: Path, confusion: Path) -> None:
    """Raise an `InputError` if the two pictures would share a file, however both are written."""
    files, others = ({each.resolve() for each in found} for found in (_pictures(figure), confusion_files(confusion)))
    if files & others:
        raise InputError(f"--figure and --confusion: must be two files, got {figure} and {confusion}")


def require_truth(model: Model, images: Sequence[Path], path: Path) -> None:
    """Raise an `InputError`, before images are classified, if the true class of none is known."""
    if not any(named_after(image, model.classes) for image in images):
        raise InputError(f"--confusion {path}: no image lies in a folder named after a class of the model")


def _legend(drawn: dict[str, str], used: set[str | None]) -> Iterator[str]:
    """Yield a line that explains which classes stand as numbers, because no font here has their letters."""
    if numbered := [f"{number} is {name}" for name, number in drawn.items() if name != number and name in used]:
        yield f"in the picture, as no font here can draw their names: {', '.join(numbered)}"


def _confusion_table(found: Confusion) -> Table:
    lines = [(name, *line) for name, line in zip(found.classes, found.counts, strict=True)]
    return Table("", [Column("true_label"), *map(Column, _class_columns(["true_label"], found.classes))], lines)


def _class_columns(fixed: Sequence[str], classes: Sequence[str]) -> list[str]:
    """Return the columns of classes; one that is named as another column gets `class:` in front, as in `--forget`."""
    return [f"class:{name}" if name in fixed else name for name in classes]


def _as_dict(model: Model, predictions: Sequence[Prediction], left_out: Sequence[str]) -> dict[str, Any]:
    found = Confusion.of(model.classes, predictions)
    return {
        "model": {"runs": model.about.runs, "methods": model.about.methods, "seed": model.seed, "tasks": model.tasks},
        "classes": model.classes,
        "predictions": [
            {
                "image": each.image,
                "label": each.label,
                "true_label": each.true_label,
                "probability": each.probability,
                "probabilities": each.probabilities,
            }
            for each in predictions
        ],
        "confusion": {
            true: dict(zip(found.classes, line, strict=True))
            for true, line in zip(found.classes, found.counts, strict=True)
        },
        "left_out": list(left_out),
    }


def _show_accuracies(found: Confusion, images: int) -> None:
    """Print the accuracy of each class with its mistakes, and of all images whose true class is known."""
    if not found.images:
        return
    rows = []
    for place, (name, line) in enumerate(zip(found.classes, found.counts, strict=True)):
        if sum(line):
            mistakes = found.mistakes(place)
            more = len(mistakes) - _MOST_MISTAKES
            taken = [f"{wrong} {count}" for wrong, count in mistakes[:_MOST_MISTAKES]]
            taken += [f"{counted(more, 'other class')}"] * (more > 0)
            rows.append((name, sum(line), line[place], 100 * line[place] / sum(line), ", ".join(taken)))
    columns = [
        *text_columns("true class"),
        *numbers("images", "right"),
        *numbers("accuracy", format=percent),
        *text_columns("taken for"),
    ]
    out = console()
    out.print(terminal_table(Table("accuracy per class", columns, rows)))
    rest = images - found.images
    others = f" ({counted(rest, 'image')} elsewhere not counted)" if rest else ""
    out.print(
        f"right: {found.right} of {counted(found.images, 'image')} whose folder is named after a class of the"
        f" model: {100 * found.right / found.images:.2f} %{others}",
        soft_wrap=True,
    )
