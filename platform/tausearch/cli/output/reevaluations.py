"""The re-evaluation of a search for people: who ran again, on what, what came of it, and how sure the choice is."""

from __future__ import annotations

from rich.console import Console

from tausearch.presentation import counted, reevaluation_table, terminal_table
from tausearch.runs import Reevaluation


def with_error(value: float, error: float | None, sign: str = "") -> str:
    """Return `92.60 ± 0.41`, the standard error after the sign; the value alone if there is none."""
    return f"{value:{sign}.2f}" + ("" if error is None else f" ± {error:.2f}")


def reevaluated_words(reevaluation: Reevaluation | None) -> str:
    """Return `, re-evaluated 92.60 ± 0.41 %`; empty before that is known."""
    verdict = None if reevaluation is None else reevaluation.verdict
    return "" if verdict is None else f", re-evaluated {with_error(verdict.mean, verdict.error)} %"


def show_reevaluation(out: Console, reevaluation: Reevaluation, indent: int) -> None:
    """Print how sure the choice is, and the fresh runs of every candidate."""
    out.print(f"{'reevaluated':<{indent}}{standing_words(reevaluation)}", soft_wrap=True)
    if reevaluation.runs:
        out.print(terminal_table(reevaluation_table(reevaluation)))


def standing_words(reevaluation: Reevaluation) -> str:
    """Say where a re-evaluation stands: how far it is, or by how much the chosen trial is ahead."""
    verdict, race = reevaluation.verdict, reevaluation.race
    asked = f"the best {len(race.candidates)} on {race.rounds} fresh seeds and validation splits"
    if not race.over or not race.candidates:
        ended = sum(run.status not in ("running", "pending") for run in reevaluation.runs)
        return f"not yet: {asked}, {counted(ended, 'run')} ended"
    if verdict is None:
        return f"no: a fresh run of each of {asked} did not end, so the highest value is chosen"
    if verdict.second is None:
        return f"trial {verdict.chosen}, the only candidate, {asked}"
    ahead = with_error(verdict.ahead or 0.0, verdict.ahead_error, "+")
    return f"trial {verdict.chosen}, of {asked}, {ahead} points ahead of trial {verdict.second} (± standard error)"
