"""What a trial is told of its run: everything that its numbers depend on, and where it may write."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from tausearch.runs import (
    DataFacts,
    Reevaluate,
    ReevaluationSpec,
    Resources,
    RunDirectory,
    RunSpec,
    SearchSpec,
    protocol_of,
    read_spec,
    shown_benchmark,
)
from tests.support.runs.trials import final_spec
from trainables.backbones import Backbone
from trainables.backbones.initial_head import rows_digest
from trainables.data import BenchmarkSpec
from trainables.errors import InputError
from trainables.task_names import NamedTask


@pytest.fixture
def asked(spec: SearchSpec) -> SearchSpec:
    """A run in which nothing is left at its default."""
    protocol = spec.protocol.model_copy(update={"split_seed": 4, "backbone_weights": "/w/theta_0", "precision": "bf16"})
    changes = {
        "protocol": protocol,
        "resources": Resources(cpus_per_trial=3, gpus_per_trial=0.25),
        "seed": 9,
        "fixed": {"lr_pre": 0.1, "alpha": 1.0},
        "data_root": "/data",
        "cache_size": 2.5,
        "data": DataFacts(digest="0", train=90, evaluation=10),
    }
    return spec.model_copy(update=changes)


def test_a_trial_of_a_search_is_told_all_of_it(asked: SearchSpec, tmp_path: Path) -> None:
    config = asked.trial_config(
        7, {"alpha": 2.0, "lr": 0.03}, cache=tmp_path / "cache", directory=RunDirectory(tmp_path)
    )
    assert asdict(config) == {
        "run": "digits-ita-lora-1",
        "trial": 7,
        "benchmark": "digits",
        "purpose": "search",
        "split_seed": 4,
        "images": (90, 10),
        "method": "ita-lora",
        "hyperparameters": {"lr_pre": 0.1, "alpha": 2.0, "lr": 0.03},
        "seed": 9,
        "backbone": "glyph_vit",
        "backbone_weights": "/w/theta_0",
        "initial_head": None,
        "precision": "bf16",
        "gpus_per_trial": 0.25,
        "data_root": "/data",
        "code": {},
        "cpus_per_trial": 3,
        "cache": str(tmp_path / "cache"),
        "cache_bytes": 2_500_000_000,
        "artifacts": None,
        "checkpoints": str(tmp_path / "state" / "trial-00007"),
        "tasks_done": 0,
        "removability": False,
        "save_curvature": False,
    }


def test_a_trial_of_a_final_run_has_a_seed_of_its_own_and_leaves_task_vectors(
    asked: SearchSpec, tmp_path: Path
) -> None:
    final = final_spec(asked, trials=2, seeds=(5, 8))
    configs = [final.trial_config(number, {}, cache=None, directory=RunDirectory(tmp_path)) for number in (0, 1)]
    assert [config.seed for config in configs] == [5, 8] and all(config.purpose == "final" for config in configs)
    assert [Path(config.artifacts or "").name for config in configs] == ["seed_5", "seed_8"]
    assert final.metrics.final_accuracy == "test/final_accuracy"


def test_a_trial_may_do_without_cache_and_directory(asked: SearchSpec, tmp_path: Path) -> None:
    bare = asked.trial_config(0, {}, cache=None)
    assert (bare.cache, bare.artifacts, bare.checkpoints) == (None, None, None)
    none = asked.model_copy(update={"cache_size": 0})
    assert none.trial_config(0, {}, cache=tmp_path).cache is None


def test_a_specification_is_read_as_it_was_written(asked: SearchSpec, tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / asked.name)
    directory.path.mkdir()
    asked.save(directory)
    assert read_spec(directory).model_copy(update={"created": None}) == asked
    other = RunDirectory(tmp_path / "other")
    directory.path.rename(other.path)
    with pytest.raises(InputError, match=f"run 'other': run.yaml is that of a run named '{asked.name}'"):
        read_spec(other)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("digits?tasks=2", "digits?tasks=2"),
        ("folder:/data/my birds/cub?tasks=a/b", "folder:cub?tasks=a/b"),  # the last folder, and the options as they are
        ("parquet:birds?tasks=3", "parquet:birds?tasks=3"),
        ("parquet:../a/b, folder:/c/d", "parquet:b, folder:d"),
        ("ita on folder:/a/b and c", "ita on folder:b and c"),
        ("x" * 100, "x" * 100),
        ("ab" + "x" * 99, "ab" + "x" * 97 + "…"),
    ],
)
def test_a_benchmark_is_shown_without_its_path_and_its_end_is_cut(text: str, shown: str) -> None:
    assert shown_benchmark(text) == shown


def test_code_is_found_whatever_the_options_of_a_benchmark(spec: SearchSpec) -> None:
    own = spec.model_copy(update={"benchmark": "mine:Source?size=2"})
    assert own.user_code_names[0] == "mine:Source" and own.code == ("mine:Source",)
    asks = spec.model_copy(update={"algorithm": "mine:sampler", "scheduler": "mine:pruner"})
    assert asks.code == ("mine:sampler", "mine:pruner")


def test_a_value_of_nought_is_one(spec: SearchSpec) -> None:
    assert [spec.value_text(value) for value in (0.0, None)] == ["0.00 %", "-"]


def test_an_initial_head_is_the_same_in_all_class_orders_and_a_network_of_the_users_is_tried() -> None:
    asked: list[object] = []

    class Own:
        own, name, weights, head, digest = object(), "m:Own", None, None, "0"

        @property
        def shape(self) -> None:
            asked.append("shape")

        def initial_head(self, names: list[str]) -> None:
            asked.append(names)

    images = SimpleNamespace(class_names=("b", "a"), num_tasks=1, epochs=1, batch_size=8)
    protocol = protocol_of(cast(BenchmarkSpec, images), 0, cast(Backbone, Own()))
    assert asked == ["shape", ["a", "b"]]
    assert (protocol.weights_digest, protocol.initial_head_digest) == ("0", None)


def test_the_digest_of_an_initial_head_is_that_of_its_rows() -> None:
    rows = torch.eye(2)
    own = SimpleNamespace(
        own=None, name="m", weights=None, head=Path("head"), digest="0", initial_head=lambda names: rows
    )
    images = SimpleNamespace(class_names=("b", "a"), num_tasks=1, epochs=1, batch_size=8)
    protocol = protocol_of(cast(BenchmarkSpec, images), 0, cast(Backbone, own))
    assert (protocol.weights_digest, protocol.initial_head_digest) == ("0", rows_digest(rows))


def test_a_trial_of_a_class_order_is_called_trial_and_a_seed_seed(spec: SearchSpec) -> None:
    ordered = final_spec(
        spec, protocol=spec.protocol.model_copy(update={"class_orders": (0, 8)}), trials=4, seeds=(0, 1)
    )
    assert (spec.trial_noun, final_spec(spec).trial_noun, ordered.trial_noun) == ("trial", "seed", "trial")
    assert [ordered.class_order(number) for number in range(4)] == [0, 0, 8, 8]
    assert (final_spec(spec).label(0), ordered.label(3)) == ("seed 0", "seed 1 (class order 8)")
    assert [ordered.trial_config(number, {}, cache=None).benchmark[-13:] for number in (0, 3)] == [
        "class_order=0",
        "class_order=8",
    ]


def test_a_step_of_a_joint_method_is_no_task(spec: SearchSpec) -> None:
    tasks = tuple(NamedTask(classes=(each,), name=each) for each in "abc")
    named, joint = (spec.model_copy(update={"tasks": tasks, "steps": steps}) for steps in (3, 1))
    assert (named.reached(0), named.reached(1), joint.reached(1)) == (
        "in the first task",
        "after task 1: a",
        "after task 1",
    )


def test_a_kind_of_run_that_does_not_say_its_seeds_has_none() -> None:
    class Kind(RunSpec):
        """A kind of run without seeds."""

    with pytest.raises(NotImplementedError):
        Kind.model_construct().seed_of(7)


def test_a_trial_is_told_where_its_head_starts_its_curvature_and_its_own_split(spec: SearchSpec) -> None:
    protocol = spec.protocol.model_copy(update={"initial_head": "/h"})
    found = final_spec(spec, protocol=protocol, save_curvature=True).trial_config(0, {}, cache=None)
    assert (found.initial_head, found.save_curvature) == ("/h", True)
    again = ReevaluationSpec.of(spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=1)}))
    fresh = again.trial_config(0, {}, cache=None)
    assert (fresh.seed, fresh.split_seed) == (1, 1)
