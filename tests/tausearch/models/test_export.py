"""What was composed, loaded by the libraries that it is written for: their logits are the composition's."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import timm
import torch
from peft import PeftModel
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from tausearch import compose, load_model
from tausearch.api.benchmarks import open_benchmark
from tausearch.models import (
    CompositionResult,
    MergeConfig,
    chosen_forms,
    classifiers,
    describe_run,
    export,
    exports,
    impossible_forms,
    read_compositions,
    uniform,
)
from tausearch.models.descriptions import ModelDescription, read_description
from tausearch.models.exports import EXPORT_FORMS
from tausearch.models.sources import describe_source, find_source
from tausearch.runs import UNFINISHED, Storage, open_storage, read_spec
from tests.support.modes import files_against_umask
from tests.support.runs.composable_runs import make_composable_run, pool_of, small_benchmark
from tests.support.runs.letter_images import draw_letters
from tests.support.runs.trials import search_spec
from tests.tausearch.models.test_removal_report import forgotten, report
from trainables.backbones import Backbone
from trainables.composition import ComposedNetwork, VectorPool, choose_rule, read_vector
from trainables.composition.checkpoints import write_timm_folder
from trainables.data import build_benchmark
from trainables.data.transforms.cropping import ResizeCenterCrop
from trainables.data.transforms.normalisation import Normalise
from trainables.errors import InputError

WEIGHTS = [0.5, -0.7, 1.1]


@pytest.fixture(scope="module")
def exported(made: Storage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "composition"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tausearch.models.try_to_log", lambda *_: None)
        done = compose(["ita:1", "iel:2", "ita:3"], weights=WEIGHTS, seeds=[1], export=folder, storage=made.root)
    assert done.exported == {form: str(folder / form) for form in EXPORT_FORMS}
    return folder


def images() -> Tensor:
    (batch,) = small_benchmark().evaluation[0].batches(256, None, shuffle=False)
    return batch.x


def logits_of(made: Storage) -> Tensor:
    """The logits of the composition, from vectors that were never exported."""
    ita, iel = (pool_of(made, name, 1).folders for name in ("ita", "iel"))
    pool, network = VectorPool((ita[0], iel[1], ita[2])), ComposedNetwork(Backbone(), torch.device("cpu"))
    network.compose(pool, WEIGHTS, pool.head())
    return network.predict(images()).clone()


def test_files_of_every_form_follow_the_umask(exported: Path) -> None:
    assert files_against_umask(exported) == []


def test_peft_loads_one_adapter_of_the_whole_composition(exported: Path, made: Storage) -> None:
    folder = exported / "adapter" / "seed_1"
    model = PeftModel.from_pretrained(Backbone().load(), str(folder))  # type: ignore[arg-type]
    head = load_file(folder / "head.safetensors")
    with safe_open(folder / "head.safetensors", framework="pt") as opened:
        assert "content digest" in opened.metadata()  # so that damage is noticed
    with torch.inference_mode():
        logits = model(images()) @ head["head.weight"].T + head["head.bias"]
    torch.testing.assert_close(logits, logits_of(made), atol=1e-5, rtol=0)
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["rank_pattern"]["blocks.0.attn.proj"] == 3 * 2 and config["r"] == 3 * 2


def run_card(folder: Path) -> dict[str, Any]:
    """Run the code of a model card, and return its names."""
    code = (folder / "README.md").read_text(encoding="utf-8").split("```")[1].removeprefix("python\n")
    names: dict[str, Any] = {}
    exec(code.replace("FOLDER", str(folder)).replace('model.predict(["image.png"])', ""), names)
    return names


@pytest.fixture
def picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`image.png` in the working folder, as the code of cards reads it."""
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32), np.uint8)
    Image.fromarray(pixels).convert("RGB").save("image.png")


@pytest.mark.usefixtures("picture")
def test_the_code_of_a_card_opens_the_adapter_with_its_backbone(exported: Path) -> None:
    names = run_card(exported / "adapter" / "seed_1")
    (prediction,) = names["model"].predict(["image.png"])
    assert names["logits"].softmax(1)[0].tolist() == pytest.approx(list(prediction.probabilities.values()), abs=1e-5)


