"""The re-evaluation of a search for people: the candidates' fresh runs, and how sure the choice is."""

from __future__ import annotations

from checked_input.names import counted
from tausearch.runs import Reevaluation, Score


def reevaluated_words(reevaluation: Reevaluation | None) -> str:
    """Return `, re-evaluated 92.60 ± 0.41 %`, with the standard error; empty before the verdict is known."""
    verdict = None if reevaluation is None else reevaluation.verdict
    if reevaluation is None or verdict is None:
        return ""
    if reevaluation.spec.search.aim.by_knee:
        return f", re-evaluated {reevaluation.spec.search.aim.words_of(reevaluation.means(verdict.chosen))}"
    return f", re-evaluated {_with_error(verdict.mean, verdict.error)} {reevaluation.unit}".rstrip()


def reevaluation_progress(reevaluation: Reevaluation) -> str:
    """Say where a re-evaluation stands: how far it is, or by how much the chosen trial is ahead."""
    verdict, race = reevaluation.verdict, reevaluation.race
    if not race.candidates:
        return "none: no finished trial can be chosen"
    fresh = (
        f"{race.rounds} fresh seeds and validation splits" if race.rounds > 1 else "a fresh seed and validation split"
    )
    added = len(race.candidates) > reevaluation.spec.reevaluate.best
    asked = f"the best {len(race.candidates) - added}{' and the start' * added} on {fresh}"
    if not race.over:
        ended = sum(trial.has_ended for trial in reevaluation.counted)
        return f"not yet: {asked}, {counted(ended, 'run')} ended"
    if verdict is None:
        return f"no: a fresh run of each of {asked} did not end, so the highest value is chosen"
    if verdict.second is None:
        return f"trial {verdict.chosen}, the only candidate, {asked}"
    ahead = _with_error(verdict.ahead or 0.0, verdict.ahead_error, "+")
    unit = f" {reevaluation.difference}" if reevaluation.difference else ""
    of_what = " in the score of the knee" if reevaluation.spec.search.aim.by_knee else ""
    together = ", of differences from the spread of all candidates" * (len(race.values) > 2)
    error = "" if verdict.ahead_error is None else f" (± standard error{together})"
    lead = f"{ahead}{unit} ahead of trial {verdict.second}{of_what}{error}"
    return f"trial {verdict.chosen}, of {asked}, {lead}"


def _with_error(value: float, error: float | None, sign: str = "") -> str:
    return Score(value, error, 0).text(sign)
