"""The pre-consolidation cache: computed once, whole or not at all, read again after damage."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
import torch
from torch import Tensor

from trainables.preconsolidation.cache import Cache, digest

LONG = 200.0  # seconds that another process may take to start; it imports torch


def test_computes_once_and_returns_the_same(tmp_path: Path) -> None:
    calls = []

    def compute() -> dict[str, Tensor]:
        calls.append(1)
        return {"x": torch.arange(4.0), "n": torch.tensor(3)}

    first, second = (Cache(tmp_path).get("key", compute) for _ in range(2))
    assert len(calls) == 1
    assert all(torch.equal(first[name], second[name]) for name in ("x", "n"))


def written(folder: Path) -> Path:
    """An entry with one vector and one scalar; returns its file."""
    Cache(folder).get("key", lambda: {"x": torch.arange(3.0), "n": torch.tensor(3)}, {"task": "1"})
    return folder / "key.safetensors"


def test_whatever_byte_of_an_entry_is_changed_it_is_never_taken_for_another(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole, dice = path.read_bytes(), random.Random(0)
    again = {"x": torch.full((3,), 7.0), "n": torch.tensor(7)}
    sound, recomputed = [0.0, 1.0, 2.0], 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << dice.randrange(8))]) + whole[place + 1 :])
        found = Cache(tmp_path).get("key", lambda: again)
        assert (found["x"].tolist(), int(found["n"])) in ((sound, 3), ([7.0] * 3, 7)), place
        recomputed += int(found["n"]) == 7
    assert recomputed >= len(whole) - len("task") - len("1") - len("content digest")  # what only people read


def test_a_flipped_bit_costs_one_line_and_one_computation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path)
    assert [entry.about for entry in Cache(tmp_path).entries()] == [{"task": "1"}]
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    for _ in range(2):
        assert int(Cache(tmp_path).get("key", lambda: {"n": torch.tensor(7)})["n"]) == 7
    assert [record.getMessage() for record in caplog.records] == [
        f"cache entry {path} cannot be read (its content is not what was written); computing it again"
    ]


def test_an_entry_whose_time_cannot_be_set_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cache(tmp_path).get("key", lambda: {"x": torch.ones(2)})

    def refuse(*_: object) -> None:
        raise PermissionError("a cache that somebody else wrote")

    monkeypatch.setattr(os, "utime", refuse)
    assert torch.equal(Cache(tmp_path).get("key", lambda: {"x": torch.zeros(2)})["x"], torch.ones(2))


def test_a_crash_leaves_no_half_entry(tmp_path: Path) -> None:
    def crash() -> dict[str, Tensor]:
        raise RuntimeError("boom")

    made = Cache(tmp_path)
    with pytest.raises(RuntimeError, match="boom"):
        made.get("key", crash)
    assert not list(tmp_path.glob("*.safetensors")) and not list(tmp_path.glob("*.tmp"))
    assert made.get("key", lambda: {"x": torch.ones(1)})["x"] == 1


def _compute_and_hold(folder: str, log: str, computing: Event, done: Event) -> None:
    def compute() -> dict[str, Tensor]:
        Path(log).write_text("computed")
        computing.set()
        time.sleep(1)  # in which the other process asks
        return {"x": torch.ones(1)}

    held = Cache(Path(folder))  # its locks end with it
    held.get("key", compute)
    done.wait(LONG)


def test_another_process_computes_an_entry_once_and_holds_it_until_it_ends(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    computing, done, folder, log = context.Event(), context.Event(), tmp_path / "cache", tmp_path / "log"
    arguments = (str(folder), str(log), computing, done)
    process = context.Process(target=_compute_and_hold, args=arguments, daemon=True)
    process.start()
    assert computing.wait(LONG)
    here = Cache(folder)
    assert here.get("key", lambda: pytest.fail("computed twice"))["x"] == 1
    assert log.read_text() == "computed"
    here.close()
    assert not Cache(folder).shrink(0) and len(Cache(folder).entries()) == 1
    done.set()
    process.join(LONG)
    assert process.exitcode == 0
    assert len(Cache(folder).shrink(0)) == 1


def test_digest_does_not_depend_on_the_order_of_its_parts() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def entry_of(size: int) -> dict[str, Tensor]:
    return {"x": torch.zeros(size, dtype=torch.uint8)}


def test_the_least_recently_used_go_first_and_never_one_in_use(tmp_path: Path) -> None:
    writer = Cache(tmp_path)
    for key in ("a", "b", "c"):
        writer.get(key, lambda: entry_of(10_000), {"task": key})
        os.utime(tmp_path / f"{key}.safetensors", (ord(key), ord(key)))
    writer.close()
    size = sum(entry.bytes for entry in writer.entries())
    assert [entry.about["task"] for entry in writer.entries()] == ["a", "b", "c"]
    assert not writer.shrink() and not writer.shrink(size) and not Cache(tmp_path, max_bytes=0).shrink(size)
    reader = Cache(tmp_path)
    reader.get("a", dict)
    reader.close()
    assert [entry.about["task"] for entry in writer.entries()] == ["b", "c", "a"]  # reading is using
    os.utime(tmp_path / "a.safetensors", (1, 1))
    reader.get("b", dict)
    os.utime(tmp_path / "b.safetensors", (0, 0))  # the oldest, but in use
    assert [entry.about["task"] for entry in reader.entries() if entry.in_use] == ["b"]
    bounded = Cache(tmp_path, max_bytes=25_000)
    bounded.get("d", lambda: entry_of(1000), {"task": "d"})
    assert [entry.about["task"] for entry in bounded.entries()] == ["b", "c", "d"]
    assert [entry.about["task"] for entry in Cache(tmp_path).shrink(0)] == ["c"]  # d is held by `bounded`
    reader.close()
    bounded.close()
    assert len(Cache(tmp_path).shrink(0)) == 2 and not Cache(tmp_path).entries()


def test_a_full_disk_costs_the_entry_and_not_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trainables.tensor_files.save_file", full)
    assert torch.equal(Cache(tmp_path).get("key", lambda: {"x": torch.ones(2)})["x"], torch.ones(2))
    assert "No space left" in caplog.text and not Cache(tmp_path).entries()
