"""Export of compositions in forms that other libraries read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from tausearch.models.cards import write_card
from tausearch.models.descriptions import LINEAR, About
from tausearch.models.evaluation import Rule, Tick
from tausearch.models.merge_weights import MergeWeights
from tausearch.models.pools import Pools
from tausearch.models.results import CompositionResult, Form
from trainables.composition import VectorPool, copy_vector
from trainables.data import described
from trainables.errors import InputError
from trainables.tensor_files import save_tensors, sealed

FORMS: tuple[Form, ...] = get_args(Form)
HEAD_FILE = "head.safetensors"


def chosen_forms(
    wanted: Sequence[str] | None, pools: Pools, merge_weights: MergeWeights, rule: Rule
) -> tuple[Form, ...]:
    """Return the forms to write: the wanted ones, or all possible ones.

    Raises:
        InputError: If a wanted form is unknown, or impossible for this composition.
    """
    unknown = [form for form in wanted or () if form not in FORMS]
    if unknown:
        raise InputError(f"unknown form {unknown[0]!r}; allowed: {', '.join(FORMS)}")
    problems = _problems(pools, merge_weights, rule)
    for form in wanted or ():
        if form in problems:
            raise InputError(f"--form {form}: {problems[form]}")
    return tuple(form for form in FORMS if (form in wanted if wanted else form not in problems))


def export(
    folder: Path,
    forms: Sequence[Form],
    pools: Pools,
    merge_weights: MergeWeights,
    rule: Rule,
    result: CompositionResult,
    written: Tick,
) -> dict[str, str]:
    """Write a composition of every seed to `FOLDER/<form>/seed_<s>`, whole or not at all.

    The folder must be new or empty; see `require_new_folder`. Each model gets a `model.json` and a card. `written`
    counts the written forms of all seeds.

    Returns:
        Form to its folder.

    Raises:
        InputError: If the folder cannot be written.
    """
    folder = folder.absolute()
    unfinished = folder.with_name(f".{folder.name}.tmp")
    about = _about(pools, merge_weights, rule, result)
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        for seed, pool in pools.by_seed.items():
            pools.network.compose(pool, merge_weights.weights, pool.head(), rule.of_seed(seed))
            for form in forms:
                target = unfinished / form / f"seed_{seed}"
                _WRITERS[form](target, pools, pool, merge_weights)
                if form != "vectors":
                    write_card(target, about.model_copy(update={"form": form}))
                written(1)
        if "vectors" in forms:
            write_card(unfinished / "vectors", about)
        unfinished.replace(folder)
    except OSError as error:
        raise InputError(f"--export {folder}: cannot be written ({error.strerror})") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return {form: str(folder / form) for form in forms}


def _about(pools: Pools, merge_weights: MergeWeights, rule: Rule, result: CompositionResult) -> About:
    spec, first = pools.benchmark.spec, pools.sources[0]
    return About(
        benchmark=first.benchmark,
        protocol=first.protocol,
        runs=tuple(source.text for source in pools.sources),
        methods=tuple(dict.fromkeys(method for source in pools.sources for method in source.methods)),
        class_names=spec.class_names,
        tasks=tuple(map(len, spec.task_classes)),
        transform=described(pools.benchmark.evaluation[0].transform, pools.backbone.input.size),
        weights=merge_weights.weights,
        rule=rule.name,
        density=None if rule.name == LINEAR else rule.density,
        accuracies=dict(zip(result.seeds, result.accuracies, strict=True)),
    )


def _problems(pools: Pools, merge_weights: MergeWeights, rule: Rule) -> dict[str, str]:
    """Return the impossible forms of a composition with the reasons."""
    found = {"adapter": problem} if (problem := _no_adapter(pools, merge_weights, rule)) else {}
    if not pools.network.displaces_weights:
        linear = "a model linearised at theta_0 is no set of weights that another library could run"
        found |= {"timm": linear, "models": linear}
    return found


def _no_adapter(pools: Pools, merge_weights: MergeWeights, rule: Rule) -> str | None:
    """Return the reason why a composition is no LoRA adapter; None for an adapter."""
    if rule.name != LINEAR:
        return f"what the rule {rule.name} gives has no low rank"
    if not any(merge_weights.weights):
        return "all weights are 0"
    kinds = {vector.parametrisation for pool in pools.by_seed.values() for vector in pool} - {"lora"}
    return f"needs task vectors of LoRA, these are {', '.join(sorted(kinds))}" if kinds else None


def _adapter(folder: Path, pools: Pools, pool: VectorPool, merge_weights: MergeWeights) -> None:
    from trainables.composition.adapter import concatenated, write_adapter

    write_adapter(folder, concatenated(pool, merge_weights.weights))
    weight, bias = pool.head()
    head = {"head.weight": weight, "head.bias": bias}
    save_tensors(folder / HEAD_FILE, head, sealed({"format": "pt"}, head))


def _timm(folder: Path, pools: Pools, pool: VectorPool, merge_weights: MergeWeights) -> None:
    from trainables.composition.checkpoints import write_timm_folder  # imports timm

    labels, images = pools.benchmark.spec.class_names, pools.benchmark.evaluation[0].transform
    write_timm_folder(folder, pools.backbone, pools.network, pool.head(), labels, images)


def _models(folder: Path, pools: Pools, pool: VectorPool, merge_weights: MergeWeights) -> None:
    from trainables.composition.checkpoints import write_models  # imports timm

    write_models(folder, pools.network, pool)


def _vectors(folder: Path, pools: Pools, pool: VectorPool, merge_weights: MergeWeights) -> None:
    for task, source in enumerate(pool.folders, start=1):
        copy_vector(source, folder / f"task_{task}", with_adapter=False)


_WRITERS: dict[Form, Callable[[Path, Pools, VectorPool, MergeWeights], None]] = {
    "adapter": _adapter,
    "timm": _timm,
    "models": _models,
    "vectors": _vectors,
}
