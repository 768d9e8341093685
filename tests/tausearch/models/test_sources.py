"""Sources of task vectors: which seeds, device and weights count, and which sources go together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tausearch.models import pools
from tausearch.models.sources import VectorSource, about_source
from tausearch.runs import Record, Resources, RunDirectory, SearchSpec
from tests.support.runs.trials import final_spec, make_trial
from trainables.errors import InputError


@pytest.fixture
def source(spec: SearchSpec, tmp_path: Path) -> VectorSource:
    final = final_spec(spec, seeds=(0, 1), trials=2)
    directory = RunDirectory(tmp_path)
    return VectorSource("r", "digits", ("ita-lora",), spec.protocol, (1,), tmp_path, None, final, directory)


def test_a_description_has_the_accuracies_of_the_seeds_with_vectors(source: VectorSource) -> None:
    assert source.directory is not None
    record = Record(source.directory.record)
    for seed in (0, 1):
        trial = make_trial(seed, value=70.0)
        trial.rows[-1].update({f"test/accuracy/task_{task}": 10.0 * task + seed for task in (1, 2, 3)})
        record.write(replace(trial, seed=seed))
    assert about_source(source).accuracies == {1: (11.0, 21.0, 31.0)}


def test_a_run_on_the_cpu_stays_there_and_vectors_without_a_run_go_to_a_gpu(
    source: VectorSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert source.spec is not None
    on_gpu = source.spec.model_copy(update={"resources": Resources(gpus_per_trial=0.5)})
    found = [pools.device_of(replace(source, spec=each)).type for each in (source.spec, on_gpu, None)]
    assert found == ["cpu", "cuda", "cuda"]


def test_the_users_weights_go_before_those_of_the_protocol(
    source: VectorSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def backbone(name: str, weights: Path | None) -> SimpleNamespace:
        shape = SimpleNamespace(parameters=pools.MAX_PARAMETERS + (weights == Path("/large")))
        return SimpleNamespace(name=name, weights=weights, shape=shape, digest=source.protocol.weights_digest)

    monkeypatch.setattr(pools, "Backbone", backbone)
    protocol = source.protocol.model_copy(update={"backbone_weights": "/large"})
    assert pools.backbone_of("r", protocol, "/mine").weights == Path("/mine")
    assert pools.backbone_of("r", protocol, "/large").weights == Path("/large")  # named by the user
    with pytest.raises(InputError, match="more than 400,000,000 are not built for a file"):
        pools.backbone_of("r", protocol)
    assert pools.backbone_of("r", source.protocol).weights is None


@pytest.mark.parametrize(
    ("what", "changes"), [("backbone", {"weights_digest": "a" * 64}), ("precision", {"precision": "bf16"})]
)
def test_a_third_source_must_be_like_the_first(source: VectorSource, what: str, changes: dict[str, str]) -> None:
    other = replace(source, name="other", protocol=source.protocol.model_copy(update=changes))
    pools.require_alike([source, source])
    with pytest.raises(InputError, match=f"other and r cannot be composed: their {what} is"):
        pools.require_alike([source, source, other])
