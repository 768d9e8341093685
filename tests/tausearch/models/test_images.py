"""The images of a folder and their batches: which are read, in which order, within which bound."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from tausearch.cli import output
from tausearch.models import images as images_module, model as model_module
from tausearch.models.images import find_user_images, image_paths
from tausearch.models.model import Model
from trainables.errors import InputError


class Identity:
    """A transform to floats that leaves the pixels as they are."""

    def __call__(self, images: Tensor, generator: torch.Generator | None) -> Tensor:
        return images.float()


class Means(nn.Module):
    """A model of three classes, whose logits are the means of an image's channels."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def forward(self, images: Tensor) -> Tensor:
        self.threads.append(torch.get_num_threads())
        return images.mean((2, 3))


def model(**more: Any) -> Model:
    about: Any = None
    return Model(Means(), ("red", "green", "blue"), Identity(), about, (1,), 0, torch.device("cpu"), **more)  # type: ignore[arg-type]


def save(path: Path, colour: tuple[int, int, int] = (9, 0, 0), size: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (size, size), colour).save(path)
    return path


def test_hidden_images_are_left_out_of_a_folder_even_below_a_hidden_one(tmp_path: Path) -> None:
    inside = tmp_path / ".cache"
    wanted = [save(inside / "a.png"), save(inside / "b.png"), save(inside / "c" / "0.png")]
    save(inside / ".c.png")
    save(inside / ".d" / "e.png")
    save(inside / "__MACOSX" / "f.png")
    (inside / "Thumbs.db").touch()  # a system's, as a benchmark leaves it out
    left_out: list[str] = []
    assert image_paths([inside], left_out) == wanted and left_out == []


def test_an_image_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    first, second = save(tmp_path / "in" / "a.png"), save(tmp_path / "in" / "b.png")
    assert image_paths([second, tmp_path / "in", tmp_path / "in" / ".." / "in" / "b.png"]) == [second, first]


def test_of_a_folder_only_the_files_of_images_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    inside = tmp_path / "in"
    wanted = [save(inside / "b.png"), save(inside / "c.png"), save(inside / "sub" / "a.png")]
    (inside / "folder.png").mkdir()
    (inside / "notes.txt").touch()
    (inside / "c.png").rename(inside / "hidden")
    (inside / "c.png").symlink_to(inside / "b.png")  # several images, as their names may be those of classes
    left_out: list[str] = []
    assert image_paths(["~/in"], left_out) == wanted and image_paths(["~/in/b.png"], left_out) == wanted[:1]
    assert left_out == [f"{inside}: 2 files not named as an image, left out: 'hidden', 'notes.txt'"]
    monkeypatch.chdir(tmp_path)
    assert image_paths([save(tmp_path / "~a.png").name]) == [Path("~a.png")]  # as some programs name their files
    below = save(tmp_path / "~" / "in" / "b.png", size=5)  # not that of the home, `~/in/b.png`
    assert [each.read().shape[1] for each in find_user_images(image_paths(["./~"]))] == [5] and below.is_file()
    with pytest.raises(InputError, match="^images: a path must not be empty$"):
        image_paths(["~/in", ""])
    with pytest.raises(InputError, match="a{300}: no such file or folder$"):
        image_paths(["a" * 300])
    save(tmp_path / "hidden" / ".a.png")
    with pytest.raises(InputError, match="hidden: no image in this folder"):
        image_paths([tmp_path / "hidden"])


def test_a_folder_is_read_whole_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "elsewhere" / "a.png")
    inside = save(tmp_path / "in" / "b.png").parent
    (inside / "linked").symlink_to(tmp_path / "elsewhere")
    assert image_paths([inside]) == [inside / "b.png", inside / "linked" / "a.png"]
    listed = os.scandir

    def scandir(folder: Path) -> Any:
        if folder.name == "linked":  # root may list any folder
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return listed(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match=r"in/linked: cannot be listed \(Permission denied\)$"):
        image_paths([inside])


