"""Read the specification of a run."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter

from checked_input.schema import read_model
from checked_input.text_files import TextFileError, read_json
from tausearch.runs.directories import RunDirectory
from tausearch.runs.parts.spec import MultiSearchSpec
from tausearch.runs.specs.final import FinalSpec
from tausearch.runs.specs.kinds import AnySpec
from tausearch.runs.specs.search import SearchSpec
from tausearch.runs.storage import Storage, made
from trainables.errors import InputError
from trainables.task_names import NamedTask


def read_spec(directory: RunDirectory) -> AnySpec:
    """Return the specification in a `run.yaml`; raises an `InputError` if it is missing, wrong or another run's."""
    try:
        spec = read_model(directory.spec_file, _spec_of)
    except FileNotFoundError as error:
        storage = Storage(directory.path.parent)
        near = "; the folder of this name is no run" if directory.path.is_dir() else storage.hint_for(directory.name)
        raise InputError(f"no run named {directory.name!r} in {storage.root}{near}") from error
    except TextFileError as error:
        raise InputError(f"{directory.spec_file}: {error}") from error
    if spec.name != directory.name:  # the other files may belong to either run
        raise InputError(
            f"run {directory.name!r}: run.yaml is that of a run named {spec.name!r}; give the folder this name"
        )
    created = made(directory.spec_file) if spec.created is None else spec.created  # runs of 0.1.0 lack it
    return spec.model_copy(update={"tasks": _read_tasks(directory), "created": created})


def finals_of(storage: Storage, search: AnySpec) -> list[FinalSpec]:
    """Return the specifications of the readable final runs whose source is a search, oldest first."""
    specs, _ = storage.read_each(read_spec)
    return [spec for spec in specs if isinstance(spec, FinalSpec) and spec.is_of(search.name, search.id)]


def _spec_of(content: object) -> AnySpec:
    keys = content if isinstance(content, dict) else {}
    if keys.get("purpose") == "final":
        return FinalSpec.model_validate(content)
    return (MultiSearchSpec if "parts" in keys else SearchSpec).model_validate(content)


def _read_tasks(directory: RunDirectory) -> tuple[NamedTask, ...]:
    """Return the tasks of a run by name; a missing or damaged file costs the names alone."""
    try:
        content = read_json(directory.tasks_file)
        return _reader_of_tasks().validate_python(content)
    except (OSError, ValueError):  # of `read_json` and of pydantic
        return ()


@cache
def _reader_of_tasks() -> TypeAdapter[tuple[NamedTask, ...]]:
    return TypeAdapter(tuple[NamedTask, ...])  # takes milliseconds to make, which runs without names are spared
