"""Make run directories: complete or not at all, and locked by one driver."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from search_spaces import Scalar
from tausearch.runs.directories import RunDirectory
from tausearch.runs.ending import extended_rule, planned_trials
from tausearch.runs.guards import driver_lock, remove_empty, remove_empty_root, require_space
from tausearch.runs.parts.reading import read_spec
from tausearch.runs.parts.spec import MultiSearchSpec
from tausearch.runs.parts.trials import recorded_trials
from tausearch.runs.record.record import Record
from tausearch.runs.specs.final import FinalSpec
from tausearch.runs.specs.kinds import AnySpec, changed_fields
from tausearch.runs.specs.run import RunSpec
from tausearch.runs.specs.search import SearchSpec
from tausearch.runs.storage import Storage, nearest_folder, open_storage, require_unmistakable, run_command
from trainables.errors import InputError
from trainables.methods import get_method
from trainables.user_code import changed, code_option, digests_of

S = TypeVar("S", bound=RunSpec)


def new_run(
    storage: str | Path, name: str | None, stem: str, *, resume_if_exists: bool = False, write: bool = True
) -> tuple[Storage, str]:
    """Return the storage and the name of a new run: without a name the first of `stem-1`, `stem-2`, ... that is free.

    Raises:
        InputError: If the name is taken, not allowed or mistakable, or with `write`, before the run is made, if the
            storage cannot be written or is full.
    """
    root = open_storage(storage, write=write)
    if write:
        require_space(root.root)
    directory = root.run(name or root.free_name(stem))
    if directory.path.exists() and not (resume_if_exists and directory.exists()):
        raise InputError(_taken(directory))
    if not directory.path.exists():
        require_unmistakable(directory.name)
    return root, directory.name


@contextmanager
def new_locked_run(spec: S, storage: Storage, *, rename: bool = False) -> Iterator[tuple[S, RunDirectory]]:
    """Yield a new run, locked; remove it if the block raises an `InputError` or `OSError` before the first trial."""
    before = nearest_folder(storage.root)
    spec, directory = make_run_directory(spec, storage, rename=rename)
    with driver_lock(directory):
        try:
            yield spec, directory
        except (InputError, OSError):
            if not directory.record.exists():
                shutil.rmtree(directory.path, ignore_errors=True)
                remove_empty_root(storage, before)
            raise


def make_run_directory(spec: S, storage: Storage, *, rename: bool = False) -> tuple[S, RunDirectory]:
    """Return the specification under its final name and with the time of now, and the run directory with `run.yaml`.

    With `rename`, the run takes the next free name if another process took the name just now: no user chose it.

    Raises:
        InputError: If the name is taken, or the folder cannot be made.
    """
    spec = spec.model_copy(update={"created": time.time()})
    while True:
        directory = storage.run(spec.name)
        try:
            _make_atomically(spec, directory)
        except FileExistsError:
            if not rename:
                raise InputError(_taken(directory)) from None
            spec = spec.model_copy(update={"name": storage.free_name(spec.name.rpartition("-")[0])})
        else:
            return spec, directory


@dataclass(frozen=True)
class Plan(Generic[S]):
    """A run to make or to continue."""

    spec: S
    storage: Storage
    named: bool  # whether the user has named the run
    resume_if_exists: bool = False
    pilot: bool = False  # whether a pilot trial is to measure the share of a GPU for its trials, before it is made
    may_extend: bool = False  # whether more trials or seeds extend the existing run

    @property
    def directory(self) -> RunDirectory:
        """The run directory, unless another process takes the name first."""
        return self.storage.run(self.spec.name)

    @property
    def exists(self) -> bool:
        """Whether the run exists and is to be continued."""
        return self.resume_if_exists and self.directory.exists()

    def continued(self) -> S:
        """Return the existing specification with new settings that change no result; refuse all other changes."""
        earlier = read_spec(self.directory)
        extended = self._extended(earlier)
        now = _counting_as(self.spec, earlier.model_copy(update=extended))
        if found := changed_fields(earlier.model_copy(update=extended), now):
            raise InputError(
                f"run {earlier.name!r} was started otherwise: {'; '.join(found)}{self._advice(earlier, now, found)}"
            )
        assert isinstance(earlier, type(self.spec)), "purposes would differ"
        renewed = ("resources", "address", "data_root", "cache_size", "with_bounds")
        changed = {name: getattr(self.spec, name) for name in renewed}
        changed |= _parts_where(earlier, self.spec)
        if isinstance(self.spec, FinalSpec) and self.spec.source_id:
            changed["source_id"] = self.spec.source_id  # its search may have been deleted and made again
        uri = self.spec.tracking_uri or earlier.tracking_uri
        tracking = earlier.tracking if self.spec.tracking is None else self.spec.tracking
        return earlier.model_copy(update={**changed, **extended, "tracking": tracking, "tracking_uri": uri})

    def _advice(self, earlier: AnySpec, now: RunSpec, found: Sequence[str]) -> str:
        """Return how a search gets the trials that it lacks, or why a final run gets no more seeds."""
        alone = all(line.startswith(("trials ", "reevaluate", "stop.")) for line in found)
        if isinstance(now, SearchSpec) and earlier.trials < now.trials and alone:
            extend = run_command("extend", earlier.name, self.storage.root)
            return f"; `{extend}{code_option(*now.code)} --trials {now.trials}` only adds trials"
        if not isinstance(earlier, FinalSpec) or not isinstance(now, FinalSpec):
            return ""
        if not set(earlier.seeds) < set(now.seeds):
            return ""
        if earlier.protocol.class_orders is not None:
            return " (with class orders no seeds are added: the numbers of its trials would change)"
        return "" if self.may_extend else "; only a campaign adds seeds: train all of them under another --name"

    @property
    def added(self) -> int:
        """Number of trials that an existing run gets beyond those that it was planned with."""
        if not self.exists:
            return 0
        earlier = read_spec(self.directory)
        return self.spec.trials - earlier.trials if self._extended(earlier) else 0

    def _extended(self, earlier: AnySpec) -> dict[str, Any]:
        """Return the fields of the existing run that more trials change."""
        spec: RunSpec = self.spec
        if not self.may_extend or spec.trials <= earlier.trials:
            return {}
        if isinstance(spec, FinalSpec) and isinstance(earlier, FinalSpec):
            return _with_more_seeds(earlier, spec)
        if not isinstance(spec, SearchSpec):
            return {}
        assert isinstance(earlier, SearchSpec), "purposes would differ"
        rule = extended_rule(earlier, self.directory, recorded_trials(earlier, Record(self.directory.record)))
        return {"trials": spec.trials, "reevaluate": spec.reevaluate, "stop": rule}

    @contextmanager
    def open_locked(self) -> Iterator[tuple[S, RunDirectory]]:
        """Make or continue the run and lock it; yields the specification, under its final name, and the folder."""
        if not self.exists:
            with new_locked_run(self.spec, self.storage, rename=not self.named) as made:
                yield made
        else:
            with driver_lock(self.directory):
                spec = self.continued()
                with spec_update_or_rollback(self.directory, spec):
                    yield spec, self.directory


@contextmanager
def spec_update_or_rollback(directory: RunDirectory, spec: RunSpec) -> Iterator[None]:
    """Change the specification of a run; take the change back if the block refuses the run before it has gone on."""
    earlier = read_spec(directory)
    planned = _planned(earlier, directory)
    spec.save(directory)
    try:
        yield
    except InputError:
        gone_on = False
        with suppress(InputError):  # a damaged record; the first error is told
            gone_on = len(recorded_trials(spec, Record(directory.record))) > planned
        if not gone_on:
            earlier.save(directory)
        raise


def _planned(spec: RunSpec, directory: RunDirectory) -> int:
    """Return the number of trials that a run has by its specification: fewer than it asks for if it has ended early."""
    if isinstance(spec, SearchSpec) and not spec.stop.never:
        with suppress(InputError):  # a damaged record, which the driver refuses
            return planned_trials(spec, recorded_trials(spec, Record(directory.record)))
    return spec.trials


def note_code(spec: RunSpec, directory: RunDirectory) -> list[str]:
    """Return a line for each code of the user that has changed since the run last started; note digests in `run.yaml`.

    Workers import the files as they are now; sampler and pruner run in this process, as it has imported them.
    """
    now = {**spec.code_digests, **digests_of(spec.user_code_names, in_workers=True)}
    if isinstance(spec, SearchSpec):
        now |= digests_of((spec.algorithm, spec.scheduler))
    if now != spec.code_digests:
        spec.model_copy(update={"code_digests": now}).save(directory)
    return [
        f"the code of {name} has changed since this run last started; trials that had ended ran the earlier code"
        for name in changed(spec.code_digests, now)
    ]


def _parts_where(earlier: RunSpec, now: RunSpec) -> dict[str, Any]:
    """Return the benchmarks of an earlier search on several, with their images where they lie now."""
    if not isinstance(earlier, MultiSearchSpec) or not isinstance(now, MultiSearchSpec):
        return {}
    return {"parts": earlier.parts_at({name: part.data_root for name, part in now.parts.items()})}


def _with_more_seeds(earlier: FinalSpec, now: FinalSpec) -> dict[str, Any]:
    """Return the fields of a final run with more seeds, the new ones last, as a seed keeps its number."""
    if earlier.protocol.class_orders is not None or not set(earlier.seeds) < set(now.seeds):
        return {}
    seeds = (*earlier.seeds, *(seed for seed in now.seeds if seed not in earlier.seeds))
    return {"seeds": seeds, "trials": len(seeds)}


def without_newer(spec: RunSpec, earlier: RunSpec) -> dict[str, Scalar]:
    """Return fixed hyperparameters without those that an older run lacks and whose values make no other experiment."""
    neutral = get_method(spec.method).neutral_values
    return {name: value for name, value in spec.fixed.items() if name in earlier.fixed or neutral.get(name) != value}


def _counting_as(spec: RunSpec, earlier: RunSpec) -> RunSpec:
    """Return a new specification that counts trials and seeds as an existing run does, and lacks what that lacks.

    The rule for ending counts from the trial at which the search was extended.
    """
    spec = spec.model_copy(update={"fixed": without_newer(spec, earlier)})
    if isinstance(spec, FinalSpec) and isinstance(earlier, FinalSpec) and set(spec.seeds) == set(earlier.seeds):
        return spec.model_copy(update={"seeds": earlier.seeds})
    if not isinstance(spec, SearchSpec) or not isinstance(earlier, SearchSpec):
        return spec
    kept = {name: getattr(earlier.stop, name) for name in ("since", "least_gain")}
    return spec.model_copy(update={"stop": spec.stop.model_copy(update=kept)})


def _make_atomically(spec: RunSpec, directory: RunDirectory) -> None:
    before = nearest_folder(directory.path.parent)
    unfinished = RunDirectory(directory.path.with_name(f".{directory.name}.{os.getpid()}.tmp"))
    try:
        unfinished.path.mkdir(parents=True, exist_ok=True)
        spec.save(unfinished)
        unfinished.path.rename(directory.path)
    except OSError as error:
        shutil.rmtree(unfinished.path, ignore_errors=True)
        remove_empty(directory.path.parent, before)
        if directory.path.exists():
            raise FileExistsError(directory.path) from None
        raise InputError(f"run directory {directory.path}: cannot be made ({error.strerror})") from error


def _taken(directory: RunDirectory) -> str:
    if not directory.exists():
        return f"{directory.path} exists and is no run; choose another --name, or move it away"
    where = f"a run named {directory.name!r} exists in {directory.path.parent}"
    return f"{where}; choose another --name, or continue it with --resume-if-exists"
