"""The weighted sum, and the merging rules of peft: TIES, magnitude pruning, DARE, and DARE with TIES.

Sources: `peft.utils.merge_utils`; TIES, Yadav et al. 2023, https://arxiv.org/abs/2306.01708; DARE, Yu et al. 2023,
https://arxiv.org/abs/2311.03099. peft prunes each weight separately, not the whole task vector.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from trainables.composition.curvature_rules import Fisher, RegMean
from trainables.composition.rules import Merging, MergingRule, Parameter


class Linear:
    """The weighted sum; `merging.weighted_sum` has one task vector in memory at a time."""

    parameters: ClassVar[Mapping[str, Parameter]] = {}

    def merge(self, merging: Merging) -> dict[str, Tensor]:
        """Return sum_t w_t tau_t of each tuned weight, `(out, in)`."""
        pairs = list(zip(merging.taus, merging.weights, strict=True))
        return {name: torch.stack([w * tau[name] for tau, w in pairs]).sum(0) for name in merging.names}


class _PeftRule:
    """A rule of peft; each weight by itself.

    A negative weight negates its tau before signs are elected. With density 1 every rule is the weighted sum where all
    entries have one sign. A rule that averages counts the entries, and not their weights: an entry of one tau alone is
    n w tau.
    """

    # TIES keeps a fifth in its paper.
    parameters: ClassVar[Mapping[str, Parameter]] = {"density": Parameter(0.2, low=0, high=1, low_excluded=True)}
    function: ClassVar[str]  # of peft
    averages: ClassVar[bool] = False  # whether it divides its sum by the number of entries with the elected sign

    def merge(self, merging: Merging) -> dict[str, Tensor]:
        """Return the merged tau of each tuned weight, `(out, in)`."""
        from peft.utils import merge_utils  # takes more than a second to import

        rule, density = getattr(merge_utils, self.function), merging.parameters["density"]
        # Cancels peft's division by the number of terms: the weights average already.
        factor, found = len(merging.weights) if self.averages else 1, {}
        for name in merging.names:
            signed = [-tau[name] if w < 0 else tau[name] for tau, w in zip(merging.taus, merging.weights, strict=True)]
            sizes = torch.tensor([factor * abs(weight) for weight in merging.weights], dtype=signed[0].dtype)
            with torch.random.fork_rng(devices=[]), warnings.catch_warnings():  # peft draws from the global generator
                torch.set_rng_state(merging.generator(name).get_state())
                warnings.simplefilter("ignore")  # density 1 prunes nothing
                found[name] = rule(signed, sizes, density)
        return found


class Ties(_PeftRule):
    """Keep the largest entries of each tau, drop entries without the elected sign, and average the others."""

    function = "ties"
    averages = True


class Magnitude(_PeftRule):
    """Keep the largest entries of each tau."""

    function = "magnitude_prune"


class Dare(_PeftRule):
    """Keep random entries of each tau, and scale them up."""

    function = "dare_linear"


class DareTies(_PeftRule):
    """Keep random entries of each tau, scaled up; drop those without the elected sign, and average the others."""

    function = "dare_ties"
    averages = True


RULES: dict[str, type[MergingRule]] = {
    "linear": Linear,
    "ties": Ties,
    "magnitude": Magnitude,
    "dare": Dare,
    "dare-ties": DareTies,
    "fisher": Fisher,
    "regmean": RegMean,
}
