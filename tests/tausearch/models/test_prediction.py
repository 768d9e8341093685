"""What a final run's model predicts: for the test images what the run was tested with, image by image."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import tausearch
from tausearch import compose
from tausearch.models import ModelOptions, find_source
from tausearch.models.descriptions import read_description
from tausearch.models.images import OfPixels, find_user_images
from tausearch.models.loading import _composed
from tausearch.presentation import draw_predictions
from tausearch.runs import Record, RunDirectory, Storage
from tests.support.command_line import Command
from tests.support.runs.composable_runs import make_composable_run, small_benchmark
from tests.support.runs.letter_images import LETTERS, draw_letters
from trainables.backbones import Backbone
from trainables.composition import VECTOR_FILE, vector_folders
from trainables.data import build_benchmark, get_source
from trainables.data.transforms.normalisation import Normalise
from trainables.data.transforms.spec import FittedToSize
from trainables.errors import InputError
from trainables.precision import features


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_letters(tmp_path_factory.mktemp("data") / "letters")


@pytest.fixture(scope="module")
def storage(letters: Path, made: Storage) -> Storage:
    """Final runs on the folder, and of other kinds on digits."""
    make_composable_run(made, "letters", "ita-lora", source=get_source(f"folder:{letters}?tasks=3&epochs=2"))
    return made


def final_accuracies(directory: RunDirectory, seed: int) -> list[float]:
    (row,) = [trial.final for trial in Record(directory.record).trials() if trial.seed == seed]
    return [row[f"test/accuracy/task_{task}"] for task in (1, 2, 3)]


@pytest.mark.parametrize("seed", [0, 1])
def test_it_predicts_the_test_images_of_a_folder_as_the_final_run_was_tested(
    seed: int, storage: Storage, letters: Path
) -> None:
    model = tausearch.load_model("letters", seed=seed, storage=storage.root)
    assert model.classes == tuple(LETTERS) and model.seed == seed
    found = model.predict(letters / "test")
    assert [each.image for each in found] == sorted(map(str, (letters / "test").rglob("*.png"))) and len(found) == 48
    for task, names in enumerate(("AB", "CD", "EF")):
        mine = [each for each in found if Path(each.image).parent.name in names]
        right = sum(each.label == Path(each.image).parent.name for each in mine)
        assert right == round(final_accuracies(storage.run("letters"), seed)[task] * len(mine) / 100), task
    assert len({each.label for each in found}) > 3


@pytest.mark.parametrize("name", ["full", "ia3", "tmc", "tak"])
def test_every_kind_of_task_vector_predicts_what_was_tested(name: str, storage: Storage) -> None:
    model = tausearch.load_model(name, storage=storage.root)
    assert isinstance(model.module, nn.Module) and not model.module.training
    wanted = final_accuracies(storage.run(name), 0)
    for images, accuracy in zip(small_benchmark().evaluation, wanted, strict=True):
        assert isinstance(images.images, torch.Tensor)
        labels = [int(each.label) for each in model.predict(images.images)]
        assert 100 * (torch.tensor(labels) == images.labels).sum() / len(labels) == pytest.approx(accuracy)


def test_probabilities_sum_to_one_and_name_every_class(storage: Storage, letters: Path) -> None:
    model = tausearch.load_model("letters", storage=storage.root)
    (one,) = model.predict(letters / "test" / "A" / "012.png")
    assert list(one.probabilities) == list(LETTERS) and sum(one.probabilities.values()) == pytest.approx(1)
    assert one.probability == max(one.probabilities.values()) == one.probabilities[one.label]
    rows = model.probabilities([letters / "test" / "A" / "012.png"])
    assert rows.shape == (1, 6) and rows[0].tolist() == list(one.probabilities.values())


def test_the_module_and_the_transform_are_all_there_is_to_it(storage: Storage, letters: Path) -> None:
    model = tausearch.load_model("letters", storage=storage.root)
    raw = torch.from_numpy(np.array(Image.open(letters / "test" / "B" / "033.png"))).permute(2, 0, 1)
    with torch.no_grad():
        logits = model.module(model.transform([raw], None))
    assert logits.shape == (1, 6) and torch.equal(logits.softmax(1), model.probabilities(raw))
    (images,) = build_benchmark(get_source(f"folder:{letters}?tasks=1"), "final", 0, Backbone().input).evaluation
    assert model.transform == OfPixels(images.transform)


WHITE = torch.full((1, 6, 6), 255, dtype=torch.uint8)


def test_one_transform_takes_images_of_several_sizes() -> None:
    transform = OfPixels(FittedToSize(4, Normalise((0.5,), (0.5,))))
    assert transform(WHITE[None]).eq(1).all() and transform([WHITE, WHITE[:, :4, :4]]).shape == (2, 1, 4, 4)


@pytest.mark.parametrize(
    ("images", "got"),
    [
        (WHITE[None] / 255, "Tensor (1, 1, 6, 6) torch.float32"),
        ([WHITE, WHITE / 255], "Tensor (1, 6, 6) torch.float32"),
        (WHITE[None].long(), "Tensor (1, 1, 6, 6) torch.int64"),
        (WHITE[None] > 0, "Tensor (1, 1, 6, 6) torch.bool"),
        (WHITE, "Tensor (1, 6, 6) torch.uint8"),
        ([WHITE[0]], "Tensor (6, 6) torch.uint8"),
        (WHITE.expand(2, 6, 6)[None], "Tensor (1, 2, 6, 6) torch.uint8"),
        (WHITE[None].numpy(), "ndarray (1, 1, 6, 6) uint8"),
        ([None], "None"),
        ([], "none"),
        (WHITE[None, :, :0], "Tensor (1, 1, 0, 6) torch.uint8"),
    ],
)
def test_the_transform_refuses_what_it_would_scale_wrongly(images: Any, got: str) -> None:
    said = "images must be a uint8 tensor (b, c, h, w), or a list of uint8 tensors (c, h, w), with values from 0 to 255"
    with pytest.raises(InputError, match=f"^{re.escape(f'{said} and 1 or 3 channels, got {got}')}$"):
        OfPixels(FittedToSize(4, Normalise((0.5,), (0.5,))))(images)


def test_images_in_memory_are_those_on_disk(storage: Storage, letters: Path) -> None:
    model, path = tausearch.load_model("letters", storage=storage.root), letters / "test" / "C" / "055.png"
    picture = Image.open(path)
    as_array = np.asarray(picture)
    as_tensor = torch.from_numpy(as_array.copy()).permute(2, 0, 1)
    wanted = model.probabilities(path)
    for image in (picture, as_array, as_tensor, as_tensor[None], [str(path)], as_array[None]):
        assert torch.equal(model.probabilities(image), wanted)
    mixed = model.predict([path, as_array[..., 0], picture])
    assert [each.image for each in mixed] == [str(path), "1", "2"]
    assert mixed[2].probabilities == pytest.approx(mixed[0].probabilities)
    assert model.predict([]) == [] and model.probabilities([]).shape == (0, 6)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4, 3)),
        np.array([["a", "b"]]),
        torch.zeros(2, 4, 4, dtype=torch.uint8),
        7,
        np.zeros((0, 4), np.uint8),
        torch.zeros(3, 4, 0, dtype=torch.uint8),
    ],
)
def test_what_is_no_image_is_refused(image: object, storage: Storage) -> None:
    with pytest.raises(InputError, match="image 0: must be a path"):
        tausearch.load_model("letters", storage=storage.root).predict([image])


@pytest.mark.parametrize("wrong", ["1", 0, 1.5, None])
def test_a_size_that_is_no_number_of_bytes_is_refused(wrong: Any, storage: Storage, letters: Path) -> None:
    with pytest.raises(InputError, match=f"max_image_bytes must be .*, got {wrong!r}"):
        tausearch.load_model("letters", storage=storage.root).predict(letters, max_image_bytes=wrong)


def test_some_tasks_are_composed_alone_and_know_their_classes(
    storage: Storage, letters: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tausearch.load_model("letters", keep=[3, 1], storage=storage.root)
    assert model.tasks == (1, 3) and model.classes == tuple("ABEF")
    assert tausearch.load_model("letters:1,3", storage=storage.root).classes == model.classes
    assert tausearch.load_model("letters:1,3", keep=[3], storage=storage.root).classes == tuple("EF")
    capsys.readouterr()
    by_name = tausearch.load_model("letters", keep=["F", "A", "B"], storage=storage.root)
    assert by_name.classes == model.classes
    assert capsys.readouterr().err == "tausearch: --keep: F is a class of task 3, E, F, which is taken whole\n"
    found = model.predict([letters / "test" / name for name in "ABEF"])
    kept = compose(["letters"], keep=[1, 3], seeds=[0], storage=storage.root).result.accuracies[0]
    for names, accuracy in (("AB", kept[0]), ("EF", kept[2])):  # over fewer classes there is less to confuse
        mine = [each for each in found if Path(each.image).parent.name in names]
        assert sum(each.label == Path(each.image).parent.name for each in mine) >= accuracy * len(mine) / 100


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("letters", {"keep": ["G"]}, "--keep: there is no task 'G'"),
        ("letters", {"keep": "12"}, "--keep must be a list"),
        ("letters", {"keep": []}, "--keep must be different tasks, got"),
        ("letters", {"seed": "0"}, "--seed must be a whole number from 0 to 4294967295, got '0'"),
        ("letters", {"keep": [4]}, "--keep: there is no task 4; allowed: 1 to 3"),
        ("letters:1,3", {"keep": [3, 2]}, "--keep: task 2 is none of letters:1,3$"),
        ("letters", {"keep": [1, 1]}, "--keep must be different tasks, got '1,1'"),
    ],
)
def test_tasks_and_seeds_that_there_are_not(name: str, wrong: dict[str, Any], said: str, storage: Storage) -> None:
    with pytest.raises(InputError, match=said):
        tausearch.load_model(name, **wrong, storage=storage.root)


class TestArtefacts:
    """Every one says what it is of, and predicts the same."""

    def test_each_vector_and_each_adapter_says_its_classes_and_its_transform(self, storage: Storage) -> None:
        for number, folder in enumerate(vector_folders(storage.run("letters").artifacts / "seed_1")):
            for file in (VECTOR_FILE, "adapter/adapter_model.safetensors"):
                with safe_open(folder / file, framework="pt") as opened:
                    said = opened.metadata()
                assert json.loads(said["class_names"]) == list(LETTERS[2 * number : 2 * number + 2])
                assert said["task"] == str(number + 1) and said["backbone_digest"] == Backbone().digest
                assert json.loads(said["transform"]) == {
                    "channels": 1,
                    "size": 32,
                    "mean": [0.5],
                    "std": [0.5],
                    "resize": 37,
                    "keep_ratio": True,
                    "interpolation": "bicubic",
                }

    def test_a_model_and_what_it_says_show_themselves_in_a_line(self, storage: Storage, letters: Path) -> None:
        model = tausearch.load_model("letters", storage=storage.root, keep=[1, 3])
        (found,) = model.predict(letters / "test" / "A" / "012.png")
        of = f"ita-lora on {model.about.benchmark}"
        assert repr(model) == f"<Model {of}, tasks 1, 3, seed 0: 4 classes, on cpu>"
        assert (
            repr(found)
            == f"Prediction(image={found.image!r}, label={found.label!r}, probability={found.probability!r})"
        )

    def test_the_run_has_a_card_with_its_results(self, storage: Storage) -> None:
        directory = storage.run("letters")
        about = read_description(directory.artifacts)
        assert about.class_names == tuple(LETTERS) and about.tasks == (2, 2, 2) and about.runs == ("letters",)
        assert list(about.accuracies[1]) == final_accuracies(directory, 1) and "torch" in about.versions
        card = (directory.artifacts / "README.md").read_text(encoding="utf-8")
        score = json.loads(directory.results_file.read_text(encoding="utf-8"))["summary"]["test/final_accuracy"]
        assert f"| mean | 6 classes | {score['mean']:.2f} ± {score['std']:.2f} |" in card
        assert "| 2 | C, D |" in card and "licen" not in card and str(directory.path) not in card

    def test_names_are_drawn_letter_by_letter(self, letters: Path, tmp_path: Path, recwarn: Any) -> None:
        names = ["$\\foo$.png", "a\x1b.png", os.fsdecode(b"\xff.png")]
        for name in names:
            shutil.copy(letters / "test" / "A" / "012.png", tmp_path / name)
        read = find_user_images(str(tmp_path))[0].read
        shown = [(name, "$x$", 0.5, read, "\x9b") for name in names]
        assert draw_predictions(shown, tmp_path / "o.png").stat().st_size > 1000 and not recwarn.list

    def test_an_export_predicts_in_every_form(self, storage: Storage, letters: Path, tmp_path: Path) -> None:
        done = compose(["letters"], weights=[0.5, 0.7, -0.2], export=tmp_path / "out", storage=storage.root).result
        moved = shutil.move(tmp_path / "out", tmp_path / "moved")
        wanted = None
        for form in ("vectors", "adapter", "timm", "adapter/seed_1", "timm/seed_1", ""):
            model = tausearch.load_model(Path(moved) / form, seed=1, storage=tmp_path / "nothing")
            assert model.classes == tuple(LETTERS) and model.seed == 1
            with pytest.raises(InputError, match="must be a uint8 tensor .* got Tensor .* torch.float32"):
                model.transform(WHITE[None] / 255, None)
            rows = model.probabilities(letters / "test")
            wanted = rows if wanted is None else wanted
            torch.testing.assert_close(rows, wanted, atol=1e-5, rtol=0)
        run_itself = tausearch.load_model("letters", seed=1, storage=storage.root).probabilities(letters / "test")
        assert wanted is not None and not torch.allclose(wanted, run_itself, atol=1e-3), (
            "the weights are those exported"
        )
        for form in ("adapter/seed_0", "timm/seed_1", "models/seed_0", "vectors"):
            about, card = (
                read_description(Path(moved) / form),
                (Path(moved) / form / "README.md").read_text(encoding="utf-8"),
            )
            assert about.form == form.partition("/")[0] and about.weights == (0.5, 0.7, -0.2)
            assert about.accuracies == dict(zip(done.seeds, done.accuracies, strict=True))
            assert about.transform is not None and about.transform.resize == 37 and "0.5, 0.7, -0.2" in card
        alone = tausearch.load_model(Path(moved) / "vectors", seed=1, keep=[1, 3]).probabilities(letters / "test")
        own = tausearch.load_model("letters", seed=1, keep=[1, 3], storage=storage.root)
        assert torch.equal(alone, own.probabilities(letters / "test"))  # the exported weights are of all tasks
        with pytest.raises(InputError, match="holds the parts of a composition"):
            tausearch.load_model(Path(moved) / "models" / "seed_0")
        with pytest.raises(InputError, match="--keep: .* is one composed model"):
            tausearch.load_model(Path(moved) / "timm", keep=[1])

    def test_every_form_computes_in_the_precision_of_the_run(
        self, storage: Storage, letters: Path, tmp_path: Path
    ) -> None:
        compose(["letters"], export=tmp_path / "out", seeds=[1], storage=storage.root)
        for form in ("vectors", "adapter", "timm"):
            for file in (tmp_path / "out" / form).rglob("model.json"):
                file.write_text(file.read_text().replace('"precision": "fp32"', '"precision": "bf16"'))
            model = tausearch.load_model(tmp_path / "out" / form)
            with mock.patch("tausearch.models.classifiers.features", wraps=features) as computed:
                model.probabilities(letters / "test")
            assert {call.args[2] for call in computed.call_args_list} == {"bf16"}

    def test_a_rule_draws_by_the_seed_that_is_loaded(self, storage: Storage, letters: Path, tmp_path: Path) -> None:
        compose(["letters"], rule="dare", density=0.4, export=tmp_path / "out", storage=storage.root)
        forms = ("vectors", "timm/seed_1")
        rows = [tausearch.load_model(tmp_path / "out" / form, seed=1).probabilities(letters) for form in forms]
        torch.testing.assert_close(*rows, atol=1e-5, rtol=0)

    def test_tasks_that_are_named_are_composed_alone_with_equal_shares(
        self, storage: Storage, letters: Path, tmp_path: Path
    ) -> None:
        weights = [0.9, 0.0, 0.1]
        compose(["letters"], weights=weights, export=tmp_path / "out", forms=["vectors"], storage=storage.root)
        exported, test = tmp_path / "out" / "vectors", letters / "test"
        for keep in ([1, 2], [3, 1, 2]):
            kept = [tausearch.load_model(each, keep=keep, storage=storage.root) for each in (exported, "letters")]
            assert torch.equal(*(model.probabilities(test) for model in kept))  # what had no share gets one
        named = tausearch.load_model(f"{exported}:1,2,3").probabilities(test)
        assert torch.equal(named, kept[0].probabilities(test))
        about = json.loads((exported / "model.json").read_text(encoding="utf-8"))
        about["class_names"][0] = "Z"
        (exported / "model.json").write_text(json.dumps(about))
        with pytest.raises(InputError, match="task_1: names other classes, 'A' where there must be 'Z'"):
            tausearch.load_model(exported)

    def test_a_run_is_opened_as_it_is_asked_for(
        self, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = find_source(storage, "letters")
        turned, cpus = replace(source, seeds=(1, 0)), source.spec and source.spec.resources.cpus_per_trial
        found = [_composed(turned, ModelOptions(seed=seed)) for seed in (None, 0)]
        assert [model.seed for model in found] == [1, 0] and {model.cpu_threads for model in found} == {cpus}
        with pytest.raises(InputError, match="--device cuda: this machine has no GPU"):
            tausearch.load_model("letters", device="cuda", storage=storage.root)
        with pytest.raises(InputError, match="gone.safetensors"):
            tausearch.load_model("letters", backbone_weights="gone.safetensors", storage=storage.root)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "run.yaml").touch()
        assert tausearch.load_model("letters", storage=storage.root).about.runs == ("letters",)  # the storage's
        monkeypatch.chdir(storage.run("letters").path)
        assert tausearch.load_model(".").about.runs == ("letters",)
        (tmp_path / "link").symlink_to(storage.run("letters").path)
        monkeypatch.chdir(storage.run("letters").artifacts)
        shutil.copytree(storage.run("letters").path, tmp_path / "disk")
        (tmp_path / "more").mkdir()
        (tmp_path / "more" / "letters").symlink_to(tmp_path / "disk")  # a folder of another name
        paths = ("..", tmp_path / "link", tmp_path / "more" / "letters")
        assert {tausearch.load_model(each).about.runs for each in paths} == {("letters",)}

    def test_the_folders_of_a_run_are_models_too(self, storage: Storage, letters: Path) -> None:
        directory = storage.run("letters")
        wanted = tausearch.load_model("letters", storage=storage.root).probabilities(letters / "test")
        for folder in (directory.path, directory.artifacts):
            assert torch.equal(tausearch.load_model(folder).probabilities(letters / "test"), wanted)


def test_vectors_that_do_not_name_their_classes_are_refused(storage: Storage, tmp_path: Path) -> None:
    copied = Storage(tmp_path)
    shutil.copytree(storage.run("letters").path, copied.run("letters").path)
    for file in copied.run("letters").artifacts.rglob(VECTOR_FILE):
        with safe_open(file, framework="pt") as opened:
            said = {k: v for k, v in opened.metadata().items() if k not in ("class_names", "transform")}
        save_file(load_file(file), file, metadata=said)
    with pytest.raises(InputError, match="letters: does not name its classes; train the run again"):
        tausearch.load_model("letters", storage=copied.root)


class TestCommandLine:
    def test_a_folder_in_one_pass(self, storage: Storage, letters: Path, tmp_path: Path, shown: Command) -> None:
        words, picture = ("predict", "letters", letters / "test"), tmp_path / "sure.png"
        matrix = tmp_path / "matrix.png"
        out, err = shown(*words, "--figure", picture, "--confusion", matrix)
        right = round(sum(final_accuracies(storage.run("letters"), 0)) * 48 / 300)
        assert f"right: {right} of 48 images whose folder is named after a class of the model" in out
        assert str(picture) in err and Image.open(picture).size[0] > 600
        made = ", ".join(str(matrix.with_suffix(ending)) for ending in (".png", ".pdf", ".csv"))
        assert f"confusion matrix: {made}\n" in err and matrix.with_suffix(".pdf").is_file()
        assert Image.open(matrix).size[0] > 300
        content = json.loads(shown(*words, "--format", "json")[0])
        counts = list(csv.DictReader(io.StringIO(matrix.with_suffix(".csv").read_text())))
        assert sum(int(row[row["true_label"]]) for row in counts) == right
        assert content["confusion"] == {
            row["true_label"]: {name: int(count) for name, count in row.items() if name != "true_label"}
            for row in counts
        }
        rows = list(csv.DictReader(io.StringIO(shown(*words, "--format", "csv")[0])))
        assert content["classes"] == list(LETTERS) and len(content["predictions"]) == len(rows) == 48
        for plain, row in zip(content["predictions"], rows, strict=True):
            assert all(plain[name] == row[name] for name in ("image", "label", "true_label"))
            assert plain["true_label"] == Path(plain["image"]).parent.name
            assert plain["probabilities"] == {name: float(row[name]) for name in LETTERS}

    def test_broken_images_are_named_or_left_out(
        self, storage: Storage, letters: Path, tmp_path: Path, shown: Command
    ) -> None:
        shutil.copy(letters / "test" / "A" / "012.png", tmp_path / "b.png")
        (tmp_path / "a.png").write_bytes(b"no image")
        (tmp_path / ".hidden.png").write_bytes(b"of no interest")
        line = f"image {tmp_path / 'a.png'}: cannot be read (not an image)"
        advice = "; --skip-broken leaves out what cannot be read"
        assert shown("predict", "letters", tmp_path, code=2) == ("", f"tausearch: {line}{advice}\n")
        out, err = shown("predict", "letters", tmp_path / "a.png", "--skip-broken", code=2)
        assert out == "" and err.splitlines()[-1] == "tausearch: no image is left that can be read"
        out, err = shown("predict", "letters", tmp_path, "--skip-broken", "--format", "json")
        content = json.loads(out)
        assert [each["image"] for each in content["predictions"]] == [str(tmp_path / "b.png")]
        assert content["left_out"] == [line] and line in err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["gone", "x.png"], "x.png: no such file or folder"),
            (["gone", "."], "'gone': no run of that name in "),
            (["letters", "empty"], "empty: no image in this folder"),
            (["letters", ".", "--seed", "7"], "letters: has no task vectors of seed 7; allowed: 0, 1"),
            (["letters", ".", "--format", "latex"], "unknown --format 'latex'; allowed: text, json, csv"),
            (["plain", "."], "run 'plain': its method 'finetune' leaves no task vectors"),
            (["empty", "."], "empty: holds no model; it has no model.json"),
            (["letters", "012.png", "--figure", "012.png"], "--figure 012.png: is one of the images"),
            (["letters", ".", "--figure", "run/a.png"], "--figure run/a.png: lies among the files of the run 'run'"),
            (
                ["letters", "012.png", "--confusion", "c.png"],
                "--confusion c.png: no image lies in a folder named",
            ),
            (
                ["letters", ".", "--confusion", "c.png", "--figure", "c.png"],
                "must be two files, got c.png",
            ),
            (
                ["letters", ".", "--confusion", "c.png", "--figure", "c.pdf"],
                "must be two files, got c.pdf",
            ),
            (["gone", ".", "--figure", "/proc/no/x.png"], "--figure /proc/no/x.png: cannot be written"),
            (["gone", ".", "--confusion", "folder.png"], "--confusion folder.png: cannot be written (Is a directory)"),
            (["letters", ".", "--figure", "x.nope"], "--figure x.nope: must end in .png, .pdf, .svg, .jpg"),
        ],
    )
    def test_bad_input_is_one_line(
        self,
        arguments: list[str],
        words: str,
        storage: Storage,
        letters: Path,
        tmp_path: Path,
        shown: Command,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "empty").mkdir()
        (tmp_path / "run").mkdir()
        (tmp_path / "letters").mkdir()  # the run of this name goes before it
        (tmp_path / "folder.png").mkdir()
        for name in ("run.yaml", "driver.lock"):
            (tmp_path / "run" / name).touch()
        shutil.copy(letters / "test" / "A" / "012.png", tmp_path)
        _, err = shown("predict", *arguments, code=2)
        assert err.count("\n") == 1 and words in err, err


def test_grey_digits_in_files_of_rgb_are_the_very_digits(storage: Storage, tmp_path: Path) -> None:
    """Files are decoded to RGB; to weigh three equal values to grey again would lose a level of many."""
    model, images = tausearch.load_model("full", storage=storage.root), small_benchmark().evaluation[1].images
    assert isinstance(images, torch.Tensor)
    for row, image in enumerate(images[:12]):
        Image.fromarray(image[0].numpy()).convert("RGB").save(tmp_path / f"{row:02d}.png")
    assert torch.equal(model.probabilities(tmp_path), model.probabilities(images[:12]))
    large = Image.open(tmp_path / "03.png").resize((96, 96), Image.Resampling.BICUBIC)
    assert model.predict(large)[0].label == model.predict(tmp_path / "03.png")[0].label
