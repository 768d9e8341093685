"""Best files: a search writes them and a final run reads them; YAML with a versioned schema, strictly checked."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, FiniteFloat, PrivateAttr, ValidationError

from checked_input.fields import require_argument
from checked_input.names import choices
from checked_input.schema import UNUSED, Strict, first_fault, is_no_mapping, read_model
from checked_input.text_files import TextFileError, shown
from checked_input.yaml_text import yaml_of
from search_spaces import Scalar
from search_spaces.values import ScalarField
from tausearch.runs import (
    AnySpec,
    Constraint,
    DataFacts,
    Ending,
    ExperimentProtocol,
    Gain,
    MultiSearchSpec,
    MultiTrial,
    Reevaluation,
    RunStatus,
    SearchSpec,
    Storage,
    TrialSummary,
    names_in,
    read_status,
    replace_text,
    titles_of,
    with_one_slash,
)
from trainables.data import BENCHMARKS, reference, split_references
from trainables.errors import InputError, faults_of
from trainables.methods import get_method
from trainables.user_code import code_option, forbidden, require_allowed

SCHEMA_VERSION: Literal[1] = 1


class Reevaluated(Strict):
    """The verdict of a re-evaluation in a best file."""

    value: FiniteFloat  # mean of the metric over the chosen trial's fresh runs, percent
    error: FiniteFloat | None  # standard error of the mean; None for a single run
    seeds: tuple[int, ...]  # the seeds of the runs and of their validation splits
    candidates: tuple[int, ...]  # numbers of the trials that ran again, the best by the search's own value first
    second: int | None  # the candidate nearest to the winner; None without a rival
    ahead: FiniteFloat | None  # mean difference between winner and second in points, over the rounds that both have run
    ahead_error: FiniteFloat | None  # standard error of the difference; None for a single run
    measured: dict[str, FiniteFloat] = {}  # constraint to mean of its metric over these runs; `objectives` alike
    objectives: Annotated[dict[str, FiniteFloat], UNUSED] = {}


class Selection(Strict):
    """How the configuration was chosen."""

    metric: str  # what the trial was chosen by: a metric, or "knee" for the knee of the front of several objectives
    value: FiniteFloat  # in the search; percent for an accuracy; of a knee 0 if best in all objectives, else less
    trials: int  # number of trials that competed, that is, finished the last task
    trial: int  # number of the chosen trial
    search: str  # its name
    search_id: Annotated[str, UNUSED] = ""  # empty in files of 0.1.0
    constraints: tuple[Constraint, ...] = ()
    measured: dict[str, FiniteFloat] = {}  # constraint to its metric in the chosen trial, the worst over tasks
    objectives: Annotated[dict[str, FiniteFloat], UNUSED] = {}  # objective to value; none for accuracy alone
    reevaluation: Reevaluated | None = None  # None if the highest value was chosen
    gain: Gain | None = None  # over the start, by the metric that chose; None for a knee, or without the start
    ended: Ending | None = None  # why the trials of the search ended, or what stopped its driver; None while it goes on
    accuracies: Annotated[dict[str, FiniteFloat], UNUSED] = {}  # final, on each of several benchmarks, percent
    images: Annotated[dict[str, DataFacts], UNUSED] = {}  # the search's, by benchmark outside the package

    @property
    def value_words(self) -> str:
        """What the trial was chosen by, in words, such as `val/final_accuracy 93.20 %`."""
        return f"{self.metric} {self.value:.2f}{' %' if 'accuracy' in self.metric else ''}"


class BestFile(Strict):
    """A chosen configuration and everything that is needed to train it again.

    Attributes:
        hyperparameters: All of them, searched and fixed.
        selection: None if the configuration was not searched.
        versions: Of tausearch, torch, timm and peft.
        left_out: A line for each image that could not be read and was left out of the search, up to a bound.
        benchmarks: The protocol on each benchmark of a search on several; empty for one.
        device: Device and precision of a trial of the search in words; None where there was no GPU to speak of.
    """

    schema_version: Literal[1]
    benchmark: Annotated[str, AfterValidator(with_one_slash)]
    method: str
    hyperparameters: dict[str, ScalarField]
    protocol: ExperimentProtocol
    selection: Selection | None
    versions: dict[str, str]
    left_out: tuple[str, ...] = ()
    benchmarks: Annotated[dict[Annotated[str, AfterValidator(with_one_slash)], ExperimentProtocol], UNUSED] = {}
    device: Annotated[str | None, UNUSED] = None
    _file: Path | None = PrivateAttr(None)  # that it was read from

    def __eq__(self, other: object) -> bool:
        """Whether the contents are equal, wherever they were read."""
        return isinstance(other, BestFile) and self.model_dump() == other.model_dump()

    @property
    def title(self) -> str:
        """The best file in a message: `best file PATH`."""
        return "best file" if self._file is None else f"best file {self._file}"

    def on(self, benchmark: str | None) -> BestFile:
        """Return the best file of one chosen on several benchmarks for a single one; any other as it is.

        Args:
            benchmark: Its reference; of several that it was chosen on, the name alone is enough.

        Raises:
            InputError: If it was chosen on several, and none is given.
        """
        if not self.benchmarks:
            return self
        titles = titles_of(tuple(self.benchmarks))
        if benchmark is None:
            raise InputError(f"chosen on {', '.join(titles)}: give the one to train on with --benchmark")
        named = dict(zip(titles, self.benchmarks, strict=True))
        name = named.get(benchmark, str(reference(benchmark)))
        protocol = self.benchmarks.get(name, self.protocol)
        return self.model_copy(update={"benchmark": name, "protocol": protocol, "benchmarks": {}})

    def is_on(self, benchmark: str) -> bool:
        """Whether it was chosen on a benchmark, alone or with others."""
        return benchmark in (self.benchmarks or (self.benchmark,))

    @property
    def user_code_names(self) -> tuple[str, ...]:
        """The names that may stand for code of the user; most are the tool's own."""
        benchmarks = self.benchmarks or (self.benchmark,)
        return names_in(benchmarks, self.method, self.protocol, self.hyperparameters.values())

    def __repr__(self) -> str:
        found, values = self.selection, ", ".join(f"{k}={_short(v)}" for k, v in self.hyperparameters.items())
        how = "" if found is None else f"; trial {found.trial} of {found.search}, {found.value_words}"
        return f"<BestFile {self.method} on {self.benchmark}: {values}{how}>"

    def save(self, path: str | Path) -> None:
        """Write the file completely or not at all, in place of an earlier best file.

        Raises:
            InputError: If it cannot be written, or is another file.
        """
        require_argument(isinstance(path, str | Path), "path", "a path", path)
        file = Path(os.path.expanduser(path))
        require_best_or_none(file)
        try:
            replace_text(file, self.as_yaml())
        except OSError as error:
            raise InputError(f"best file {path}: cannot be written ({error.strerror})") from error

    def as_yaml(self) -> str:
        """Return the content of the file that `save` writes."""
        on = f" --benchmark {shlex.quote(next(iter(self.benchmarks)))}" if self.benchmarks else ""
        code = code_option(*self.user_code_names)
        header = f"# Chosen by tausearch. Train it with: tausearch train <this file>{on} --seeds 0,1,2{code}\n"
        return header + yaml_of(self.model_dump(mode="json"))


