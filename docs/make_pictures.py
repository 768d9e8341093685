"""Make the pictures of the docs: sheets of the embedded benchmarks, a finished search, and a task that is taken out.

Run `python docs/make_pictures.py SEARCH MODEL GALLERY`. SEARCH and MODEL are the run directories of a search, as the
terminal shows it, and of a final run with one composition by `compose --forget`. GALLERY is a folder with the pictures
that the commands of docs/reference/gallery.md have made.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image
from rich.console import Console

from tausearch.models import read_compositions
from tausearch.presentation import ACCENT, FAINT, terminal_table, trials_table
from tausearch.presentation.figures.fonts import choose_fonts
from tausearch.presentation.figures.style import one_pair_of_axes
from tausearch.runs import Record, RunDirectory, Score, read_status
from trainables.data.embedded import BENCHMARKS
from trainables.metrics import TEST

FOLDER = Path(__file__).parent / "images"


def sheet(load: object, classes: int, rows: int, name: str) -> None:
    """Save a sheet with one column per class, `rows` training images above `rows` test images."""
    parts = []
    for part in ("train", "test"):
        images, labels = load(part)  # type: ignore[operator]
        framed = F.pad(images, (2, 2, 2, 2), value=128)[:, 0]
        parts.append(torch.cat([framed[labels == c][:rows].reshape(-1, 36) for c in range(classes)], dim=1))
        parts.append(torch.full((6, classes * 36), 255, dtype=torch.uint8))
    pixels = torch.cat(parts[:-1])
    Image.fromarray(pixels.numpy()).save(FOLDER / name)


def terminal(directory: RunDirectory) -> None:
    """Save the table of a finished search as the terminal shows it."""
    found = read_status(directory)
    console = Console(record=True, width=130, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(f"$ tausearch search {found.spec.benchmark} {found.spec.method}", highlight=False)
    best = None if found.best is None else found.best.number
    console.print(terminal_table(trials_table(found.spec, found.trials, best).without("error")))
    console.save_svg(str(FOLDER / "search.svg"), title="tausearch")


def taken_out(directory: RunDirectory) -> None:
    """Save a picture of each task's accuracy before and after a whole task was taken out for good."""
    (found,) = (each for each in read_compositions(directory) if each.removal is not None)
    assert found.removal is not None
    last = [trial.rows[-1] for trial in Record(directory.record).trials()]
    tasks = range(1, len(found.tasks) + 2)
    before = {TEST.accuracy(task): Score.of([row[TEST.accuracy(task)] for row in last]) for task in tasks}
    forgotten = ", ".join(each.name or "" for each in found.removal.classes)
    names = {task: forgotten for task in tasks} | dict(zip(found.tasks, found.task_names, strict=True))
    figure, axes = one_pair_of_axes((9.0, 3.0))
    bars = ((-0.2, "as trained", before, FAINT), (0.2, found.title, found.summary(), ACCENT))
    for shift, label, scores, colour in bars:
        of_task = [scores.get(TEST.accuracy(task)) for task in tasks]  # none of the task that is taken out
        means = [0.0 if score is None else score.mean for score in of_task]
        spread = [0.0 if score is None else score.std or 0.0 for score in of_task]
        axes.bar([task + shift for task in tasks], means, 0.4, yerr=spread, label=label, color=colour)
    axes.set_xticks(tasks, [names[task] for task in tasks])
    axes.set(xlabel="task, by its classes", ylabel="test accuracy, %", ylim=(0, 118))
    axes.legend(loc="upper right", ncols=2)
    choose_fonts(figure)
    figure.savefig(FOLDER / "taken-out.png")


def gallery(folder: Path) -> None:
    """Save the pictures that the gallery shows."""
    page = (FOLDER.parent / "reference" / "gallery.md").read_text(encoding="utf-8")
    for name in re.findall(r"images/gallery/([\w.-]+)", page):
        shutil.copyfile(folder / name, FOLDER / "gallery" / name)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, classes, images in (("digits", 10, 6), ("glyphs", 30, 4), ("letters", 20, 5)):
        sheet(BENCHMARKS[name].load, classes, images, f"{name}.png")
    terminal(RunDirectory(Path(sys.argv[1])))
    taken_out(RunDirectory(Path(sys.argv[2])))
    gallery(Path(sys.argv[3]))
