"""Compositions as versions of MLflow's registered models: made when asked for, and made again by `sync`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tausearch.api.pooling import open_pools
from tausearch.api.requests import EditRequest
from tausearch.composing import CompositionResult, Form, Pools, Rule, Weighing, export, read_compositions, register
from tausearch.runs import RunDirectory, RunSpec, Storage
from tausearch.screen import LongWork
from tausearch.tracking import Version, is_registered, register_model


def loadable(forms: Sequence[Form]) -> tuple[Form, ...]:
    """Return the form that is registered where none was named: whole networks, or vectors where there are none."""
    return ("timm" if "timm" in forms else "vectors",)


def register_composed(
    spec: RunSpec, directory: RunDirectory, storage: Storage, pools: Pools, result: CompositionResult
) -> Version:
    """Export what was composed in the forms that `result.registered` names, and register it.

    Returns:
        The version.

    Raises:
        InputError: If it cannot be exported, or MLflow cannot be written.
    """
    with _exported(pools, result) as folder:
        return register(spec, directory, storage, result, folder)


def register_again(spec: RunSpec, directory: RunDirectory, storage: Storage) -> None:
    """Register what the run's files say was registered and MLflow lacks; may raise whatever MLflow raises.

    It is composed anew, from the same task vectors with the same weights.

    Raises:
        InputError: If task vectors, images or the backbone are no longer where they were.
    """
    for result in read_compositions(directory):
        if result.registered and not is_registered(spec, storage, result.label):
            pools = open_pools(storage, result.runs, EditRequest(result.runs, seeds=result.seeds))
            with _exported(pools, result) as folder:
                register_model(spec, storage, result.label, folder)


@contextmanager
def _exported(pools: Pools, result: CompositionResult) -> Iterator[Path]:
    """Yield a folder with what was composed, for as long as the block runs."""
    forms, weighing = result.registered or (), Weighing(result.label, result.weights)
    rule = Rule(result.rule) if result.density is None else Rule(result.rule, result.density)
    with LongWork() as work, TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        export(model, forms, pools, weighing, rule, result, work.start("register", len(forms) * len(pools.by_seed)))
        yield model
