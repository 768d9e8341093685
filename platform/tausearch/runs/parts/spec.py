"""The specification of a search on several benchmarks, and of its parts.

A trial is one configuration on all benchmarks. A part is one configuration on one of them: it is trained as a trial of
a search on this benchmark alone would be, and has a file of its own in the record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from checked_input import ranges
from checked_input.schema import Strict
from tausearch.runs.parts.scores import LABELS, LOWEST, Across
from tausearch.runs.protocol import DataFacts, ExperimentProtocol, shown_benchmark, with_one_slash
from tausearch.runs.specs.run import Role, RunSpec, ValueLabels
from tausearch.runs.specs.search import SearchSpec, SpecOfSearch
from trainables.task_names import NamedTask


class SearchBenchmark(Strict):
    """One benchmark of a search on several; see `RunSpec` for the fields."""

    protocol: ExperimentProtocol
    steps: Annotated[int, AfterValidator(ranges.TASKS.checked)]
    data: DataFacts | None = None
    data_root: str | None = None
    left_out: tuple[str, ...] = ()
    tasks: Annotated[tuple[NamedTask, ...], Field(exclude=True)] = ()


class MultiSearchSpec(SearchSpec):
    """The specification of a search on several benchmarks; see `SearchSpec` for the other fields.

    `benchmark` has the references of all with commas between them, `steps` is their number, and `tasks` has a title
    for each. Epochs, tasks and batch size of `protocol` are those of the first benchmark; the rest of it holds for all.
    """

    across: Across  # how accuracies on several benchmarks become one value; see `scores.Scale`
    parts: Annotated[dict[str, SearchBenchmark], Field(min_length=2)]  # by their references, in order

    @property
    def user_code_names(self) -> tuple[str, ...]:
        """The names that may stand for code of the user; most are the tool's own."""
        return (*(name.partition("?")[0] for name in self.parts), *super().user_code_names)

    def parts_at(self, data_roots: Mapping[str, str | None]) -> dict[str, SearchBenchmark]:
        """Return the benchmarks with their published datasets in other folders, which `data_roots` has by reference."""
        return {name: each.model_copy(update={"data_root": data_roots[name]}) for name, each in self.parts.items()}

    @property
    def images(self) -> Mapping[str, DataFacts]:
        """The benchmarks to their images, where these are known."""
        return {with_one_slash(name): part.data for name, part in self.parts.items() if part.data is not None}

    @property
    def accuracy_resolution(self) -> float:
        """The largest step of a trial's value that one image makes, where values do not move; else 0."""
        steps = (data.accuracy_resolution for data in self.images.values())
        return max(steps, default=0.0) / len(self.parts) if self.across == "mean" else 0.0

    @property
    def value_labels(self) -> ValueLabels:
        """What the value by which trials are compared is called."""
        mean, title = self.across == "mean", LABELS[self.across]
        return ValueLabels(
            metric=self.metrics.final_accuracy if mean else f"{self.metrics.prefix}/{self.across}",
            title=title,
            caption=f"Score over {len(self.parts)} benchmarks ({title})",
            axis=f"score over benchmarks ({title})",
            unit="%" if mean else title,
        )

    @property
    def has_own_scale(self) -> bool:
        """Whether its values depend on its other trials, so that those of two searches do not compare."""
        return self.across != "mean"

    @property
    def worst(self) -> float:
        """The value of a diverged trial."""
        return LOWEST if self.across == "normalised" else 0.0

    @property
    def step_noun(self) -> str:
        """The word for a step of a trial."""
        return "benchmark"

    @property
    def titles(self) -> tuple[str, ...]:
        """A short title of each benchmark."""
        return titles_of(tuple(self.parts))


def titles_of(benchmarks: Sequence[str]) -> tuple[str, ...]:
    """Return a short title of each benchmark: its name, with options or whole path where two have the same name."""
    shown = [shown_benchmark(text) for text in benchmarks]
    names = [text.partition("?")[0] for text in shown]
    titles = [name if names.count(name) == 1 else text for name, text in zip(names, shown, strict=True)]
    return tuple(whole if titles.count(title) > 1 else title for title, whole in zip(titles, benchmarks, strict=True))


