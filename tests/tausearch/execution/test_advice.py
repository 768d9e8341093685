"""What a dry run advises for the user's own images: settings that do not suit so few, and a backbone for this CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from search_spaces import load_space
from tausearch.execution import advice, preview_plan
from tausearch.execution.advice import backbone_line, backbone_times, grey_line, unsuited_to
from tausearch.runs import DataFacts, Plan, Reevaluate, Resources, SearchSpec, Storage
from tests.support.runs.trials import final_spec
from trainables.backbones import EMBEDDED, SMALL, Backbone, timing
from trainables.data.few_images import OwnImages
from trainables.methods import get_method
from trainables.task_names import NamedTask

LARGE = "vit_base_patch16_224.augreg_in21k"


@pytest.fixture
def own(spec: SearchSpec) -> SearchSpec:
    """A search on twelve images of a task, on ViT-B."""
    data = DataFacts(digest="0", train=36, per_task=(12, 12, 12), evaluation=4)
    tasks = tuple(NamedTask((f"a{n}", f"b{n}")) for n in range(3))
    protocol = spec.protocol.model_copy(update={"backbone": LARGE, "batch_size": 8, "epochs": 150})
    changes = {"benchmark": "folder:/mine?tasks=3", "data": data, "tasks": tasks, "protocol": protocol}
    return spec.model_copy(update={**changes, "fixed": {**spec.fixed, "epochs_pre": 50}})


@pytest.fixture(autouse=True)
def timed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The backbones that are timed: 0.5 s for an image, and a tenth of it for the small one."""
    asked: list[tuple[str, int]] = []

    def seconds_per_image(name: str, cpus: int) -> float:
        asked.append((name, cpus))
        return 0.05 if name == SMALL else 0.5

    monkeypatch.setattr(timing, "seconds_per_image", seconds_per_image)
    return asked


def settings(spec: Any) -> Sequence[str]:
    return [each.setting for each in unsuited_to(spec)]


def test_settings_of_benchmark_method_and_split(own: SearchSpec) -> None:
    assert settings(own) == ["batch size", "epochs", "epochs_pre", "mixtures", "validation split"]
    joint = own.model_copy(update={"method": "joint", "fixed": {}, "start": {"lr": 0.001}})
    (batch, epochs, _) = unsuited_to(joint)  # it sees the images of all tasks as one
    assert "1 step an epoch of the 36 images of a task" in batch.reason and "make 25 steps" in epochs.reason


def test_a_method_that_learns_all_tasks_at_once_is_judged_by_their_images_and_classes_together(
    own: SearchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[OwnImages] = []
    mine = replace(get_method("joint"), unsuited=lambda config, images: told.append(images) or ())
    monkeypatch.setattr(advice, "get_method", lambda name: mine)
    unsuited_to(own.model_copy(update={"method": "joint", "fixed": {}, "start": {"lr": 0.001}}))
    (images,) = told
    assert (images.per_task, images.classes, images.per_class) == ((36,), (6,), 6)


def test_a_range_that_the_method_replaces_on_own_images_is_named(own: SearchSpec) -> None:
    few = load_space("ita-lora", own.benchmark, suited={}).space["lr"]
    for lr, named in ((few, True), (own.space["lr"], False)):
        found = [each for each in unsuited_to(own.model_copy(update={"space": {"lr": lr}})) if each.setting == "lr"]
        assert [str(each) for each in found] == [
            "lr is usually searched over a number from 3e-05 to 0.02, which goes too far on few images; a number from"
            " 3e-05 to 0.003 is searched"
        ] * named


def test_a_final_run_has_no_validation_split_and_orders_hide_the_classes_of_tasks(own: SearchSpec) -> None:
    final = final_spec(own, fixed={**own.fixed, **own.start})
    assert settings(final) == ["batch size", "epochs", "epochs_pre", "mixtures"]
    assert settings(final.model_copy(update={"tasks": ()})) == ["batch size", "epochs", "epochs_pre"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (None, "--reevaluate 3 runs the best again on other splits"),
        (Reevaluate(best=4, runs=3), "the best 4 are run again on 3 other splits"),
    ],
)
def test_the_step_of_one_validation_image(asked: Reevaluate | None, said: str, own: SearchSpec) -> None:
    found = unsuited_to(own.model_copy(update={"reevaluate": asked}))[-1]
    assert (
        found.reason == "of 4 images judges in steps of up to 25 points, so trials tie by luck"
        and found.instead == said
    )
    data = own.data
    assert data is not None
    for images, coarse in ((100, True), (101, False)):
        split = own.model_copy(update={"data": data.model_copy(update={"evaluation": images})})
        assert ("validation split" in settings(split)) == coarse
    assert "validation split" not in settings(own.model_copy(update={"trials": 1}))


