"""The paper's figures for saved runs, each with its numbers as CSV beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tausearch import models, presentation
from tausearch.api.composition import find_sources, open_pools
from tausearch.api.requests import FiguresRequest, with_fields_of
from tausearch.models import Pools, VectorSource
from tausearch.presentation import as_csv, rows_as_table
from tausearch.runs import (
    FinalSpec,
    Record,
    SearchSpec,
    Storage,
    open_storage,
    parts_of,
    read_spec,
    remove_on_error,
    require_figures,
    require_output,
    shown_benchmark,
    shown_benchmarks,
)
from trainables.errors import InputError
from trainables.metrics import CACHE_HIT, PRECONSOLIDATION, STAGES, seconds

if TYPE_CHECKING:  # matplotlib takes a second to import
    from matplotlib.figure import Figure

_TIMED = STAGES[:2]  # the paper times what comes before evaluation
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Drawn:
    """Figures that have been drawn.

    Attributes:
        pictures: Name of a figure to its picture; the file with its numbers has the same name and ends in `.csv`.
        left_out: A line for each run that is only in the figure of times, with the reason.
    """

    pictures: dict[str, Path]
    left_out: tuple[str, ...]

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the pictures."""
        return presentation.notebook_cell(self.left_out, [], list(self.pictures.values()))


def draw_with(request: FiguresRequest) -> Drawn:
    """Draw the paper's Figures 1 to 3, Theorem 1 against the size of tau, and cosines within each run.

    Returns:
        The pictures: the time per task of all runs, and the others of runs with task vectors.

    Raises:
        InputError: If a run does not exist, or the folder cannot be written.
    """
    storage = open_storage(request.storage, write=False)
    pools, left_out = _pools(storage, request)
    output = _output(storage, request, pools)
    with remove_on_error(output):
        return Drawn(_draw_figures(storage, request, pools, output), tuple(left_out))


draw = with_fields_of(FiguresRequest, draw_with)


def _draw_figures(storage: Storage, request: FiguresRequest, pools: list[Pools], output: Path) -> dict[str, Path]:
    """Write all tables and pictures; returns name to picture."""
    tables = _Tables(output)
    times = [row for name in request.runs for row in _times(storage, name, request.seeds)]
    specs = [read_spec(storage.run(name)) for name in request.runs if storage.run_exists(name)]
    composed = _sources_text(each for pool in pools for each in pool.sources)
    timed = _methods_on_benchmarks([(spec.method, spec.benchmark) for spec in specs])
    tables.add("time", times, presentation.time_figure, f"time per task: {timed}")
    with presentation.LongWork() as work:
        tick = work.start("figures", models.n_measurements(pools))
        risks = [row for each in pools for row in models.risk_rows(each, tick)]
        tables.add("risk", risks, presentation.risk_figure, f"risk of the composed model: {composed}, test images")
        bounds = [row for each in pools for row in models.theorem_rows(each, tick)]
        title = f"Theorem 1, task vectors scaled: {composed}, test images"
        tables.add("theorem1", bounds, presentation.theorem_figure, title)
    for each, name in zip(pools, _cosine_figures(pools), strict=True):
        title = f"task vectors: {_sources_text(each.sources)}"
        labels = [task.label for task in each.benchmark.spec.named_tasks]
        draw_cosines = partial(presentation.cosine_figure, labels=labels)
        tables.add(name, models.cosine_rows(each), draw_cosines, title)
    alignment = [row for pair in combinations(pools, 2) if _alike(*pair) for row in models.alignment_rows(*pair)]
    tables.add("alignment", alignment, presentation.alignment_figure, f"task vectors: {composed}")
    return tables.pictures


def _cosine_figures(pools: Iterable[Pools]) -> list[str]:
    """Return the name of the figure of each run's cosines."""
    return [f"cosines-{name}" for name in _distinct([Path(each.sources[0].text) for each in pools])]


def _distinct(paths: Sequence[Path]) -> list[str]:
    """Return the names of runs and folders; of equal ones with the folder above, and their place if these are equal."""
    names = [path.name for path in paths]
    above = [f"{p.absolute().parent.name}-{p.name}" if names.count(p.name) > 1 else p.name for p in paths]
    return [f"{name}-{place}" if above.count(name) > 1 else name for place, name in enumerate(above, start=1)]


