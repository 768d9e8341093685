"""A model that predicts: a module, the transform before it, the classes behind it; and how its predictions fare."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from checked_input.names import counted
from checked_input.ranges import IMAGE_BYTES
from tausearch.models.descriptions import ModelDescription
from tausearch.models.images import UserImage, find_user_images, read_images
from tausearch.presentation import Column, Table, emphasise, notebook_cell, text_columns
from trainables.data import stacked
from trainables.data.disk.decoding import MOST_BYTES
from trainables.data.transforms.normalisation import Transform
from trainables.errors import InputError
from trainables.evaluation import EVALUATION_BATCH
from trainables.process import threads
from trainables.task_names import quoted, same_letters

_RUNNERS_UP = 2
_SHOWN = 100  # images in the table of a notebook


def named_after(image: str | Path, classes: Collection[str]) -> str | None:
    """Return the class that the folder of an image file is named after; None for another folder or no file."""
    folder = same_letters(os.path.basename(os.path.dirname(os.path.abspath(image))), classes)
    in_memory = str(image).isdecimal()  # it has its position as name
    return folder if not in_memory and folder in classes else None


@dataclass(frozen=True)
class Prediction:
    """The classification of an image.

    Attributes:
        image: Path of the image, or its position in the given order, from 0.
        label: The most likely class.
        probability: Probability of the label, from 0 to 1: a softmax over the model's classes, not calibrated.
        probabilities: Class to probability, of all classes in their order.
    """

    image: str
    label: str
    probability: float
    probabilities: dict[str, float] = field(repr=False)

    @property
    def true_label(self) -> str | None:
        """The class that the image's folder is named after; None if the model has no class of that name."""
        return named_after(self.image, self.probabilities)

    @property
    def wrong(self) -> bool:
        """Whether the true class is known, and is another one."""
        return self.true_label not in (None, self.label)


class Predictions(list[Prediction]):
    """The classifications of images, in their order; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: a line per image, of the first hundred."""
        more = [f"the first {_SHOWN} of {len(self)} images"] if len(self) > _SHOWN else []
        return notebook_cell(more, [prediction_table(self[:_SHOWN])])


def prediction_table(predictions: Sequence[Prediction]) -> Table:
    """Return a line per image; a wrong one stands out and names the true class."""
    rows = []
    for each in predictions:
        ranked = sorted(each.probabilities.items(), key=lambda pair: -pair[1])[1 : 1 + _RUNNERS_UP]
        runners_up = ", ".join(f"{quoted(name)} {p:.3f}" for name, p in ranked)
        wrong = f"wrong: is {each.true_label}" if each.wrong else None
        rows.append((each.image, each.label, each.probability, runners_up, wrong))
    columns = [
        *text_columns("image", "label"),
        Column("probability", "{:.3f}".format, right=True, wrap=True),
        *text_columns("next", "truth"),
    ]
    wrong_ones = emphasise((place for place, each in enumerate(predictions) if each.wrong), "bad")
    return Table("", columns, rows, wrong_ones).without_empty("truth")


@dataclass(frozen=True)
class Confusion:
    """A confusion matrix; empty if no true class is known.

    Attributes:
        classes: The classes that are true for an image or predicted for one whose true class is known.
        counts: Number of images; a line for each true class, a column for each predicted one.
    """

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, classes: Sequence[str], predictions: Iterable[Prediction]) -> Confusion:
        """Count predictions; `classes` gives the order."""
        pairs = Counter((each.true_label, each.label) for each in predictions if each.true_label is not None)
        seen = {name for pair in pairs for name in pair}
        shown = tuple(name for name in classes if name in seen)
        return cls(shown, tuple(tuple(pairs[true, predicted] for predicted in shown) for true in shown))

    @property
    def images(self) -> int:
        """Number of images."""
        return sum(map(sum, self.counts))

    @property
    def right(self) -> int:
        """Number of images that are predicted as their true class."""
        return sum(line[place] for place, line in enumerate(self.counts))

    def mistakes(self, true: int) -> list[tuple[str, int]]:
        """Return the wrong classes that images of a class, by its place, are taken for: the most frequent first."""
        line = self.counts[true]
        wrong = [(self.classes[n], count) for n, count in enumerate(line) if count and n != true]
        return sorted(wrong, key=lambda pair: -pair[1])


