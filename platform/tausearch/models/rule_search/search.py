"""The search for the parameters of a merging rule: proposed by Optuna, judged by validation images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress

from tausearch.models.evaluation import Tick, accuracies_of, merging_rule
from tausearch.models.merge_configs import LINEAR, MergeConfig
from tausearch.models.pools import Pools
from tausearch.models.rule_search.results import RuleSearch, RuleTrial
from tausearch.models.rule_search.study import ParameterStudy
from tausearch.models.rule_search.trial_cache import open_trial_cache
from trainables.composition import Parameter, choose_rule
from trainables.composition.builtin_rules import RULES
from trainables.composition.chosen_rules import rule_called
from trainables.errors import InputError
from trainables.metrics import average_accuracy
from trainables.process import threads


@dataclass(frozen=True)
class RuleSpace:
    """What a search for the parameters of a rule tries; see `rule_space`."""

    rule: str
    searched: Mapping[str, Parameter]
    given: Mapping[str, float]
    trials: int
    seed: int


def rule_space(rule: str, given: Mapping[str, float], trials: int, seed: int) -> RuleSpace:
    """Return what to search: all parameters of a rule without a given value; refuse a rule that leaves none."""
    declared = rule_called(rule).parameters
    searched = {name: each for name, each in declared.items() if name not in given}
    if not searched:
        others = ", ".join(name for name, each in RULES.items() if each().parameters)
        why = (
            f"--set or --density gives {', '.join(declared)}; leave out one, or --search"
            if declared
            else f"it has no parameters; --weights sets its weights. Rules that have some (--rule): {others}"
        )
        raise InputError(f"--search: nothing to search of the rule {rule!r}: {why}")
    return RuleSpace(rule, searched, given, trials, seed)


def search_rule(
    pools: Pools, linear_merge: MergeConfig, space: RuleSpace, tick: Tick
) -> tuple[MergeConfig, RuleSearch]:
    """Return the weights with a rule and the values of its parameters that were the most accurate, and the search.

    Values are judged on the images of `pools`, validation images here, by the mean over seeds and tasks of positive
    weight. The same seed gives the same values. A search that was killed goes on where it was: `open_trial_cache` has
    its trials until the caller has saved the result. `tick` counts the evaluated tasks. A rule that fails is an error.
    """
    study, trials = ParameterStudy(space.searched, space.seed), list[RuleTrial]()
    first = linear_merge.merged_by(space.rule, {})
    cache = open_trial_cache(pools, first)
    with threads(pools.threads):
        for number in range(space.trials):
            asked, values = study.ask(number)
            parameters = dict(choose_rule(space.rule, {**space.given, **values}).parameters)
            if (found := cache.find(parameters)) is not None:
                tick(pools.tasks * len(pools.by_seed))
            else:
                accuracies = _accuracies(pools, linear_merge, space.rule, parameters, tick)
                cache.add(found := RuleTrial(parameters=parameters, accuracies=accuracies))
            trials.append(found)
            study.tell(asked, found.score.mean)
        plain = _accuracies(pools, linear_merge, LINEAR, {}, tick)
    chosen = max(range(len(trials)), key=lambda number: trials[number].score.mean)  # of equals the earlier one
    merge = linear_merge.merged_by(space.rule, trials[chosen].parameters)
    images = sum(len(each) for each, w in zip(pools.benchmark.evaluation, linear_merge.weights, strict=True) if w > 0)
    return replace(merge, label=f"{merge.label}-searched"), RuleSearch(
        seed=space.seed,
        searched=tuple(space.searched),
        images=images,
        trials=tuple(trials),
        chosen=chosen,
        plain_sum=plain,
    )


def _accuracies(
    pools: Pools, linear_merge: MergeConfig, rule: str, parameters: Mapping[str, float], tick: Tick
) -> tuple[float, ...]:
    """Return the mean accuracy of each seed over the tasks of positive weight, percent."""
    merge = linear_merge.merged_by(rule, parameters)
    try:
        rows = [
            accuracies_of(pools, pool, pool.head(), merge.weights, merging_rule(merge, seed), tick)
            for seed, pool in pools.by_seed.items()
        ]
    except InputError as error:
        at = ", ".join(f"{name} {value:g}" for name, value in parameters.items())
        raise InputError(f"--search: {error}" + (f" (with {at})" if at else "")) from error
    counts = [weight > 0 for weight in merge.weights]
    return tuple(average_accuracy(list(compress(row, counts))) for row in rows)
