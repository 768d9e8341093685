"""One search on several benchmarks, from the searches that each would have alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from search_spaces import Scalar
from tausearch.runs import ACROSS, KnownPoint, MultiSearchSpec, SearchBenchmark, SearchSpec, titles_of
from trainables.errors import InputError
from trainables.methods import get_method
from trainables.task_names import NamedTask

_SAME = ("backbone", "initial_head", "weights_digest", "precision")  # of the protocol, on all benchmarks
_OWN = ("benchmark", "protocol", "steps", "data", "data_root", "left_out", "tasks")  # may differ between benchmarks


def merged(specs: Sequence[SearchSpec], across: str | None) -> MultiSearchSpec:
    """Return the search on the benchmarks of several; its start is the first one's, and others are known points."""
    if faults := list(_differences(specs)):
        raise InputError(*faults)
    first, titles = specs[0], titles_of([spec.benchmark for spec in specs])
    shared = {name: getattr(first, name) for name in SearchSpec.model_fields if name not in _OWN}
    own = {
        "benchmark": ",".join(spec.benchmark for spec in specs),
        "protocol": first.protocol,
        "steps": len(specs),
        "data_root": next((spec.data_root for spec in specs if spec.data_root is not None), None),
        "tasks": tuple(NamedTask((title,)) for title in titles),
        "left_out": tuple(
            f"{title}: {line}" for title, spec in zip(titles, specs, strict=True) for line in spec.left_out
        ),
        "warm_start": (*_starts(specs, titles), *first.warm_start),
        "reevaluate": first.reevaluate if all(spec.reevaluate == first.reevaluate for spec in specs) else None,
        "across": across or ACROSS[0],
        "parts": {
            each.benchmark: SearchBenchmark(**{name: getattr(each, name) for name in SearchBenchmark.model_fields})
            for each in specs
        },
    }
    return MultiSearchSpec(**{**shared, **own})


def _starts(specs: Sequence[SearchSpec], titles: Sequence[str]) -> Iterator[KnownPoint]:
    """Yield the start on each benchmark where it differs from those before it."""
    known: list[dict[str, Scalar]] = [specs[0].start]
    for title, spec in zip(titles[1:], specs[1:], strict=True):
        if spec.start not in known and spec.space:
            known.append(spec.start)
            yield KnownPoint(origin=f"the start on {title}", point=spec.start)


def _differences(specs: Sequence[SearchSpec]) -> Iterator[str]:
    """Yield what the method needs to be the same on all benchmarks, and what to give so that it is."""
    first = specs[0]
    idle = get_method(first.method).idle_with(first.fixed)  # each benchmark's start, whatever it is
    for spec in specs[1:]:
        places = f"on {first.benchmark} and {spec.benchmark}"
        for name in dict.fromkeys((*first.fixed, *spec.fixed)):
            one, other = first.fixed.get(name), spec.fixed.get(name)
            if one != other and name not in idle:
                fixed = f"is fixed at {one} and {other} {places}"
                if one is None or other is None:
                    has, lacks = (first, spec) if other is None else (spec, first)
                    fixed = f"is fixed at {has.fixed[name]} on {has.benchmark} and not on {lacks.benchmark}"
                yield f"{name} {fixed}; give one value with --set {name}=VALUE"
        for name in dict.fromkeys((*first.space, *spec.space)):
            if first.space.get(name) != spec.space.get(name) and name not in {*first.fixed, *spec.fixed}:
                yield f"{name} has different ranges {places}; give one space with --space FILE"
        for key in _SAME:
            one, other = getattr(first.protocol, key), getattr(spec.protocol, key)
            if one != other and not (key == "weights_digest" and first.protocol.backbone != spec.protocol.backbone):
                yield f"{key} is {one} and {other} {places}; give one with --backbone"
