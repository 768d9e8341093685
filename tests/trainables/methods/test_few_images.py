"""Which usual settings do not suit few images of the user's own, and that many images get no such line."""

from __future__ import annotations

from typing import Any

import pytest

from search_spaces import load_space
from trainables.data import BenchmarkRef
from trainables.data.few_images import OwnImages
from trainables.data.sources import unsuited_pace
from trainables.methods import get_method

FEW = OwnImages(per_task=(14, 18), classes=(2, 2), batch_size=8, epochs=150)
MANY = OwnImages(per_task=(9000, 11000), classes=(10, 10), batch_size=128, epochs=5)


def lines(method: str, images: OwnImages, **changes: Any) -> list[str]:
    space = load_space(method, "folder:mine")
    entry = get_method(method)
    return [str(each) for each in entry.unsuited(entry.parse({**space.fixed, **space.start, **changes}), images)]


def test_of_tasks_and_classes_the_means_count() -> None:
    images = OwnImages(per_task=(20, 9, 30), classes=(2, 3, 2), batch_size=8, epochs=1)
    assert (images.task, images.steps, images.per_class) == (20, 3, 3)  # the classes of the second task have fewest
    assert OwnImages((20, 9), (), 8, 1).per_class is None


@pytest.mark.parametrize(
    ("epochs", "asked", "said"),
    [
        (150, "", "5 would make 10 steps a task, after which little but the last is kept; 150 are used"),
        (
            1,
            "&epochs=1",
            "1 would make 2 steps a task, after which little but the last is kept; search --epochs 150 makes 300",
        ),
        (200, "&epochs=200", "5 would make 10 steps a task, after which little but the last is kept; 200 are used"),
    ],
)
def test_batches_and_epochs_of_few_images(epochs: int, asked: str, said: str) -> None:
    images = OwnImages(FEW.per_task, FEW.classes, 8, epochs)
    assert [str(each) for each in unsuited_pace(BenchmarkRef.parse(f"folder:mine?tasks=2{asked}"), images)] == [
        "batch size 128 would make 1 step an epoch of the 16 images of a task; 8 is used",
        f"epochs {said}",
    ]


def test_many_images_and_a_benchmark_in_code_have_no_such_lines() -> None:
    assert list(unsuited_pace(BenchmarkRef.parse("folder:mine?tasks=2"), MANY)) == []
    assert list(unsuited_pace(BenchmarkRef.parse("mine:TASKS"), FEW)) == []
    for method in ("ita-lora", "iel-fft", "probe", "derpp", "seed", "finetune", "l2p"):
        assert lines(method, MANY) == [], method


@pytest.mark.parametrize("method", ["ita-lora", "iel-ia3", "probe"])
def test_probing_and_mixtures(method: str) -> None:
    used, mixtures = lines(method, FEW, epochs_pre=50)
    assert used == "epochs_pre 3 would make 6 steps of probing a task; 50 is used"
    assert mixtures.startswith("mixtures of 5 Gaussians a class have on average 1.4 images each")
    (asked, _) = lines(method, FEW, epochs_pre=3)
    assert asked.endswith("; --set epochs_pre=50 makes 100")
    enough = OwnImages((40, 60), (2, 2), 8, 60)  # 20 images of a class, four of a component
    assert len(lines(method, enough, epochs_pre=50)) == 1
    assert len(lines(method, OwnImages((38, 60), (2, 2), 8, 60), epochs_pre=50)) == 2


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (1000, "buffer_size 1000 holds all 32 images, which hardly differs from joint training"),
        (8, "buffer_size 8 holds 25 % of the 32 images"),
        (6, None),
    ],
)
def test_a_buffer_that_holds_most_images(size: int, said: str | None) -> None:
    found = lines("derpp", FEW, buffer_size=size)
    assert len(found) == (said is not None)
    for line in found:
        assert said is not None and line.startswith(said) and line.endswith("; --set buffer_size=3 holds a tenth")


@pytest.mark.parametrize(("flip", "narrow"), [(True, 8), (False, 4)])
def test_a_covariance_wider_than_the_images_of_a_class(flip: bool, narrow: int) -> None:
    (line,) = lines("seed", OwnImages((16, 18), (2, 2), 8, 1), flip=flip)
    seen = 16 if flip else 8
    assert line.startswith(f"features 64 is as wide as {seen} images of a class or more, so their covariance is sing")
    assert line.endswith(f"; --set features={narrow} suits their number")
    assert lines("seed", OwnImages((66, 70), (2, 2), 8, 1)) == []  # 33 and their mirror images
    assert len(lines("seed", OwnImages((64, 70), (2, 2), 8, 1))) == 1
