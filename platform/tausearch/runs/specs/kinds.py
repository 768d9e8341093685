"""The kinds of `run.yaml`, and what makes two runs different."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tausearch.runs.protocol import with_one_slash
from tausearch.runs.specs.final import FinalSpec
from tausearch.runs.specs.run import RunSpec
from tausearch.runs.specs.search import SearchSpec

AnySpec = SearchSpec | FinalSpec

# Results do not change with these.
_HOW = {
    "id",
    "source_id",
    "version",
    "created",
    "resources",
    "address",
    "tracking",
    "tracking_uri",
    "data_root",
    "cache_size",
    "with_bounds",
    "code_digests",
    "warm_start_from",
    "classes",
}


def changed_fields(earlier: RunSpec, now: RunSpec) -> list[str]:
    """Return the differences that make two runs different, such as `trials was 12, is now 24`; not machine or paths."""
    earlier, now = map(_named_as_now, (earlier, now))
    follows = {"trials"} if isinstance(earlier, FinalSpec) else set()  # from seeds and class orders, which are named
    hidden: dict[str, Any] = dict.fromkeys((*_HOW, *follows), True)
    hidden["data"] = _hidden_of(earlier, now)
    hidden["warm_start"] = {"__all__": {"origin", "misfits"}}  # the name of a search and the path of a file may change
    there, here = (getattr(spec, "parts", {}) for spec in (earlier, now))  # of a search on several benchmarks
    hidden["parts"] = {  # a benchmark that only one of them has is named by `benchmark`
        name: name not in there or name not in here or {"data_root": True, "data": _hidden_of(there[name], here[name])}
        for name in {**there, **here}
    }
    old, new = (_flat(spec.model_dump(mode="json", exclude=hidden)) for spec in (earlier, now))
    if old.get("warm_start") != new.get("warm_start"):
        before, after = _origins(earlier), _origins(now)
        old["warm_start"], new["warm_start"] = before, f"{after}, with other values" if before == after else after
    pairs = {key: (old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])}
    differ = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    return [
        f"{key} was {_shown(before)}, is now {_shown(after)}"
        for key, (before, after) in differ.items()
        if not key.startswith("parts.") or differ.get(_of_the_whole(key)) != (before, after)
    ]


def _named_as_now(spec: RunSpec) -> RunSpec:
    """Return a specification with the names that its benchmarks have in this version."""
    names: dict[str, Any] = {
        key: with_one_slash(name) for key in ("benchmark", "tuned_on") if (name := getattr(spec, key, None))
    }
    if parts := getattr(spec, "parts", None):
        names["parts"] = {with_one_slash(name): part for name, part in parts.items()}
    return spec.model_copy(update=names)


def _of_the_whole(key: str) -> str:
    """Return the key of the whole search for that of one of its benchmarks: `protocol.seed`."""
    return f"protocol.{key.rpartition('.protocol.')[2]}"


def _hidden_of(earlier: Any, now: Any) -> bool | dict[str, bool]:
    """Return what of the `data` of two runs, or of two parts, makes no difference; all of it where one has none.

    A digest has the times of files, which a copy changes.
    """
    if getattr(earlier, "data", None) is None or getattr(now, "data", None) is None:
        return True
    return dict.fromkeys(("digest", "evaluation_digest", "classes_digest", "per_task", "evaluation_per_task"), True)


def _origins(spec: RunSpec) -> str:
    """Return where the points of a warm start are from; their values are long."""
    points = spec.warm_start if isinstance(spec, SearchSpec) else ()
    return "; ".join(known.origin for known in points) or "none"


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping, with the keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, each in value.items():
        flat |= _flat(each, f"{prefix}{key}.") if isinstance(each, Mapping) else {f"{prefix}{key}": each}
    return flat


def _shown(value: object) -> str:
    return "not there" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)
