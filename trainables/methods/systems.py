"""The registration of every method: name, hyperparameters, capabilities, constructor and declarations."""

from __future__ import annotations

from functools import partial
from typing import Any

from trainables.config import LOWER_BOUND, UPPER_BOUND
from trainables.curvature import curvature_called
from trainables.methods import probe, tmc
from trainables.methods.composable import remnants
from trainables.methods.composable.config import own_data_probing, unsuited_probing
from trainables.methods.composable.iel import IELConfig, IELLoRAConfig, IELRule
from trainables.methods.composable.ita import ITAConfig, ITALoRAConfig, ITARule
from trainables.methods.composable.learner import ComposableLearner
from trainables.methods.composable.rule import Rule
from trainables.methods.contract import Capabilities, euler_factor, require_blocks
from trainables.methods.entry import METHODS, MethodEntry, Values
from trainables.methods.inflora import learner as inflora
from trainables.methods.prompts import apt, coda, l2p
from trainables.methods.prompts.frozen import require_open
from trainables.methods.seed import learner as seed
from trainables.methods.sequential import derpp, ewc, finetune, lwf_mc
from trainables.methods.tak import config as tak
from trainables.methods.tak.learner import TAK
from trainables.task_vectors import FullTaskVectors, IA3TaskVectors, LoRATaskVectors, TaskVectors

_COMPOSABLE = Capabilities(composable=True, initial_head=True)
_CURVED = Capabilities(composable=True, initial_head=True, curvature=True)
_EULER = euler_factor("strength * max curvature", "decoupled steps")
_OWN_DATA: dict[str, Any] = {"own_data_defaults": own_data_probing, "unsuited": unsuited_probing}
_NEUTRAL = {"regularise": "all", "formulation": "paper", "heads": "concatenated", "curvature": "diagonal"}
_NO_PROBING: dict[Values, tuple[str, ...]] = {(("epochs_pre", 0),): ("lr_pre",)}
_STARTED = Capabilities(initial_head=True)
_LOCAL = {"cross_entropy": "local"}
_JOINT = Capabilities(joint=True, initial_head=True)
_TWO_MODELS = Capabilities(tasks_to_peak=2, initial_head=True)  # the current model and the last task's
_SIX_TASKS = Capabilities(tasks_to_peak=6)  # five experts by default, then a copy of the trained one
_FISHER = euler_factor("2 lr epsilon max Fisher", "steps of SGD")
_VECTORS = Capabilities(composable=True, whole_classifier=True)
_TAK_NEUTRAL = {"regularise": "all", "references": "past", "head": "frozen"}


def _composable(name: str, config: type, rule: type[Rule], vectors: type[TaskVectors]) -> MethodEntry:
    build = partial(ComposableLearner, rule=rule, vectors=vectors)
    kept = remnants.iel if issubclass(config, IELConfig) else remnants.ita
    strength = "beta" if issubclass(config, IELConfig) else "alpha"
    every = (strength, f"{strength}_cls", f"{strength}_cls_prior")
    idle = {
        **_NO_PROBING,
        (("formulation", "official"), (f"{strength}_cls", 0)): (f"{strength}_cls_prior",),
        (("regularise", "none"),): every,
        (("regularise", "head"),): (strength,),
    }
    more: dict[str, Any] = {**_OWN_DATA, "idle": idle, "remnants": kept}
    more["validate"] = lambda config, scenario: curvature_called(config.curvature)
    return MethodEntry(name, config, _CURVED, build, (_EULER,), _NEUTRAL, **more)


_ENTRIES = (
    _composable("ita-fft", ITAConfig, ITARule, FullTaskVectors),
    _composable("ita-lora", ITALoRAConfig, ITARule, LoRATaskVectors),
    _composable("ita-ia3", ITAConfig, ITARule, IA3TaskVectors),
    _composable("iel-fft", IELConfig, IELRule, FullTaskVectors),
    _composable("iel-lora", IELLoRAConfig, IELRule, LoRATaskVectors),
    _composable("iel-ia3", IELConfig, IELRule, IA3TaskVectors),
    MethodEntry(LOWER_BOUND, probe.ProbeConfig, _STARTED, probe.Probe, idle=_NO_PROBING, **_OWN_DATA),
    MethodEntry("finetune", finetune.FinetuneConfig, _STARTED, finetune.Finetune, neutral_values=_LOCAL),
    MethodEntry(UPPER_BOUND, finetune.FinetuneConfig, _JOINT, finetune.Finetune, neutral_values=_LOCAL),
    MethodEntry("ewc", ewc.EWCConfig, _TWO_MODELS, ewc.EWC, (_FISHER,), _LOCAL, {(("epsilon", 0),): ("gamma",)}),
    MethodEntry("lwf-mc", lwf_mc.LwFMCConfig, _TWO_MODELS, lwf_mc.LwFMC),
    MethodEntry("derpp", derpp.DERppConfig, _STARTED, derpp.DERpp, (), _LOCAL, unsuited=derpp.unsuited),
    MethodEntry("l2p", l2p.L2PConfig, Capabilities(), l2p.build, validate=l2p.validate),
    MethodEntry("coda", coda.CODAConfig, Capabilities(), coda.build, validate=coda.validate),
    MethodEntry("apt", apt.APTConfig, Capabilities(), apt.build, validate=lambda _, given: require_open("apt", given)),
    MethodEntry("inflora", inflora.InfLoRAConfig, Capabilities(), inflora.InfLoRA, validate=inflora.validate),
    MethodEntry("seed", seed.SEEDConfig, _SIX_TASKS, seed.SEED, validate=seed.validate, unsuited=seed.unsuited),
    MethodEntry(
        "tmc",
        tmc.TMCConfig,
        _VECTORS,
        tmc.TMC,
        idle={(("loss", "cross-entropy"),): ("kappa",)},
        validate=lambda config, scenario: require_blocks("tmc", scenario),
        remnants=lambda known: (),
        vectors="Vectors of tmc move a network and classifier that are linearised at theta_0; they are no weights of"
        " the network itself.",
    ),
    MethodEntry(
        "tak",
        tak.TAKConfig,
        _COMPOSABLE,
        TAK,
        neutral_values=_TAK_NEUTRAL,
        idle={**_NO_PROBING, (("regularise", "none"),): ("strength", "affine", "draws")},
        validate=tak.validate,
        **_OWN_DATA,
        remnants=remnants.tak,
        vectors="Vectors of tak move features that are linearised at theta_0; they are no weights of the network"
        " itself. Equal weights 1/n of n vectors stand for their sum times the method's alpha.",
    ),
)
METHODS.update({entry.name: entry for entry in _ENTRIES})
