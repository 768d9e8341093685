"""Preview a run: its trials, their origin, and estimates of time and memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.filesize import decimal

from checked_input.names import counted
from search_spaces import Scalar, far_off
from tausearch.execution.advice import BackboneTime, backbone_line, backbone_times, grey_line, unsuited_to
from tausearch.execution.concurrency import known_concurrent_trials
from tausearch.execution.durations import (
    PastDurations,
    durations_of_similar_runs,
    n_cache_misses,
    n_reevaluation_cache_misses,
    pace_of_trials,
)
from tausearch.presentation import Table, brief, clock, notebook_cell, numbers, range_text
from tausearch.runs import (
    ALGORITHMS,
    DataFacts,
    FinalSpec,
    MultiSearchSpec,
    Plan,
    Reevaluate,
    RunSpec,
    SearchBenchmark,
    SearchSpec,
    Storage,
    TrialSummary,
    TrialTable,
    parts_of,
    planned_trials,
    read_reevaluation,
    read_trials,
    reevaluations_of,
)
from tausearch.studies import (
    USUAL_REEVALUATION,
    grid_size,
    learns,
    points_to_evaluate,
    startup_trials,
    warm_start_lines,
)
from trainables.config import BOUNDS
from trainables.data import BenchmarkRef
from trainables.data.few_images import Unsuited
from trainables.data.sources import steps_of
from trainables.methods import get_method
from trainables.task_names import NamedTask, in_full

_NAMED = 10  # tasks that a line names
_COARSE = 0.25  # percentage points per validation image, above which the best of many trials is partly luck


@dataclass(frozen=True)
class Preview:
    """A run before it starts; `str` describes it in a few lines.

    Attributes:
        ended: Number of trials of a continued run that have ended already.
        begun: Number of finished tasks of its other trials.
        left: Number of trials that have not ended and will run.
        reevaluations: Largest number of re-evaluations that are left to run.
        points: Hyperparameters that a search tries before its algorithm is asked, in order: its start, its warm start,
            the points of a grid.
        random: Number of later trials whose hyperparameters are drawn at random.
        learned: Number of later trials that the algorithm chooses from what it has learned.
        concurrent_trials: Trials at a time; None where it depends on a cluster that is not joined yet.
        taken: Measurements of similar runs.
        unsuited: Usual settings that do not suit the user's own few images; of a dry run alone.
        backbones: The time of the run's backbone, and of a small one where that helps; of a dry run alone.
        pilot: Whether a pilot trial is to measure the share of a GPU that trials need.
    """

    spec: RunSpec
    ended: int
    begun: int
    left: int
    reevaluations: int
    points: tuple[dict[str, Scalar], ...]
    random: int
    learned: int
    concurrent_trials: int | None
    taken: PastDurations
    unsuited: tuple[Unsuited, ...] = ()
    backbones: tuple[BackboneTime, ...] = ()
    pilot: bool = False

    @property
    def device(self) -> str:
        """Device and precision of a trial in words; empty where there is no GPU to speak of."""
        return self.spec.planned_device(pilot=self.pilot)

    @property
    def tasks(self) -> int:
        """Number of remaining tasks if no trial is stopped early."""
        return self.left * self.spec.steps - self.begun

    @property
    def seconds(self) -> float | None:
        """Seconds that the trials will take, without the start of Ray; None if unknown."""
        return self._seconds_left(self.concurrent_trials)

    @property
    def seconds_reevaluating(self) -> float | None:
        """Seconds that re-evaluations will take at most; None if unknown."""
        return self._seconds_of(self.reevaluations, n_reevaluation_cache_misses(self.spec), self.concurrent_trials)

    @property
    def steps_per_epoch(self) -> tuple[int, ...]:
        """Batches per epoch of each task; empty if images were not counted."""
        return _steps_per_epoch(self.spec)

    @property
    def seconds_inside(self) -> float | None:
        """Seconds that the trials will take, as if one ran after another; None if unknown."""
        return self._seconds_left(1)

    def _seconds_left(self, concurrent: int | None) -> float | None:
        """Return the seconds of the trials that are left, without the tasks that they have finished."""
        whole = self._seconds_of(self.left, n_cache_misses(self.spec, self.ended), concurrent)
        return None if whole is None else whole * self.tasks / max(1, self.left * self.spec.steps)

    def _seconds_of(self, trials: int, cache_misses: int, concurrent: int | None) -> float | None:
        pace = self.taken.pace
        if pace is None or concurrent is None:
            return None
        count = _parts(self.spec)
        return pace.of_share(1 / count).seconds(trials * count, min(trials, cache_misses) * count, concurrent)

    @property
    def in_words(self) -> str:
        """The run and its size."""
        spec = self.spec
        ended = f", {self.ended} of them ended already" if self.ended else ""
        left = counted(self.tasks, "task" if parts_of(spec) is None else "part")
        trials, each = counted(spec.trials, spec.trial_noun), counted(spec.steps, spec.step_noun)
        device = f", on {self.device}" if self.device else ""
        sizes = f"{trials} of {each} each{ended}, {left} to train{device}"
        return f"{spec.purpose} {spec.name}: {spec.method} on {spec.benchmark}, {sizes}"

    @property
    def tables(self) -> list[Table]:
        """The table of the points that a search tries first; empty without any."""
        if not self.points or not self.points[0]:
            return []
        rows = [(place, *point.values()) for place, point in enumerate(self.points)]
        return [Table("tried first", numbers("", *self.points[0]), rows)]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the run, the lines of `str`, and the points that are tried first."""
        return notebook_cell([self.in_words, *self.lines()], self.tables)

    def lines(self, *, estimate: bool = True) -> Iterator[str]:
        """Return lines about the data, the origin of trials, and the estimates of time and memory unless unwanted."""
        if self.spec.tasks:
            yield f"{self.spec.step_noun}s: {_named(self.spec.tasks)}"
        if isinstance(self.spec, MultiSearchSpec):
            for title, benchmark in zip(self.spec.titles, self.spec.parts.values(), strict=True):
                yield f"{title}: {_of_benchmark(benchmark)}"
                if benchmark.tasks:
                    yield f"tasks of {title}: {_named(benchmark.tasks)}"
            yield f"across benchmarks: {self.spec.value_labels.title} (--across {self.spec.across})"
        if self.spec.data is not None:
            yield f"images: {self._images(self.spec.data)}"
            if (grey := grey_line(self.spec)) is not None:
                yield f"grey: {grey}"
        if isinstance(self.spec, SearchSpec):
            yield f"trials: {self._origin(self.spec)}"
            yield from warm_start_lines(self.spec, self.points)
            if self.spec.objectives:
                yield f"aims at: {self.spec.aim}"
            if self.spec.constraints:
                yield f"constraint: {'; '.join(map(str, self.spec.constraints))}"
            yield from self._end(self.spec)
        if self.spec.fixed:
            label = "fixed" if isinstance(self.spec, SearchSpec) else "hyperparameters"
            yield f"{label}: {brief(self.spec.fixed, list(self.spec.fixed))}"
            own = get_method(self.spec.method).space
            names = list(self.spec.parts) if isinstance(self.spec, MultiSearchSpec) else [self.spec.benchmark]
            images = all(BenchmarkRef.parse(each).is_own for each in names)
            for name, usual in far_off(self.spec.method, self.spec.fixed, own, own_images=images).items():
                yield f"unusual: {brief(self.spec.fixed, [name])}; a search looks at {usual.allowed}"
        if isinstance(self.spec, SearchSpec):
            idle = get_method(self.spec.method).idle_words(self.spec.fixed)
            yield from (f"no effect: {each}, so not searched" for each in idle)
            yield from self._choice(self.spec.reevaluate)
        for each in self.unsuited:
            yield f"few images: {each}"
        if estimate:
            yield f"estimate: {self._estimate()}"
        if self.backbones:
            yield f"backbone: {backbone_line(self.spec, *self.backbones)}"
        if self.spec.with_bounds:
            yield f"bounds: {self._bounds()}"

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `--dry-run --format json` prints."""
        spec = self.spec
        return {
            "name": spec.name,
            "purpose": spec.purpose,
            "benchmark": spec.benchmark,
            "method": spec.method,
            "algorithm": spec.algorithm if isinstance(spec, SearchSpec) else None,
            **spec.tasks_as_dict(),
            **_data_as_dict(spec),
            "trials": spec.trials,
            **({"objectives": str(spec.aim)} if isinstance(spec, SearchSpec) and spec.objectives else {}),
            **(
                {"constraints": [*map(str, spec.constraints)]}
                if isinstance(spec, SearchSpec) and spec.constraints
                else {}
            ),
            **({"ends": spec.stop.model_dump()} if isinstance(spec, SearchSpec) and not spec.stop.never else {}),
            "ended": self.ended,
            "tasks": self.tasks,
            "fixed": spec.fixed,
            "reevaluations": self.reevaluations,
            "points": list(self.points),
            "random": self.random,
            "learned": self.learned,
            "concurrent_trials": self.concurrent_trials,
            "seconds": self.seconds,
            "seconds_reevaluating": self.seconds_reevaluating,
            "seconds_per_trial": None if self.seconds_inside is None else self.seconds_inside / max(1, self.left),
            "gpu_bytes": self.taken.gpu_bytes,
            "disk": self.taken.disk,
            "known_from": list(self.taken.runs),
            "unsuited": [asdict(each) for each in self.unsuited],
            "backbones": [each.as_dict() for each in self.backbones],
            **({"device": self.device} if self.device else {}),
        }

    def _images(self, data: DataFacts) -> str:
        protocol, part = self.spec.protocol, "validation" if isinstance(self.spec, SearchSpec) else "test"
        each = f"{range_text(_per_task(self.spec))} in each of {counted(self.spec.steps, 'task')}"
        steps = f"{range_text(self.steps_per_epoch)} {'step' if max(self.steps_per_epoch) == 1 else 'steps'} an epoch"
        pace = f"{steps} (batches of {protocol.batch_size}), {counted(protocol.epochs, 'epoch')}"
        step = f"one of which is up to {data.accuracy_resolution:.2g} points"
        return f"{each}: {pace}; {data.evaluation} for {part}, {step}"

    def _choice(self, asked: Reevaluate | None) -> Iterator[str]:
        """Return a line about the certainty of the choice if it is re-evaluated or should be."""
        if asked is not None:
            tasks = counted(self.reevaluations * self.spec.steps, self.spec.step_noun)
            runs = f"up to {counted(self.reevaluations, 'run')}, {tasks} more" if self.reevaluations else "none is left"
            yield f"re-evaluation: the best {asked.best} again, {counted(asked.runs, 'time')} each: {runs}"
        elif self.spec.accuracy_resolution >= _COARSE and self.spec.trials > 1 and not self.unsuited:
            again = f"--reevaluate {USUAL_REEVALUATION.best} runs the best again on others"
            yield f"choice: by one small split, so it is partly luck; {again}"

    def _end(self, spec: SearchSpec) -> Iterator[str]:
        """Return a line about the rule by which the search may end before its last trial."""
        rule, by, ends = spec.stop, spec.aim.chosen_by, []
        unit, difference = ("%", "points") if by is None else (by.unit, by.difference)
        unreached = rule.patience is not None and rule.patience > spec.counting
        if rule.patience is not None and not unreached:
            row = f"{counted(rule.patience, 'trial')} in a row" if rule.patience > 1 else "a trial"
            ends.append(f"after {row} without a gain of more than {spec.noise:.2f} {difference}".rstrip())
        if rule.target is not None:
            ends.append(f"once a trial comes to {rule.target:g} {unit}".rstrip())
        if ends:
            yield f"ends: {', or '.join(ends)}"
        if unreached:
            count = f"{spec.counting} of {counted(spec.trials, 'trial')} count"
            yield f"no end by patience: it takes {rule.patience} trials in a row, and {count}"

    def _origin(self, spec: SearchSpec) -> str:
        known = len(self.points)
        if spec.algorithm == "grid":
            size = grid_size(spec.space, spec.warm_start)
            whole = f"all {counted(size, 'point')} of the grid"
            return whole if known == size else f"{known} of {size} points of the grid, spread"
        parts = [f"{counted(known, 'known point')} first"]
        if self.random:
            parts.append(f"{self.random} at random")
        if self.learned and spec.algorithm not in ALGORITHMS:
            parts.append(f"{self.learned} chosen by {spec.algorithm}")
        elif self.learned:
            parts.append(f"{self.learned} chosen by {spec.algorithm} from what it has seen by then")
        elif learns(spec) and spec.space and spec.algorithm in ALGORITHMS:
            why = f"it learns once {startup_trials(spec)} have ended, so ask for more"
            parts.append(f"none chosen by {spec.algorithm}: {why}")
        return ", ".join(parts)

    def _estimate(self) -> str:
        taken, spec = self.taken, self.spec
        if self.seconds_inside is None:
            where = f"{', '.join(taken.lacking) or 'this benchmark'} and {'this ' if taken.lacking else ''}backbone"
            return f"unknown, as no finished trial of {spec.method} on {where} lies here"
        parts = [f"{clock(self.seconds_inside)} inside {counted(self.left, spec.trial_noun)}"]
        if self.seconds is not None:
            parts.insert(0, f"{clock(self.seconds)} with {self.concurrent_trials} at a time, after Ray has started")
        if spec.purpose == "final" and spec.cache_size and taken.pace is not None and taken.pace.shared:
            cached = clock(taken.pace.own * self.tasks / spec.steps)  # entries' keys depend on images, not read yet
            whose = "its" if self.left == 1 else "their"
            parts.append(f"or {cached} if the cache has {whose} pre-consolidations")
        if self.reevaluations and self.seconds_reevaluating is not None:
            parts.append(f"up to {clock(self.seconds_reevaluating)} more to re-evaluate")
        if taken.gpu_bytes is not None:
            parts.append(f"{decimal(int(taken.gpu_bytes))} of a GPU per trial")
        disk = "" if taken.disk is None else f"; the largest takes {decimal(taken.disk)} of disk"
        return f"{', '.join(parts)} (from {', '.join(taken.runs)}{disk})"

    def _bounds(self) -> str:
        each = counted(self.spec.trials, self.spec.trial_noun) if self.spec.purpose == "final" else "one trial"
        after = " and ".join(method for method in BOUNDS if method != self.spec.method)
        return f"then {after}, {each} of each at the start of its space, where it was not measured yet"


def preview_spec(spec: RunSpec, storage: Storage, address: str | None, trials: Iterable[TrialSummary] = ()) -> Preview:
    """Return the preview of a run, from the run directories of its storage root. Nothing is started.

    `trials` are those of a continued run that have started.
    """
    known = TrialTable(trials)
    begun = sum(trial.tasks_done for trial in known if trial.status == "running")
    concurrent = known_concurrent_trials(spec, on_cluster=address is not None)
    points = points_to_evaluate(spec)[: spec.trials] if isinstance(spec, SearchSpec) else []
    rest = spec.trials - len(points) if isinstance(spec, SearchSpec) else 0
    at_once = -(-(concurrent or 1) // _parts(spec))
    random = _random_trials(spec, rest, len(points), at_once) if isinstance(spec, SearchSpec) else 0
    taken = durations_of_similar_runs(storage, spec)
    finished = [trial.rows for trial in known if trial.status == "complete"]
    if taken.pace is None and finished:
        taken = replace(taken, runs=(spec.name,), pace=pace_of_trials(finished))
    left = planned_trials(spec, known) - known.n_ended
    found = None
    if isinstance(spec, SearchSpec) and not left:
        found = read_reevaluation(spec, storage.run(spec.name).reevaluation, known)
    again = reevaluations_of(spec) if found is None else found.left
    return Preview(spec, known.n_ended, begun, left, again, tuple(points), random, rest - random, concurrent, taken)


def _parts(spec: RunSpec) -> int:
    """Return how many parts of a trial run side by side; a trial on one benchmark is one part."""
    parts = parts_of(spec)
    return 1 if parts is None else parts.side_by_side


def _random_trials(spec: SearchSpec, rest: int, points: int, concurrent: int) -> int:
    """Return how many of the later trials are drawn at random; 0 for a sampler about which we know nothing."""
    if spec.algorithm not in ALGORITHMS:
        return 0
    unlearned = startup_trials(spec) + concurrent - 1  # trials that start before enough have ended to learn from
    return min(rest, max(0, unlearned - points)) if learns(spec) else rest


def preview_plan(plan: Plan[SearchSpec] | Plan[FinalSpec], address: str | None) -> Preview:
    """Return the preview of a planned run with advice; for a continued run, of the trials that are left.

    Raises:
        InputError: If the plan differs from the run that it continues.
    """
    if plan.exists:
        spec = plan.continued()
        return preview_spec(spec, plan.storage, address, read_trials(spec, plan.directory))
    times = backbone_times(plan.spec, address)
    shown = preview_spec(plan.spec, plan.storage, address)
    return replace(shown, unsuited=unsuited_to(plan.spec), backbones=times, pilot=plan.pilot)


def _named(tasks: Sequence[NamedTask]) -> str:
    titles = in_full(tasks)
    more = f"; and {len(titles) - _NAMED} more" if len(titles) > _NAMED else ""
    return f"{'; '.join(titles[:_NAMED])}{more}"


def _of_benchmark(benchmark: SearchBenchmark) -> str:
    """Describe the images and the protocol of one of several benchmarks."""
    protocol, data = benchmark.protocol, benchmark.data
    pace = f"{counted(protocol.tasks, 'task')}, {counted(protocol.epochs, 'epoch')}, batches of {protocol.batch_size}"
    if data is None:
        return pace
    judged = f"{data.evaluation} for validation, one of which is up to {data.accuracy_resolution:.2g} points"
    return f"{pace}; {counted(data.train, 'image')}, {judged}"


def _per_task(spec: RunSpec | SearchBenchmark) -> tuple[int, ...]:
    """Return the number of training images of each step; the one step of a joint method has those of all tasks."""
    data = spec.data
    if data is None:
        return ()
    return data.per_task if len(data.per_task) == spec.steps else (data.train // spec.steps,)


def _steps_per_epoch(spec: RunSpec | SearchBenchmark) -> tuple[int, ...]:
    return tuple(steps_of(images, spec.protocol.batch_size) for images in _per_task(spec))


def _data_as_dict(spec: RunSpec | SearchBenchmark) -> dict[str, Any]:
    """Return the plain form of images and steps; of several benchmarks, that of each by its reference."""
    if isinstance(spec, MultiSearchSpec):
        return {"benchmarks": {name: _data_as_dict(part) for name, part in spec.parts.items()}}
    return {
        "images": None if spec.data is None else spec.data.train,
        "evaluation_images": None if spec.data is None else spec.data.evaluation,
        "images_per_task": list(_per_task(spec)),
        "steps_per_epoch": list(_steps_per_epoch(spec)),
        "batch_size": spec.protocol.batch_size,
        "epochs": spec.protocol.epochs,
    }
