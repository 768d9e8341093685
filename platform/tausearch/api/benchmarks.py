"""Benchmarks of runs: found, and checked before any trial starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from checked_input.names import counted
from tausearch.presentation import LongWork, print_notices
from tausearch.runs import DataFacts, FinalSpec, Plan, SearchSpec, read_spec
from trainables.backbones import EMBEDDED, Backbone, InputSpec
from trainables.config import Purpose
from trainables.data import (
    BENCHMARKS,
    Benchmark,
    BenchmarkRef,
    BenchmarkSource,
    build_benchmark,
    get_source,
    reference as known_reference,
    require_counts,
)
from trainables.data.dataset import Dataset, data_root as root_of, dataset_of, on_disk
from trainables.data.disk.passes import longest_side
from trainables.data.from_module import require_fits
from trainables.data.sources import images_per_task, steps_of
from trainables.data.splits import SPLIT_NAMES
from trainables.errors import Faults, InputError, NotFetchedError
from trainables.task_names import listed
from trainables.user_code import allow_code as allow_code  # a name of the Python API

Images = TypeVar("Images")
Weights = TypeVar("Weights")
S = TypeVar("S", SearchSpec, FinalSpec)

_SMALL = 64  # pixels of the longest side; such an image loses little when it is reduced to 32
_SAMPLED = 16  # images whose size is measured
_LISTED = 500  # lines on images that are left out: run.yaml, the best file and results.json must stay readable
_OTHER_CODE = (
    "its images or transforms are not those that run {run} began with; results of before and now must not be put"
    " together"
)
_OTHER_IMAGES = (
    "its files are not those that run {run} began with (a name, size or time differs, as after a copy or"
    " `data prepare`); if an image has changed, results of before and now must not be put together"
)


@dataclass(frozen=True)
class Usable:
    """The images of a run; `left_out` has a line for each unreadable image, to a bound, and for classes in no task."""

    data: DataFacts
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class OpenBenchmark:
    """A benchmark whose images have been found."""

    ref: BenchmarkRef
    source: BenchmarkSource
    data_root: str | None  # folder of the published datasets, if it is one of them; absolute, for a worker
    _required: dict[tuple[object, ...], Usable] = field(default_factory=dict, compare=False)
    _told: list[str] = field(default_factory=list, compare=False)  # lines that stand on stderr

    @property
    def embedded(self) -> bool:
        """Whether the images are part of the package."""
        return self.ref.name in BENCHMARKS

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches of an epoch over the training images of a task, on average."""
        return steps_of(images_per_task(self.source), self.source.batch_size)

    def backbone(self, backbone_weights: Path | None) -> Backbone:
        """Return the benchmark's backbone, with local weights if they are given.

        If its weights cannot be fetched, small images of a folder or Parquet file get the embedded one, and one line on
        stderr; others raise a `NotFetchedError`. Images are read before anything is fetched, and where one is broken
        nothing is. A benchmark in code names a backbone that its transforms fit.
        """
        wanted = Backbone(self.source.backbone, backbone_weights)
        if backbone_weights is not None or self.ref.path is None:
            return wanted
        _, (backbone, said) = images_then_weights(lambda: self._unreadable, wanted, lambda: self._fetched(wanted))
        print_notices(*(line for line in said if line not in self._told))
        self._told.extend(said)
        return backbone

    def _fetched(self, wanted: Backbone) -> tuple[Backbone, list[str]]:
        """Return a backbone whose weights lie here: the wanted one, or the embedded one with a line on why."""
        try:
            _ = wanted.digest
        except NotFetchedError:
            side = longest_side(self.source.load("train")[0], _SAMPLED)
            if side > _SMALL:
                raise
            reads = Backbone().input
            return Backbone(), [
                f"{wanted.name}: its weights cannot be fetched. The images are small ({side} pixels), so the embedded"
                f" {EMBEDDED} is taken: it reads {reads.size} x {reads.size} grey, colour and finer detail are lost"
            ]
        return wanted, []

    def has_files_of(self, benchmark: str) -> bool:
        """Whether another benchmark has the same images, perhaps with other options for tasks and training."""
        ref = BenchmarkRef.parse(benchmark)
        if self._dataset is None or not on_disk(ref):
            return ref == self.ref
        return dataset_of(ref, self.data_root).ref == self._dataset.ref

    @cached_property
    def _dataset(self) -> Dataset | None:
        return dataset_of(self.ref, self.data_root) if on_disk(self.ref) else None

    @cached_property
    def _unreadable(self) -> list[str]:
        """A line for each image on disk that cannot be read and is left out; raises an `InputError` for others."""
        with LongWork() as work:
            return [] if self._dataset is None else self._dataset.require_usable(SPLIT_NAMES, work.start)

    @cached_property
    def classes_digest(self) -> str | None:
        """Digest of the classes and how many images of each there are; None where no images lie on disk."""
        return None if self._dataset is None else self._dataset.classes_digest

    def facts_of(self, built: Benchmark) -> DataFacts:
        """Return what a run notes of its images."""
        images, seen = tuple(len(task.train) for task in built.tasks), tuple(map(len, built.evaluation))
        counts = {"train": sum(images), "per_task": images, "evaluation": sum(seen), "evaluation_per_task": seen}
        digests = {"digest": built.fingerprint, "evaluation_digest": built.evaluation_fingerprint}
        return DataFacts.model_validate({**digests, **counts, "classes_digest": self.classes_digest})

    def require(self, purpose: Purpose, split_seed: int, reads: InputSpec) -> Usable:
        """Return the images that a run will use. Check once that all can be read and every class is large enough.

        A search decodes the test images, too, so that no final run fails on one, and uses nothing else of them.
        """
        asked = (purpose, split_seed, reads)
        if asked not in self._required:
            left_out = list(self._unreadable)
            if (more := len(left_out) - _LISTED) > 0:
                left_out[_LISTED:] = [f"and {counted(more, 'image')} more; `tausearch data check` names all"]
            if names := self.source.left_out:
                word, are = ("class", "is") if len(names) == 1 else ("classes", "are")
                left_out.append(f"{word} {listed(names)}, which {are} in no task")
            print_notices(*(f"left out: {line}" for line in left_out))
            built = build_benchmark(self.source, purpose, split_seed, reads)
            if self.ref.in_code:
                require_fits(built, reads)
            self._required[asked] = Usable(self.facts_of(built), tuple(left_out))
        return self._required[asked]

    def require_images(
        self, run: str, began_with: DataFacts, now: DataFacts, where: str = "", *, otherwise: str = "make a new run"
    ) -> None:
        """Refuse another number of images of a class than a run began with; see `require_counts` for the error.

        Where the numbers are the same, say that the images may be others.
        """
        same_split = began_with.has_split_of(now)
        require_counts(run, began_with.counts, now.counts, where, otherwise, same_split=same_split)
        self.say_other_images(run, began_with, now)

    def say_other_images(self, run: str, began_with: DataFacts, now: DataFacts) -> None:
        """Say, once for a benchmark, that its images may be others than those that a run began with.

        This is no error, as the digest of files on disk has their times, which a copy changes.
        """
        if began_with.has_images_of(now) or _OTHER_IMAGES in self._told:
            return
        words = _OTHER_CODE if self.ref.in_code else _OTHER_IMAGES
        print_notices(f"{self.ref}: {words.format(run=run)}")
        self._told.append(_OTHER_IMAGES)