class PartsSpec(SpecOfSearch):
    """The parts of a search on several benchmarks, or of its re-evaluations, as a run; never written.

    Part `b` of trial `k` has number `k B + b`, for B benchmarks.
    """

    role: ClassVar[Role] = "part"
    search: MultiSearchSpec
    parent_spec: RunSpec  # the search, or its re-evaluations

    @classmethod
    def of(cls, search: MultiSearchSpec, spec: RunSpec) -> PartsSpec:
        """Return the parts of a run: the search, or its re-evaluations."""
        shared = {name: getattr(spec, name) for name in RunSpec.model_fields}
        tasks = max(part.protocol.tasks for part in search.parts.values())
        own = {
            "trials": spec.trials * len(search.parts),
            "steps": max(part.steps for part in search.parts.values()),
            "protocol": search.protocol.model_copy(update={"tasks": tasks}),
            "tasks": (),
        }
        return cls(**{**shared, **own, "search": search, "parent_spec": spec})

    @property
    def count(self) -> int:
        """The number of benchmarks."""
        return len(self.search.parts)

    @property
    def side_by_side(self) -> int:
        """The number of parts of a trial that run at a time; one where a trial may be stopped between benchmarks."""
        return self.count if self.search.scheduler == "none" else 1

    def number(self, trial: int, place: int) -> int:
        """Return the number of a part."""
        return trial * self.count + place

    def trial_of(self, number: int) -> int:
        """Return the number of the trial that a part belongs to."""
        return number // self.count

    def place_of(self, number: int) -> int:
        """Return the place of a part's benchmark, from 0."""
        return number % self.count

    def benchmark_of(self, number: int) -> str:
        """Return the reference of a part's benchmark."""
        return list(self.search.parts)[self.place_of(number)]

    def benchmark_spec_of(self, number: int) -> SearchBenchmark:
        """Return what is particular to a part's benchmark."""
        return self.search.parts[self.benchmark_of(number)]

    def steps_of(self, number: int) -> int:
        """Return the number of steps of a part."""
        return self.benchmark_spec_of(number).steps

    def data_root_of(self, number: int) -> str | None:
        """Return the folder of a part's dataset."""
        return self.benchmark_spec_of(number).data_root

    def data_of(self, number: int) -> DataFacts | None:
        """Return the images of a part."""
        return self.benchmark_spec_of(number).data

    @property
    def user_code_names(self) -> tuple[str, ...]:
        """The names that may stand for code of the user, those of the search."""
        return self.search.user_code_names

    def extra_columns(self, number: int) -> dict[str, Any]:
        """Return further columns of a part in the record."""
        trial = self.trial_of(number)
        return {**self.parent_spec.extra_columns(trial), "of_trial": trial, "benchmark": self.benchmark_of(number)}

    def label(self, number: int) -> str:
        """Return the name of a part for people."""
        return f"{self.parent_spec.label(self.trial_of(number))} on {self.search.titles[self.place_of(number)]}"

    def file_name(self, number: int) -> str:
        """Return the name of a part without spaces."""
        return f"{self.parent_spec.file_name(self.trial_of(number))}-{self.place_of(number) + 1}"

    def seed_of(self, number: int) -> int:
        """Return the seed of a part, which is that of its trial."""
        return self.parent_spec.seed_of(self.trial_of(number))

    def split_of(self, number: int) -> int:
        """Return the seed of a part's validation split, which is that of its trial."""
        return self.parent_spec.split_of(self.trial_of(number))


def parts_of(spec: RunSpec) -> PartsSpec | None:
    """Return the parts of a run on several benchmarks: a search, or its re-evaluations; None for any other run."""
    search = getattr(spec, "search", spec)
    return PartsSpec.of(search, spec) if isinstance(search, MultiSearchSpec) else None
