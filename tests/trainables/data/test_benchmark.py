"""Benchmarks: their splits, their tasks, and that a search cannot reach the test part."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torchvision.transforms import RandomResizedCrop as TheirRandomResizedCrop, v2

from tausearch.testing.reachable_objects import images_of, reachable
from trainables.backbones import Backbone, InputSpec
from trainables.data import BENCHMARKS, build_benchmark, get_source
from trainables.data.benchmark import BenchmarkSource
from trainables.data.embedded import digits
from trainables.data.splits import SPLIT_NAMES
from trainables.data.transforms import cropping, resampling
from trainables.data.transforms.cropping import (
    RandomResizedCrop,
    RandomShift,
    ResizeCenterCrop,
    ResizeRandomCrop,
    _crop_box,
)
from trainables.data.transforms.normalisation import Images, Normalise, Transform, repeatable_text, transform_text
from trainables.data.transforms.recipes import Recipe, small_transforms
from trainables.data.transforms.resampling import ImageCrop, resized_by_products, resized_crops
from trainables.errors import InputError


@pytest.mark.parametrize("purpose", ["search", "final"])
@pytest.mark.parametrize("name", BENCHMARKS)
def test_nothing_reachable_holds_images_that_evaluate_or_test(name: str, purpose: Any) -> None:
    source = get_source(name)
    benchmark = build_benchmark(source, purpose)
    evaluation = set(images_of(each.images for each in benchmark.evaluation))
    for tasks in (benchmark.tasks, benchmark.merged()):
        found = images_of(reachable(tasks))
        assert len(found) == sum(len(task.train) for task in benchmark.tasks)  # all that train, once
        assert not set(found) & evaluation
    if purpose == "search":
        items = list(reachable(benchmark))
        assert source.load not in items, "the loader would read the test part"
        found, (stored, test) = images_of(items), (images_of([source.load(part)[0]]) for part in SPLIT_NAMES)
        assert sorted(found) == sorted(stored) and not set(found) & set(test)  # all that train or validate, once
        tensors = [item for item in items if isinstance(item, torch.Tensor) and item.dim() == 4]
        storages = {tensor.untyped_storage().nbytes() // tensor[0].nbytes for tensor in tensors}
        assert max(storages) <= max(len(tensor) for tensor in tensors)  # no tensor is a view of something larger


def test_the_loader_of_the_test_part_is_not_called_in_a_search() -> None:
    asked = []

    def load(part: str) -> Any:
        asked.append(part)
        return digits.load(part)  # type: ignore[arg-type]

    spec = dataclasses.replace(get_source("digits"), load=load)
    build_benchmark(spec, "search")
    assert asked == ["train"]
    build_benchmark(spec, "final")
    assert asked == ["train", "train", "test"]


def test_unaugmented_images_are_the_training_images_under_the_evaluation_transform() -> None:
    benchmark = build_benchmark(get_source("digits"), "search")
    for task, images in zip((*benchmark.tasks, benchmark.merged()), (*benchmark.evaluation, None), strict=True):
        assert task.unaugmented.images is task.train.images and task.unaugmented.labels is task.train.labels
        assert isinstance(task.train.transform, RandomShift) and isinstance(task.unaugmented.transform, Normalise)
        assert images is None or task.unaugmented.transform == images.transform


def test_random_shift_moves_pixels_without_the_global_generator(generator: torch.Generator) -> None:
    images = torch.zeros(200, 1, 9, 9, dtype=torch.uint8)
    images[:, :, 4, 4] = 255
    state = torch.get_rng_state()
    shifted = RandomShift(2)(images, generator)
    assert torch.equal(state, torch.get_rng_state())
    assert shifted.shape == images.shape and shifted.dtype == torch.float32
    places = {tuple((image > 0).nonzero()[0].tolist()) for image in shifted}
    assert places == {(0, row, column) for row in range(2, 7) for column in range(2, 7)}  # both ends are reached
    with pytest.raises(ValueError, match="generator"):
        RandomShift(2)(images, None)


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_have_every_row_once_and_rows_lead_to_its_image_again(shuffle: bool) -> None:
    images = build_benchmark(get_source("digits"), "search").tasks[1].train
    assert isinstance(images.images, torch.Tensor)
    draws, again = (torch.Generator().manual_seed(5) for _ in range(2))
    if shuffle:
        torch.randperm(len(images), generator=again)  # a pass draws its order before anything else
    order = []
    for x, y, rows in images.batches(32, draws, shuffle=shuffle):
        order += rows.tolist()
        pixels = images.pixels(rows)
        assert isinstance(pixels, torch.Tensor) and torch.equal(pixels, images.images[rows])
        assert torch.equal(images.prepare(pixels, again), x) and torch.equal(images.labels[rows], y)
        pixels.zero_()  # a copy: the set keeps its images
    assert int(images.pixels(torch.arange(3)).sum()) > 0  # type: ignore[union-attr]
    assert sorted(order) == list(range(len(images))) and (order != sorted(order)) == shuffle


class FixedImages:
    """Images on disk with a digest that depends on no path and no time, one level of grey each."""

    digest = "fixed"

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def name(self, row: int) -> str:
        return f"image {int(self.rows[row])}"

    def encoded(self, row: int) -> bytes | None:
        return None

    def image(self, row: int) -> torch.Tensor:
        return torch.full((1, 32, 32), int(self.rows[row]), dtype=torch.uint8)

    def take(self, rows: torch.Tensor) -> FixedImages:
        return FixedImages(self.rows[rows])


@pytest.mark.parametrize(
    ("purpose", "fingerprint"),
    [
        ("search", "64d46006936f2eb130023d212ddf27323bbbf9a1962b66e7312124e8d751f42a"),
        ("final", "76b2e4cba4f8e0fd644faee3f56e1913f516ac1a93b55d37c2b4de5eeaf9dd93"),
    ],
)
def test_the_fingerprint_of_images_on_disk_is_pinned(purpose: Any, fingerprint: str) -> None:
    def load(part: str) -> tuple[FixedImages, torch.Tensor]:
        return FixedImages(torch.arange(24)), torch.arange(24) % 4

    source = BenchmarkSource("own", tuple("abcd"), 2, 1, 4, "glyph_vit", load, small_transforms)
    assert build_benchmark(source, purpose).fingerprint == fingerprint


def test_a_class_with_one_image_is_named() -> None:
    def load(part: str) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 0, 0, 1])

    spec = BenchmarkSource("toy", ("a", "b"), 2, 1, 1, "glyph_vit", load, lambda reads: (Normalise(), Normalise()))
    with pytest.raises(InputError, match="class 'b' has 0 training images"):
        build_benchmark(spec, "search")


@pytest.mark.parametrize(("purpose", "fewest"), [("search", 3), ("final", 2)])
def test_a_class_trains_on_two_images_at_least(purpose: Any, fewest: int) -> None:
    def source(count: int) -> BenchmarkSource:
        labels = torch.tensor([0] * 9 + [1] * count)
        images = torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8)
        return BenchmarkSource("toy", ("a", "b"), 1, 1, 1, "glyph_vit", lambda part: (images, labels), small_transforms)

    build_benchmark(source(fewest), purpose)
    with pytest.raises(InputError, match="class 'b' has 1 training images"):
        build_benchmark(source(fewest - 1), purpose)


@pytest.mark.parametrize(("there", "lacks"), [([0, 1], "c"), ([0, 1, 3], "c"), ([1, 2, 3, 1], "a")])
def test_a_class_without_a_test_image_is_refused_before_training(there: list[int], lacks: str) -> None:
    def load(part: str) -> tuple[Tensor, Tensor]:
        labels = torch.tensor([0, 1, 2, 3] * 3 if part == "train" else there)
        return torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8), labels

    source = BenchmarkSource("toy", tuple("abcd"), 2, 1, 1, "glyph_vit", load, small_transforms)
    build_benchmark(source, "search")
    with pytest.raises(InputError, match=rf"^benchmark 'toy': class '{lacks}' has no image to evaluate on$"):
        build_benchmark(source, "final")


def test_images_are_made_for_the_benchmarks_backbone_unless_another_is_named() -> None:
    asked: list[InputSpec] = []

    def transforms(reads: InputSpec) -> tuple[Transform, Transform]:
        asked.append(reads)
        return Normalise(), Normalise()

    source = dataclasses.replace(get_source("digits"), backbone="deit_base_patch16_384", transforms=transforms)
    build_benchmark(source, "search")
    assert build_benchmark(source, "search", 6, Backbone().input).split_seed == 6
    assert asked == [Backbone("deit_base_patch16_384").input, Backbone().input]


def test_unknown_benchmark_lists_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        r"unknown benchmark 'digit'; did you mean 'digits'\? allowed: digits, glyphs.*"
        r"MODULE:NAME or what an installed package brings$"
    )
    with pytest.raises(InputError, match=said):
        get_source("digit")
    (tmp_path / "birds").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"did you mean folder:birds\?tasks=2\?$"):
        get_source("birds?tasks=2")


def test_fingerprint_depends_on_what_training_sees() -> None:
    spec = get_source("digits")
    first = build_benchmark(spec, "search", 0).fingerprint
    assert first == build_benchmark(spec, "search", 0).fingerprint
    assert first != build_benchmark(spec, "search", 1).fingerprint
    other = dataclasses.replace(spec, transforms=lambda reads: (RandomShift(1), Normalise()))
    assert first != build_benchmark(other, "search", 0).fingerprint


def test_images_to_evaluate_on_have_a_fingerprint_of_their_own() -> None:
    def source(name: str, *, other_test: bool) -> BenchmarkSource:
        def load(part: str) -> tuple[Tensor, Tensor]:
            images = torch.arange(24).repeat_interleave(64).view(24, 1, 8, 8).to(torch.uint8)
            return images + (part == "test" and other_test), torch.arange(24) % 4

        return BenchmarkSource(name, tuple("abcd"), 2, 1, 4, "glyph_vit", load, small_transforms)

    one, two = (source("own", other_test=other) for other in (False, True))
    final = [build_benchmark(each, "final") for each in (one, one, two)]
    assert len({each.fingerprint for each in final}) == 1
    first, again, other = (each.evaluation_fingerprint for each in final)
    assert first == again != other
    searches = [build_benchmark(one, "search", seed).evaluation_fingerprint for seed in (0, 0, 1)]
    assert searches[0] == searches[1] != searches[2]


def darker(images: Images, generator: torch.Generator | None = None) -> Tensor:
    return Normalise()(images) - 1


@dataclasses.dataclass(frozen=True)
class Shades:
    value: float

    def darker(self, images: Images, generator: torch.Generator | None = None) -> Tensor:
        return Normalise()(images) - self.value


def test_a_transform_counts_by_a_text_that_is_the_same_in_each_process() -> None:
    def made(value: float) -> Transform:
        def shifted(images: Images, generator: torch.Generator | None = None) -> Tensor:
            return Normalise()(images) - value

        return shifted

    assert transform_text(darker) == f"{__name__}:darker" and transform_text(Normalise()) == repr(Normalise())
    assert transform_text(made(1)) != transform_text(made(2)), "they have values of their own"
    for one, other in ((Shades(1).darker, Shades(2).darker), (wraps(darker)(made(1)), wraps(darker)(made(2)))):
        assert one.__qualname__ == other.__qualname__ and transform_text(one) != transform_text(other)
    assert repeatable_text(made(1)) == repeatable_text(made(2)), "which values is in an address alone"
    assert repeatable_text(Shades(1).darker) != repeatable_text(Shades(2).darker)


class TestPaperTransforms:
    """What backbones of 224 pixels read."""

    reads = InputSpec(3, 56, (0.5, 0.4, 0.3), (0.5, 0.6, 0.7))

    def test_shapes_channels_and_determinism(self, generator: torch.Generator) -> None:
        train, evaluate = small_transforms(self.reads)
        images = torch.randint(0, 256, (4, 1, 32, 32), dtype=torch.uint8, generator=generator)
        state = torch.get_rng_state()
        first, second = (train(images, torch.Generator().manual_seed(3)) for _ in range(2))
        assert torch.equal(first, second) and first.shape == evaluate(images, None).shape == (4, 3, 56, 56)
        assert torch.equal(state, torch.get_rng_state())
        assert not torch.equal(first, train(images, torch.Generator().manual_seed(4)))
        with pytest.raises(ValueError, match="generator"):
            train(images, None)

    @pytest.mark.parametrize(
        ("transforms", "interpolation"),
        [
            (small_transforms, "bicubic"),
            (Recipe(), "bicubic"),
            (Recipe(test_interpolation="bilinear"), "bilinear"),
        ],
    )
    def test_evaluation_is_resize_then_centre_crop(self, transforms: Any, interpolation: str) -> None:
        _, evaluate = transforms(self.reads)
        images = torch.randint(0, 256, (2, 3, 40, 50), dtype=torch.uint8)
        steps = [
            v2.Resize((64, 64), v2.InterpolationMode(interpolation), antialias=True),
            v2.CenterCrop(56),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5, 0.4, 0.3], [0.5, 0.6, 0.7]),
        ]
        torch.testing.assert_close(evaluate(images, None), v2.Compose(steps)(images))

    @pytest.mark.parametrize(("keep_ratio", "columns"), [(True, 56), (False, 112)])
    def test_a_recipe_keeps_the_ratio_of_training_images_where_it_says_so(
        self, keep_ratio: bool, columns: int, generator: torch.Generator
    ) -> None:
        unit = Normalise((0.0,) * 3, (1.0,) * 3)
        train, _ = Recipe(unit, train_resize=256, train_keep_ratio=keep_ratio)(self.reads)
        images = torch.arange(128, dtype=torch.uint8).expand(1, 3, 64, 128)  # each pixel holds its column
        crop = train(images, generator) * 255
        assert float(crop.max() - crop.min()) + 1 == pytest.approx(columns, abs=2)

    @pytest.mark.parametrize(("height", "width", "size"), [(256, 256, 64), (40, 50, 56), (90, 61, 32)])
    def test_crops_by_products_are_torchvisions(
        self, height: int, width: int, size: int, generator: torch.Generator
    ) -> None:
        images = torch.randint(0, 256, (8, 3, height, width), dtype=torch.uint8, generator=generator)
        images[4:] = images[4:] // 128 * 255  # overshoots, so that it is clipped on the way
        boxes = [_crop_box(height, width, generator) for _ in images]
        wanted = resized_crops(images, boxes, size)
        assert wanted.dtype == torch.uint8  # torchvision's own, on a CPU
        got = resized_by_products(images, [ImageCrop(box, (size, size)) for box in boxes], size)
        difference = (got - wanted).abs()
        assert float(difference.max()) <= 1 and float(difference.mean()) < 0.02

    @pytest.mark.parametrize("most", [1, 10**5, 10**9], ids=["one-by-one", "some", "all-at-once"])
    @pytest.mark.parametrize(
        "transform",
        [
            RandomResizedCrop,
            partial(ResizeRandomCrop, 60),
            partial(ResizeRandomCrop, 60, keep_ratio=True),
            partial(ResizeCenterCrop, 56, keep_ratio=True),
            partial(ResizeCenterCrop, 61),
            partial(ResizeCenterCrop, 63),
            partial(ResizeCenterCrop, 64, keep_ratio=True, interpolation="bilinear"),
        ],
    )
    def test_images_of_several_sizes_are_cut_together_on_a_gpu_as_one_by_one_on_a_cpu(
        self, transform: Callable[..., Transform], most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = transform(size=56, normalise=Normalise((0.0,) * 3, (1 / 255,) * 3))  # whole levels
        draws = torch.Generator().manual_seed(1)
        sizes = [(64, 64), (90, 61), (57, 120), (300, 200), (57, 57)]
        images = [torch.randint(0, 256, (3, *each), dtype=torch.uint8, generator=draws) for each in sizes]
        images[1] = images[1][:1]  # grey
        with monkeypatch.context() as patch:
            patch.setattr(cropping, "_on_gpu", lambda images: True)
            patch.setattr(resampling, "MOST_VALUES", most)
            ours, generator = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
            got = made(images, ours)
        wanted = made(images, generator)
        assert torch.equal(ours.get_state(), generator.get_state())  # so that all that follows is drawn alike
        difference = (got - wanted).abs()
        assert got.shape == (5, 3, 56, 56)
        assert float(difference.max()) <= 1.01 and float(difference.mean()) < 0.02

    @pytest.mark.parametrize("transform", [RandomResizedCrop, partial(ResizeRandomCrop, 60)])
    def test_images_of_several_sizes_give_what_one_size_gives(self, transform: Callable[..., Transform]) -> None:
        made = transform(56, normalise=Normalise((0.5,) * 3, (0.5,) * 3))
        images = torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8)
        one, several = (made(each, torch.Generator().manual_seed(3)) for each in (images, list(images)))
        assert torch.equal(one, several) and one.shape == (4, 3, 56, 56)

    @pytest.mark.parametrize(("height", "width"), [(4, 400), (400, 4), (7, 501)])
    def test_of_an_image_too_narrow_for_a_crop_torchvisions_middle_is_taken(
        self, height: int, width: int, generator: torch.Generator
    ) -> None:
        """No box of 8 % of the area and an allowed aspect ratio fits it, whatever is drawn."""
        theirs = TheirRandomResizedCrop.get_params(torch.empty(1, height, width), [0.08, 1.0], [3 / 4, 4 / 3])
        assert _crop_box(height, width, generator) == tuple(theirs)

    def test_crops_follow_torchvisions_rules(self, generator: torch.Generator) -> None:
        boxes = [_crop_box(60, 80, generator) for _ in range(2000)]
        assert all(t >= 0 and t + h <= 60 and left >= 0 and left + w <= 80 for t, left, h, w in boxes)
        image = torch.empty(1, 60, 80)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            theirs = [TheirRandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(2000)]
        ours, reference = (torch.tensor(part, dtype=torch.float32) for part in (boxes, theirs))
        torch.testing.assert_close(ours.mean(0), reference.mean(0), rtol=0.05, atol=0.5)
        torch.testing.assert_close(ours.std(0), reference.std(0), rtol=0.06, atol=0.5)
        assert all(0.7 < w / h < 1.4 for _, _, h, w in boxes if h > 20)