def _sources_text(sources: Iterable[VectorSource]) -> str:
    """Return the methods and benchmarks of task vectors as text; the figures have the names of runs."""
    return _methods_on_benchmarks([(" and ".join(each.methods), each.benchmark) for each in sources])


def _methods_on_benchmarks(pairs: Sequence[tuple[str, str]]) -> str:
    shown = shown_benchmarks([benchmark for _, benchmark in pairs])
    return "; ".join(dict.fromkeys(f"{method} on {shown[benchmark]}" for method, benchmark in pairs))


class _Tables:
    """Writes tables, each as CSV and as a picture."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pictures: dict[str, Path] = {}

    def add(self, name: str, rows: Rows, draw: Callable[[Rows], Figure], of: str) -> None:
        """Write a table and its picture, with a title; without rows write nothing."""
        if not rows:
            return
        path = self.folder / f"{name}.png"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            figure = draw(rows)
            presentation.entitle(figure, of)
            # First the picture, whose mark says after a kill that the table is the tool's, see `require_figures`.
            self.pictures[name] = presentation.save(figure, path)
            path.with_suffix(".csv").write_text(as_csv(rows_as_table(rows)), encoding="utf-8")
        except OSError as error:
            raise InputError(f"--output {self.folder}: cannot be written ({error.strerror})") from error


def _pools(storage: Storage, request: FiguresRequest) -> tuple[list[Pools], list[str]]:
    """Open the runs that have task vectors; also returns a line for each other run, with the reason."""
    found: list[str] = []
    left_out: list[str] = []
    for name in request.runs:
        if storage.run_exists(name):
            read_spec(storage.run(name))  # an unreadable run is an error, and a run without vectors is not
        try:
            models.find_source(storage, name)
        except InputError as error:
            if not storage.run_exists(name):
                raise
            left_out.append(str(error))
            continue
        found.append(name)
    return [open_pools([each], request) for each in find_sources(storage, found)], left_out


def _output(storage: Storage, request: FiguresRequest, pools: Sequence[Pools]) -> Path:
    """Return the folder to write to: `--output`, or the figures of the first run."""
    if request.output is not None:
        output = Path(request.output)
        require_output(storage, output, "--output")
        require_figures(output, ("time", "risk", "theorem1", "alignment", *_cosine_figures(pools)), "--output")
        return output
    runs = [name for name in request.runs if storage.run_exists(name)]
    if not runs:
        raise InputError("--output: name a folder, as no run has one for its figures")
    return storage.run(runs[0]).figures


def _alike(first: Pools, second: Pools) -> bool:
    """Whether two runs learned the same tasks from the same theta_0 and seeds, with different methods."""
    if first.sources[0].methods == second.sources[0].methods:
        return False
    if first.network.theta_0.keys() != second.network.theta_0.keys():  # tangents have biases and norms too
        return False
    try:
        models.require_alike([*first.sources, *second.sources])
    except InputError:
        return False
    return bool(set(first.by_seed) & set(second.by_seed))


def _joined(seeds: Sequence[int]) -> str:
    return ",".join(map(str, seeds))


def _times(storage: Storage, name: str, seeds: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """Return the seconds of preconsolidation and training of every finished task of a run, or of some of its seeds."""
    if not storage.run_exists(name):
        return []
    spec = read_spec(storage.run(name))
    parts = parts_of(spec)
    if seeds is not None and isinstance(spec, FinalSpec) and not set(seeds) & set(spec.seeds):
        raise InputError(f"--seeds {_joined(seeds)}: run {name!r} has none of them; it has {_joined(spec.seeds)}")
    return [
        {
            "run": name,
            "method": spec.method,
            "benchmark": shown_benchmark(spec.benchmark if parts is None else parts.benchmark_of(trial.number)),
            "trial": trial.number if parts is None else parts.trial_of(trial.number),
            "seed": trial.seed,
            "task": int(row["task"]),
            "stage": stage,
            "seconds": row[seconds(stage)],
            # 1 where the cache had it, so that its seconds are not what it costs
            "cache": row.get(CACHE_HIT) if stage == PRECONSOLIDATION else None,
        }
        for trial in Record(storage.run(name).record).trials()
        if seeds is None or isinstance(spec, SearchSpec) or trial.seed in seeds
        for row in trial.rows
        for stage in _TIMED
        if seconds(stage) in row
    ]
