"""Measure the platform's overhead: the share of (slots x wall time) of real runs that no trial's sequence used.

16 and 64 trials of `ita-lora` on digits, as many at a time as there are CPUs, everything included from starting Ray to
the best file. The share is split into where it went. Beside it, the floor: what Ray alone takes of the same wall time,
with processes that import and do nothing. Then a campaign of six cells on digits, 12 trials and 3 seeds each, whose
runs share their slots.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.performance.lines import Line, Values, column
from tausearch.api import SearchRequest, SearchRun, plan_search, run_search
from tausearch.campaigns import CampaignRequest, CellStatus, plan_campaign, run_campaign
from tausearch.cluster import local_cpus, ray_session
from tausearch.runs import Resources, TrialSummary, new_locked_run
from trainables.metrics import is_seconds

SIZES = (16, 64)  # trials
CAMPAIGN = """
campaign: overhead
benchmarks: [digits]
methods: [ita-fft, ita-lora, ita-ia3, iel-fft, iel-lora, iel-ia3]
search: {trials: 12, reevaluate: 0, cache_size: 1}
train: {seeds: [0, 1, 2], cache_size: 1}
"""
USED, STARTING, ENDING = "sequences", "starting Ray", "after the last task"
RAY = "of these, Ray alone would take"
SHORT, LONG = SIZES
TABLE = "90, a campaign"


def _added(trials: int | str) -> Values:
    """Return a picker of the share that no trial's sequence used, percent."""
    used = column("percent", part=USED, trials=trials)
    return lambda rows: {name: 100 - value for name, value in used(rows).items()}


def _share(what: str, trials: int | str, at_most: float, floor: str = "") -> Line:
    """Return a line of the share that the platform adds; the floor, where it has a name, is what Ray alone takes."""
    alone = column("percent", part=RAY, trials=trials) if floor else None
    return Line(what=what, values=_added(trials), unit=" %", shown=".1f", at_most=at_most, floor=floor, floors=alone)


LINES = (
    _share(
        f"what the platform adds to a search of {SHORT} trials, two at a time, share of slots times wall time",
        *(SHORT, 10, "Ray alone (c)"),
    ),
    _share(f"the same with {LONG} trials", LONG, 8, "Ray alone"),
    _share("the same of a campaign: 6 cells of 12 trials and 3 seeds", TABLE, 10),
)


class Clock:
    """Notes when each trial started and finished each task; see `TrialListener`."""

    def __init__(self) -> None:
        self.events: list[tuple[float, TrialSummary]] = []

    def trial_changed(self, trial: TrialSummary) -> None:
        """Take note of a change."""
        self.events.append((time.monotonic(), trial))


def _shares(events: list[tuple[float, TrialSummary]], start: float, end: float, slots: int) -> dict[str, float]:
    """Split slots x wall into what sequences used and where the rest went, in seconds."""
    used: defaultdict[str, float] = defaultdict(float)
    used[STARTING], used[ENDING] = slots * (events[0][0] - start), slots * (end - events[-1][0])
    by_trial = sorted(events, key=lambda event: (event[1].number, event[0]))
    for _, group in itertools.groupby(by_trial, key=lambda event: event[1].number):
        previous, tasks = None, 0
        for now, trial in group:
            if previous is not None and trial.tasks_done > tasks:
                inside = sum(value for name, value in trial.final.items() if is_seconds(name))
                used[USED] += inside
                used["starting a trial" if tasks == 0 else "between tasks"] += now - previous - inside
            previous, tasks = now, trial.tasks_done
    used["idle slots"] = slots * (end - start) - sum(used.values())
    return dict(used)


def _bare_ray(resources: Resources, slots: int) -> float:
    """Return the seconds that Ray takes to start, to start an empty process per slot, and to end."""

    class Empty:  # here, for a class of a module would have the processes import the module
        def ready(self) -> None:
            """Do nothing."""

    start = time.monotonic()
    with ray_session([resources]):
        import ray  # takes seconds to import

        empty = ray.remote(num_cpus=resources.cpus_per_trial)(Empty)
        ray.get([process.ready.remote() for process in [empty.remote() for _ in range(slots)]])
    return time.monotonic() - start


def measure(trials: int) -> list[dict[str, Any]]:
    """Run the search once and say where slots x wall went."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        slots = local_cpus()
        asked = SearchRequest(
            "digits",
            "ita-lora",
            trials=trials,
            reevaluate=0,
            max_concurrent_trials=slots,
            name="overhead",
            cache_size=1,
            storage=folder,
        )
        plan = plan_search(asked)
        start = time.monotonic()
        with new_locked_run(plan.spec, plan.storage) as (spec, directory):
            run = SearchRun(spec, plan.storage, directory)
            run.own_listeners = [*run.own_listeners, clock]
            run_search(run)
        end = time.monotonic()
    shares = _shares(clock.events, start, end, slots)
    shares[RAY] = slots * _bare_ray(plan.spec.resources, slots)
    total = slots * (end - start)
    return [
        {"trials": trials, "part": part, "slots": slots, "seconds": value, "percent": 100 * value / total}
        for part, value in shares.items()
    ]


def inside(cells: Iterable[CellStatus]) -> float:
    """Return the seconds that the trials of some cells' runs spent inside their sequences."""
    runs = [run for cell in cells for run in (cell.search, cell.final) if run is not None]
    return sum(trial.seconds for run in runs for trial in run.trials)


def measure_campaign() -> list[dict[str, Any]]:
    """Make a table of six cells once and say how much of slots x wall was inside trials."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "campaign.yaml"
        file.write_text(CAMPAIGN)
        plan = plan_campaign(CampaignRequest(file, storage=folder))
        start = time.monotonic()
        result = run_campaign(plan)
        slots = local_cpus()
        total = slots * (time.monotonic() - start)
    used = inside(result.standing.cells)
    parts = {USED: used, "all else": total - used}
    trials = sum(each.runs.trials + each.runs.seeds for each in result.standing.cells)
    return [
        {
            "trials": f"{trials}, a campaign",
            "part": part,
            "slots": slots,
            "seconds": value,
            "percent": 100 * value / total,
        }
        for part, value in parts.items()
    ]


def run() -> list[dict[str, Any]]:
    """Measure a short search, a longer one, and a campaign."""
    return [*(row for trials in SIZES for row in measure(trials)), *measure_campaign()]
