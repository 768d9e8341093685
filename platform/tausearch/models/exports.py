"""Export of compositions in forms that other libraries read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from checked_input.names import choices
from tausearch.models.cards import write_card
from tausearch.models.descriptions import ModelDescription
from tausearch.models.evaluation import Tick, merging_rule
from tausearch.models.merge_configs import LINEAR, MergeConfig
from tausearch.models.pools import Pools
from tausearch.models.results import CompositionResult, ExportForm
from tausearch.runs import UNFINISHED, is_empty, nearest_folder, remove_empty
from trainables.composition import ReducedPool, VectorPool, adapter, copy_vector, write_vector
from trainables.data import BenchmarkRef, described
from trainables.errors import InputError
from trainables.tensor_files import save_tensors, sealed
from trainables.user_code import changed, digests_of

EXPORT_FORMS: tuple[ExportForm, ...] = get_args(ExportForm)
HEAD_FILE = "head.safetensors"
_TAKEN = "another process has written into it; name another folder"


def chosen_forms(forms: Sequence[str] | None, problems: Mapping[str, str]) -> tuple[ExportForm, ...]:
    """Return the given forms, or all that `problems` does not name; refuse one that is unknown or impossible."""
    for form in forms or ():
        if form not in EXPORT_FORMS:
            raise InputError(f"unknown form {form!r}; {choices(form, EXPORT_FORMS)}")
    for form in forms or ():
        if form in problems:
            raise InputError(f"--forms {form}: {problems[form]}")
    return tuple(form for form in EXPORT_FORMS if (form in forms if forms else form not in problems))


def export(
    folder: Path, forms: Sequence[ExportForm], pools: Pools, result: CompositionResult, written: Tick
) -> dict[str, str]:
    """Write an evaluated composition of every seed to `FOLDER/<form>/seed_<s>`, whole or not at all.

    The folder must be new or empty; see `require_new_folder`. It may be a mount point, so all is written in it. Of two
    exports into one folder the first to end is kept. Each model gets a `model.json` and a card. `written` counts the
    written forms of all seeds.

    Returns:
        Form to its folder.

    Raises:
        InputError: If the folder cannot be written, or the user's code has changed since the composition was evaluated.
    """
    folder = folder.absolute()
    before = nearest_folder(folder)
    description = _description(pools, result)
    rules = {seed: merging_rule(result, seed) for seed in pools.by_seed}
    for name in changed(result.code_digests, digests_of(result.code_digests)):
        raise InputError(f"the code of {name} has changed since {result.label} was tested; compose it again")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=UNFINISHED, dir=folder, ignore_cleanup_errors=True) as unfinished:
            for seed, pool in pools.by_seed.items():
                pools.network.compose(pool, result.weights, pool.head(), rules[seed])
                for form in forms:
                    target = Path(unfinished, form, f"seed_{seed}")
                    _write(form, target, pools, pool, result.weights)
                    if form != "vectors":
                        write_card(target, description.model_copy(update={"form": form}))
                    written(1)
            if "vectors" in forms:
                write_card(Path(unfinished, "vectors"), description)
            if not is_empty(folder):
                raise InputError(f"--export {folder}: {_TAKEN}")
            for form in forms:
                Path(unfinished, form).rename(folder / form)
        for left in folder.glob(f"{UNFINISHED}*"):  # of an export that was killed
            shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        taken = folder.is_dir() and not is_empty(folder)  # the other has removed what this one wrote
        why = _TAKEN if taken else f"cannot be written ({error.strerror})"
        raise InputError(f"--export {folder}: {why}") from error
    finally:
        remove_empty(folder, before)
    return {form: str(folder / form) for form in forms}


def _description(pools: Pools, result: CompositionResult) -> ModelDescription:
    spec, first = pools.benchmark.spec, pools.sources[0]
    return ModelDescription(
        benchmark=result.benchmark if result.removal is None else _unnamed(result.benchmark),
        protocol=first.protocol,
        runs=result.runs,
        methods=tuple(dict.fromkeys(method for source in pools.sources for method in source.methods)),
        class_names=spec.class_names,
        tasks=tuple(map(len, spec.task_classes)),
        task_names=spec.task_names,
        transform=described(pools.benchmark.evaluation[0].transform, pools.backbone.input.size),
        weights=result.weights,
        rule=result.rule,
        rule_parameters=result.rule_parameters,
        test_images=result.test_images,
        images=first.images if result.removal is None else None,
        removal=None if result.removal is None else result.removal.unnamed(),
        accuracies=dict(zip(result.seeds, result.accuracies, strict=True)),
        code_digests=result.code_digests,
    )


def _unnamed(benchmark: str) -> str:
    """Return a benchmark without the names of classes, which an order and explicit tasks put into its reference."""
    ref = BenchmarkRef.parse(benchmark)
    return str(replace(ref, task=None, class_order=None if isinstance(ref.class_order, tuple) else ref.class_order))


def impossible_forms(pools: Pools, merge: MergeConfig) -> dict[str, str]:
    """Return the forms that a composition cannot be exported in, each with the reason."""
    found = {"adapter": problem} if (problem := _no_adapter(pools, merge)) else {}
    if not pools.network.displaces_weights:
        linear = "a model linearised at theta_0 is no set of weights that another library could run"
        found |= {"timm": linear, "models": linear}
    elif pools.backbone.own is not None:
        found["timm"] = "timm has no backbone of that name"
    return found


def _no_adapter(pools: Pools, merge: MergeConfig) -> str | None:
    if merge.rule != LINEAR:
        return f"what the rule {merge.rule} gives has no low rank"
    if not any(merge.weights):
        return "all weights are 0"
    kinds = {vector.parametrisation for pool in pools.by_seed.values() for vector in pool} - {"lora"}
    return f"needs task vectors of LoRA, these are {', '.join(sorted(kinds))}" if kinds else None


def _write_vectors(folder: Path, pool: VectorPool) -> None:
    if isinstance(pool, ReducedPool):  # its vectors are not those of any file
        for vector in pool:
            write_vector(folder, vector, with_adapter=False)
        return
    for task, source in enumerate(pool.folders, start=1):
        copy_vector(source, folder / f"task_{task}", with_adapter=False)


def _write(form: ExportForm, folder: Path, pools: Pools, pool: VectorPool, weights: Sequence[float]) -> None:
    if form == "vectors":
        _write_vectors(folder, pool)
    elif form == "adapter":
        adapter.write_adapter(folder, adapter.concatenated(pool, weights))
        weight, bias = pool.head()
        head = {"head.weight": weight, "head.bias": bias}
        names = json.dumps(pools.benchmark.spec.class_names, ensure_ascii=False)
        save_tensors(folder / HEAD_FILE, head, sealed({"format": "pt", "class_names": names}, head))
    else:
        from trainables.composition import checkpoints  # imports timm

        if form == "models":
            checkpoints.write_models(folder, pools.network, pool)
        else:
            labels, images = pools.benchmark.spec.class_names, pools.benchmark.evaluation[0].transform
            checkpoints.write_timm_folder(folder, pools.backbone, pools.network, pool.head(), labels, images)