def _short(value: Scalar) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def make_best_file(
    spec: SearchSpec,
    best: TrialSummary,
    competitors: int,
    reevaluation: Reevaluation | None = None,
    ended: Ending | None = None,
    gain: Gain | None = None,
    value: float | None = None,
) -> BestFile:
    """Return the best file of a search with a chosen trial; it has all hyperparameters, defaults included.

    `competitors` is the number of trials that finished the last task. `value` is what the trial was chosen by, by
    default its final accuracy.
    """
    assert best.value is not None
    reevaluated = None
    if reevaluation is not None and (verdict := reevaluation.verdict) is not None:
        reevaluated = Reevaluated(
            value=verdict.mean,
            error=verdict.error,
            seeds=reevaluation.seeds,
            candidates=reevaluation.race.candidates,
            second=verdict.second,
            ahead=verdict.ahead,
            ahead_error=verdict.ahead_error,
            measured=_constraint_means(spec.constraints, reevaluation.runs_of(verdict.chosen)),
            objectives=spec.aim.means(reevaluation.runs_of(verdict.chosen)),
        )
    selection = Selection(
        metric=spec.aim.metric if spec.objectives else spec.value_labels.metric,
        value=best.value if value is None else value,
        trials=competitors,
        trial=best.number,
        search=spec.name,
        search_id=spec.id,
        constraints=spec.constraints,
        measured=_constraint_means(spec.constraints, [best]),
        objectives=spec.aim.objective_values(best),
        reevaluation=reevaluated,
        gain=gain,
        ended=ended,
        accuracies=_accuracies(spec, best),
        images={name: data for name, data in spec.images.items() if reference(name).name not in BENCHMARKS},
    )
    return _best(spec, best.hyperparameters, selection)


