"""The pilot runs until the memory that a method takes has peaked; the share of a GPU is made of what it measured."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.cluster import pilot
from tausearch.runs import Pilot, Resources, SearchSpec
from trainables.errors import InputError
from trainables.methods import Capabilities

GIB = 2**30


class Counted:
    """A sequence that counts its tasks."""

    def __init__(self, tasks: int, to_peak: int) -> None:
        self.entry = SimpleNamespace(capabilities=Capabilities(tasks_to_peak=to_peak))
        self.left, self.done, self.closed = tasks, 0, False

    @property
    def finished(self) -> bool:
        return self.left == 0

    def run_next_task(self) -> None:
        assert self.left
        self.left, self.done = self.left - 1, self.done + 1

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("tasks", "to_peak", "runs"), [(5, 1, 1), (5, 3, 3), (2, 3, 2)])
def test_as_many_tasks_as_the_method_declares(
    tasks: int, to_peak: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequence = Counted(tasks, to_peak)
    monkeypatch.setattr(pilot, "build_sequence", lambda config: sequence)
    monkeypatch.setattr(pilot, "TrialConfig", dict)
    pilot._measure({})
    assert sequence.done == runs and sequence.closed


@pytest.mark.parametrize("ended_by", ["a task that fails", "its reader"])
def test_a_pilot_that_ends_early_closes_its_sequence(ended_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sequence: Any = Counted(5, 5)
    if ended_by == "its reader":
        rows = pilot.first_rows(sequence, 5)
        next(rows)
        del rows
    else:
        monkeypatch.setattr(sequence, "run_next_task", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            list(pilot.first_rows(sequence, 5))
    assert sequence.closed


class FakeRay:
    """A Ray whose one task answers at once."""

    class exceptions:
        RayError = RuntimeError

    def __init__(self, *answers: tuple[int, int] | Exception) -> None:
        self.answers = iter(answers)

    def remote(self, function: object) -> FakeRay:
        return self

    def options(self, **wanted: float) -> FakeRay:
        assert wanted == {"num_gpus": 1, "num_cpus": 2}
        return SimpleNamespace(remote=lambda config: next(self.answers))  # type: ignore[return-value]

    def get(self, answers: list[tuple[int, int] | Exception]) -> list[tuple[int, int]]:
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers  # type: ignore[return-value]

    def nodes(self) -> list[dict[str, Any]]:
        """Two GPUs with 16 CPUs; a node without a GPU and one that is gone, whose CPUs no trial gets."""
        has = [{"GPU": 2.0, "CPU": 16.0}, {"CPU": 64.0}, {"GPU": 1.0, "CPU": 2.0}]
        return [{"Alive": place < 2, "Resources": each} for place, each in enumerate(has)]


def measured(
    spec: SearchSpec, patch: pytest.MonkeyPatch, *answers: tuple[int, int] | Exception
) -> tuple[SearchSpec, str]:
    patch.setattr(pilot, "ray", FakeRay(*answers))
    patch.setattr(pilot, "ray_session", lambda resources, address, say, check, quiet: nullcontext())
    spec = spec.model_copy(update={"resources": Resources(cpus_per_trial=2, gpus_per_trial=1, gpus_from="rule")})
    configs: Any = [SimpleNamespace(as_dict=dict) for _ in answers]
    return pilot.with_measured_share(spec, configs, None, print, lambda: None)


def test_the_share_is_what_the_pilots_peak_allows(spec: SearchSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    found, line = measured(spec, monkeypatch, (10 * GIB, 80 * GIB))
    # Each of two GPUs has 8 of 16 CPUs: 4 trials of 2 CPUs, of 6 that fit the memory.
    took = Pilot(peak_bytes=10 * GIB, gpu_bytes=80 * GIB)
    assert found.resources == Resources(cpus_per_trial=2, gpus_per_trial=1 / 4, gpus_from="rule", pilot=took)
    assert line == "pilot: 10.00 of 80.0 GiB at most, so 4 trials per GPU"


def test_of_several_benchmarks_the_largest_trial_counts(spec: SearchSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    found, line = measured(spec, monkeypatch, (5 * GIB, 80 * GIB), (30 * GIB, 80 * GIB), (GIB, 79 * GIB))
    assert found.resources.gpus_per_trial == 1 / 2
    assert line == "pilot: 30.00 of 79.0 GiB at most, so 2 trials per GPU"
    assert measured(spec, monkeypatch, (60 * GIB, 80 * GIB))[1].endswith("so 1 trial per GPU")


@pytest.mark.parametrize("sizes", [((1.0, 12.0), (4.0, 16.0)), ((1.0, 4.0), (4.0, 48.0))])
def test_of_two_nodes_the_one_with_fewer_cpus_for_each_gpu_counts(
    sizes: tuple[tuple[float, float], ...], spec: SearchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [{"Alive": True, "Resources": {"GPU": gpus, "CPU": cpus}} for gpus, cpus in sizes]
    monkeypatch.setattr(FakeRay, "nodes", lambda ray: nodes)
    found, _ = measured(spec, monkeypatch, (GIB, 80 * GIB))
    assert found.resources.gpus_per_trial == 1 / 2  # 2 trials of 2 CPUs on 4, not 6 on 12


def test_a_pilot_that_fails_or_measures_nothing_is_said(spec: SearchSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"the pilot trial failed \(out of memory\)"):
        measured(spec, monkeypatch, RuntimeError("a traceback\nout of memory"))
    with pytest.raises(InputError, match="used no GPU memory"):
        measured(spec, monkeypatch, (0, 80 * GIB))


@pytest.mark.parametrize(
    ("peak", "cpus", "cpus_per_trial", "trials"),
    [
        (10, 64, 1, 6),  # 7 times 10 GiB would fit, without room for later tasks
        (10, 9, 2, 4),
        (1, 64, 1, 37),  # each process takes another GiB, outside of what the pilot has measured
        (0.01, 999, 1, 64),
        (100, 64, 1, 1),
        (10, 1, 2, 1),
    ],
)
def test_trials_share_a_gpu_with_room_to_grow(peak: float, cpus: int, cpus_per_trial: int, trials: int) -> None:
    assert pilot.propose(int(peak * 2**30), 80 * 2**30, cpus, cpus_per_trial) == trials
