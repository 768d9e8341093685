"""Batches of images that a thread makes ready for a GPU while the caller works on the batch before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from trainables.data import ImageSet, images
from trainables.data.images import StoredRows
from trainables.errors import InputError

ORDER = torch.tensor([5, 2, 0, 3, 1, 4])
BATCHES = ORDER.split(2)
PINNED = images._pinned
SECONDS = 10.0  # until a thread that never comes is a failure


@dataclass
class Folder:
    """Six images on disk; each has its row in all pixels. The row `broken` cannot be read."""

    broken: int | None = None
    read: list[int] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    arrived: dict[int, threading.Event] = field(default_factory=lambda: {row: threading.Event() for row in range(6)})
    digest: str = ""

    def __len__(self) -> int:
        return 6

    def name(self, row: int) -> str:
        return str(row)

    def encoded(self, row: int) -> bytes | None:
        return None

    def image(self, row: int) -> Tensor:
        if row == self.broken:
            raise InputError(f"image {row} is unreadable")
        self.read.append(row)
        self.threads.add(threading.current_thread().name.rsplit("_", 1)[0])
        self.arrived[row].set()
        return torch.full((1, 2, 2), row, dtype=torch.uint8)

    def take(self, rows: Tensor) -> Folder:
        return self


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Threads that have made a batch ready for its copy; without a GPU no memory can be pinned."""
    threads: list[str] = []

    def pinned(given: images.Images) -> images.Images:
        threads.append(threading.current_thread().name)
        return given

    monkeypatch.setattr(images, "_pinned", pinned)
    return threads


@pytest.fixture(params=[1, 3], ids=["one-thread", "three-threads"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many threads read from the disk."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    return int(request.param)


def on_disk(folder: Folder) -> StoredRows:
    return StoredRows(folder, torch.arange(6))


def in_memory() -> Tensor:
    return torch.arange(6, dtype=torch.uint8)[:, None, None, None].expand(6, 1, 2, 2).contiguous()


def rows_of(batch: images.Images) -> list[int]:
    return [int(image[0, 0, 0]) for image in batch]


def ours() -> set[str]:
    """Names of the threads that reading has started and not ended, without their numbers."""
    names = (thread.name.rsplit("_", 1)[0] for thread in threading.enumerate())
    return {name for name in names if name in {"next-batch", "read-images"}}


@pytest.mark.parametrize("stored", [True, False], ids=["on-disk", "in-memory"])
def test_some_rows_of_a_part_are_as_many_as_they_are(stored: bool) -> None:
    some = images.narrow(on_disk(Folder()) if stored else in_memory(), torch.tensor([4, 1]))
    (read,) = images._read(some, [torch.arange(len(some))], ahead=False)
    assert rows_of(read) == [4, 1]


@pytest.mark.parametrize("stored", [True, False], ids=["on-disk", "in-memory"])
@pytest.mark.parametrize("ahead", [True, False])
def test_batches_come_in_order(threads: int, stored: bool, ahead: bool, pinned: list[str]) -> None:
    found = list(images._read(on_disk(Folder()) if stored else in_memory(), BATCHES, ahead=ahead))
    assert [rows_of(batch) for batch in found] == [rows.tolist() for rows in BATCHES]
    assert all(isinstance(batch, Tensor) and batch.shape == (2, 1, 2, 2) for batch in found)
    assert len(pinned) == (3 if ahead else 0) and {name.rsplit("_", 1)[0] for name in pinned} <= {"next-batch"}
    assert ours() == set()


def test_the_next_batch_is_read_while_one_is_in_use_and_not_the_one_after_it(threads: int) -> None:
    folder = Folder()
    batches = images._read(on_disk(folder), BATCHES, ahead=True)
    reading = {"next-batch" if threads == 1 else "read-images"}
    for place, rows in enumerate(BATCHES):
        assert rows_of(next(batches)) == rows.tolist()
        for row in ORDER[: 2 * place + 4].tolist():
            assert folder.arrived[row].wait(SECONDS)
        assert sorted(folder.read) == sorted(ORDER[: 2 * place + 4].tolist())
    assert next(batches, None) is None and folder.threads == reading


def test_without_a_gpu_a_batch_is_read_when_it_is_asked_for(threads: int) -> None:
    folder = Folder()
    batches = images._read(on_disk(folder), BATCHES, ahead=False)
    next(batches)
    assert sorted(folder.read) == sorted(BATCHES[0].tolist()) and "next-batch" not in ours()
    batches.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_unreadable_image_is_an_error_of_its_batch(threads: int, place: int) -> None:
    batches = images._read(on_disk(Folder(broken=int(BATCHES[place][1]))), BATCHES, ahead=True)
    for rows in BATCHES[:place]:
        assert rows_of(next(batches)) == rows.tolist()
    with pytest.raises(InputError, match=f"^image {int(BATCHES[place][1])} is unreadable$"):
        next(batches)
    assert ours() == set()


def test_an_iteration_that_ends_early_ends_its_threads(threads: int) -> None:
    folder = Folder()
    batches = images._read(on_disk(folder), BATCHES, ahead=True)
    next(batches)
    assert "next-batch" in ours()
    batches.close()  # type: ignore[attr-defined]
    assert ours() == set() and len(folder.read) <= 4


@pytest.mark.parametrize(("device", "ahead"), [("cuda", 3), ("cpu", 0)])
def test_batches_for_a_gpu_are_read_ahead(
    device: str, ahead: int, pinned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "moved", lambda tensor, where: tensor)
    given = ImageSet(on_disk(Folder()), torch.arange(6) * 10, lambda raw, generator: raw)
    found = list(given.batches(2, torch.Generator().manual_seed(0), shuffle=True, device=device))
    assert [rows_of(batch.x) for batch in found] == [batch.rows.tolist() for batch in found]
    assert torch.equal(torch.cat([batch.y for batch in found]), torch.cat([batch.rows for batch in found]) * 10)
    assert len(pinned) == ahead


def test_batches_that_are_left_early_end_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "moved", lambda tensor, where: tensor)
    given = ImageSet(on_disk(Folder()), torch.arange(6), lambda raw, generator: raw)
    batches: Iterator[object] = given.batches(2, None, shuffle=False, device="cuda")
    next(batches)
    assert "next-batch" in ours()
    del batches
    assert ours() == set()


def test_images_of_one_size_and_of_several_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "pin_memory", lambda tensor: tensor + 1)
    one, several = torch.zeros(2, 1), [torch.zeros(1), torch.zeros(2)]
    assert torch.equal(PINNED(one), one + 1)
    assert [each.tolist() for each in PINNED(several)] == [[1], [1, 1]]