def _accuracies(spec: SearchSpec, trial: TrialSummary) -> dict[str, float]:
    """Return the accuracy of a trial on each of several benchmarks; empty for one."""
    if not isinstance(spec, MultiSearchSpec) or not isinstance(trial, MultiTrial):
        return {}
    found = zip(spec.parts, trial.accuracies, strict=True)
    return {name: accuracy for name, accuracy in found if accuracy is not None}


def _constraint_means(constraints: Iterable[Constraint], trials: Sequence[TrialSummary]) -> dict[str, float]:
    """Return the mean over trials of each constraint's metric, in its worst row; only of metrics that all have."""
    found = {str(each): each.mean(trials) for each in constraints}
    return {text: value for text, value in found.items() if value is not None}


def unsearched_best_file(spec: AnySpec) -> BestFile:
    """Return the best file of a configuration that was not searched: a search's start, or that of a final run."""
    return _best(spec, {**spec.fixed, **(spec.start if spec.purpose == "search" else {})}, None)


def _best(spec: AnySpec, hyperparameters: Mapping[str, Scalar], selection: Selection | None) -> BestFile:
    with faults_of(f"run {spec.name!r}"):
        whole: dict[str, Scalar] = asdict(get_method(spec.method).parse(hyperparameters))
    return BestFile(
        schema_version=SCHEMA_VERSION,
        benchmark=spec.benchmark,
        method=spec.method,
        hyperparameters=whole,
        protocol=spec.protocol,
        selection=selection,
        versions={name: version(name) for name in ("tausearch", "torch", "timm", "peft")},
        left_out=spec.left_out,
        benchmarks={name: part.protocol for name, part in spec.parts.items()}
        if isinstance(spec, MultiSearchSpec)
        else {},
        device=spec.device or None,
    )


def load_best(path: str | Path) -> BestFile:
    """Return the checked content of a best file.

    Raises:
        InputError: If it cannot be read, is not YAML, has another version, or an unknown, missing or wrong key.
    """
    if not isinstance(path, str | Path):
        raise InputError(f"best file must be a path, got {shown(path)}")
    file = Path(os.path.expanduser(path))
    try:
        best = _completed(read_model(file, _of_this_version, _explain))
    except FileNotFoundError as error:
        raise InputError(f"best file {path}: cannot be read ({error.strerror})") from error
    except (TextFileError, InputError) as error:
        raise InputError(f"best file {path}: {error}") from error
    best._file = file
    return best


def require_best_or_none(target: Path, what: str = "best file") -> None:
    """Refuse to replace a file that is there and is no best file; `what` begins the error."""
    if not os.path.isfile(target):  # a device is written to and not replaced; a name may be too long for `Path.exists`
        return
    try:
        read_model(target, _of_this_version)  # whatever code it names
    except (TextFileError, InputError) as error:
        raise InputError(f"{what} {target}: exists and is no best file, so it is not replaced") from error


def best_of_all(storage: Storage, benchmark: str, method: str, on_unreadable: Callable[[InputError], None]) -> BestFile:
    """Return the best file of the best search of a benchmark and method.

    Of equals it is that of the shortest name, of these the first in the alphabet: `s-2` comes before `s-10`. So it does
    not depend on which of them was continued or renamed last.

    Searches compare by the metric by which they choose. A re-evaluated search counts with the mean of the fresh runs.
    `on_unreadable` is called for each run that cannot be read.

    Raises:
        InputError: If there is no such method, no search of them has a finished trial, or the searches choose by
            different metrics, or on scales of their own, so that none of them is the best.
    """
    get_method(method)
    statuses, faults = storage.read_each(read_status)
    for fault in faults:
        on_unreadable(fault)
    searches = [found for found in statuses if found.spec.purpose == "search" and found.best is not None]
    matching = [each for each in searches if (each.spec.benchmark, each.spec.method) == (benchmark, method)]
    if not matching:
        there = sorted({f"{shlex.quote(each.spec.benchmark)} {each.spec.method}" for each in searches})
        others = f"; there are searches of: {', '.join(there)}" if there else ""
        raise InputError(f"no search of {method!r} on {benchmark!r} in {storage.root} has a finished trial{others}")
    specs = [each.spec for each in matching if isinstance(each.spec, SearchSpec)]
    names = {spec.name: spec.chosen_by_name for spec in specs}
    if len(specs) > 1 and (len(set(names.values())) > 1 or any(spec.has_own_scale for spec in specs)):
        named = ", ".join(f"{name} by {metric}" for name, metric in names.items())
        raise InputError(f"searches of {method!r} on {benchmark!r} choose differently: {named}; name one of them")
    matching.sort(key=lambda found: (len(found.spec.name), found.spec.name))
    return _best_of(storage, max(matching, key=lambda found: found.goodness), on_unreadable)