def test_images_in_memory_are_named_by_their_places_and_have_one_or_three_channels(tmp_path: Path) -> None:
    path, pixels = save(tmp_path / "a.png"), np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    found = find_user_images([pixels, str(path), torch.zeros(1, 4, 4, dtype=torch.uint8), pixels[:, ::-1, 0]])
    assert [each.name for each in found] == ["0", str(path), "2", "3"]
    assert [tuple(each.read().shape) for each in found] == [(3, 4, 4), (3, 4, 4), (1, 4, 4), (1, 4, 4)]
    assert found[3].read()[0, 0].tolist() == [9, 6, 3, 0]  # turned round
    assert len(find_user_images(torch.zeros(2, 3, 4, 4, dtype=torch.uint8))) == 2
    for wrong in (torch.zeros(4, 4, 4, dtype=torch.uint8), torch.zeros(3, 4, 4), pixels[0, 0]):
        with pytest.raises(InputError, match="image 1: must be a path"):
            find_user_images([path, wrong])
    with pytest.raises(InputError, match=r"got ndarray \(3, 8, 8\) uint8$"):
        find_user_images([np.zeros((3, 8, 8), np.uint8)])


@pytest.mark.parametrize(("broken", "more"), [(5, ""), (6, "; 1 more cannot be read")])
def test_the_first_five_unreadable_images_are_named(broken: int, more: str, tmp_path: Path) -> None:
    save(tmp_path / "0.png")
    for number in range(1, broken + 1):
        (tmp_path / f"{number}.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"/1\.png: .*/5\.png: ") as error:
        model().predict(tmp_path)
    assert (" more cannot be read" in str(error.value)) == (more != "") and more in str(error.value)
    assert "6.png" not in str(error.value)


def test_a_grey_image_beside_a_coloured_one_counts_for_every_channel() -> None:
    grey, blue = torch.full((1, 4, 4), 5, dtype=torch.uint8), torch.zeros(3, 4, 4, dtype=torch.uint8)
    blue[2] = 9
    found = model().predict([grey, blue])
    assert [each.label for each in found] == ["red", "blue"]
    assert found[0].probabilities == pytest.approx(dict.fromkeys(("red", "green", "blue"), 1 / 3))


def test_a_notebook_shows_the_first_hundred_predictions_as_a_table() -> None:
    few = model().predict(torch.zeros(2, 3, 4, 4, dtype=torch.uint8))._repr_html_()  # type: ignore[attr-defined]
    assert few.count("</tr>") == 3 and ">probability</th>" in few and ">0.333</td>" in few and "first" not in few
    many = model().predict(torch.zeros(101, 3, 4, 4, dtype=torch.uint8))._repr_html_()  # type: ignore[attr-defined]
    assert many.count("</tr>") == 101 and "the first 100 of 101 images" in many


def test_the_bound_of_an_image_file_is_the_callers(tmp_path: Path) -> None:
    image = save(tmp_path / "a.png", size=64)
    left_out: list[str] = []
    assert model().predict(image)[0].label == "red"
    with pytest.raises(InputError, match=r"a.png"):
        model().predict(image, max_image_bytes=20)
    assert model().predict(image, max_image_bytes=20, skip_broken=True, left_out=left_out) == []
    assert len(left_out) == 1 and "a.png" in left_out[0]


def test_a_picture_of_images_reads_what_was_read_within_the_callers_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide, bounds = model(), list[int]()
    found = wide.predict(save(tmp_path / "a.png"))

    def read(path: Path, most: int) -> Tensor:
        bounds.append(most)
        return torch.zeros(3, 4, 4, dtype=torch.uint8)

    monkeypatch.setattr(images_module, "read_image_file", read)
    assert len(list(output.draw(wide, found, tmp_path / "sure.svg"))) == 1
    assert min(bounds) == sys.maxsize


def test_images_are_counted_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "EVALUATION_BATCH", 2)
    counts: list[int] = []
    model().predict(torch.zeros(3, 3, 4, 4, dtype=torch.uint8), tick=counts.append)
    assert counts == [2, 1]


def test_a_model_computes_with_the_threads_of_its_run() -> None:
    before = torch.get_num_threads()
    for wanted in (before + 1, None):
        made = model(cpu_threads=wanted)
        made.predict(torch.zeros(3, 4, 4, dtype=torch.uint8))
        assert isinstance(made.module, Means) and made.module.threads == [wanted or before]