def with_images_compared(plan: Plan[S], opened: Callable[[str], OpenBenchmark]) -> Plan[S]:
    """Return a plan, and compare its images with those of the run that it continues; see `require_images`."""
    if plan.exists:
        earlier, now = read_spec(plan.directory), plan.spec
        # The digest depends on these, too; where they differ, `continued` refuses the run.
        digested = [(each.purpose, each.protocol.split_seed, each.protocol.backbone) for each in (earlier, now)]
        if digested[0] == digested[1]:
            for name, began_with in earlier.images.items():
                if name in now.images:
                    where = f"parts.{name}." if len(now.images) > 1 else ""
                    otherwise = "make a new run (another --name; in a campaign --redo)"
                    opened(name).require_images(now.name, began_with, now.images[name], where, otherwise=otherwise)
    return plan


def images_then_weights(
    images: Callable[[], Images], backbone: Backbone, weights: Callable[[], Weights]
) -> tuple[Images, Weights]:
    """Return what a check of images and one of weights return; no weights are downloaded if an image is broken."""
    faults = Faults()
    with faults:
        of_images = images()
    if not (faults and backbone.needs_download):
        with faults:
            of_weights = weights()
    faults.raise_all()
    return of_images, of_weights


Opening = Callable[[str, str | Path | None], OpenBenchmark]
"""`open_benchmark`, or a function of a campaign that opens each benchmark once."""


def open_benchmark(text: str, data_root: str | Path | None) -> OpenBenchmark:
    """Return a benchmark by its reference; its images are listed and not read."""
    ref = known_reference(text)
    root = str(root_of(data_root)) if on_disk(ref) and ref.path is None else None
    return OpenBenchmark(ref, get_source(text, root), root)


class FaultsOfEach(Faults):
    """Mistakes that may be met on every benchmark: one met on all is said once, others with their benchmark."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count
        self._met: dict[str, list[str]] = {}

    @contextmanager
    def of(self, benchmark: str) -> Iterator[None]:
        """Check a benchmark, and keep its mistakes."""
        try:
            yield
        except InputError as error:
            for line in error.args:
                self._met.setdefault(str(line), []).append(benchmark)

    def raise_all(self) -> None:
        """Raise the mistakes that were kept, if there are any."""
        for line, where in self._met.items():
            named = len(where) == self._count or any(name in line for name in where)
            with self:
                raise InputError(line if named else f"{', '.join(where)}: {line}")
        self._met = {}
        super().raise_all()
