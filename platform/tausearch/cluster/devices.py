"""Choose the device of trials: a share of a GPU, or the CPU.

`with_device` alone decides, at the end of planning, and then a precision `auto`. Where the share is to be measured,
the plan says so (`Plan.pilot`), and `with_measured_gpu_share` runs the pilot before the run is made. From then on all
read the run's `Resources`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from math import inf
from typing import Any, Literal, TextIO, TypeVar

from tausearch.cluster.capacity import gpus_here
from tausearch.cluster.precisions import Bf16At, require_cpu_has, require_gpus_have, with_auto
from tausearch.cluster.resources import at_most_what_fits, plan_resources, require_gpu
from tausearch.runs import AnySpec, FinalSpec, Plan, Resources, SearchSpec, parts_of, read_spec
from trainables.backbones import EMBEDDED
from trainables.config import TrialConfig
from trainables.errors import InputError
from trainables.metrics import PEAK_GPU_BYTES

S = TypeVar("S", SearchSpec, FinalSpec)
T = TypeVar("T")
Wish = float | Literal["auto"] | None
GpusAt = Callable[[str | None], float]
"""Returns the GPUs of this machine (None), or of the Ray cluster at an address; `session.gpus_at` does."""


def asked_once(of: Callable[[str | None], T]) -> Callable[[str | None], T]:
    """Return a function of an address with a memory of its answers and refusals, for a command that plans many runs."""

    @cache
    def outcome(address: str | None) -> T | InputError:
        try:
            return of(address)
        except InputError as error:
            return error

    def answer(address: str | None) -> T:
        found = outcome(address)
        if isinstance(found, InputError):
            raise found
        return found

    return answer


def may_use_gpu(wish: Wish, address: str | None) -> bool:
    """Whether trials may run on a GPU, as far as this is known before a cluster is joined."""
    if wish is None:
        return address is not None or gpus_here() > 0
    return wish != 0


def require_pilot(wish: Wish, address: str | None) -> None:
    """Refuse "auto" on a machine without a GPU; a cluster is asked later."""
    if wish == "auto" and address is None:
        require_gpu("--gpus-per-trial auto")


def with_device(plan: Plan[S], wish: Wish, gpus_at: GpusAt, auto: Bf16At | None = None) -> Plan[S]:
    """Return a plan with the device of its trials, and with their precision where `auto` is given, which chooses it.

    A number is taken as it is, and "auto" is measured. Without either, trials run on the CPU where there is no GPU. A
    backbone of the hub or of the user's own gets a whole GPU, and the share of an embedded one is measured. A run that
    goes on keeps its share, unless `wish` is a number. What lacks a GPU that it needs is refused.
    """
    spec, address = plan.spec, plan.spec.address
    cpus, at_once = spec.resources.cpus_per_trial, spec.resources.max_concurrent_trials
    if plan.exists and not isinstance(wish, float | int):
        resources, pilot = kept_resources(read_spec(plan.directory), cpus, at_once, address), False
    else:
        by_rule = wish is None and gpus_at(address) > 0
        pilot = wish == "auto" or (by_rule and spec.protocol.backbone == EMBEDDED)
        share = wish if isinstance(wish, float | int) else float(by_rule or pilot)
        chosen_by = "rule" if by_rule else _asked(wish, address)
        resources = plan_resources(cpus, share, at_once, address).model_copy(update={"gpus_from": chosen_by})
        if pilot:  # more fit than with whole GPUs, and how many is known after it; until then the CPUs alone count
            on_cpus = at_most_what_fits(spec.resources.model_copy(update={"gpus_per_trial": 0}), address)
            resources = resources.model_copy(update={"max_concurrent_trials": on_cpus.max_concurrent_trials})
    _require_measurable(spec, resources, address)
    plan = replace(plan, spec=spec.model_copy(update={"resources": resources}), pilot=pilot)
    if auto is not None:
        plan = with_auto(plan, address, auto)
    where = "--precision" if isinstance(spec, SearchSpec) else "best file: protocol.precision"
    _require_computed(plan.spec, plan.spec.resources, where, address)
    return plan


def _require_computed(spec: AnySpec, resources: Resources, where: str, address: str | None) -> None:
    """Refuse a precision that the device of trials does not compute in; `where` begins the error."""
    if resources.gpus_per_trial:
        require_gpus_have(spec.protocol.precision, where, address)
    else:
        require_cpu_has(spec.protocol.precision, where)


def _asked(wish: float | str | None, address: str | None) -> str | None:
    """Return "request" if the user has chosen between a GPU and the CPU, as far as this is known; else None."""
    no_choice = wish is None or (wish == 0 and (address is not None or not gpus_here()))
    return None if no_choice else "request"


def continued_resources(
    earlier: AnySpec,
    wish: float | None,
    max_concurrent_trials: int | None,
    address: str | None,
    on_cpu: str = "--gpus-per-trial 0",
) -> Resources:
    """Return the resources of a run that is resumed, with another share of a GPU if wished; refuse what is not here."""
    was = earlier.resources
    if wish is None:
        resources = kept_resources(earlier, was.cpus_per_trial, max_concurrent_trials, address, on_cpu)
    else:
        moved = was.gpus_per_trial > 0 and wish == 0
        own = {"gpus_from": "request" if moved else _asked(wish, address), "precision_from": was.precision_from}
        resources = plan_resources(was.cpus_per_trial, wish, max_concurrent_trials, address).model_copy(update=own)
    _require_computed(earlier, resources, f"run {earlier.name!r}: protocol.precision", address)
    _require_measurable(earlier, resources, address)
    return resources


def kept_resources(
    earlier: AnySpec,
    cpus_per_trial: int,
    max_concurrent_trials: int | None,
    address: str | None,
    on_cpu: str = "--gpus-per-trial 0",
) -> Resources:
    """Return the resources of a run that goes on with its device; without its GPU, refuse it and name `on_cpu`."""
    was = earlier.resources
    if was.gpus_per_trial and address is None and not gpus_here():
        raise InputError(
            f"run {earlier.name!r}: each trial began on {was.share}, and this machine has no GPU; continue it where"
            f" there is one, or on the CPU with {on_cpu}"
        )
    resources = plan_resources(cpus_per_trial, was.gpus_per_trial, max_concurrent_trials, address)
    return resources.model_copy(update={name: getattr(was, name) for name in ("gpus_from", "pilot", "precision_from")})


def with_measured_gpu_share(
    plan: Plan[S], address: str | None, out: TextIO, time_budget: float | None = None
) -> Plan[S]:
    """Run the pilot trial of a plan that asks for one, and set the share that each trial needs.

    Returns:
        The plan. If the pilot fails and the user has not asked for it, each trial gets a whole GPU.

    Raises:
        InputError: If the pilot fails and the user has asked for it, Ray cannot be started or joined, or the pilot
            waits for a node for more than `time_budget` seconds.
    """
    if not plan.pilot:
        return plan
    end = inf if time_budget is None else time.monotonic() + time_budget

    def check() -> None:
        if time.monotonic() > end:
            raise InputError("--time-budget: is used up, and the pilot trial has no node yet; nothing has begun")

    from tausearch.cluster.pilot import PilotError, with_measured_share  # imports Ray, which takes seconds

    say = partial(print, file=out, flush=True)
    say("a pilot trial on a whole GPU measures how many can share one")
    try:
        spec, line = with_measured_share(plan.spec, _pilots(plan), address, say, check)
    except PilotError as error:
        if plan.spec.resources.gpus_from == "request":
            raise InputError(f"--gpus-per-trial auto: {error}") from error
        spec, line = plan.spec, f"{error}; each trial gets a whole GPU"
    say(line)
    fitting = at_most_what_fits(spec.resources, address)
    return replace(plan, spec=spec.model_copy(update={"resources": fitting}), pilot=False)


def _pilots(plan: Plan[S]) -> list[TrialConfig]:
    """Return the trials to measure: the first, at the start of the space, on each benchmark."""
    spec, cache = plan.spec, plan.storage.cache
    point: dict[str, Any] = dict(spec.start) if isinstance(spec, SearchSpec) else {}
    parts = parts_of(spec)
    if parts is None:
        return [spec.trial_config(0, point, cache=cache)]
    return [parts.trial_config(number, point, cache=cache) for number in range(parts.count)]


def _require_measurable(spec: AnySpec, resources: Resources, address: str | None) -> None:
    """Refuse bounds and objectives on the memory of a GPU for trials on a CPU."""
    if resources.gpus_per_trial or not isinstance(spec, SearchSpec):
        return
    asked = [each.metric for each in spec.constraints] + [each.metric for each in spec.objectives]
    if PEAK_GPU_BYTES in asked:
        where = "" if address is None else f" at {address}"
        raise InputError(f"{PEAK_GPU_BYTES}: no trial{where} measures it, as trials run on CPUs")
