"""Train again what has learned from forgotten images: a final run on the benchmark without their classes.

The tasks before the first that lost a class are taken over. All draws depend on the seed and on the numbers of task and
class, so the new run would learn these tasks again to the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from checked_input.names import counted
from tausearch.api.benchmarks import OpenBenchmark, open_benchmark
from tausearch.api.final_runs import FinalRun, run_training
from tausearch.cluster import continued_resources
from tausearch.execution import DriveOptions, interruptible, preview_plan, record_of
from tausearch.models import Pools, VectorSource
from tausearch.presentation import clock, command_on, print_notices
from tausearch.runs import (
    FinalSpec,
    Plan,
    Retraining,
    RunDirectory,
    Storage,
    TrialSummary,
    changed_fields,
    new_run,
    protocol_of,
    read_spec,
    read_trials,
)
from trainables.composition import copy_vector, read_vector
from trainables.data import BenchmarkRef, BenchmarkSpec, Removal, build_benchmark
from trainables.errors import InputError
from trainables.methods import get_method
from trainables.metrics import CACHE_HIT, PRECONSOLIDATION, TEST, is_seconds, seconds
from trainables.process import threads
from trainables.sequence import IncrementalSequence
from trainables.state import Checkpoints
from trainables.task_names import NamedTask, numbered

_LONGEST_STEM = 80  # characters of a run's name that the name of the new run begins with


class StoppedError(RuntimeError):
    """A signal has stopped the training; the same call continues it."""

    def __init__(self, run: str, number: int) -> None:
        super().__init__(f"the training of {run} was stopped; the same call continues it")
        self.run = run
        self.number = number  # of the signal


@dataclass(frozen=True)
class RetrainingPlan:
    """A final run that trains tasks of another one again, new or to be continued."""

    plan: Plan[FinalSpec]
    before: Pools  # the vectors of the other run
    removal: Removal  # the classes that are left out
    opened: OpenBenchmark  # the benchmark without them

    @property
    def spec(self) -> FinalSpec:
        """The specification of the new run."""
        return self.plan.spec

    @property
    def how(self) -> Retraining:
        """How it trains tasks again."""
        assert self.spec.retrained is not None
        return self.spec.retrained

    def run(self) -> str:
        """Say the price, then train. The other run is not changed.

        Returns:
            The name of the new run.

        Raises:
            StoppedError: If a signal has stopped it.
            InputError: If a seed has ended without a result.
        """
        if not self._tasks_left():
            self._require_complete(self.spec, self.plan.directory)
            print_notices(*self.lines())
            return self.spec.name
        print_notices(*self.lines())
        with interruptible(), self.plan.open_locked() as (spec, directory):
            self._take_over(spec, directory)
            run = FinalRun(spec, self.plan.storage, directory)
            run.time_said = True
            result = run_training(run, DriveOptions(progress_to="stderr"))
        if result.signal is not None:
            raise StoppedError(result.name, result.signal)
        self._require_complete(spec, directory)
        return result.name

    def _require_complete(self, spec: FinalSpec, directory: RunDirectory) -> None:
        for trial in read_trials(spec, directory):
            if trial.status != "complete" and trial.seed in self.before.by_seed:
                raise InputError(
                    f"--retrain-later: seed {trial.seed} of {spec.name} ended without a result ({trial.status}:"
                    f" {trial.error}); {command_on('runs delete', spec.name, self.plan.storage.root)}, then the same"
                    " call trains it anew, or leave the seed out with --seeds"
                )

    def lines(self) -> Iterator[str]:
        """Return lines about what is trained, how often, and about how long it takes."""
        left, name = self._tasks_left(), self.spec.name
        if not left:
            yield f"{self.how.run} was trained again without these classes already, as {name}: nothing is trained"
            return
        tasks = self.removal.tasks
        relearned, kept = tasks[self.how.kept :], tasks[: self.how.kept]
        seeds = ", ".join(map(str, self.spec.seeds))
        goes_on = "continued" if self.plan.exists else "new"
        yield (
            f"{numbered(relearned)} of {self.how.run} {'are' if len(relearned) > 1 else 'is'} trained without the"
            f" forgotten images, for {'seeds' if len(self.spec.seeds) > 1 else 'seed'} {seeds}:"
            f" {counted(sum(left.values()), 'training')}, {self._time(left)}; {goes_on} run {name}"
        )
        if kept:
            several = len(kept) > 1
            reached = f"no forgotten image has reached {'them' if several else 'it'}"
            yield f"{numbered(kept)} {'are' if several else 'is'} taken over: {reached}"

    def _time(self, left: dict[int, int]) -> str:
        """Return the time of the trainings that are left, from the other run's seconds for each task."""
        rows = {trial.seed: trial.rows for trial in _trials(self._source)}
        costs, warm = [], False
        for seed, count in left.items():
            own = {int(row["task"]): row for row in rows.get(seed, [])}
            relearned = [own[task] for task in self.removal.tasks[-count:] if task in own]
            kept = [own[task] for task in self.removal.tasks[:-count] if task in own]
            if len(relearned) < count:
                return "for an unknown time"
            costs.append(
                sum(value for row in relearned for name, value in row.items() if is_seconds(name))
                + sum(row.get(seconds(PRECONSOLIDATION), 0.0) for row in kept)
            )
            warm |= any(row.get(CACHE_HIT) for row in (*kept, *relearned))
        at_once = preview_plan(self.plan, None).concurrent_trials or 1
        whole = sum(costs) / len(costs) * -(-len(costs) // at_once)
        more = f", and the pre-consolidation that {self.how.run} had from the cache" if warm else ""
        return f"about {clock(whole)}{more}, after Ray has started"

    def _tasks_left(self) -> dict[int, int]:
        """Return the number of tasks that each seed has still to learn, by seed; seeds without any are not in it."""
        there = {trial.seed: trial for trial in read_trials(self.spec, self.plan.directory)} if self.plan.exists else {}
        found = {}
        for seed in self.spec.seeds:
            trial = there.get(seed)
            if trial is None:
                found[seed] = self.spec.steps - self.how.kept
            elif not trial.has_ended:
                found[seed] = self.spec.steps - trial.tasks_done
        return found

    @property
    def _source(self) -> VectorSource:
        return self.before.sources[0]

    def _take_over(self, spec: FinalSpec, directory: RunDirectory) -> None:
        """Let each seed that has not started begin after the tasks that are taken over.

        A seed's file of the record is written last. A seed without one begins with the first task, to the same end.
        """
        kept, rows = self.how.kept, {trial.seed: trial.rows for trial in _trials(self._source)}
        begun = {trial.number for trial in read_trials(spec, directory)}
        benchmark = build_benchmark(self.opened.source, "final", spec.protocol.split_seed, self.before.backbone.input)
        device = self.before.device if spec.resources.gpus_per_trial else "cpu"  # sums round as those of the trials
        for number in (number for number in range(spec.trials) if kept and number not in begun):
            seed = spec.seed_of(number)
            first = rows.get(seed, [])[:kept]
            accuracies = [[row.get(TEST.accuracy(j)) for j in range(1, k + 1)] for k, row in enumerate(first, start=1)]
            vectors = self._source.of_seed(seed)  # a run that goes on may have seeds that the call did not ask for
            folders = [vectors / f"task_{task}" for task in range(1, kept + 1)]
            whole = len(first) == kept and all(folder.is_dir() for folder in folders)
            if not whole or any(value is None for row in accuracies for value in row):
                continue
            for folder in folders:
                copy_vector(folder, directory.artifacts / f"seed_{seed}" / folder.name)
            sequence = IncrementalSequence(
                benchmark,
                spec.method,
                spec.fixed,
                backbone=self.before.backbone,
                seed=seed,
                device=device,
                precision=spec.protocol.precision,
                removability=spec.removability,
            )
            with threads(spec.resources.cpus_per_trial):
                sequence.continue_after([read_vector(folder) for folder in folders], accuracies)  # type: ignore[arg-type]
                Checkpoints(directory.checkpoints(number)).write(kept, sequence.state())
            begins = TrialSummary(number, seed, "running", dict(spec.fixed), first)
            record_of(spec, directory).write(begins)


def plan_retraining(
    pools: Pools, removal: Removal, storage: Storage, data_root: str | Path | None, *, on_cpu: bool = False
) -> RetrainingPlan | None:
    """Return the plan to learn again, without some classes, the tasks of a run that have learned from their images.

    None if no task that is left has learned from them. Trials have the device of the run, or the CPU if `on_cpu`.
    An earlier run of the same kind is continued, or used if it has ended.

    Raises:
        InputError: If the vectors are not of one final run, or a task would have one class.
    """
    source = pools.sources[0]
    if len(pools.sources) > 1 or source.spec is None or source.directory is None:
        raise InputError("--retrain-later: needs one final run of this storage, whose hyperparameters it takes")
    spec, entry = source.spec, get_method(source.spec.method)
    relearned = removal.learned_from(alone=entry.capabilities.whole_classifier)
    if not relearned:
        return None
    _require_trainable(removal, pools.benchmark.spec)
    opened = open_benchmark(_reference(spec.benchmark, pools.benchmark.spec, removal), data_root or spec.data_root)
    usable = opened.require("final", spec.protocol.split_seed, pools.backbone.input)
    entry.validate(entry.parse(spec.fixed), entry.scenario(opened.source.spec, pools.backbone))
    wish, limit = 0 if on_cpu else None, spec.resources.max_concurrent_trials
    wanted = {
        "benchmark": str(opened.ref),
        "data_root": opened.data_root,
        "protocol": protocol_of(opened.source.spec, spec.protocol.split_seed, pools.backbone, spec.protocol.precision),
        "resources": continued_resources(spec, wish, limit, None, on_cpu="--device cpu"),
        "address": None,
        "steps": len(removal.tasks),
        "seeds": tuple(pools.by_seed),
        "trials": len(pools.by_seed),
        "data": usable.data,
        "tasks": opened.source.spec.named_tasks,
        "left_out": usable.left_out,
        "with_bounds": False,
        "measure_removability": spec.removability and entry.removability_fault(len(removal.tasks)) is None,
        "retrained": Retraining(
            run=spec.name,
            run_id=spec.id,
            forgotten=tuple(c + 1 for c in sorted(removal.forgotten)),
            kept=removal.tasks.index(relearned[0]),
        ),
    }
    return RetrainingPlan(_plan(spec.model_copy(update=wanted), storage), pools, removal, opened)


def _plan(wanted: FinalSpec, storage: Storage) -> Plan[FinalSpec]:
    """Return the plan of a new run, or of an earlier one with the same specification and these seeds among its own."""

    def alike(directory: RunDirectory) -> FinalSpec | None:
        there = read_spec(directory)
        if not isinstance(there, FinalSpec) or there.retrained is None or not set(wanted.seeds) <= set(there.seeds):
            return None
        now = wanted.model_copy(update={"name": there.name, "seeds": there.seeds, "trials": there.trials})
        return None if changed_fields(there, now) else now

    found = [each for each in storage.read_each(alike)[0] if each is not None]
    if found:
        return Plan(found[0], storage, named=True, resume_if_exists=True)
    assert wanted.retrained is not None
    root, name = new_run(storage.root, None, f"{wanted.retrained.run[:_LONGEST_STEM]}-retrained")
    own = {"name": name, "id": uuid4().hex, "version": version("tausearch")}
    return Plan(wanted.model_copy(update=own), root, named=False)


def _require_trainable(removal: Removal, spec: BenchmarkSpec) -> None:
    if removal.single:
        task = removal.single[0]
        (left,) = removal.left_of(task)
        raise InputError(
            f"--retrain-later: task {task} would have the class {spec.class_names[left]} alone, and a task needs"
            f" at least 2 to be trained; forget task:{task}"
        )


def _reference(text: str, spec: BenchmarkSpec, removal: Removal) -> str:
    """Return the reference of a benchmark without some classes.

    Of images on disk, epochs and batch size depend on their number; they stay as they were.
    """
    ref = BenchmarkRef.parse(text)
    tasks = tuple(
        NamedTask(
            tuple(spec.class_names[c] for c in removal.left_of(task)),
            None if task in removal.touched else spec.named_tasks[task - 1].name,
        )
        for task in removal.tasks
    )
    pinned = {"epochs": spec.epochs, "batch_size": spec.batch_size} if ref.path is not None else {}
    plain = replace(ref, tasks=None, classes_per_task=None, class_order=None, task=None)
    return str(plain.with_options(task=tasks, **pinned))


def _trials(source: VectorSource) -> list[TrialSummary]:
    assert source.spec is not None and source.directory is not None
    return read_trials(source.spec, source.directory)
