"""A run goes on, or is trained again, under the protocol that it began with, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tausearch.api import SearchRequest, TrainRequest, plan_search, plan_training, resume
from tausearch.api import continuation as resuming
from tausearch.runs import SearchSpec, Storage, TrialSummary, read_spec
from tausearch.runs.creation import create
from tausearch.studies.best_file import BestFile, choose
from trainables.backbones import EMBEDDED, Backbone, glyph_vit
from trainables.errors import InputError

# What a change of the code, the data or the weights can change under a run. The other fields of a protocol are what a
# run asks for: they are taken from it, and cannot be found to differ.
CHANGES: dict[str, Any] = {"tasks": 4, "epochs": 7, "batch_size": 33, "weights_digest": "0" * 64}


@pytest.fixture
def asked(tmp_path: Path) -> SearchRequest:
    """A search in which nothing that can be asked for is left at its default."""
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(glyph_vit.WEIGHTS.read_bytes())
    return SearchRequest(
        "digits?tasks=3",
        "ita-lora",
        name="s",
        storage=tmp_path / "storage",
        seed=4,
        precision="bf16",
        epochs=2,
        backbone=EMBEDDED,
        weights=weights,
    )


@pytest.fixture
def spec(asked: SearchRequest) -> SearchSpec:
    return plan_search(asked).spec


@pytest.fixture
def storage(asked: SearchRequest, spec: SearchSpec) -> Storage:
    storage = Storage(Path(asked.storage))
    create(spec, storage)
    return storage


def changed(spec: SearchSpec, key: str) -> SearchSpec:
    return spec.model_copy(update={"protocol": spec.protocol.model_copy(update={key: CHANGES[key]})})


def test_what_was_asked_for_is_the_protocol(asked: SearchRequest, spec: SearchSpec) -> None:
    assert spec.protocol.model_dump() == {
        "tasks": 3,
        "epochs": 2,
        "batch_size": 32,
        "split_seed": 4,
        "backbone": EMBEDDED,
        "weights": str(asked.weights),
        "weights_digest": Backbone().digest,
        "precision": "bf16",
        "class_orders": None,
    }
    assert spec.seed == 4 and spec.steps == 3


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[SearchSpec]:
    """The searches that came as far as being run."""
    found: list[SearchSpec] = []
    monkeypatch.setattr(resuming, "run_search", lambda run, *_: found.append(run.spec))
    return found


@pytest.mark.parametrize("key", CHANGES)
def test_a_search_whose_protocol_has_changed_does_not_go_on(
    key: str, spec: SearchSpec, storage: Storage, ran: list[SearchSpec]
) -> None:
    changed(spec, key).save(storage.run("s"))
    with pytest.raises(InputError, match=rf"run 's': protocol.{key} was {CHANGES[key]}, is now \w+"):
        resume("s", storage=storage.root)
    assert not ran and getattr(read_spec(storage.run("s")).protocol, key) == CHANGES[key]


def test_one_whose_protocol_is_what_it_was_goes_on(spec: SearchSpec, storage: Storage, ran: list[SearchSpec]) -> None:
    resume("s", storage=storage.root)
    resume("s", storage=storage.root, trials=spec.trials + 3)
    assert [each.trials for each in ran] == [spec.trials, spec.trials + 3]
    assert all(each.protocol == spec.protocol for each in ran)
    assert read_spec(storage.run("s")).trials == spec.trials + 3
    with pytest.raises(InputError, match=f"--trials {spec.trials}: the search has {spec.trials + 3} trials already"):
        resume("s", storage=storage.root, trials=spec.trials)


def best_of(spec: SearchSpec) -> BestFile:
    hyperparameters = {**{name: 0.1 for name in ("alpha", "alpha_cls", "alpha_cls_prior", "lr")}, "rank": 4}
    return choose(spec, TrialSummary(1, 4, "complete", hyperparameters, [], 90.0), 3)


@pytest.mark.parametrize("key", CHANGES)
def test_a_best_file_whose_protocol_has_changed_is_not_trained(key: str, spec: SearchSpec, storage: Storage) -> None:
    request = TrainRequest(best_of(changed(spec, key)), storage=storage.root)
    with pytest.raises(InputError, match=rf"best file: protocol.{key} is {CHANGES[key]}, but {EMBEDDED} .* has \w+"):
        plan_training(request)


def test_one_whose_protocol_is_what_it_was_is_trained_under_it(spec: SearchSpec, storage: Storage) -> None:
    planned = plan_training(TrainRequest(best_of(spec), storage=storage.root, seeds=(7, 8), set={"lr": 0.2}))
    assert planned.spec.protocol == spec.protocol
    assert (planned.spec.purpose, planned.spec.seeds, planned.spec.trials) == ("final", (7, 8), 2)
    assert planned.spec.fixed["lr"] == 0.2 and planned.spec.fixed["alpha"] == 0.1
    assert (planned.spec.source, planned.spec.tuned_on, planned.spec.overrides) == ("s", spec.benchmark, {"lr": 0.2})


def test_on_another_benchmark_only_theta_0_must_be_the_same(spec: SearchSpec, storage: Storage) -> None:
    there = {"benchmark": "glyphs", "storage": storage.root}
    for key in ("tasks", "epochs", "batch_size"):
        protocol = plan_training(TrainRequest(best_of(changed(spec, key)), **there)).spec.protocol
        assert getattr(protocol, key) != CHANGES[key]  # the benchmark's own
        assert (protocol.split_seed, protocol.precision, protocol.weights) == (4, "bf16", spec.protocol.weights)
    with pytest.raises(InputError, match="protocol.weights_digest"):
        plan_training(TrainRequest(best_of(changed(spec, "weights_digest")), **there))


@pytest.mark.parametrize("key", CHANGES)
def test_nor_does_a_final_run(key: str, spec: SearchSpec, storage: Storage) -> None:
    final = plan_training(TrainRequest(best_of(spec), storage=storage.root, name="f")).spec
    create(changed(final, key), storage)
    with pytest.raises(InputError, match=rf"run 'f': protocol.{key} was {CHANGES[key]}, is now \w+"):
        resume("f", storage=storage.root)
