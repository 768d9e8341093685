"""What the best file of a search says of its choice, and whether a final run trains what its search chooses now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checked_input.text_files import TextFileError
from checked_input.yaml_text import read_yaml
from search_spaces import Scalar
from tausearch.runs.directories import RunDirectory
from tausearch.runs.specs.final import FinalSpec
from tausearch.runs.trials import TrialSummary


def choice_remark(directory: RunDirectory, final: FinalSpec) -> str:
    """Return a line that a final run does not train the present choice of its search; empty if it does.

    The choice is read from the search's best file, since all trials take ten times as long. The line is empty, too,
    where this file is gone or cannot be read.
    """
    if final.source is None:
        return ""
    best = _plain_best(RunDirectory(directory.path.parent / final.source))
    if best.get("method") != final.method:
        return ""
    chosen = best.get("hyperparameters")
    return another_choice(final.source) if isinstance(chosen, Mapping) and trains_another(final, chosen) else ""


def whole_choice(directory: RunDirectory, chosen: TrialSummary) -> dict[str, Scalar]:
    """Return the hyperparameters of a chosen trial with the defaults of its method, which the best file alone has.

    Without defaults where this file is gone, cannot be read, or has another trial.
    """
    best = _plain_best(directory)
    selection, whole = best.get("selection"), best.get("hyperparameters")
    of_it = isinstance(selection, Mapping) and selection.get("trial") == chosen.number
    return {**(whole if of_it and isinstance(whole, Mapping) else {}), **chosen.hyperparameters}


def _plain_best(directory: RunDirectory) -> Mapping[str, Any]:
    """Return the plain content of a best file; empty where it is gone or cannot be read."""
    try:
        best = read_yaml(directory.best_file)
    except (TextFileError, OSError):
        return {}
    return best if isinstance(best, Mapping) else {}


def trains_another(final: FinalSpec, chosen: Mapping[str, Scalar]) -> bool:
    """Whether a final run has other hyperparameters than the chosen ones, those apart that it overrides."""
    # One of an earlier version may lack some.
    return any(final.fixed.get(name, value) != value for name, value in chosen.items() if name not in final.overrides)


def another_choice(search: str) -> str:
    """Return what is said of a final run whose search now chooses another configuration."""
    return f"does not train what search {search!r} chooses now"