@dataclass(frozen=True, repr=False)
class Model:
    """A composed model of a final run; see `tausearch.load_model`.

    Attributes:
        module: Plain module in eval mode, from transformed images `(b, c, h, w)` to logits `(b, C)`.
        classes: Names of the C classes, in the order of the logits.
        transform: From uint8 images, `(b, c, h, w)` or a list of `(c, h, w)`, to the module's input;
            other images are an InputError.
        about: Description of the model: benchmark, method, run, backbone and its digest, versions.
        tasks: The tasks of the model's classes, from 1.
        seed: The seed of the run; None where unknown.
        device: The device that computes.
        notes: Warnings for the user, a line each.
        cpu_threads: CPU threads of the run's trials, which reproduce their numbers; None for torch's default.
    """

    module: nn.Module
    classes: tuple[str, ...]
    transform: Transform
    about: ModelDescription
    tasks: tuple[int, ...]
    seed: int | None
    device: torch.device
    notes: tuple[str, ...] = ()
    cpu_threads: int | None = None

    def __repr__(self) -> str:
        of, tasks = f"{' + '.join(self.about.methods)} on {self.about.benchmark}", ", ".join(map(str, self.tasks))
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"<Model {of}, tasks {tasks}{seed}: {counted(len(self.classes), 'class')}, on {self.device}>"

    def predict(
        self,
        images: Any,
        *,
        skip_broken: bool = False,
        left_out: list[str] | None = None,
        max_image_bytes: int = MOST_BYTES,
        tick: Callable[[int], None] = lambda count: None,
    ) -> list[Prediction]:
        """Classify images.

        Args:
            images: A path, a folder (every image in and below it), a Pillow image, a uint8 array `(h, w)` or
                `(h, w, c)`, a uint8 tensor `(c, h, w)` or `(n, c, h, w)`; or a sequence of these.
            skip_broken: Whether to leave out unreadable images.
            left_out: Gets a line for each such image, and for each folder with other files than images.
            max_image_bytes: Largest size of an image file.
            tick: Called with the number of images done since the last call.

        Returns:
            A prediction for each image, in their order.

        Raises:
            InputError: If an item is no image, an image is unreadable and `skip_broken` is not set, or the size is no
                number of bytes.
        """
        if fault := IMAGE_BYTES.fault(max_image_bytes):
            raise InputError(f"max_image_bytes {fault}")
        left_out = [] if left_out is None else left_out
        readable = read_images(find_user_images(images, max_image_bytes, left_out), skip_broken, left_out)
        found = Predictions()
        while batch := list(islice(readable, EVALUATION_BATCH)):
            found += self._predicted(batch)
            tick(len(batch))
        return found

    def probabilities(self, images: Any) -> Tensor:
        """Return the probabilities of all classes, `(n, C)`; see `predict`."""
        readable = read_images(find_user_images(images), False, [])
        batches = iter(lambda: list(islice(readable, EVALUATION_BATCH)), [])
        rows = [self._softmax([pixels for _, pixels in batch]) for batch in batches]
        return torch.cat(rows) if rows else torch.empty(0, len(self.classes))

    def _predicted(self, batch: Sequence[tuple[UserImage, Tensor]]) -> Iterator[Prediction]:
        rows = self._softmax([pixels for _, pixels in batch])
        for (image, _), row, best in zip(batch, rows.tolist(), rows.argmax(1).tolist(), strict=True):
            named = dict(zip(self.classes, row, strict=True))
            yield Prediction(image.name, self.classes[best], row[best], named)

    @torch.no_grad()
    def _softmax(self, pixels: list[Tensor]) -> Tensor:
        """Return probabilities `(b, C)`, with the batch size and the threads of the run's own evaluation."""
        with nullcontext() if self.cpu_threads is None else threads(self.cpu_threads):
            channels = max(map(len, pixels))
            batch = stacked([each.expand(channels, -1, -1).to(self.device) for each in pixels])
            logits = self.module(self.transform(batch, None))
        if not bool(torch.isfinite(logits).all()):
            raise InputError(f"{', '.join(self.about.runs)}: the model's answers are not finite numbers; it is damaged")
        return logits.float().softmax(1).cpu()