def test_nothing_of_images_that_are_not_the_users(own: SearchSpec, timed: list[tuple[str, int]]) -> None:
    for benchmark in ("digits", "cub200"):
        spec = own.model_copy(update={"benchmark": benchmark})
        assert unsuited_to(spec) == () and backbone_times(spec, None) == ()
    assert unsuited_to(own.model_copy(update={"data": None})) == () and timed == []


@pytest.mark.parametrize("name", [LARGE, "glyph_vit"])
def test_a_small_backbone_is_offered_with_the_time_of_both(
    name: str, own: SearchSpec, timed: list[tuple[str, int]]
) -> None:
    resources = Resources(cpus_per_trial=2)
    protocol = own.protocol.model_copy(update={"backbone": name})
    mine, small = backbone_times(own.model_copy(update={"resources": resources, "protocol": protocol}), None)
    assert timed == [(name, 2), (SMALL, 2)]
    assert (mine.name, mine.step, mine.trial, mine.here) == (name, 4.0, 4.0 * 2 * 3 * 150, None)
    shown = {"backbone": name, "seconds_per_step": 4.0, "seconds_of_fine_tuning": 4.0 * 2 * 3 * 150}
    assert mine.as_dict() == shown
    assert (small.name, small.step, small.here) == (SMALL, pytest.approx(0.4), False)
    assert backbone_line(own, mine, replace(small, here=True)).endswith(f"--backbone {SMALL} (weights are here)")
    assert backbone_line(own, mine, small).endswith(" (weights: from the hub, or --backbone-weights FILE)")


def test_a_backbone_as_small_is_timed_alone(own: SearchSpec, timed: list[tuple[str, int]]) -> None:
    small = own.model_copy(update={"protocol": own.protocol.model_copy(update={"backbone": SMALL})})
    (mine,) = backbone_times(small, None)
    assert timed == [(SMALL, 1)] and (mine.name, mine.here) == (SMALL, None)
    line = backbone_line(small, mine)
    assert f"takes {SMALL} (224 x 224 colour) 0.4 s" in line and line.endswith("a trial 6:00")


def test_no_backbone_is_offered_where_it_does_not_help(
    own: SearchSpec, timed: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_gpu = own.model_copy(update={"resources": Resources(gpus_per_trial=0.5)})
    final = final_spec(own, fixed={**own.fixed, **own.start})
    assert [backbone_times(spec, None) for spec in (on_gpu, final)] == [(), ()]
    assert backbone_times(own, "10.0.0.1:6379") == ()
    monkeypatch.setattr(Backbone, "own", object())  # a network of the user's code
    assert backbone_times(own, None) == () and timed == []


def test_a_backbone_that_reads_grey_is_said_of_own_images(own: SearchSpec, tmp_path: Any) -> None:
    assert grey_line(own) is None  # it reads colour
    small = own.model_copy(update={"protocol": own.protocol.model_copy(update={"backbone": EMBEDDED})})
    said = "grey: glyph_vit reads 32 x 32 grey; images that have colours lose them"
    assert said in str(preview_plan(Plan(small, Storage(tmp_path), named=True), None)).splitlines()
    assert grey_line(small.model_copy(update={"benchmark": "digits"})) is None


def test_the_dry_run_says_it_in_plain_lines_and_the_run_itself_does_not(own: SearchSpec, tmp_path: Any) -> None:
    found = preview_plan(Plan(own, Storage(tmp_path), named=True), None)
    lines = str(found).splitlines()
    assert "few images: batch size 128 would make 1 step an epoch of the 12 images of a task; 8 is used" in lines
    assert not any(line.startswith("choice: ") for line in lines)  # the line about the validation split says it
    (backbone,) = (line for line in lines if line.startswith("backbone: "))
    assert f"{LARGE} (224 x 224 colour) 4 s, {SMALL} (224 x 224 colour) 0.4 s, measured now on this CPU" in backbone
    assert "all steps of a trial 1:00:00 or 6:00" in backbone and f"choose with --backbone {SMALL} (" in backbone
    plain = found.as_dict()
    assert plain["unsuited"][0]["setting"] == "batch size"
    assert [each["backbone"] for each in plain["backbones"]] == [LARGE, SMALL]
    assert preview_plan(Plan(own, Storage(tmp_path), named=True), "10.0.0.1:6379").backbones == ()
