"""The pre-consolidation store: computed once, whole or not at all, read again after damage."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from trainables.preconsolidation.store import Store, digest


def test_computes_once_and_returns_the_same(tmp_path: Path) -> None:
    calls = []

    def compute() -> dict[str, Tensor]:
        calls.append(1)
        return {"x": torch.arange(4.0), "n": torch.tensor(3)}

    first, second = (Store(tmp_path).get("key", compute) for _ in range(2))
    assert len(calls) == 1
    assert all(torch.equal(first[name], second[name]) for name in ("x", "n"))


def test_a_damaged_entry_is_computed_again_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path)
    store.get("key", lambda: {"x": torch.zeros(2)})
    (tmp_path / "key.safetensors").write_bytes(b"\x08\x00\x00")
    assert torch.equal(store.get("key", lambda: {"x": torch.ones(2)})["x"], torch.ones(2))
    assert "computing it again" in caplog.text


def test_a_crash_leaves_no_half_entry(tmp_path: Path) -> None:
    def crash() -> dict[str, Tensor]:
        raise RuntimeError("boom")

    store = Store(tmp_path)
    with pytest.raises(RuntimeError, match="boom"):
        store.get("key", crash)
    assert not list(tmp_path.glob("*.safetensors")) and not list(tmp_path.glob("*.tmp"))
    assert store.get("key", lambda: {"x": torch.ones(1)})["x"] == 1


def _slow_get(folder: str, log: str) -> None:
    def compute() -> dict[str, Tensor]:
        with open(log, "a") as file:
            file.write("computed\n")
        time.sleep(1)
        return {"x": torch.ones(1)}

    assert Store(Path(folder)).get("key", compute)["x"] == 1


def test_processes_that_miss_the_same_entry_compute_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    log = tmp_path / "log"
    processes = [context.Process(target=_slow_get, args=(str(tmp_path / "store"), str(log))) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(50)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert log.read_text() == "computed\n"


def test_digest_depends_on_every_part_and_not_on_their_order() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1, "b": 2}) != digest({"a": 1, "b": 3})
