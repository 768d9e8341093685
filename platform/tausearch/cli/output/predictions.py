"""Predictions as a table for people, as JSON and CSV for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from tausearch.models import Model, Prediction, list_images
from tausearch.presentation import Column, Table, as_csv, console, counted, print_json, terminal_table, words
from tausearch.runs import Storage, require_picture
from trainables.errors import InputError

Form = Literal["table", "json", "csv"]
_RUNNERS_UP = 2


def show_predictions(model: Model, predictions: Sequence[Prediction], left_out: Sequence[str], form: Form) -> None:
    """Print predictions on stdout; `left_out` has a line for each image that could not be read."""
    if form == "json":
        print_json(_as_dict(model, predictions, left_out))
    elif form == "csv":
        columns = [Column(name) for name in ("image", "class", "probability", *model.classes)]
        rows = [(each.image, each.label, each.probability, *each.probabilities.values()) for each in predictions]
        sys.stdout.write(as_csv(Table("", columns, rows)))
    else:
        _show_table(predictions)


def draw(predictions: Sequence[Prediction], path: Path) -> Path:
    """Draw the most and least confident predictions; raises `InputError` for no image or a file that fails."""
    from tausearch.presentation import draw_predictions  # matplotlib takes a second to import

    if not predictions:
        raise InputError(f"--figure {path}: there is no image to draw")
    read = {each.name: each.read for each in list_images([prediction.image for prediction in predictions])}
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


def _told(prediction: Prediction) -> str | None:
    """Return the class of the model that the image's folder is named after, if it is."""
    name = Path(prediction.image).parent.name
    return name if name in prediction.probabilities else None


def _as_dict(model: Model, predictions: Sequence[Prediction], left_out: Sequence[str]) -> dict[str, Any]:
    about = {"runs": model.about.runs, "methods": model.about.methods, "seed": model.seed, "tasks": model.tasks}
    each = [asdict(prediction) for prediction in predictions]
    return {"model": about, "classes": model.classes, "predictions": each, "left_out": list(left_out)}


def _show_table(predictions: Sequence[Prediction]) -> None:
    """Print a line per image, and how many images are predicted as the class that their folder is named after."""
    rows = []
    for each in predictions:
        ranked = sorted(each.probabilities.items(), key=lambda pair: -pair[1])[1 : 1 + _RUNNERS_UP]
        rows.append((each.image, each.label, each.probability, ", ".join(f"{name} {p:.3f}" for name, p in ranked)))
    columns = [*words("image", "class"), Column("probability", "{:.3f}".format, right=True, wrap=True), *words("next")]
    out = console()
    out.print(terminal_table(Table("", columns, rows)))
    right = [each.label == told for each in predictions if (told := _told(each)) is not None]
    if right:
        rest = len(predictions) - len(right)
        others = f" ({counted(rest, 'image')} elsewhere not counted)" if rest else ""
        out.print(
            f"{sum(right)} of {len(right)} images in folders named after classes of the model are predicted so:"
            f" {100 * sum(right) / len(right):.2f} %{others}",
            soft_wrap=True,
        )
