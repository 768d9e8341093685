"""What the best file of a search says of its choice, and whether a final run trains what its search chooses now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checked_input.text_files import TextFileError
from checked_input.yaml_text import read_yaml
from search_spaces import Scalar
from tausearch.runs.directories import RunDirectory
from tausearch.runs.parts.reading import read_spec
from tausearch.runs.specs.final import FinalSpec
from tausearch.runs.specs.run import RunSpec
from tausearch.runs.storage import Storage
from tausearch.runs.trials import TrialSummary
from trainables.errors import InputError


def choice_remark(directory: RunDirectory, final: FinalSpec) -> str:
    """Return a line that a final run does not train the present choice of its search; empty if it does.

    The choice is read from the search's best file, since all trials take ten times as long. The line is empty, too,
    where this file is gone or cannot be read.
    """
    search = search_of(Storage(directory.path.parent), final)
    best = {} if search is None else _plain(search.best_file)
    if search is None or best.get("method") != final.method:
        return ""
    chosen = best.get("hyperparameters")
    return another_choice(search.name) if isinstance(chosen, Mapping) and trains_another(final, chosen) else ""


def search_of(storage: Storage, final: FinalSpec) -> RunDirectory | None:
    """Return the search that has chosen the configuration of a final run; None where it is not in the storage.

    Another search may have its name: the search was in another storage, or was deleted.
    """
    if final.source is None or not storage.run_exists(final.source):
        return None
    directory = storage.run(final.source)
    return directory if final.is_of(final.source, _plain(directory.spec_file).get("id", "")) else None


def unreadable_finals_of(storage: Storage, search: RunSpec) -> list[InputError]:
    """Return why runs cannot be read that may be final runs of a search; one that is surely another run is left out."""

    def read(directory: RunDirectory) -> None:
        try:
            read_spec(directory)
        except InputError:
            content = _plain(directory.spec_file)
            if content.get("purpose", "final") == "final" and content.get("source", search.name) == search.name:
                raise

    return storage.read_each(read)[1]


def whole_choice(directory: RunDirectory, chosen: TrialSummary) -> dict[str, Scalar]:
    """Return the hyperparameters of a chosen trial with the defaults of its method, which the best file alone has.

    Without defaults where this file is gone, cannot be read, or has another trial.
    """
    best = _plain(directory.best_file)
    selection, whole = best.get("selection"), best.get("hyperparameters")
    of_it = isinstance(selection, Mapping) and selection.get("trial") == chosen.number
    return {**(whole if of_it and isinstance(whole, Mapping) else {}), **chosen.hyperparameters}


def _plain(file: Path) -> Mapping[str, Any]:
    """Return the plain content of a YAML file; empty where it is gone or cannot be read."""
    try:
        content = read_yaml(file)
    except (TextFileError, OSError):
        return {}
    return content if isinstance(content, Mapping) else {}


def trains_another(final: FinalSpec, chosen: Mapping[str, Scalar]) -> bool:
    """Whether a final run has other hyperparameters than the chosen ones, those apart that it overrides."""
    # One of an earlier version may lack some.
    return any(final.fixed.get(name, value) != value for name, value in chosen.items() if name not in final.overrides)


def another_choice(search: str) -> str:
    """Return what is said of a final run whose search now chooses another configuration."""
    return f"does not train what search {search!r} chooses now"
