"""The trials of a rule search that is under way, on disk, so that a search that was killed goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from checked_input.text_files import read_json
from tausearch.models.merge_configs import MergeConfig
from tausearch.models.pools import Pools
from tausearch.models.rule_search.results import RuleTrial
from tausearch.runs import replace_text
from trainables.composition.chosen_rules import rule_called
from trainables.preconsolidation.preparation import code_of

_FOLDER = "searches"  # in that of compositions
_TRIALS = TypeAdapter(list[RuleTrial])


class RuleTrialCache:
    """Evaluated trials, found by the values of the parameters. Without a file they are in memory alone."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.known = [] if file is None else _read(file)

    def find(self, parameters: Mapping[str, float]) -> RuleTrial | None:
        """Return the trial of these values; None if there is none yet."""
        return next((each for each in self.known if each.parameters == dict(parameters)), None)

    def add(self, trial: RuleTrial) -> None:
        """Keep a trial."""
        self.known.append(trial)
        if self.file is not None:
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                replace_text(self.file, json.dumps([each.model_dump() for each in self.known]) + "\n")
            except OSError:  # who may only read searches, too; a kill then costs the trials
                self.file = None

    def close(self) -> None:
        """Remove the file: the saved result of the search has all of it."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)
            with suppress(OSError):  # another search may have a file there
                self.file.parent.rmdir()


def open_trial_cache(pools: Pools, merge: MergeConfig) -> RuleTrialCache:
    """Return the cached trials of a rule on these vectors with these weights, which all searches of it share.

    Only the vectors of final runs have a place for the file. Its name depends on all that an evaluation does.
    """
    directory = pools.sources[0].directory
    ids = [source.spec.id for source in pools.sources if source.spec is not None]
    if directory is None or len(ids) < len(pools.sources):
        return RuleTrialCache(None)
    depends: dict[str, Any] = {
        "runs": [[source.text, each] for source, each in zip(pools.sources, ids, strict=True)],
        "seeds": list(pools.by_seed),
        "weights": merge.weights,
        "rule": [merge.rule, code_of(type(rule_called(merge.rule)))],
        "version": version("tausearch"),
    }
    digest = hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:16]
    return RuleTrialCache(directory.compositions / _FOLDER / f"{digest}.json")


def _read(file: Path) -> list[RuleTrial]:
    try:
        return _TRIALS.validate_python(read_json(file))
    except (OSError, ValueError):  # missing, or damaged: evaluated anew
        return []
