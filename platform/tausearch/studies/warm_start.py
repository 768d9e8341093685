"""Warm starts: the paper's choices, best configurations of other searches, and best files, as points of a space."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from checked_input.names import counted, require_once
from search_spaces import Dimension, ResolvedSpace, Scalar, paper_points
from tausearch.runs import (
    PAPER,
    KnownPoint,
    Record,
    RunDirectory,
    SearchSpec,
    Storage,
    chosen_trial,
    eligible,
    no_feasible_trial_reason,
    read_reevaluation,
    read_spec,
    recorded_trials,
)
from tausearch.studies.best_file import load_best
from tausearch.studies.spaces import defaults
from trainables.errors import InputError, faults_of
from trainables.methods import get_method

BEST_OF_A_RUN = 3  # configurations taken from a search: the order of its best is partly chance


def known_points(
    sources: Sequence[str | Path],
    space: ResolvedSpace,
    storage: Storage,
    require: Callable[[dict[str, Scalar]], None],
    *,
    grid: bool = False,
) -> tuple[KnownPoint, ...]:
    """Return known configurations of a method as points of a space, in the order in which they are tried.

    The best of every source come before the second best of any. Duplicates are left out, and so is the start of the
    space, which a search tries anyway; in a `grid` it may be no point. `require` refuses hyperparameters with which the
    method cannot run.

    Raises:
        InputError: If a source is unknown, has no configuration, or belongs to another method.
    """
    if sources and not space.space:
        raise InputError(f"--warm-start {sources[0]}: every hyperparameter is fixed, so there is nothing to start")
    require_once("--warm-start", [str(source) for source in sources])
    found = {
        str(source): [(str(source), each) for each in _configurations(str(source), space.method, storage)]
        for source in sources
    }
    points: list[KnownPoint] = []
    tried = [] if grid else [space.start]
    for source, configuration in filter(None, chain.from_iterable(zip_longest(*found.values()))):
        known = _mapped(configuration, space)
        if known.point not in tried:
            with faults_of(f"--warm-start {source}"):
                require({**space.fixed, **known.point})
            points.append(known)
            tried.append(known.point)
    return tuple(points)


def kept_points(
    sources: Sequence[str | Path], earlier: RunDirectory | None, space: Mapping[str, Dimension]
) -> tuple[KnownPoint, ...] | None:
    """Return the warm start of an earlier search that was given the same sources, whatever has become of these.

    None if it was given others, or has another space, which `changed_fields` will name.
    """
    if not sources or earlier is None:
        return None
    spec = read_spec(earlier)
    if not isinstance(spec, SearchSpec) or spec.warm_start_from != tuple(map(str, sources)):
        return None
    return spec.warm_start if all(each.point.keys() == space.keys() for each in spec.warm_start) else None


def with_renamed_source(spec: SearchSpec, old: str, new: str) -> SearchSpec:
    """Return a search whose warm start calls a search `new` that was called `old`; `--warm-start OLD` continues it."""
    before, after = _origin(old, ""), _origin(new, "")
    points = (
        known.model_copy(update={"origin": after + known.origin.removeprefix(before)})
        if known.origin.startswith(before)
        else known
        for known in spec.warm_start
    )
    return spec.model_copy(update={"warm_start": tuple(points)})


def _origin(search: str, trial: object) -> str:
    return f"{search}, trial {trial}"


def _configurations(source: str, method: str, storage: Storage) -> list[KnownPoint]:
    """Return the configurations of one source with all their hyperparameters, the best first."""
    with faults_of(f"--warm-start {source}"):
        if source == PAPER:
            return _of_paper(method)
        is_file = Path(source).suffix in (".yaml", ".yml")  # a search may be called `x.yaml`
        if is_file and not os.path.isfile(source):  # a name may be too long for `Path.is_file`
            is_file = not storage.run_exists(source)
        return _of_file(source, method) if is_file else _of_search(source, method, storage)


def _of_paper(method: str) -> list[KnownPoint]:
    chosen = paper_points(method, get_method(method).space)
    if not chosen:
        raise InputError(f"the paper lists no hyperparameters for {method}")
    return [KnownPoint(origin=f"the paper on {benchmark}", point=point) for benchmark, point in chosen.items()]


def _of_file(path: str, method: str) -> list[KnownPoint]:
    best = load_best(path)
    _require_method(best.method, method)
    search = "" if best.selection is None else f"{best.selection.search} on "
    return [KnownPoint(origin=f"{path} ({search}{best.benchmark})", point=best.hyperparameters)]


def _of_search(name: str, method: str, storage: Storage) -> list[KnownPoint]:
    directory = storage.run(name)
    spec = read_spec(directory)
    _require_method(spec.method, method)
    if spec.purpose != "search":
        raise InputError(f"is a final run; allowed: {PAPER}, names of searches, best files (.yaml)")
    trials = recorded_trials(spec, Record(directory.record))
    chosen = chosen_trial(spec, trials, read_reevaluation(spec, directory.reevaluation, trials))
    best = sorted(eligible(trials, spec.aim), key=lambda trial: trial is not chosen)[:BEST_OF_A_RUN]
    if not best:
        raise InputError(no_feasible_trial_reason(trials, spec.constraints, spec.value_labels.unit))
    where = f"on {spec.benchmark}"
    return [KnownPoint(origin=f"{_origin(name, each.number)} {where}", point=each.hyperparameters) for each in best]


def _require_method(got: str, wanted: str) -> None:
    if got != wanted:
        raise InputError(f"is of {got}, and this search is of {wanted}")


def _mapped(known: KnownPoint, space: ResolvedSpace) -> KnownPoint:
    """Map a configuration into a space; returns the point and the values that do not fit."""
    there, point, misfits = known.point, {}, []
    for name, dimension in space.space.items():
        point[name] = _nearest(dimension, there.get(name), space.start[name])
        if name not in there:
            misfits.append(f"{name} is not given, {point[name]} here")
        elif point[name] != there[name]:
            misfits.append(f"{name} was {there[name]}, {point[name]} here")
    fixed = {**defaults(space), **space.fixed}
    misfits += [f"{k} was {there[k]}, fixed at {v} here" for k, v in fixed.items() if k in there and there[k] != v]
    return KnownPoint(origin=known.origin, point=point, misfits=tuple(misfits))


def _nearest(dimension: Dimension, value: Scalar | None, otherwise: Scalar) -> Scalar:
    """Return the nearest value of a dimension; `otherwise` without one, as texts have no distance."""
    nearest = otherwise if value is None else dimension.nearest(value)
    return dimension.typed(nearest if nearest in dimension else otherwise)


def warm_start_lines(spec: SearchSpec, points: Sequence[Mapping[str, Scalar]]) -> Iterator[str]:
    """Yield a line per point of a warm start: its origin, whether it gets a trial, and its misfits.

    `points` are the points that are tried before the algorithm proposes any, in order.
    """
    tried = points[: spec.trials]
    for known in spec.warm_start:
        late = "" if known.point in tried else f" (not among the {counted(spec.trials, 'trial')})"
        yield f"warm start: {known.origin}{late}" + "".join(f"; {misfit}" for misfit in known.misfits)


def without_repeats(points: Iterable[Mapping[str, Scalar]]) -> list[dict[str, Scalar]]:
    """Return the points in order, each once."""
    found: dict[frozenset[tuple[str, Scalar]], dict[str, Scalar]] = {}
    for point in points:
        found.setdefault(frozenset(point.items()), dict(point))
    return list(found.values())
