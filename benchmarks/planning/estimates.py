"""The estimates of `search --dry-run` and of `campaign plan --pilot` held against what the same work then took.

A search of three trials is what a dry run of eight knows, and a pilot of each cell what the plan of a campaign knows.
The former says the seconds until the last trial ends, the latter those inside all trials.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tausearch
from benchmarks.planning.held import Clock
from tausearch.campaigns import CampaignRequest, estimate, plan_with_refusals, run_pilots
from tausearch.cluster import local_cpus
from trainables.metrics import is_seconds

KNOWN, TRIALS = 3, 8
SEARCHES = (("digits", "ita-lora"), ("digits", "ewc"))
CAMPAIGN = """
campaign: estimated
benchmarks: [digits]
methods: [ita-lora, finetune]
search: {trials: 6, algorithm: random, reevaluate: 0}
train: {seeds: [0]}
"""


def run() -> list[dict[str, Any]]:
    """Hold both against runs."""
    return [*_searches(), _campaign()]


def _searches() -> Iterator[dict[str, Any]]:
    for benchmark, method in SEARCHES:
        with tempfile.TemporaryDirectory() as folder:
            options: dict[str, Any] = {"storage": folder, "tracking": "none", "algorithm": "random", "reevaluate": 0}
            tausearch.search(benchmark, method, trials=KNOWN, name="known", **options)
            said = tausearch.preview_search(benchmark, method, trials=TRIALS, name="next", **options).seconds
            clock = Clock()
            tausearch.search(benchmark, method, trials=TRIALS, name="next", callbacks=[clock], **options)
            assert clock.began is not None, "trials began"
            what = f"`search --dry-run`: {TRIALS} trials of `{method}` on `{benchmark}` after {KNOWN}"
            yield _row(what, said, clock.ended[-1][0] - clock.began)


def _campaign() -> dict[str, Any]:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "campaign.yaml"
        file.write_text(CAMPAIGN, encoding="utf-8")
        planned = plan_with_refusals(CampaignRequest(file, storage=Path(folder)))
        start = time.monotonic()
        run_pilots(planned)
        pilots = time.monotonic() - start
        known = [each.seconds for each in estimate(planned) if each.seconds is not None]
        assert len(known) == len(planned.cells), "the time of every cell was known"
        tausearch.campaign(file, storage=folder, tracking="none", callbacks=[clock])
    took = sum(
        value for _, _, trial in clock.ended for row in trial.rows for name, value in row.items() if is_seconds(name)
    )
    about = f"{len(clock.ended)} trials of {len(known)} cells, {local_cpus()} at a time"
    what = f"`campaign plan --pilot`: {about}, after pilots of {pilots:.0f} s"
    return _row(what, sum(known), took)


def _row(what: str, said: float | None, took: float) -> dict[str, Any]:
    assert said is not None, "the time was known"
    return {"what": what, "said": said, "took": took, "ratio": took / said}
