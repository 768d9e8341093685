"""Searches on images of one's own: broken ones are found before the night, and a backbone where no hub is reached."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import timm
from PIL import Image

from search_spaces import Range
from tausearch.api import (
    SearchRequest,
    TrainRequest,
    benchmarks,
    composition,
    continuation,
    plan_search,
    plan_training,
    space_for,
)
from tausearch.api.benchmarks import FaultsOfEach, OpenBenchmark, images_then_weights, open_benchmark
from tausearch.api.plans import one_benchmark
from tausearch.api.requests import EvaluateRequest
from tausearch.models import VectorSource
from tausearch.runs import DataFacts, Reevaluate, ReevaluationSpec, TrialSummary
from tausearch.studies import load_best, unsearched_best_file
from tausearch.studies.best_file import make_best_file
from tests.support.command_line import Command
from tests.support.imports import ROOT
from trainables import user_code
from trainables.backbones import EMBEDDED, Backbone, loading, offered
from trainables.data import BenchmarkRef, build_benchmark, dataset, get_source
from trainables.errors import InputError, OtherImagesError
from trainables.trial import build_sequence

Folder = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    def make(side: int = 32, broken: tuple[str, ...] = ()) -> str:
        """Four classes of six colour images, 4 to train and 2 to test; some are no images."""
        numbers = np.random.default_rng(0)
        for name in "abcd":
            for number in range(6):
                path = tmp_path / "own" / ("train" if number < 4 else "test") / name / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                content = io.BytesIO()
                Image.fromarray(numbers.integers(0, 255, (side, side + 3, 3), dtype=np.uint8)).save(content, "PNG")
                path.write_bytes(b"no image" if f"{name}/{number}" in broken else content.getvalue())
        return f"folder:{tmp_path / 'own'}?tasks=2"

    return make


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    original = timm.create_model

    def create(*arguments: object, pretrained: bool, **options: object) -> object:
        if pretrained:
            raise OSError("the hub is out of reach")
        return original(*arguments, pretrained=False, **options)

    monkeypatch.setattr(timm, "create_model", create)
    monkeypatch.setattr(loading, "hub_answers", lambda: False)
    monkeypatch.setattr(offered, "is_here", lambda name: False)


def wanted(text: str, tmp_path: Path, **options: object) -> SearchRequest:
    given = {"backbone": EMBEDDED, **options}
    return SearchRequest(text, "finetune", storage=tmp_path / "runs", **given)  # type: ignore[arg-type]


def test_a_search_finds_a_broken_test_image_before_it_starts(folder: Folder, tmp_path: Path) -> None:
    text = folder(broken=("c/5",))
    with pytest.raises(InputError, match=r"test/c/5.png: cannot be read \(not an image\); --skip-broken leaves out"):
        plan_search(wanted(text, tmp_path))
    assert get_source(text).load("test")  # refused, not changed


@pytest.mark.parametrize("backbone", [None, "vit_tiny_patch16_224"])
def test_a_broken_image_is_named_with_what_is_wrong_with_the_weights(
    folder: Folder, tmp_path: Path, no_hub: None, backbone: str | None
) -> None:
    request = wanted(folder(side=70, broken=("c/5",)), tmp_path, backbone=backbone)
    with pytest.raises(InputError) as caught:
        plan_search(request)
    image, weights = str(caught.value).splitlines()
    assert "test/c/5.png: cannot be read" in image and "its weights cannot be fetched" in weights
    with pytest.raises(InputError) as caught:
        plan_search(replace(request, benchmark=request.benchmark.partition("?")[0]))
    tasks, *others = str(caught.value).splitlines()
    assert "needs --tasks" in tasks and others == [image, weights]


@pytest.mark.parametrize("backbone", [None, "vit_tiny_patch16_224"])
def test_nothing_is_downloaded_for_broken_images(
    folder: Folder, tmp_path: Path, no_hub: None, monkeypatch: pytest.MonkeyPatch, backbone: str | None
) -> None:
    monkeypatch.setattr(loading, "hub_answers", lambda: True)
    request = wanted(folder(side=70, broken=("c/5",)), tmp_path, backbone=backbone)
    for benchmark in (request.benchmark, request.benchmark.partition("?")[0]):
        with pytest.raises(InputError) as caught:
            plan_search(replace(request, benchmark=benchmark))
        assert "test/c/5.png: cannot be read" in str(caught.value) and "fetched" not in str(caught.value)


@pytest.mark.usefixtures("no_hub")
def test_of_small_broken_images_nothing_is_said_but_the_images(
    folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError) as caught:
        plan_search(wanted(folder(broken=("a/1", "c/5")), tmp_path, backbone=None))
    train, test = str(caught.value).splitlines()
    assert "train/a/1.png: cannot be read" in train and "test/c/5.png: cannot be read" in test
    assert "--skip-broken" in test and "fetched" not in capsys.readouterr().err


def test_a_final_run_says_both_at_once(
    folder: Folder, tmp_path: Path, no_hub: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = folder(side=70)
    spec = plan_search(wanted(text, tmp_path)).spec
    protocol = spec.protocol.model_copy(update={"backbone": "vit_tiny_patch16_224"})
    best = make_best_file(spec, TrialSummary(0, 0, "complete", {"lr": 0.01}, [], 50.0), 1).model_copy(
        update={"protocol": protocol}
    )
    folder(side=70, broken=("c/5",))
    with pytest.raises(InputError, match=r"test/c/5.png: cannot be read.*\n.*its weights cannot be fetched"):
        plan_training(TrainRequest(best, storage=tmp_path / "runs"))
    monkeypatch.setattr(loading, "hub_answers", lambda: True)  # then nothing is downloaded for them
    with pytest.raises(InputError, match=r"test/c/5.png: cannot be read[^\n]*$"):
        plan_training(TrainRequest(best, storage=tmp_path / "runs"))


def test_all_that_is_wrong_with_the_words_of_a_request_is_said_at_once(folder: Folder, tmp_path: Path) -> None:
    """Images are not read for it, and what depends on a word that is wrong is not checked."""
    text = folder(broken=("c/5",)).partition("?")[0]
    request = SearchRequest(text, "fintune", algorithm="tp", precision="half", scheduler="x", storage=tmp_path / "runs")
    with pytest.raises(InputError) as caught:
        plan_search(request)
    method, algorithm, scheduler, precision, tasks = str(caught.value).splitlines()
    assert "unknown method 'fintune'" in method and "unknown algorithm 'tp'" in algorithm
    assert "unknown scheduler 'x'" in scheduler
    with pytest.raises(InputError, match="--set rate=1: unknown hyperparameter 'rate'.*\n.*needs --tasks"):
        plan_search(SearchRequest(text, "finetune", set={"rate": 1}, storage=tmp_path / "runs"))
    assert "unknown precision 'half'" in precision and "tasks" in tasks and text in tasks
    wrong = {"algorithm": "tp", "scheduler": "asha", "constraint": ["speed <= 1", "loss"], "set": {"l": 1, "lrr": 2}}
    request = SearchRequest(text, "finetune", tasks=2, tracking_uri="x://y", **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        plan_search(request)
    first, second, algorithm, uri, constraint, other = str(caught.value).splitlines()
    assert "unknown algorithm 'tp'" in algorithm and "--set l=1" in first and "--set lrr=2" in second
    assert "x://y" in uri and "speed" in constraint and "METRIC <= NUMBER" in other
    values = {"backbone": "vit_tin", "set": {"lr": -3}, "constraint": ["speed <= 1"]}
    with pytest.raises(InputError, match="'vit_tin'.*\n.*lr=-3.*\n.*'speed'"):
        plan_search(SearchRequest(text, "finetune", tasks=2, storage=tmp_path / "runs", **values))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown method 'fintune'.*\n.*'vit_tin'"):
        plan_search(SearchRequest(text, "fintune", tasks=2, backbone="vit_tin", storage=tmp_path / "runs"))


def test_broken_images_are_left_out_and_listed_from_search_to_final_run(
    folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = folder(broken=("a/2", "c/5"))
    spec = plan_search(wanted(text, tmp_path, skip_broken=True)).spec
    assert spec.benchmark == f"{text}&skip_broken=yes" and len(spec.left_out) == 2
    assert "train/a/2.png: cannot be read" in spec.left_out[0] and "test/c/5.png: cannot be" in spec.left_out[1]
    assert capsys.readouterr().err == "".join(f"tausearch: left out: {line}\n" for line in spec.left_out)
    trial = TrialSummary(0, 0, "complete", {**spec.fixed, **spec.start}, [{"task": 2.0}], 50.0)
    best = make_best_file(spec, trial, 1)
    assert best.left_out == spec.left_out
    final = plan_training(TrainRequest(best, storage=tmp_path / "runs")).spec
    assert (final.benchmark, final.left_out) == (spec.benchmark, spec.left_out)
    source = get_source(final.benchmark)
    assert [len(source.load(part)[1]) for part in ("train", "test")] == [15, 7]


def test_a_run_whose_images_are_broken_by_the_thousand_can_be_read(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the tool are read up to 1 MiB."""
    broken = [
        f"image /data/own/train/a/{number:05}.png: cannot be read (no image of a known kind)"
        for number in range(15_000)
    ]
    monkeypatch.setattr(OpenBenchmark, "_unreadable", broken)
    spec = plan_search(wanted(folder(), tmp_path, skip_broken=True)).spec
    more = "and 14,500 images more; `tausearch data check` names all"
    assert spec.left_out == (*broken[:500], more)
    best, file = unsearched_best_file(spec), tmp_path / "best.yaml"
    best.save(file)
    assert load_best(file).left_out == spec.left_out
    monkeypatch.setattr(OpenBenchmark, "_unreadable", broken[:500])
    assert plan_search(wanted(folder(), tmp_path, skip_broken=True)).spec.left_out == tuple(broken[:500])


