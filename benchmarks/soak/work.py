"""What is run in a round: the commands that begin it and go on with it, and what its record says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak.plan import Kind
from tausearch.runs import Storage, TrialSummary, is_driven
from tests.support.drivers.searches import trials_of, without_time

_TABLE = """campaign: {name}
benchmarks: [digits]
methods: [finetune, ita-ia3]
search: {{algorithm: grid, trials: 3}}
train: {{seeds: [0, 1]}}
cells: [{{method: joint, search: null}}]
"""
_LENGTH = ("--trials", "12", "--reevaluate", "0")
_SEARCH = ("search", "digits", "finetune", "--algorithm", "random", *_LENGTH, "--max-concurrent-trials", "2")
# One at a time, or which trials the sampler and the median know would depend on the kills.
_STOPPING = ("search", "digits", "finetune", "--scheduler", "median", *_LENGTH, "--max-concurrent-trials", "1")
_SEEDS = "0,1,2,3,4,5,6,7"
Tables = dict[str, list[TrialSummary]]  # by the names of runs, without that of what is run


@dataclass(frozen=True)
class Work:
    """A search, a final run or a campaign."""

    kind: Kind  # which of them
    name: str  # its name
    folder: Path  # the folder in which commands are given
    tracking: tuple[str, ...] = ()  # options that say where it is tracked

    @property
    def storage(self) -> Storage:
        """The storage root, which all rounds share."""
        return Storage(self.folder / "tausearch-runs")

    @property
    def begin(self) -> tuple[str, ...]:
        """The command that begins it; of a campaign it writes the file."""
        if self.kind == "campaign":
            (self.folder / f"{self.name}.yaml").write_text(_TABLE.format(name=self.name), encoding="utf-8")
            return ("campaign", "run", f"{self.name}.yaml", *self.tracking)
        if self.kind != "final run":
            search = _SEARCH if self.kind == "search" else _STOPPING
            return (*search, "--name", self.name, *self.tracking)
        best = self.storage.run("calm-search").best_file
        return ("train", str(best), "--seeds", _SEEDS, "--name", self.name, *self.tracking)

    @property
    def go_on(self) -> tuple[str, ...]:
        """The command that goes on with it; the one that begins it, as long as there is no such run."""
        exists = self.storage.run(self.name).spec_file.is_file()
        return ("resume", self.name) if self.kind != "campaign" and exists else self.begin

    @property
    def is_driven(self) -> bool:
        """Whether a living process drives it."""
        return is_driven(self.storage.campaign(self.name) if self.kind == "campaign" else self.storage.run(self.name))

    def runs(self) -> list[str]:
        """Return the names of its runs, as far as they have begun."""
        names = [directory.name for directory in self.storage.runs()]
        return [name for name in names if name.startswith(f"{self.name}-") or name == self.name]

    def tables(self) -> Tables:
        """Return all trials of its runs, as far as they have come."""
        return {name.removeprefix(self.name): trials_of(self.storage.root, name) for name in self.runs()}

    def tasks(self) -> int:
        """Return how many tasks are recorded."""
        return tasks_in(self.tables())


def tasks_in(tables: Tables) -> int:
    """Return how many tasks the trials have done together."""
    return sum(trial.tasks_done for trials in tables.values() for trial in trials)


def cost(
    earlier: Mapping[str, Sequence[TrialSummary]], later: Mapping[str, Sequence[TrialSummary]]
) -> tuple[int, int, int]:
    """Compare two looks at the same runs.

    A task that is run again comes to the same numbers in another time, so that its row is another one.

    Returns:
        Trials that had ended and are gone or changed, or that ran and are gone; tasks that were done again, and the
        most of one trial.
    """
    lost, again = 0, [0]
    for name, trials in earlier.items():
        found = {trial.number: trial for trial in later.get(name, ())}
        for trial in trials:
            same = found.get(trial.number)
            if same is None or (trial.status != "running" and same != trial):
                lost += 1
            elif trial.status == "running":
                again.append(sum(row not in same.rows for row in trial.rows))
    return lost, sum(again), max(again)


def different(found: Tables, calm: Tables) -> int:
    """Return the number of runs whose numbers are not those of the undisturbed ones, times aside."""
    names = found.keys() | calm.keys()
    return sum(without_time(found.get(name, [])) != without_time(calm.get(name, [])) for name in names)
