"""Predictions as a table for people, as JSON and CSV for programs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from checked_input.text_files import spreadsheet_cell
from tausearch.models import Model, Prediction, looked_at
from tausearch.presentation import console, counted, print_json
from tausearch.runs import Storage, require_picture
from trainables.errors import InputError

Form = Literal["table", "json", "csv"]
FORMS: tuple[Form, ...] = ("table", "json", "csv")
_RUNNERS_UP = 2


def show_predictions(model: Model, predictions: Sequence[Prediction], left_out: Sequence[str], form: Form) -> None:
    """Print predictions on stdout.

    Args:
        model: Whose they are.
        predictions: An image each.
        left_out: A line for each image that could not be read.
        form: "table", "json" or "csv".
    """
    if form == "json":
        print_json(_as_dict(model, predictions, left_out))
    elif form == "csv":
        rows = csv.writer(sys.stdout, lineterminator="\n")
        rows.writerow(["image", "class", "probability", *map(spreadsheet_cell, model.classes)])
        for each in predictions:
            names = map(spreadsheet_cell, (each.image, each.label))
            rows.writerow([*names, each.probability, *each.probabilities.values()])
    else:
        _show_table(model, predictions)


def draw(predictions: Sequence[Prediction], path: Path) -> Path:
    """Draw the images that a model is surest and least sure of.

    Args:
        predictions: Of image files.
        path: The picture to write.

    Returns:
        It.

    Raises:
        InputError: If there is no image, or the picture cannot be written.
    """
    from tausearch.presentation import draw_predictions  # matplotlib takes a second to import

    if not predictions:
        raise InputError(f"--figure {path}: there is no image to draw")
    read = {each.name: each.read for each in looked_at([prediction.image for prediction in predictions])}
    shown = [(each.image, each.label, each.probability, read[each.image], _told(each)) for each in predictions]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return draw_predictions(shown, path)
    except (OSError, ValueError) as error:  # matplotlib's for an ending that it does not know
        raise InputError(f"--figure {path}: cannot be written ({error})") from error


def require_figure(path: Path, images: Sequence[Path], storage: Storage) -> None:
    """Make sure, before images are looked at, that a picture can be made and takes the place of none of them.

    Raises:
        InputError: If its ending names no kind of picture, or it is one of the images or a file of the storage.
    """
    require_picture(storage, path, "--figure")
    if path.resolve() in {each.resolve() for each in images}:
        raise InputError(f"--figure {path}: is one of the images")


def rightly_named(predictions: Sequence[Prediction]) -> tuple[int, int]:
    """Count images that lie in a folder named after a class, and of these the ones that are predicted as it says.

    Returns:
        How many are right, of how many.
    """
    told = [(_told(each), each.label) for each in predictions if _told(each) is not None]
    return sum(wanted == got for wanted, got in told), len(told)


def _told(prediction: Prediction) -> str | None:
    """Return the class of the model that the image's folder is named after, if it is."""
    name = Path(prediction.image).parent.name
    return name if name in prediction.probabilities else None


def _as_dict(model: Model, predictions: Sequence[Prediction], left_out: Sequence[str]) -> dict[str, Any]:
    about = {"runs": model.about.runs, "methods": model.about.methods, "seed": model.seed, "tasks": model.tasks}
    each = [asdict(prediction) for prediction in predictions]
    return {"model": about, "classes": model.classes, "predictions": each, "left_out": list(left_out)}


def _show_table(model: Model, predictions: Sequence[Prediction]) -> None:
    out, table = console(), Table()
    for column in ("image", "class", "probability", "next"):
        table.add_column(column, justify="right" if column == "probability" else "left", overflow="fold")
    for each in predictions:
        ranked = sorted(each.probabilities.items(), key=lambda pair: -pair[1])[1 : 1 + _RUNNERS_UP]
        others = ", ".join(f"{name} {share:.3f}" for name, share in ranked)
        table.add_row(each.image, each.label, f"{each.probability:.3f}", others)
    out.print(table)
    right, of = rightly_named(predictions)
    if of:
        rest = len(predictions) - of
        others = f" ({counted(rest, 'image')} elsewhere not counted)" if rest else ""
        out.print(
            f"{right} of {of} images in folders named after classes of the model are predicted so:"
            f" {100 * right / of:.2f} %{others}",
            soft_wrap=True,
        )