@pytest.mark.usefixtures("no_hub")
class TestWithoutAHub:
    def test_small_images_get_the_embedded_backbone_and_a_line_says_so(
        self, folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        spec = plan_search(wanted(folder(), tmp_path, backbone=None)).spec
        assert (spec.protocol.backbone, spec.protocol.weights_digest) == (EMBEDDED, Backbone().digest)
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "its weights cannot be fetched. The images are small (35 pixels), so" in err

    def test_the_line_is_said_once_of_an_open_benchmark(
        self, folder: Folder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        opening, text = cache(open_benchmark), folder()
        for method in ("finetune", "ita-lora"):
            space_for(replace(wanted(text, tmp_path, backbone=None), method=method), opening)
        assert capsys.readouterr().err.count("its weights cannot be fetched") == 1
        space_for(wanted(text, tmp_path, backbone=None))
        assert capsys.readouterr().err.count("its weights cannot be fetched") == 1

    @pytest.mark.parametrize(("side", "small"), [(61, True), (62, False)])
    def test_images_up_to_64_pixels_are_small(self, side: int, small: bool, folder: Folder, tmp_path: Path) -> None:
        request = wanted(folder(side=side), tmp_path, backbone=None)  # three pixels wider than high
        if small:
            assert plan_search(request).spec.protocol.backbone == EMBEDDED
        else:
            with pytest.raises(InputError, match="the hub is out of reach"):
                plan_search(request)

    def test_photographs_and_a_backbone_that_was_named_do_not(self, folder: Folder, tmp_path: Path) -> None:
        text = folder(side=80)
        for backbone in (None, "vit_tiny_patch16_224.augreg_in21k"):
            with pytest.raises(InputError, match="the hub is out of reach.*or take the embedded --backbone glyph_vit"):
                plan_search(wanted(text, tmp_path, backbone=backbone))
        with pytest.raises(InputError, match="cannot be fetched"):
            plan_search(wanted(folder(), tmp_path, backbone="vit_tiny_patch16_224.augreg_in21k"))


def test_timm_is_told_what_the_embedded_backbone_reads() -> None:
    model = Backbone().load()
    config = timm.data.resolve_model_data_config(model)
    assert (config["input_size"], config["mean"], config["std"]) == ((1, 32, 32), (0.5,), (0.5,))
    assert model.default_cfg["num_classes"] == 0 == model.num_classes


def test_the_backbones_are_listed(command: Command) -> None:
    out, _ = command("list", "backbones")
    assert "glyph_vit" in out and "32 x 32 grey" in out and "backbones WORD" in out
    found = json.loads(command("list", "backbones", "base_patch16_224.augreg", "--format", "json")[0])
    assert {"name": "vit_base_patch16_224.augreg_in21k", "channels": 3, "size": 224} in [
        {key: each[key] for key in ("name", "channels", "size")} for each in found
    ]
    assert all("base_patch16_224.augreg" in each["name"] for each in found)


def test_probing_and_pace_suit_the_images_and_are_said_before_it_starts(
    folder: Folder, tmp_path: Path, command: Command
) -> None:
    text = folder()
    plan = plan_search(SearchRequest(text, "ita-lora", storage=tmp_path / "runs", backbone=EMBEDDED))
    assert (plan.spec.protocol.batch_size, plan.spec.protocol.epochs) == (8, 300)  # 8 images a task, one batch
    assert plan.spec.fixed == {"lr_pre": 0.035, "epochs_pre": 100}
    words = ("search", text, "ita-lora", "--dry-run", "--storage", tmp_path / "runs", "--backbone", EMBEDDED)
    out, _ = command(*words)
    said = "images: 6 in each of 2 tasks: 1 step an epoch (batches of 8), 300 epochs; 4 for validation"
    assert said in out.replace("\n", " ") and "\nfixed: lr_pre=0.035 epochs_pre=100\n" in out
    told = json.loads(command(*words, "--format", "json")[0])
    assert [told[name] for name in ("images", "evaluation_images", "steps_per_epoch", "epochs")] == [12, 4, [1, 1], 300]
    out, _ = command("list", "spaces", "ita-lora", "--benchmark", text, "--backbone", EMBEDDED, "--format", "json")
    assert json.loads(out)["fixed"] == plan.spec.fixed
    other = ("--benchmark", text, "--backbone", "vit_tiny_patch16_224.augreg_in21k", "--format", "json")
    assert json.loads(command("list", "spaces", "ita-lora", *other)[0])["fixed"]["lr_pre"] == 0.02
    _, err = command("list", "spaces", "ita-lora", "--benchmark", text.partition("?")[0], code=2)
    assert "or ?tasks=2 in its name" in err


def test_a_benchmark_in_code_gets_the_same_probing_and_keeps_its_own_pace(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_code, "_allowed", {})
    monkeypatch.delitem(sys.modules, "own_benchmark", raising=False)  # that of another test's folder
    monkeypatch.chdir(ROOT / "examples")
    text, suited = "own_benchmark:STRIPES", {"lr_pre": 0.035, "epochs_pre": 34}  # 80 images a task: 3 batches of 32
    out, _ = command("list", "spaces", "ita-lora", "--benchmark", text, "--format", "json")
    assert json.loads(out)["fixed"] == suited
    spec = plan_search(SearchRequest(text, "ita-lora", storage=tmp_path / "runs", set={"epochs_pre": 8})).spec
    assert spec.fixed == {**suited, "epochs_pre": 8}
    assert (spec.protocol.batch_size, spec.protocol.epochs) == (32, 5)
    assert plan_search(SearchRequest("digits", "ita-lora", storage=tmp_path / "runs")).spec.fixed != suited


def test_each_purpose_and_split_has_images_of_its_own_which_are_read_once(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, built = open_benchmark(folder(), None), []

    def build(source: object, purpose: str, split_seed: int, reads: object) -> object:
        built.append((purpose, split_seed))
        return build_benchmark(source, purpose, split_seed, reads)  # type: ignore[arg-type]

    monkeypatch.setattr(benchmarks, "build_benchmark", build)
    asked = [("search", 0), ("search", 1), ("final", 0), ("search", 0)]
    found = [opened.require(purpose, seed, Backbone().input) for purpose, seed in asked]  # type: ignore[arg-type]
    assert built == asked[:3] and found[3] is found[0]
    assert [each.data.train for each in found[:3]] == [12, 12, 16] and found[0].data.digest != found[1].data.digest


def test_the_checks_of_an_open_benchmark_list_its_folder_once(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    listed, find = list[Path](), dataset.folder.find
    monkeypatch.setattr(dataset.folder, "find", lambda path: (listed.append(path), find(path))[1])
    opened = open_benchmark(folder(), None)
    assert len(listed) == 1
    assert opened.require("search", 0, Backbone().input).data.classes_digest is not None
    assert len(listed) == 2


class TestImagesThatHaveChanged:
    """A run that goes on with other images says so; the digest has the times of files, so it is no error."""

    @pytest.fixture
    def overwrite(self, tmp_path: Path) -> Callable[[str], None]:
        def grey(part: str) -> None:
            Image.new("RGB", (35, 32)).save(tmp_path / "own" / part / "a" / ("0.png" if part == "train" else "4.png"))

        return grey

    @pytest.fixture
    def said(self, capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
        def lines() -> list[str]:
            return [line for line in capsys.readouterr().err.splitlines() if "its files are not those" in line]

        return lines

    @pytest.mark.parametrize("several", [False, True])
    def test_a_search(
        self,
        folder: Folder,
        tmp_path: Path,
        overwrite: Callable[[str], None],
        said: Callable[[], list[str]],
        several: bool,
    ) -> None:
        text = folder()
        names = f"digits,{text}" if several else text
        request = replace(wanted(names, tmp_path), name="s", resume_if_exists=True)
        with plan_search(request).open_locked() as (spec, _):
            pass
        plan_search(request)
        overwrite("test")  # a search sees none of them
        plan_search(request)
        continuation._require_unchanged(spec)
        plan_search(replace(request, seed=1))  # of another split; it is refused for that when it is opened
        assert said() == []
        overwrite("train")
        plan_search(request)
        continuation._require_unchanged(spec)
        assert [line.partition(": its files are not those that run s")[0] for line in said()] == [
            f"tausearch: {text}"
        ] * 2
        plan_search(replace(request, name="new"))
        assert said() == []

    def test_a_final_run_and_what_is_composed_of_it(
        self, folder: Folder, tmp_path: Path, overwrite: Callable[[str], None], said: Callable[[], list[str]]
    ) -> None:
        text = folder()
        best = make_best_file(
            plan_search(wanted(text, tmp_path)).spec, TrialSummary(0, 0, "complete", {"lr": 0.01}, [], 50.0), 1
        )
        request = TrainRequest(best, storage=tmp_path / "runs", name="f", resume_if_exists=True)
        with plan_training(request).open_locked() as (spec, directory):
            pass
        source = VectorSource("f", text, ("finetune",), spec.protocol, (0,), directory.path, images=spec.data)
        exported = replace(source, name="vectors", images=None)

        def go_on() -> list[str]:
            plan_training(request)
            for purpose in ("final", "search"):  # a search for a rule's parameters looks at validation images
                composition._benchmark([exported, source], EvaluateRequest(["f"]), purpose, Backbone())  # type: ignore[arg-type]
            return said()

        assert go_on() == []
        overwrite("test")
        assert len(go_on()) == 2
        assert spec.data is not None
        for part in ("train", "evaluation"):  # images were added or deleted, so that the split is drawn anew
            data = spec.data.model_copy(update={part: getattr(spec.data, part) + 1})
            source = replace(source, images=data)
            with pytest.raises(InputError, match=f"^run 'f': data.{part} was .* images, is now .*; bring back"):
                composition._benchmark([exported, source], EvaluateRequest(["f"]), "final", Backbone())  # type: ignore[arg-type]

    @pytest.mark.parametrize("known_by", ["best file", "search", "nothing"])
    def test_a_final_run_whose_search_had_other_images(
        self,
        folder: Folder,
        tmp_path: Path,
        overwrite: Callable[[str], None],
        said: Callable[[], list[str]],
        known_by: str,
    ) -> None:
        text, own = folder(), tmp_path / "own"
        with plan_search(replace(wanted(text, tmp_path), name="s")).open_locked() as (spec, directory):
            best = make_best_file(spec, TrialSummary(0, 0, "complete", {"lr": 0.01}, [], 50.0), 1)
        best.save(tmp_path / "best.yaml")
        best = load_best(tmp_path / "best.yaml")
        if known_by != "best file" and best.selection is not None:
            best = best.model_copy(update={"selection": best.selection.model_copy(update={"images": {}})})
        storage = directory.path.parent if known_by == "search" else tmp_path / "other"
        request = TrainRequest(best, storage=storage)
        overwrite("test")  # which no search has seen
        plan_training(request)
        assert said() == []
        overwrite("train")
        plan_training(request)
        assert len(said()) == (known_by != "nothing")
        again = f"^run 's': {best.title}: "
        fault = "; bring back the images that it began with, or search again, or name a copy .* with --benchmark$"
        (own / "train" / "a" / "0.png").rename(own / "train" / "b" / "9.png")
        moved = f"{again}data: an image was added, deleted, or moved to another class{fault}"
        for expected in (moved, f"{again}data.train was 12 images, is now 11{fault}"):
            with nullcontext() if known_by == "nothing" else pytest.raises(InputError, match=expected):
                plan_training(request)
            with nullcontext() if known_by == "nothing" else pytest.raises(InputError, match=moved):
                plan_training(replace(request, benchmark=f"{text}&epochs=2&batch_size=16"))
            (own / "train" / "b" / "9.png").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(own)
        plan_training(replace(request, benchmark=f"folder:{tmp_path / 'link'}?tasks=2"))
        if known_by == "search":
            directory.spec_file.write_text(f"id: {spec.id}\n")  # damaged
            plan_training(replace(request, tracking="none"))

    def test_other_tasks_need_no_validation_images(self, folder: Folder, tmp_path: Path) -> None:
        folder()
        (tmp_path / "rows").mkdir()
        for part in ("train", "test"):
            images = [(path.parent.name, path.read_bytes()) for path in (tmp_path / "own" / part).glob("*/*.png")]
            labels, content = zip(*images, *[("e", content) for _, content in images[:2]], strict=True)
            pq.write_table(pa.table({"image": content, "label": labels}), tmp_path / "rows" / f"{part}.parquet")
        text = f"parquet:{tmp_path / 'rows'}?task=a,b&task=c,d"
        with plan_search(replace(wanted(text, tmp_path), name="s")).open_locked() as (spec, _):
            best = make_best_file(spec, TrialSummary(0, 0, "complete", {"lr": 0.01}, [], 50.0), 1)
        plan = plan_training(TrainRequest(best, benchmark=f"{text},e", storage=tmp_path / "runs"))
        assert plan.spec.data is not None and plan.spec.data.per_task == (8, 10)

    def test_an_image_that_has_moved_to_another_class(self, folder: Folder, tmp_path: Path) -> None:
        request = replace(wanted(folder(), tmp_path), name="s", resume_if_exists=True)
        with plan_search(request).open_locked() as (spec, _):
            pass
        (tmp_path / "own" / "train" / "a" / "0.png").rename(tmp_path / "own" / "train" / "b" / "9.png")
        for go_on in (lambda: plan_search(request), lambda: continuation._require_unchanged(spec)):
            with pytest.raises(
                InputError, match="^run 's': data: an image was added, deleted, or moved to another class; br"
            ):
                go_on()
        assert spec.data is not None  # of a run of an earlier version only the number of all images is known
        older = spec.model_copy(update={"data": spec.data.model_copy(update={"classes_digest": None})})
        continuation._require_unchanged(older)

    def test_a_trial_that_meets_them_while_its_run_goes_on(self, folder: Folder, tmp_path: Path) -> None:
        search = plan_search(wanted(folder(), tmp_path, name="s", reevaluate=2)).spec
        best = make_best_file(search, TrialSummary(0, 0, "complete", {"lr": 0.01}, [], 50.0), 1)
        asked = TrainRequest(best, storage=tmp_path / "runs")
        final, ordered = (plan_training(replace(asked, class_orders=orders)).spec for orders in (None, [1, 2]))
        specs = {"12": ReevaluationSpec.of(search), "16": final, "16 ": ordered}
        configs = {was: spec.trial_config(1, {"lr": 0.01}, cache=None) for was, spec in specs.items()}
        for config in configs.values():
            build_sequence(config).close()
        image = tmp_path / "own" / "train" / "a" / "0.png"
        shutil.copy(image, image.with_name("9.png"))
        for was, config in configs.items():
            name = re.escape(f"run '{config.run}': {config.benchmark}: ")
            fault = f"data.train was {was.strip()} images, is now {int(was) + 1}; bring back"
            with pytest.raises(OtherImagesError, match=f"^{name}{fault}"):
                build_sequence(config)
            build_sequence(replace(config, images=None)).close()  # of a run that has noted none

    def test_of_a_benchmark_in_code_no_files_are_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        before, now = (DataFacts(digest=each, train=1, evaluation=1) for each in "ab")
        source: Any = None
        OpenBenchmark(BenchmarkRef.parse("mine:SOURCE"), source, None).say_other_images("r", before, now)
        assert "mine:SOURCE: its images or transforms are not those that run r began with" in capsys.readouterr().err

    def test_a_campaign_says_it_once_for_a_benchmark(
        self, folder: Folder, tmp_path: Path, overwrite: Callable[[str], None], said: Callable[[], list[str]]
    ) -> None:
        opened = open_benchmark(folder(), None)
        request = replace(wanted(str(opened.ref), tmp_path), resume_if_exists=True)
        for name in "ab":
            with plan_search(replace(request, name=name)).open_locked():
                pass
        overwrite("train")
        opened = open_benchmark(str(opened.ref), None)
        for name in "ab":
            plan_search(replace(request, name=name), lambda text, root: opened)
        assert len(said()) == 1


def test_a_search_on_few_of_them_reevaluates_unless_it_is_asked_not_to(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = SearchRequest(folder(), "finetune", backbone=EMBEDDED, trials=12, storage=tmp_path / "runs")
    plan = plan_search(request)
    assert plan.spec.reevaluate == Reevaluate(best=3, runs=2, start=True) and plan.spec.data is not None
    assert plan_search(replace(request, reevaluate=0)).spec.reevaluate is None
    assert plan_search(replace(request, trials=11)).spec.reevaluate is None
    for most, usual in ((plan.spec.data.evaluation, plan.spec.reevaluate), (plan.spec.data.evaluation - 1, None)):
        monkeypatch.setattr(one_benchmark, "_FEW", most)
        assert plan_search(request).spec.reevaluate == usual


def test_the_range_of_the_learning_rate_suits_few_of_them(folder: Folder, tmp_path: Path) -> None:
    request = SearchRequest(folder(), "ita-lora", backbone=EMBEDDED, storage=tmp_path / "runs")
    usual = plan_search(replace(request, benchmark="digits")).spec.space["lr"]
    own = plan_search(request).spec.space["lr"]
    assert isinstance(usual, Range) and isinstance(own, Range) and (usual.high, own.high) == (0.02, 0.003)
    (tmp_path / "mine.yaml").write_text("space: {lr: {low: 0.001, high: 0.5, log: true, grid: [0.1]}}")
    theirs = plan_search(replace(request, space=tmp_path / "mine.yaml")).spec.space["lr"]
    assert isinstance(theirs, Range) and theirs.high == 0.5
    (tmp_path / "mine.yaml").write_text("space: {alpha: {low: 0.1, high: 9, log: true, grid: [1]}}")
    assert plan_search(replace(request, space=tmp_path / "mine.yaml")).spec.space["lr"] == own


def opened(name: str, backbone: str = "vit_tiny_patch16_224") -> OpenBenchmark:
    source: Any = SimpleNamespace(backbone=backbone)  # whose images are not to be read
    return OpenBenchmark(BenchmarkRef(name=name), source, None)


def test_only_images_of_a_folder_without_named_weights_may_get_another_backbone() -> None:
    published, own = opened("mit67"), opened("folder:/own")
    assert published.backbone(None) == Backbone("vit_tiny_patch16_224")
    assert own.backbone(Path("w.safetensors")) == Backbone("vit_tiny_patch16_224", Path("w.safetensors"))
    assert opened("digits").embedded and not published.embedded and not own.embedded


def test_a_folder_of_images_lies_in_no_folder_of_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.api.benchmarks.get_source", lambda *_: None)
    found = [open_benchmark(name, tmp_path).data_root for name in (f"folder:{tmp_path}?tasks=2", "mit67", "digits")]
    assert found == [None, str(tmp_path), None]


def test_what_is_noted_of_images_is_of_all_tasks() -> None:
    tasks = [SimpleNamespace(train=range(count)) for count in (3, 5)]
    prints = {"fingerprint": "a" * 64, "evaluation_fingerprint": "b" * 64}
    built: Any = SimpleNamespace(tasks=tasks, evaluation=[range(2), range(4)], **prints)
    facts = opened("digits").facts_of(built)
    assert (facts.digest, facts.evaluation_digest) == ("a" * 64, "b" * 64)
    assert (facts.train, facts.per_task) == (8, (3, 5))
    assert (facts.evaluation, facts.evaluation_per_task) == (6, (2, 4))


@pytest.mark.parametrize("download", [True, False])
def test_weights_are_checked_after_images_that_are_whole(download: bool) -> None:
    backbone: Any = SimpleNamespace(needs_download=download)
    assert images_then_weights(lambda: "images", backbone, lambda: "weights") == ("images", "weights")


def test_a_mistake_on_all_benchmarks_is_said_once_and_others_with_every_benchmark_that_has_them() -> None:
    faults = FaultsOfEach(3)
    for benchmark, lines in {"x": ["of all", "in x.png"], "y": ["of two", "of all"], "z": ["of all", "of two"]}.items():
        with faults.of(benchmark):
            raise InputError(*lines)
    with pytest.raises(InputError) as caught:
        faults.raise_all()
    assert str(caught.value).splitlines() == ["of all", "in x.png", "y, z: of two"]
