"""Draw what is killed in a round, and when, from the seed and the number of the round."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["search", "final run", "campaign", "early-stopping search"]
Target = Literal["driver", "all processes", "worker", "raylet", "tracking server"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TARGETS: tuple[Target, ...] = get_args(Target)
ENDS_THE_DRIVER: frozenset[Target] = frozenset(("driver", "all processes", "raylet"))
_WEIGHTS = {"driver": 4, "all processes": 2, "worker": 3, "raylet": 2, "tracking server": 1}
_STRIKES = 6  # in a round
_MOST_WORKERS = 2  # one after the other: a trial whose process has died three times has failed
_FIRST_STARTING, _STARTING = 0.4, 0.15  # share of kills that fall while a driver starts: the first of a round, others


@dataclass(frozen=True)
class Strike:
    """One kill."""

    target: Target  # what is killed
    share: float | None  # share of the round's tasks after which it is; None while the driver starts
    delay: float  # seconds after that moment, or after the driver's process was started


@dataclass(frozen=True)
class RoundPlan:
    """What is done to one run."""

    number: int  # the number of the round
    kind: Kind  # what is run
    strikes: tuple[Strike, ...]  # the kills, in order

    @property
    def needs_server(self) -> bool:
        """Whether the run is tracked on a server that can be killed."""
        return any(strike.target == "tracking server" for strike in self.strikes)


def plan_round(seed: int, number: int) -> RoundPlan:
    """Return what is done in a round; the kinds take turns, so that a campaign is every fourth."""
    dice = random.Random(f"{seed}/{number}")
    shares = sorted(dice.uniform(0.02, 1.0) for _ in range(_STRIKES))
    targets: list[Target] = []
    for _ in range(_STRIKES):
        allowed = [
            each for each in TARGETS if each != "worker" or targets[-_MOST_WORKERS:] != ["worker"] * _MOST_WORKERS
        ]
        targets += dice.choices(allowed, [_WEIGHTS[each] for each in allowed])
    strikes = [_strike(dice, *each) for each in zip(range(_STRIKES), targets, shares, strict=True)]
    return RoundPlan(number, KINDS[number % len(KINDS)], tuple(strikes))


def _strike(dice: random.Random, place: int, target: Target, share: float) -> Strike:
    starting = dice.random() < (_STARTING if place else _FIRST_STARTING)
    if starting and target in ENDS_THE_DRIVER:
        return Strike(target, None, dice.uniform(0, 10))
    return Strike(target, share, dice.choice([0.0, dice.uniform(0, 0.5)]))
