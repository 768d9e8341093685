"""A trial without Ray: one method on one benchmark, task after task, a metrics row after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from trainables.backbones import Backbone
from trainables.composition import Origin, SavedVector, write_vector
from trainables.config import Precision
from trainables.data import Benchmark, Task, described
from trainables.errors import InputError
from trainables.evaluation import accuracies
from trainables.methods import Composable, Context, Curved, get_method
from trainables.methods.answers import CheckedPredict, checked_row, checked_state
from trainables.metrics import (
    CACHE_HIT,
    PRECONSOLIDATION,
    WAITING,
    average_accuracy,
    average_incremental_accuracy,
    forgetting,
    pooled_accuracy,
    seconds,
)
from trainables.preconsolidation import Preparer
from trainables.removability import LeaveOneTaskOut
from trainables.state import JSON, SILENT, Epoch, State, make_trial_folder


class IncrementalSequence:
    """The loop over tasks, its state and its metrics.

    The arguments are fields of `TrialConfig`, with objects in place of names. `on_epoch` is called after every epoch of
    fine-tuning. With `removability` all task vectors are kept on the CPU.

    Raises:
        InputError: If the method is unknown, or a hyperparameter is unknown, missing, out of range, or does not suit
            the tasks or the backbone, or `save_curvature` or `removability` does not suit the method or the tasks.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        method: str,
        hyperparameters: Mapping[str, Any],
        *,
        backbone: Backbone,
        seed: int = 0,
        device: torch.device | str = "cpu",
        precision: Precision = "fp32",
        cache: Path | None = None,
        cache_bytes: int | None = None,
        artifacts: Path | None = None,
        save_curvature: bool = False,
        removability: bool = False,
        on_epoch: Callable[[Epoch], None] = SILENT,
    ) -> None:
        entry = get_method(method)
        config = entry.parse(hyperparameters)
        scenario = entry.scenario(benchmark.spec, backbone)
        entry.validate(config, scenario)
        if removability and (fault := entry.removability_fault(scenario.num_tasks)):
            raise InputError(f"removability: {fault}")
        if save_curvature and (fault := entry.curvature_fault(hyperparameters)):
            raise InputError(fault)
        self.leave_one_task_out = LeaveOneTaskOut() if removability else None
        self.entry = entry
        self._what, self._extra = f"method {entry.name!r}", {metric.name for metric in entry.metrics}
        self.backbone = backbone
        self.benchmark = benchmark
        self.device = torch.device(device)
        self.artifacts = artifacts if entry.capabilities.composable else None
        self.save_curvature = save_curvature
        spec = benchmark.spec
        head = backbone.initial_head(spec.class_names) if entry.capabilities.initial_head else None
        self.tasks = (benchmark.merged(),) if entry.capabilities.joint else benchmark.tasks
        self.preparer = Preparer(
            benchmark.tasks,
            backbone,
            spec=spec,
            fingerprint=benchmark.fingerprint,
            purpose=benchmark.purpose,
            seed=seed,
            device=self.device,
            initial_head=head,
            cache=cache,
            cache_bytes=cache_bytes,
        )
        context = Context(
            backbone,
            scenario.task_classes,
            spec.epochs,
            spec.batch_size,
            seed,
            self.device,
            precision,
            on_epoch,
            self.preparer,
            head,
        )
        self._waiting = context.waiting
        self.method = entry.build(context, config)
        self.accuracies: list[list[float]] = []

    @property
    def tasks_done(self) -> int:
        """Number of tasks that are finished."""
        return len(self.accuracies)

    @property
    def finished(self) -> bool:
        """Whether the last task is done."""
        return self.tasks_done == len(self.tasks)

    def run_next_task(self) -> dict[str, float]:
        """Return the metrics row of the next task, evaluated on every task seen so far.

        The row has `task`, `<val or test>/average_accuracy`, `.../accuracy/task_k`, `train/loss`, `seconds/<stage>`,
        `seconds/waiting` of a method that trains with `fit`, and `cache/hit` of a method that has something prepared;
        after the last task also `.../final_accuracy`, `.../pooled_accuracy`, `.../forgetting` and, unless the method is
        joint, `.../average_incremental_accuracy`, and `.../removability` with its parts where it is measured.
        Accuracies are percentages.

        Raises:
            DivergedError: If training became NaN or infinite.
            InputError: If the method returns something else than its contract says.
        """
        task = self.tasks[self.tasks_done]
        row: dict[str, float] = {"task": float(task.index)}
        with _timed(row, PRECONSOLIDATION):
            self.method.begin_task(task)
        if self.preparer.hit is not None:
            row[CACHE_HIT] = float(self.preparer.hit)
        waited = self._waiting.seconds
        with _timed(row, "training"):
            row |= checked_row(self._what, self.method.train_task(task), self._extra, task)
            self.method.end_task(task)
        if waited < self._waiting.seconds:
            row[WAITING] = self._waiting.seconds - waited
        with _timed(row, "evaluation"):
            pairs = zip(self.benchmark.tasks, self.benchmark.evaluation, strict=True)
            seen = [images for each, images in pairs if each.classes.start < task.classes.stop]
            predict = CheckedPredict(self._what, self.method.predict, task.classes.stop)
            self.accuracies.append(accuracies(predict, seen, self.device))
            predict.require_numbers(task)
            row |= self._removability(task)
        if self.artifacts is not None:
            self._write(self.artifacts, task)
        return row | self._accuracy_metrics()

    def _removability(self, task: Task) -> dict[str, float]:
        """Keep the vector of a task; return the metrics after the last one, if they are measured."""
        if self.leave_one_task_out is None:
            return {}
        assert isinstance(self.method, Composable), "so its capabilities say"
        self.leave_one_task_out.vectors.append(self.method.vector(self._origin(task)))
        if not self.finished:
            return {}
        return self.leave_one_task_out.metrics(self.method, self.benchmark, self.accuracies[-1], self.device)

    def _write(self, folder: Path, task: Task) -> None:
        """Write the vector of the task that was learned last, and its curvature if that is saved."""
        assert isinstance(self.method, Composable), "so its capabilities say"
        curvature = None
        if self.save_curvature:
            assert isinstance(self.method, Curved), "so its capabilities say"
            curvature = self.method.curvature(task)
        make_trial_folder(folder)
        write_vector(folder, self.method.vector(self._origin(task)), curvature=curvature)

    def _origin(self, task: Task) -> Origin:
        return Origin(
            method=self.entry.name,
            task=task.index,
            classes=task.classes,
            backbone=self.backbone.name,
            backbone_digest=self.backbone.digest,
            class_names=self.benchmark.spec.class_names[task.classes.start : task.classes.stop],
            transform=described(self.benchmark.evaluation[0].transform, self.backbone.input.size),
        )

    def continue_after(self, vectors: Sequence[SavedVector], accuracies: Sequence[Sequence[float]]) -> None:
        """Continue after the first tasks as another sequence has finished them; call it before any task.

        Of each finished task, in order, there is its vector, and the accuracy on every task so far, percent. Only where
        the two sequences are equal up to there, the next tasks are those of an unbroken one.
        """
        assert isinstance(self.method, Composable), "only such methods leave vectors"
        self.method.continue_after(vectors)
        self.accuracies = [list(row) for row in accuracies]
        if self.leave_one_task_out is not None:
            self.leave_one_task_out.vectors = list(vectors)

    def _accuracy_metrics(self) -> dict[str, float]:
        names, last = self.benchmark.metrics, self.accuracies[-1]
        metrics = {names.average_accuracy: average_accuracy(last)}
        metrics |= {names.accuracy(k): value for k, value in enumerate(last, start=1)}
        if self.finished:
            metrics[names.final_accuracy] = average_accuracy(last)
            metrics[names.pooled_accuracy] = pooled_accuracy(last, list(map(len, self.benchmark.evaluation)))
            metrics[names.forgetting] = forgetting(self.accuracies)
            if not self.entry.capabilities.joint:  # one row is no average over tasks
                metrics[names.average_incremental_accuracy] = average_incremental_accuracy(self.accuracies)
        return metrics

    def close(self) -> None:
        """Release resources that trials share."""
        self.preparer.close()

    def state(self) -> State:
        """Return the method's state and the accuracies so far.

        Entries of the cache are not copied: they are found again by key, or computed again to the same numbers.
        """
        accuracies: JSON = [list(row) for row in self.accuracies]
        state = checked_state(self._what, self.method.state()).within("method") | State(
            values={"accuracies": accuracies}
        )
        return state if self.leave_one_task_out is None else state | self.leave_one_task_out.state().within("left_out")

    def load_state(self, state: State) -> None:
        """Continue after the last task of `state`."""
        self.method.load_state(state.part("method"))
        self.accuracies = [list(row) for row in state.values["accuracies"]]  # type: ignore[union-attr, arg-type]
        if self.leave_one_task_out is not None:
            self.leave_one_task_out.load_state(state.part("left_out"), self.tasks_done)


@contextmanager
def _timed(row: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    row[seconds(stage)] = time.perf_counter() - start