def test_the_names_beside_an_adapter_are_those_that_it_was_written_with(exported: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(exported / "adapter" / "seed_1", tmp_path / "seed_1")
    about = read_description(copied)
    about.model_copy(update={"class_names": (*about.class_names[:-1], "another")}).save(copied)
    with pytest.raises(InputError, match="seed_1/head.safetensors: its class_names are not those of"):
        load_model(copied)
    header, tensors = {"format": "pt"}, load_file(copied / "head.safetensors")
    save_file(tensors, copied / "head.safetensors", header)  # of an earlier version
    assert load_model(copied).classes[-1] == "another"


@pytest.mark.usefixtures("picture")
def test_the_code_of_a_card_predicts_with_timm_alone(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_card(exported / "timm" / "seed_1")
    (prediction,) = names["model"].predict(["image.png"])
    assert names["shares"] == pytest.approx(list(prediction.probabilities.values()), abs=1e-5)
    assert capsys.readouterr().out.startswith("{'0': ")


def test_a_vector_of_weight_0_adds_no_rank(made: Storage, tmp_path: Path) -> None:
    compose(["ita"], keep=[2], export=tmp_path / "out", forms=["adapter"], storage=made.root)
    config = json.loads((tmp_path / "out/adapter/seed_1/adapter_config.json").read_text(encoding="utf-8"))
    assert config["r"] == 2 and [path.name for path in (tmp_path / "out").iterdir()] == ["adapter"]


def test_timm_opens_the_folder_with_classifier_and_class_names(exported: Path, made: Storage) -> None:
    model = timm.create_model(f"local-dir:{exported / 'timm' / 'seed_1'}", pretrained=True).eval()
    with torch.inference_mode():
        logits = model(images())
    torch.testing.assert_close(logits, logits_of(made), atol=1e-5, rtol=0)
    config = model.pretrained_cfg
    assert tuple(config["label_names"]) == tuple("012345") and config["num_classes"] == 6
    assert (tuple(config["input_size"]), tuple(config["mean"]), tuple(config["std"])) == ((1, 32, 32), (0.5,), (0.5,))
    assert "tag" not in config and "license" not in config  # those of the network whose name timm builds it by


def test_models_merge_by_arithmetic_on_tensors_of_the_same_names(exported: Path, made: Storage) -> None:
    folder = exported / "models" / "seed_1"
    theta_0, *tasks = [read_model(folder / name) for name in ("theta_0", "task_1", "task_2", "task_3")]
    sum_of = {n: v + sum(w * (t[n] - v) for w, t in zip(WEIGHTS, tasks, strict=True)) for n, v in theta_0.items()}
    model = timm.create_model(f"local-dir:{exported / 'timm' / 'seed_1'}", pretrained=False).eval()
    model.load_state_dict(sum_of)
    with torch.inference_mode():
        torch.testing.assert_close(model(images()), logits_of(made), atol=1e-5, rtol=0)
    for number, task in enumerate(tasks):
        assert any(not torch.equal(task[name], theta_0[name]) for name in theta_0)
        assert torch.equal(task["head.weight"], theta_0["head.weight"]), number


def read_model(folder: Path) -> dict[str, Tensor]:
    """Read a model through its table of contents."""
    table = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
    found = {name: load_file(folder / file)[name] for name, file in table["weight_map"].items()}
    assert table["metadata"]["total_size"] == sum(tensor.nbytes for tensor in found.values())
    return found


def test_exported_vectors_are_composed_where_the_run_was_never_seen(
    exported: Path, made: Storage, tmp_path: Path
) -> None:
    moved = shutil.copytree(exported / "vectors", tmp_path / "moved")
    there = compose([str(moved)], weights=WEIGHTS, storage=tmp_path / "nothing")
    here = compose(["ita:1,3", "iel:2"], weights=WEIGHTS, seeds=[1], storage=made.root)
    assert there.result.accuracies == here.result.accuracies and there.file is None
    about = read_description(moved)
    assert about.runs == ("ita:1", "iel:2", "ita:3") and about.methods == ("ita-lora", "iel-lora")
    assert about.weights == tuple(WEIGHTS)
    assert not (moved / "seed_1" / "task_1" / "adapter").exists()  # an export has a form of its own for it
    assert about.class_names == tuple("012345") and about.protocol.weights_digest == Backbone().digest
    assert read_vector(moved / "seed_1" / "task_2").origin == read_vector(pool_of(made, "iel", 1).folders[1]).origin


def test_vectors_that_were_tested_on_other_images_are_refused(made: Storage, tmp_path: Path) -> None:
    plain = find_source(made, "ita")
    assert plain.spec is not None
    facts = open_benchmark(plain.spec.benchmark, None).facts_of(small_benchmark())
    described = describe_source(replace(plain, images=facts))
    assert described.test_images == (8, 8, 8) and described.images == facts
    moved = shutil.copytree(plain.folder, tmp_path / "moved")
    # An image was added to task 2, and an earlier version has exported.
    described.model_copy(update={"test_images": (8, 7, 8), "images": None}).save(moved)
    words = "moved: its tasks had 8,7,8 test images, now they have 8,8,8, perhaps some that the run learned; bring"
    with pytest.raises(InputError, match=words):
        compose([str(moved)], storage=made.root)


def test_an_export_knows_the_images_whose_split_it_was_tested_on(tmp_path: Path) -> None:
    folder, storage = draw_letters(tmp_path / "letters"), open_storage(tmp_path / "runs", write=True)
    opened = open_benchmark(f"folder:{folder}?tasks=3&epochs=1", None)
    directory = make_composable_run(storage, "own", seeds=[0], source=opened.source)
    facts = opened.facts_of(build_benchmark(opened.source, "final", 0, Backbone().input))
    read_spec(directory).model_copy(update={"data": facts}).save(directory)
    out = tmp_path / "out"
    compose(["own"], export=out, forms=["vectors"], storage=storage.root)
    compose([str(out / "vectors")], storage=storage.root)
    image = next(folder.glob("train/*/*"))
    shutil.copyfile(image, image.with_name(f"another{image.suffix}"))  # no task has another number of test images
    with pytest.raises(
        InputError, match=f"out/vectors': data.train was {facts.train} images, is now {facts.train + 1}"
    ):
        compose([str(out / "vectors")], storage=storage.root)


def test_the_vectors_of_a_run_are_composed_where_they_are_copied_to(made: Storage, tmp_path: Path) -> None:
    describe_run(made.run("ita"))  # as at the end of a final run
    copied = shutil.copytree(made.run("ita").artifacts, tmp_path / "copied")
    here = compose(["ita"], storage=made.root)
    assert compose([str(copied)], storage=tmp_path / "nothing").result.accuracies == here.result.accuracies
    assert (copied / "seed_1" / "task_1" / "adapter" / "adapter_config.json").is_file()


def test_without_lora_or_with_a_rule_there_is_no_adapter(made: Storage, tmp_path: Path) -> None:
    rest = [form for form in EXPORT_FORMS if form != "adapter"]
    assert list(compose(["ia3"], export=tmp_path / "a", storage=made.root).exported) == rest
    done = compose(["ita"], rule="ties", export=tmp_path / "b", storage=made.root)
    assert list(done.exported) == rest


def test_a_rule_is_exported_as_it_was_evaluated(made: Storage, tmp_path: Path) -> None:
    done = compose(
        ["ita"], rule="dare", density=0.5, seeds=[1], export=tmp_path / "out", forms=["timm"], storage=made.root
    )
    model = timm.create_model(f"local-dir:{tmp_path / 'out' / 'timm' / 'seed_1'}", pretrained=True).eval()
    with torch.inference_mode():
        hits = (model(images()).argmax(1) < 2).float().mean()  # all images of task 1, whose two classes come first
    assert float(hits) * 100 >= done.result.accuracies[0][0]
    pool, network = pool_of(made, "ita", 1), ComposedNetwork(Backbone(), torch.device("cpu"))
    network.compose(pool, done.result.weights, pool.head(), choose_rule("dare", {"density": 0.5}, 1))
    with torch.inference_mode():
        torch.testing.assert_close(model(images()), network.predict(images()), atol=1e-5, rtol=0)
    about = read_description(tmp_path / "out" / "timm" / "seed_1")
    assert (about.form, about.rule, about.rule_parameters) == ("timm", "dare", {"density": 0.5})
    assert (about.test_images, about.task_names) == ((8, 8, 8), small_benchmark().spec.task_names)
    assert about.accuracies == {1: done.result.accuracies[0]}


def test_an_export_that_fails_leaves_nothing_and_costs_no_result(
    made: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trainables.composition.checkpoints.write_models", full)
    with pytest.raises(ValueError, match="--export .*out: cannot be written .No space left on device"):
        compose(["ita"], weights=[1, 0, 2], export=tmp_path / "out", storage=made.root)
    assert list(tmp_path.iterdir()) == []
    assert any(each.weights == (1, 0, 2) for each in read_compositions(made.run("ita")))


def test_timm_is_told_what_test_images_go_through(made: Storage, tmp_path: Path) -> None:
    pool, network = pool_of(made, "ita", 1), ComposedNetwork(Backbone(), torch.device("cpu"))
    network.compose(pool, WEIGHTS, pool.head())
    transform = ResizeCenterCrop(40, 32, Normalise((0.3,), (0.2,)), keep_ratio=True, interpolation="bilinear")
    write_timm_folder(tmp_path, Backbone(), network, pool.head(), tuple("012345"), transform)
    config = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).pretrained_cfg
    assert (tuple(config["mean"]), tuple(config["std"]), config["crop_pct"]) == ((0.3,), (0.2,), 0.8)
    assert (config["crop_mode"], config["interpolation"]) == ("center", "bilinear")


def pools_of(*kinds: str, own: object = None, displaces: bool = True, methods: Sequence[str] = ("ita-lora",)) -> Any:
    """What an export asks of pools of two seeds; the vectors of the second are of the given kinds."""
    vectors = [SimpleNamespace(parametrisation=kind) for kind in kinds]
    tested = [SimpleNamespace(transform="of tests")]
    spec = SimpleNamespace(class_names=("a", "b", "c"), task_classes=(range(2), range(2, 3)), task_names=("x", None))
    composed: list[Any] = []
    return SimpleNamespace(
        benchmark=SimpleNamespace(spec=spec, evaluation=tested, tasks=[]),
        sources=[SimpleNamespace(protocol=search_spec().protocol, methods=(each,), images=None) for each in methods],
        backbone=SimpleNamespace(own=own, input=SimpleNamespace(size=32)),
        network=SimpleNamespace(displaces_weights=displaces, compose=lambda *given: composed.append(given)),
        by_seed={0: Pool([SimpleNamespace(parametrisation="lora")] * 2), 3: Pool(vectors)},
        composed=composed,
    )


class Pool(list[Any]):
    """Vectors without a classifier."""

    def head(self) -> None:
        return None


@pytest.mark.parametrize(
    ("pools", "merge", "possible"),
    [
        (pools_of("lora", "lora"), uniform(2), ("adapter", "timm", "models", "vectors")),
        (pools_of("lora", "ia3"), uniform(2), ("timm", "models", "vectors")),
        (pools_of("lora", "lora"), MergeConfig("w", (0.5, -0.5)), ("adapter", "timm", "models", "vectors")),
        (pools_of("lora", "lora"), MergeConfig("w", (0.0, 0.0)), ("timm", "models", "vectors")),
        (pools_of("lora", "lora"), uniform(2).merged_by("ties", {}), ("timm", "models", "vectors")),
        (pools_of("lora", "lora", own=object()), uniform(2), ("adapter", "models", "vectors")),
        (pools_of("tangent", "tangent", displaces=False), uniform(2), ("vectors",)),
    ],
)
def test_the_forms_that_a_composition_can_have(pools: Any, merge: MergeConfig, possible: tuple[str, ...]) -> None:
    problems = impossible_forms(pools, merge)
    assert chosen_forms(None, problems) == possible
    for form in EXPORT_FORMS:
        if form in possible:
            assert chosen_forms(["vectors", form, form], problems) == tuple(dict.fromkeys([form, "vectors"]))
        else:
            with pytest.raises(InputError, match=f"--forms {form}: "):
                chosen_forms(["vectors", form], problems)


def test_tangents_of_a_backbone_of_ones_own_are_no_weights_whatever_its_name() -> None:
    pools = pools_of("tangent", "tangent", own=object(), displaces=False)
    with pytest.raises(InputError, match="--forms timm: a model linearised at theta_0 is no set of weights"):
        chosen_forms(["timm"], impossible_forms(pools, uniform(2)))


def test_an_export_writes_every_form_of_every_seed_and_describes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []
    described: list[tuple[str, str]] = []

    def write(form: str, folder: Path, *_: object) -> None:
        folder.mkdir(parents=True)
        written.append(folder)

    def note(folder: Path, about: ModelDescription) -> None:
        described.append(("/".join(folder.relative_to(tmp_path / "out").parts[1:]), about.form))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(exports, "_write", write)
    monkeypatch.setattr(exports, "write_card", note)
    monkeypatch.setattr(exports, "described", lambda transform, size: None)
    (tmp_path / "out" / UNFINISHED / "timm" / "seed_9").mkdir(parents=True)  # of an export that was killed
    counts, pools, result = (
        list[int](),
        pools_of("lora", "lora"),
        composition(rule="dare", rule_parameters={"density": 0.5}),
    )
    found = export(Path("out"), ("timm", "vectors"), pools, result, counts.append)
    assert found == {form: str(tmp_path / "out" / form) for form in ("timm", "vectors")} and counts == [1] * 4
    assert described == [("timm/seed_0", "timm"), ("timm/seed_3", "timm"), ("vectors", "vectors")]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["timm", "vectors"]
    assert sorted(path.name for path in (tmp_path / "out" / "timm").iterdir()) == ["seed_0", "seed_3"]
    assert [rule.seed for *_, rule in pools.composed] == [0, 3]


def test_of_two_exports_into_one_folder_the_first_to_end_is_whole_and_the_other_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_write", lambda form, folder, *_: folder.mkdir(parents=True))
    monkeypatch.setattr(exports, "write_card", lambda folder, about: None)
    monkeypatch.setattr(exports, "described", lambda transform, size: None)
    pools, folder = pools_of("lora", "lora"), tmp_path / "new" / "out"

    def other(count: int) -> None:
        if not (folder / "timm").exists():
            export(folder, ("timm",), pools, composition(), lambda count: None)

    def write(form: str, target: Path, *_: object) -> None:
        target.mkdir(parents=True)
        slow.undo()
        other(1)
        (target / "weights").touch()  # the folder is gone

    refused = "--export .*/out: another process has written into it; name another folder"
    with pytest.raises(InputError, match=refused):
        export(folder, ("timm", "vectors"), pools, composition(), other)
    assert [path.name for path in folder.iterdir()] == ["timm"]
    shutil.rmtree(folder / "timm")
    with monkeypatch.context() as slow, pytest.raises(InputError, match=refused):
        slow.setattr(exports, "_write", write)
        export(folder, ("timm",), pools, composition(), lambda count: None)
    assert sorted(path.name for path in (folder / "timm").iterdir()) == ["seed_0", "seed_3"]


def composition(**changes: Any) -> CompositionResult:
    about = {"label": "l", "runs": ("r:1", "s:2"), "benchmark": "folder:/x?task=a,b&task=c,d", "seeds": (0, 3)}
    measured = {"weights": (0.5, 0.5), "accuracies": ((60.0, 40.0), (64.0, 40.0)), "test_images": (4, 2)}
    return CompositionResult(**{**about, **measured, **changes})


def test_an_export_says_what_it_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    monkeypatch.setattr(exports, "described", lambda *given: read.append(given))
    pools = pools_of("lora", "lora", methods=("ita-lora", "iel-lora", "ita-lora"))
    about = exports._description(pools, composition(rule="ties", rule_parameters={"density": 0.2}))
    assert (about.benchmark, about.runs) == ("folder:/x?task=a,b&task=c,d", ("r:1", "s:2"))
    assert (about.methods, about.tasks, about.task_names) == (("ita-lora", "iel-lora"), (2, 1), ("x", None))
    assert (about.rule, about.rule_parameters) == ("ties", {"density": 0.2}) and read == [("of tests", 32)]
    assert about.accuracies == {0: (60.0, 40.0), 3: (64.0, 40.0)} and about.test_images == (4, 2)
    without = exports._description(
        pools, composition(removal=report(forgotten(2)).model_copy(update={"tasks": (1, 2)}))
    )
    assert without.removal is not None and [each.name for each in without.removal.classes] == [None]
    assert without.benchmark == "folder:/x"


@pytest.mark.parametrize("error", [OSError("gone"), SafetensorError("damaged"), ValueError("another shape\nand more")])
def test_an_adapter_that_cannot_be_read_is_one_line(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise error

    monkeypatch.setattr(classifiers, "read_adapter", read)
    said = f"cannot be read as an adapter ({str(error).splitlines()[0]})"
    with pytest.raises(InputError, match=f"^{re.escape(f'{tmp_path}: {said}')}$"):
        classifiers.of_adapter(tmp_path, Backbone(), "012345", torch.device("cpu"), "fp32")


def test_exported_vectors_are_numbered_from_1_and_have_no_adapters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[Any, ...]] = []
    monkeypatch.setattr(exports, "write_vector", lambda folder, vector, **how: written.append((vector, how)))
    monkeypatch.setattr(exports, "copy_vector", lambda there, to, **how: written.append((there.name, to.name, how)))
    monkeypatch.setattr(exports, "ReducedPool", list)
    exports._write_vectors(tmp_path, ["without a class"])  # type: ignore[arg-type]
    exports._write_vectors(tmp_path, SimpleNamespace(folders=[Path("a/task_3"), Path("b/task_1")]))  # type: ignore[arg-type]
    bare = {"with_adapter": False}
    assert written == [("without a class", bare), ("task_3", "task_1", bare), ("task_1", "task_2", bare)]
