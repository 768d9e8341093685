"""What a run will do, as far as it is known before it starts: its trials, where they come from, and what they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.filesize import decimal

from search_spaces import Scalar
from tausearch.choosing import STARTUP_TRIALS, grid_size, points_ahead
from tausearch.cluster import slots_of
from tausearch.previewing.measured import Taken, taken_by_others
from tausearch.runs import DataFacts, Plan, RunSpec, Storage, TrialTable, read_trials
from tausearch.screen import clock, counted
from trainables.data.few import steps_of


@dataclass(frozen=True)
class Preview:
    """A run before it starts; `str` says it in a few lines.

    Attributes:
        spec: What it is, in full.
        ended: Number of its trials that have ended already, where it is continued.
        points: Hyperparameters that a search tries before its algorithm is asked, in order: its start, what it is
            warm-started with, the points of a grid.
        random: Number of trials after them whose hyperparameters are drawn at random.
        learned: Number of trials that the algorithm chooses by what it has learned from those before.
        slots: Trials at a time; None where the cluster says it once it has been joined.
        taken: What runs like it took.
    """

    spec: RunSpec
    ended: int
    points: tuple[dict[str, Scalar], ...]
    random: int
    learned: int
    slots: int | None
    taken: Taken

    @property
    def tasks(self) -> int:
        """Number of tasks that are left to train, unless trials are stopped early."""
        return (self.spec.trials - self.ended) * self.spec.steps

    @property
    def seconds(self) -> float | None:
        """Time that it will take, Ray's start left out; None where nothing is known."""
        each, slots = self.taken.seconds, self.slots
        return None if each is None or slots is None else each * -(-(self.spec.trials - self.ended) // slots)

    @property
    def steps_per_epoch(self) -> int | None:
        """Batches of an epoch over the training images of a task, on average; None where images were not counted."""
        data = self.spec.data
        return None if data is None else steps_of(data.train // self.spec.steps, self.spec.protocol.batch_size)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Say what is learned from, where trials come from, and what is known of what they will take."""
        if self.spec.data is not None:
            yield f"images: {self._images(self.spec.data)}"
        if self.spec.purpose == "search":
            yield f"trials: {self._origin()}"
        yield f"estimate: {self._estimate()}"

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `--dry-run --json` prints."""
        spec = self.spec
        return {
            "name": spec.name,
            "purpose": spec.purpose,
            "benchmark": spec.benchmark,
            "method": spec.method,
            "algorithm": spec.algorithm if spec.purpose == "search" else None,
            "images": None if spec.data is None else spec.data.train,
            "evaluation_images": None if spec.data is None else spec.data.evaluation,
            "steps_per_epoch": self.steps_per_epoch,
            "batch_size": spec.protocol.batch_size,
            "epochs": spec.protocol.epochs,
            "trials": spec.trials,
            "ended": self.ended,
            "tasks": self.tasks,
            "points": list(self.points),
            "random": self.random,
            "learned": self.learned,
            "at_once": self.slots,
            "seconds": self.seconds,
            "seconds_per_trial": self.taken.seconds,
            "gpu_bytes": self.taken.gpu_bytes,
            "disk": self.taken.disk,
            "known_from": list(self.taken.runs),
        }

    def _images(self, data: DataFacts) -> str:
        protocol, part = self.spec.protocol, "validation" if self.spec.purpose == "search" else "test"
        each = f"{data.train // self.spec.steps} in each of {counted(self.spec.steps, 'task')}"
        pace = f"{counted(self.steps_per_epoch or 0, 'step')} of {protocol.batch_size} an epoch"
        judged = f"{data.evaluation} for {part}, one of which is {100 / data.evaluation:.2g} points"
        return f"{each}: {pace}, {counted(protocol.epochs, 'epoch')}; {judged}"

    def _origin(self) -> str:
        spec, known = self.spec, len(self.points)
        if spec.algorithm == "grid":
            size = grid_size(spec.space, spec.warm_start)
            return (
                f"all {size} points of the grid" if known == size else f"{known} of {size} points of the grid, spread"
            )
        parts = [f"{counted(known, 'known point')} first"]
        if self.random:
            parts.append(f"{self.random} at random")
        if self.learned:
            parts.append(f"{self.learned} chosen by {spec.algorithm} from what it has seen by then")
        elif spec.learns and spec.space:
            parts.append(
                f"none chosen by {spec.algorithm}: it learns once {STARTUP_TRIALS} have ended, so ask for more"
            )
        return ", ".join(parts)

    def _estimate(self) -> str:
        taken, left = self.taken, self.spec.trials - self.ended
        if taken.seconds is None:
            return f"unknown, as no finished trial of {self.spec.method} on this benchmark and backbone lies here"
        unit = "trial" if self.spec.purpose == "search" else "seed"
        parts = [f"{clock(taken.seconds * left)} inside {counted(left, unit)}"]
        if self.seconds is not None:
            parts.insert(0, f"{clock(self.seconds)} with {self.slots} at a time")
        if taken.gpu_bytes is not None:
            parts.append(f"{decimal(int(taken.gpu_bytes))} of a GPU per trial")
        if taken.disk is not None:
            parts.append(f"{decimal(taken.disk)} on disk")
        return f"{', '.join(parts)} (from {', '.join(taken.runs)})"


def preview(spec: RunSpec, storage: Storage, address: str | None, ended: int = 0) -> Preview:
    """Say what a run will do; starts nothing, and reads the run directories of a storage root alone.

    Args:
        spec: The run.
        storage: Its storage root.
        address: Of the Ray cluster that is to run it, which alone knows how much it fits; None for this machine.
        ended: Number of its trials that have ended already.

    Returns:
        The preview.
    """
    slots, searched = slots_of(spec, on_cluster=address is not None), spec.purpose == "search"
    points = points_ahead(spec)[: spec.trials] if searched else []
    rest = spec.trials - len(points) if searched else 0
    random = min(rest, max(0, _unlearned(slots or 1) - len(points))) if spec.learns else rest
    return Preview(spec, ended, tuple(points), random, rest - random, slots, taken_by_others(storage, spec))


def preview_of(plan: Plan, address: str | None) -> Preview:
    """Say what a planned run will do; see `preview`.

    Returns:
        The preview; of a run that goes on, of what is left.

    Raises:
        InputError: If it goes on with a run that is not what is asked for.
    """
    if not plan.exists:
        return preview(plan.spec, plan.storage, address)
    spec = plan.continued()
    return preview(spec, plan.storage, address, TrialTable(read_trials(spec, plan.directory)).ended)


def _unlearned(slots: int) -> int:
    """Return how many trials have been asked for before enough have ended: those that still run then are among them."""
    return STARTUP_TRIALS + slots - 1
