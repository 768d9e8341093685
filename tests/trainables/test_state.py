"""The state of a trial on disk: read back as written, checked for damage, with each constant written once."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from trainables.errors import InputError
from trainables.state import (
    JSON,
    STATE_FILE,
    State,
    check_state,
    damaged_files,
    files,
    read_state,
    write_state,
)
from trainables.state.files import manifest_of

VALUES: dict[str, JSON] = {"count": 3, "rows": [[0.1, 1 / 3], [1e-300, None]], "text": "ü", "nested": {"a": [True]}}


def tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    whole = torch.randn(6, 4, generator=generator)
    return {
        "float32": whole,
        "transposed": whole.mT,
        "same memory": whole,
        "slice": whole[2:4],
        "pixels": torch.randint(256, (3, 1, 2, 2), generator=generator, dtype=torch.uint8),
        "labels": torch.tensor([3, 1, 2]),
        "bf16": whole.to(torch.bfloat16),
        "float64": whole.double() / 3,
        "bool": whole > 0,
        "scalar": torch.tensor(1.5),
        "empty": torch.empty(0, 4),
        "generator": generator.get_state(),
        "trained": torch.nn.Parameter(whole + 1),
    }


def experts(count: int) -> dict[str, Tensor]:
    return {f"expert/{t}/{part}": torch.full((1000,), t + 0.5) for t in range(count) for part in ("weight", "mean")}


def assert_same(a: State, b: State) -> None:
    assert a.values == b.values
    for one, other in ((a.tensors, b.tensors), (a.constant, b.constant)):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert value.dtype == other[name].dtype and torch.equal(value, other[name]), name


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    state = State(tensors(), experts(2) | tensors(), VALUES)
    write_state(tmp_path, state, blobs)
    assert check_state(tmp_path, blobs)
    assert_same(read_state(tmp_path, blobs), state)
    assert {path.name for path in tmp_path.iterdir()} == {STATE_FILE, "blobs"}
    assert set(manifest_of(tmp_path)) == set(state.constant)


def test_states_of_several_owners_are_joined_and_taken_apart() -> None:
    one, other = State({"w": torch.ones(1)}, {"c": torch.ones(2)}, {"n": 1}), State({"w": torch.zeros(1)})
    both = one.within("a") | other.within("ab") | State(values={"n": 2})
    assert list(both.tensors) == ["a/w", "ab/w"] and both.values == {"a/n": 1, "n": 2}
    assert_same(both.part("a"), one)
    assert_same(both.part("ab"), other)
    assert_same(both.within("x").part("x"), both)


class TestConstants:
    def test_each_is_written_once(self, tmp_path: Path) -> None:
        blobs, manifest = tmp_path / "blobs", {}
        seen: dict[str, tuple[int, int]] = {}
        for t in range(1, 4):
            folder = tmp_path / f"checkpoint_{t}"
            folder.mkdir()
            state = State({"weight": torch.ones(3)}, experts(t), {"task": t})
            manifest = write_state(folder, state, blobs, manifest)
            now = {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in blobs.iterdir()}
            assert len(now) == t  # what is new at a task is one file
            assert {name: now[name] for name in seen} == seen
            seen = now
            assert (folder / STATE_FILE).stat().st_size < 2000 + 300 * t  # no tensor of an expert is in it
            assert manifest == manifest_of(folder)
        for t in range(1, 4):
            state = State({"weight": torch.ones(3)}, experts(t), {"task": t})
            assert_same(read_state(tmp_path / f"checkpoint_{t}", blobs), state)

    def test_one_that_is_known_is_not_even_read(self, tmp_path: Path) -> None:
        manifest = write_state(tmp_path, State(constant=experts(1)), tmp_path / "blobs")
        on_no_device = {name: value.to("meta") for name, value in experts(1).items()}
        assert write_state(tmp_path, State(constant=on_no_device), tmp_path / "blobs", manifest) == manifest
        assert_same(read_state(tmp_path, tmp_path / "blobs"), State(constant=experts(1)))

    def test_one_that_is_computed_again_takes_no_space(self, tmp_path: Path) -> None:
        blobs = tmp_path / "blobs"
        first = write_state(tmp_path, State(constant=experts(2)), blobs)
        (path,) = blobs.iterdir()
        written = 10**18  # long ago, whatever the clock's resolution
        os.utime(path, ns=(written, written))
        assert write_state(tmp_path, State(constant=experts(2)), blobs) == first
        assert path.stat().st_mtime_ns == written
        changed = {name: value + 1 for name, value in experts(2).items()}  # on a device that sums in another order
        write_state(tmp_path, State(constant=changed), blobs)
        assert_same(read_state(tmp_path, blobs), State(constant=changed))
        less = {name: value for name, value in experts(2).items() if "mean" not in name}  # a name may go
        write_state(tmp_path, State(constant=less), blobs, first)
        assert_same(read_state(tmp_path, blobs), State(constant=less))

    def test_without_any_there_is_no_folder(self, tmp_path: Path) -> None:
        assert write_state(tmp_path, State({"weight": torch.ones(3)}), tmp_path / "blobs") == {}
        assert not (tmp_path / "blobs").exists()

    def test_one_that_was_lost_is_written_again(self, tmp_path: Path) -> None:
        blobs = tmp_path / "blobs"
        manifest = write_state(tmp_path, State(constant=experts(2)), blobs)
        (path,) = blobs.iterdir()
        for damage in (path.unlink, lambda: path.write_bytes(path.read_bytes()[:-1])):
            damage()
            assert not check_state(tmp_path, blobs)
            assert write_state(tmp_path, State(constant=experts(2)), blobs, manifest) == manifest
            assert check_state(tmp_path, blobs)
            assert_same(read_state(tmp_path, blobs), State(constant=experts(2)))

    @pytest.mark.parametrize("lost", [0, 1])
    def test_a_checkpoint_needs_all_of_them(self, tmp_path: Path, lost: int) -> None:
        blobs = tmp_path / "blobs"
        manifest = write_state(tmp_path, State(constant=experts(1)), blobs)
        manifest = write_state(tmp_path, State(constant=experts(2)), blobs, manifest)
        paths = [manifest[f"expert/{t}/mean"].path_in(blobs) for t in (0, 1)]
        assert paths[0] != paths[1] and check_state(tmp_path, blobs)
        paths[lost].unlink()
        assert not check_state(tmp_path, blobs) and damaged_files(tmp_path, blobs) == [paths[lost]]
        with pytest.raises(InputError, match="cannot be read"):
            read_state(tmp_path, blobs)

    def test_they_are_found_where_the_run_has_been_moved_to(self, tmp_path: Path) -> None:
        run, moved = tmp_path / "run", tmp_path / "moved"
        run.mkdir()
        write_state(run, State(constant=experts(1)), run / "blobs")
        run.rename(moved)
        assert check_state(moved, moved / "blobs") and not check_state(moved, run / "blobs")
        assert_same(read_state(moved, moved / "blobs"), State(constant=experts(1)))

    def test_without_their_folder_there_is_no_checkpoint(self, tmp_path: Path) -> None:
        write_state(tmp_path, State(constant=experts(1)), tmp_path / "blobs")
        assert not check_state(tmp_path, tmp_path)
        with pytest.raises(InputError, match="No such file or directory"):
            read_state(tmp_path, tmp_path)


class TestDamage:
    def test_any_flipped_bit_of_the_header_and_any_length_is_noticed(self, tmp_path: Path) -> None:
        blobs = tmp_path / "blobs"
        write_state(tmp_path, State({"a/weight": torch.ones(2)}, experts(1), VALUES), blobs)
        path = tmp_path / STATE_FILE
        whole = path.read_bytes()
        header = 8 + int.from_bytes(whole[:8], "little")
        for place in range(header):
            for bit in (0, 5):
                path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
                assert not check_state(tmp_path, blobs), (place, bit, whole[place - 10 : place + 10])
        for length in (0, 7, 8, 100, header, len(whole) - 1):
            path.write_bytes(whole[:length])
            assert not check_state(tmp_path, blobs)
            with pytest.raises(InputError, match=f"^checkpoint {path}: cannot be read"):
                read_state(tmp_path, blobs)
        path.write_bytes(whole + b"x")
        assert not check_state(tmp_path, blobs)
        path.write_bytes(whole)
        assert check_state(tmp_path, blobs)

    def test_any_flipped_bit_anywhere_is_found_by_reading_all(self, tmp_path: Path) -> None:
        blobs = tmp_path / "blobs"
        state = State({"a/weight": torch.ones(2)}, {"expert": torch.arange(3.0)}, VALUES)
        write_state(tmp_path, state, blobs)
        assert damaged_files(tmp_path, blobs) == []
        for path in (tmp_path / STATE_FILE, *blobs.iterdir()):
            whole = path.read_bytes()
            for place in range(len(whole)):
                path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
                if damaged_files(tmp_path, blobs) != [path]:
                    assert_same(read_state(tmp_path, blobs), state)  # the word "pt" in a file of constants says nothing
                    assert path.parent == blobs and place < whole.index(b"expert"), place
            path.unlink()
            assert damaged_files(tmp_path, blobs) == [path]
            path.write_bytes(whole)
        assert damaged_files(tmp_path, blobs) == []

    @pytest.mark.parametrize("version", ["0", "2"])
    def test_other_versions_are_refused(self, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(files, "_VERSION", version)
            write_state(tmp_path, State({"weight": torch.ones(3)}), tmp_path)
        assert damaged_files(tmp_path, tmp_path) == [tmp_path / STATE_FILE] and not check_state(tmp_path, tmp_path)
        with pytest.raises(InputError, match=f"format version {version}, this version reads 1"):
            read_state(tmp_path, tmp_path)

    def test_a_state_larger_than_any_memory_is_checked(self, tmp_path: Path) -> None:
        write_state(tmp_path, State({"small": torch.ones(2)}), tmp_path)
        path, many = tmp_path / STATE_FILE, 2**38
        # The same file with a tensor of 1 TiB, which takes no room as nothing is written of it.
        text = dict(safe_open(path, framework="np").metadata())
        text.pop("digest")
        text["digest"] = files._digest(text, {"tensors/large": (many,)})
        entry = {"dtype": "F32", "shape": [many], "data_offsets": [0, 4 * many]}
        header = json.dumps({"__metadata__": text, "tensors/large": entry}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header)
        assert not check_state(tmp_path, tmp_path)
        os.truncate(path, 8 + len(header) + 4 * many)
        start = time.process_time()  # which other processes do not stretch
        assert check_state(tmp_path, tmp_path)
        assert time.process_time() - start < 1  # reading 1 TiB of nothing takes minutes

    def test_a_write_that_fails_leaves_the_last_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_state(tmp_path, State(values={"task": 1}), tmp_path)
        with pytest.raises(TypeError):
            write_state(tmp_path, State(values={"task": object()}), tmp_path)  # type: ignore[dict-item]
        with pytest.raises(AttributeError):
            write_state(tmp_path, State({"weight": None}), tmp_path)  # type: ignore[dict-item]

        def disk_is_full(tensors: object, path: Path, metadata: object) -> None:
            path.write_bytes(b"half")
            raise OSError("No space left on device")

        monkeypatch.setattr("trainables.tensor_files.save_file", disk_is_full)
        with pytest.raises(OSError, match="No space"):
            write_state(tmp_path, State(values={"task": 2}), tmp_path)
        assert read_state(tmp_path, tmp_path).values == {"task": 1}
        assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE]

    def test_what_is_read_is_mapped_and_not_copied(self, tmp_path: Path) -> None:
        write_state(tmp_path, State({"weight": torch.ones(1000)}, {"expert": torch.ones(1000)}), tmp_path / "blobs")
        state = read_state(tmp_path, tmp_path / "blobs")
        for path in (tmp_path / STATE_FILE, *(tmp_path / "blobs").iterdir()):
            with path.open("r+b") as file:
                file.seek(-4000, os.SEEK_END)
                file.write(bytes(4000))
        assert not state.tensors["weight"].any() and not state.constant["expert"].any()


def test_without_a_state_file_there_is_no_checkpoint(tmp_path: Path) -> None:
    torch.save({"task": 1}, tmp_path / "state.pt")  # which is not read
    assert not check_state(tmp_path, tmp_path) and not check_state(tmp_path / "gone", tmp_path)
    with pytest.raises(InputError, match=f"^checkpoint {tmp_path / STATE_FILE}: cannot be read"):
        read_state(tmp_path, tmp_path)
    (tmp_path / STATE_FILE).mkdir()
    assert not check_state(tmp_path, tmp_path)


def test_a_storage_that_fails_is_no_damaged_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_state(tmp_path, State({"a": torch.zeros(1)}), tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, "stale file handle")

    monkeypatch.setattr("trainables.state.files.safe_open", fail)
    with pytest.raises(OSError, match="stale"):
        read_state(tmp_path, tmp_path)
    with pytest.raises(OSError, match="stale"):
        check_state(tmp_path, tmp_path)
