"""Safetensors files of any origin: their tensors are checked before they are used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.support.modes import umask
from trainables.tensor_files import digest_of, read_weights, replace_file, save_tensors

WANTED = {"a": (2, 3), "b": (2,)}


def written(folder: Path, **tensors: Tensor) -> Path:
    save_file({"a": torch.zeros(2, 3), "b": torch.zeros(2)} | tensors, folder / "x.safetensors")
    return folder / "x.safetensors"


def test_tensors_that_fit(tmp_path: Path) -> None:
    assert {name: tuple(value.shape) for name, value in read_weights(written(tmp_path), WANTED)[0].items()} == WANTED


@pytest.mark.parametrize(
    ("tensors", "fault"),
    [
        ({"b": torch.zeros(3)}, r"'b' is \(3,\), must be \(2,\)"),
        ({"c": torch.zeros(1)}, "'c' is not a part of it"),
        ({"b": torch.zeros(2, dtype=torch.int64)}, "'b' holds int64, must hold floats"),
        ({"b": torch.tensor([0.0, torch.inf])}, "'b' holds values that are not finite"),
    ],
)
def test_tensors_that_are_refused(tmp_path: Path, tensors: dict[str, Tensor], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_weights(written(tmp_path, **tensors), WANTED)


def test_a_tensor_that_is_missing_is_named_before_any_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, b=torch.tensor([0.0, torch.inf]))
    with pytest.raises(ValueError, match="'a2' is missing"):
        read_weights(path, {**WANTED, "a2": (1,)})


def test_every_piece_of_a_large_tensor_is_checked(tmp_path: Path) -> None:
    large = torch.zeros(2**22 + 1, dtype=torch.float16)  # one more than a piece
    large[-1] = torch.nan
    with pytest.raises(ValueError, match="not finite"):
        read_weights(written(tmp_path, large=large))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.safetensors")
    with pytest.raises(OSError, match="is not a regular file"):
        read_weights(tmp_path / "x.safetensors")


def test_a_digest_is_of_names_kinds_shapes_and_values() -> None:
    zeros = torch.zeros(2, 3)
    changed: list[dict[str, Tensor]] = [{"b": zeros}, {"a": zeros.int()}, {"a": zeros.T}, {"a": zeros + 1}]
    assert len({digest_of(tensors) for tensors in [{"a": zeros}, *changed]}) == 5
    one = torch.arange(6.0).view(2, 3)[1:, -1]  # it counts as contiguous, with the stride of the matrix
    assert digest_of({"a": one}) == digest_of({"a": torch.tensor([5.0])})


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_a_file_has_the_mode_of_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    with umask(mask):
        replace_file(tmp_path / "x.safetensors", {"a": torch.zeros(2)}, {})
        save_tensors(tmp_path / "y.safetensors", {"a": torch.zeros(2)}, {})
    assert [path.stat().st_mode & 0o777 for path in sorted(tmp_path.iterdir())] == [mode, mode]


def test_an_error_of_the_storage_is_known_for_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        save_tensors(tmp_path / "nowhere" / "x.safetensors", {"a": torch.zeros(1)}, {})