def best_of_run(storage: Storage, name: str, on_unreadable: Callable[[InputError], None]) -> BestFile:
    """Return the best file of a search; `on_unreadable` is called if the file cannot be read."""
    found = read_status(storage.run(name))
    if found.spec.purpose == "final":
        source = f"; it was tuned by {found.spec.source}" if found.spec.source else ""
        raise InputError(f"run {name!r}: is a final run, which chooses nothing{source}")
    if found.best is None:
        raise InputError(f"run {name!r}: {found.why_nothing_chosen}")
    return _best_of(storage, found, on_unreadable)


def _best_of(storage: Storage, found: RunStatus, on_unreadable: Callable[[InputError], None]) -> BestFile:
    """Return the best file of a search with a finished trial; a missing, damaged or older one is made from the record.

    The record is written first, so a kill may leave the file of an earlier choice.
    """
    assert found.best is not None and isinstance(found.spec, SearchSpec)
    made = make_best_file(
        found.spec,
        found.best,
        found.counts["complete"],
        found.reevaluation,
        found.ending,
        found.gain,
        found.spec.aim.value_of(found.best, found.trials),
    )
    file = storage.run(found.spec.name).best_file
    if file.exists():
        try:
            best = load_best(file)
            if _choice(best) == _choice(made):
                return best
            fault = InputError(f"best file {file}: is older than the choice of trial {found.best.number}")
        except InputError as error:
            fault = error
        on_unreadable(InputError(f"{fault}; its content was taken from the record"))
    return made


def _choice(best: BestFile) -> tuple[int, Reevaluated | None] | None:
    """Return the chosen trial, and what its re-evaluation said."""
    return None if best.selection is None else (best.selection.trial, best.selection.reevaluation)


def _of_this_version(content: object) -> BestFile:
    if isinstance(content, dict):
        got = content.get("schema_version", "none")
        if got is True or got != SCHEMA_VERSION:
            raise InputError(f"key 'schema_version' must be {SCHEMA_VERSION}, got {shown(got)}")
    return BestFile.model_validate(content)


def _completed(best: BestFile) -> BestFile:
    """Return a best file with newer hyperparameters at neutral values; it must have all others: defaults may change."""
    for benchmark in split_references(best.benchmark):
        reference(benchmark)
    if forbidden([best.method]):
        require_allowed(best.user_code_names)
    entry = get_method(best.method)
    hyperparameters = {**entry.neutral_values, **best.hyperparameters}
    entry.parse(hyperparameters)
    missing = [each.name for each in fields(entry.config) if each.name not in hyperparameters]
    if missing:
        raise InputError(f"key 'hyperparameters.{missing[0]}' is missing")
    return best.model_copy(update={"hyperparameters": hyperparameters})


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    if is_no_mapping(error):
        return f"must be a mapping with the keys {', '.join(BestFile.model_fields)}"
    if first["type"] != "extra_forbidden":
        return first_fault(error)
    sections: dict[tuple[str | int, ...], type[BaseModel]] = {
        (): BestFile,
        ("protocol",): ExperimentProtocol,
        ("selection",): Selection,
        ("selection", "reevaluation"): Reevaluated,
        ("selection", "gain"): Gain,
        ("selection", "ended"): Ending,
    }
    place, key = first["loc"][:-1], first["loc"][-1]
    model = ExperimentProtocol if place[:1] == ("benchmarks",) else sections.get(place)
    return first_fault(error) if model is None else f"{first_fault(error)}; {choices(key, model.model_fields)}"
