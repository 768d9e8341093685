"""Compositions without some classes: what every export still holds, what is reported, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import timm
import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import Tensor

from tausearch import compose, draw, evaluate, load_model
from tausearch.models import (
    CompositionResult,
    evaluate_removal,
    find_source,
    make_pools,
    n_removal_steps,
    reduced,
    removal_config,
    uniform,
)
from tausearch.models.descriptions import read_description
from tausearch.models.evaluation import evaluate as evaluated
from tausearch.models.exports import EXPORT_FORMS
from tausearch.models.removal.membership import interval, separation
from tausearch.models.removal.names import removal_of
from tausearch.models.removal.remnants import remaining_lines
from tausearch.runs import Retraining, Storage
from tests.support.command_line import Command
from tests.support.runs.composable_runs import make_composable_run, pool_of, small_benchmark
from tests.support.runs.letter_images import LETTERS, draw_letters
from trainables.backbones import Backbone
from trainables.composition import VECTOR_FILE, ComposedNetwork, ReducedPool, read_vector
from trainables.data import BenchmarkSpec, Removal, build_benchmark, get_source, of_classes, without
from trainables.errors import InputError

LEFT = [0, 1, 2, 4, 5]  # classes of the small benchmark without class 3, the second of task 2


@pytest.fixture(scope="module")
def exported(made: Storage, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompositionResult]:
    folder = tmp_path_factory.mktemp("out") / "composition"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tausearch.models.try_to_log", lambda *_: None)
        done = compose(["ita"], forget=["class:3"], seeds=[1], export=folder, storage=made.root)
    assert done.exported == {form: str(folder / form) for form in EXPORT_FORMS} and done.result.weights == (
        0.5,
        0.0,
        0.5,
    )
    return folder, done.result


def opened(exported: tuple[Path, CompositionResult]) -> Any:
    return timm.create_model(f"local-dir:{exported[0] / 'timm' / 'seed_1'}", pretrained=True).eval()


def test_the_composition_by_hand(exported: tuple[Path, CompositionResult], made: Storage) -> None:
    model, pool = opened(exported), list(pool_of(made, "ita", 1))
    tasks = [(vector.head, vector.anchor) for vector in pool]
    for part, got in enumerate((model.head.weight, model.head.bias)):
        trained, h0 = ([each[kind][part] for each in tasks] for kind in (0, 1))
        assert torch.equal(got, torch.cat([trained[0], h0[1][:1], trained[2]]))  # class 2 goes back to its row of h0
    for name, start in ComposedNetwork(Backbone(), torch.device("cpu")).theta_0.items():
        taus = [pool[place].dense(name, start) for place in (0, 2)]
        torch.testing.assert_close(model.state_dict()[name], start + (taus[0] + taus[1]) / 2)
    assert tuple(model.pretrained_cfg["label_names"]) == ("0", "1", "2", "4", "5")


def test_every_form_has_the_same_answers_and_no_row_of_the_class(
    exported: tuple[Path, CompositionResult], made: Storage
) -> None:
    folder = exported[0]
    (batch,) = small_benchmark().evaluation[1].batches(256, None, shuffle=False)
    adapter = PeftModel.from_pretrained(Backbone().load(), str(folder / "adapter/seed_1"))  # type: ignore[arg-type]
    head = load_file(folder / "adapter/seed_1/head.safetensors")
    with torch.inference_mode():
        wanted = opened(exported)(batch.x)
        torch.testing.assert_close(
            adapter(batch.x) @ head["head.weight"].T + head["head.bias"], wanted, atol=1e-5, rtol=0
        )
    for form in ("adapter", "timm", "vectors"):
        model = load_model(folder / form, storage=made.root)
        assert model.classes == ("0", "1", "2", "4", "5")
        with torch.inference_mode():
            torch.testing.assert_close(model.module(batch.x), wanted, atol=1e-5, rtol=0)
    models = {path.name: load_file(path / "model.safetensors") for path in (folder / "models/seed_1").glob("*_*")}
    assert models.keys() == {"theta_0", "task_1", "task_3"}
    assert all(torch.equal(model["head.weight"], models["theta_0"]["head.weight"]) for model in models.values())
    gone = pool_of(made, "ita", 1)
    rows = torch.cat([gone.head()[0][3:4], gone.anchor()[0][3:4]])
    for file in folder.rglob("*.safetensors"):
        for name, value in load_file(file).items():
            assert not (name.endswith(("head.weight", "anchor.weight")) and _holds(value, rows)), (file, name)


def _holds(value: Tensor, rows: Tensor) -> bool:
    return bool((value[:, None] == rows).all(2).any())


def test_exported_vectors_are_numbered_anew_and_hold_no_tau_of_the_task(
    exported: tuple[Path, CompositionResult], made: Storage
) -> None:
    folder = exported[0] / "vectors" / "seed_1"
    vectors = [read_vector(folder / f"task_{task}") for task in (1, 2, 3)]
    assert [vector.origin.classes for vector in vectors] == [range(2), range(2, 3), range(3, 5)]
    assert [vector.origin.class_names for vector in vectors] == [("0", "1"), ("2",), ("4", "5")]
    moves = [any(bool(part.any()) for part in parts.values()) for parts in vectors[1].parameters.values()]
    assert not any(moves) and all(len(part) == 1 for part in vectors[1].anchor)
    model = load_model(folder.parent, keep=[1, 2], storage=made.root)
    whole = load_model(folder.parent, keep=[1], storage=made.root)
    (batch,) = small_benchmark().evaluation[0].batches(256, None, shuffle=False)
    with torch.inference_mode():  # a vector that has gone takes no weight
        torch.testing.assert_close(model.module(batch.x)[:, :2], whole.module(batch.x))


def test_the_report_by_hand(exported: tuple[Path, CompositionResult], made: Storage) -> None:
    result, model = exported[1], opened(exported)
    assert result.removal is not None and result.removal.tasks == (1, 2, 3)
    (gone,) = result.removal.classes
    assert (gone.number, gone.task, gone.name, gone.train, gone.test) == (4, 2, "3", 12, 4)
    network, pool = ComposedNetwork(Backbone(), torch.device("cpu")), pool_of(made, "ita", 1)
    network.compose(pool, [1 / 3] * 3, pool.head())
    benchmark = small_benchmark()
    left, new = torch.tensor(LEFT), {c: place for place, c in enumerate(LEFT)}
    with torch.inference_mode():
        for task, images in enumerate(benchmark.evaluation):
            (batch,) = of_classes(images, LEFT).batches(256, None, shuffle=False)
            before = (network.predict(batch.x).argmax(1) == batch.y).float().mean()
            labels = torch.tensor([new[c] for c in batch.y.tolist()])
            after = (model(batch.x).argmax(1) == labels).float().mean()
            assert result.removal.before[0][task] == pytest.approx(100 * float(before))
            assert result.accuracies[0][task] == pytest.approx(100 * float(after))
        sets = [of_classes(each, [3]) for each in (benchmark.tasks[1].unaugmented, benchmark.evaluation[1])]
        (train,), (test,) = (images.batches(256, None, shuffle=False) for images in sets)
        answers = [torch.bincount(network.predict(test.x).argmax(1), minlength=6) * 25.0]
        answers.append(torch.zeros(6).index_add(0, left, torch.bincount(model(test.x).argmax(1), minlength=5) * 25.0))
        assert gone.itself == answers[0][3] and gone.others == 0
        found = {each.label: (each.before, each.after) for each in gone.answers}
        wanted = {str(c): (float(answers[0][c]), float(answers[1][c])) for c in LEFT if answers[0][c] or answers[1][c]}
        assert found == wanted and [each.after for each in gone.answers] == sorted(
            (each.after for each in gone.answers), reverse=True
        )
        losses = [torch.nn.functional.cross_entropy(network.predict(x.x), x.y, reduction="none") for x in (train, test)]
        assert gone.class_loss == separation(losses[:1], losses[1:])
        own = [-model(x.x).log_softmax(1).max(1).values for x in (train, test)]
        assert gone.own_loss_after.auc == pytest.approx(separation(own[:1], own[1:]).auc)


def test_the_report_is_of_the_model_that_the_rule_makes(
    made: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.models.try_to_log", lambda *_: None)
    asked: dict[str, Any] = {"forget": ["class:3"], "seeds": [1], "storage": made.root, "forms": ["timm"]}
    done = compose(["ita"], rule="magnitude", density=0.05, export=tmp_path / "out", **asked)
    assert done.result.removal is not None
    (gone,), model = done.result.removal.classes, opened((tmp_path / "out", done.result))
    benchmark = small_benchmark()
    sets = [of_classes(each, [3]) for each in (benchmark.tasks[1].unaugmented, benchmark.evaluation[1])]
    with torch.inference_mode():
        own = [
            -model(x.x).log_softmax(1).max(1).values for each in sets for x in each.batches(256, None, shuffle=False)
        ]
    assert gone.own_loss_after.auc == pytest.approx(separation(own[:1], own[1:]).auc)
    plain = compose(["ita"], **{**asked, "forms": None}).result.removal
    assert plain is not None and plain.classes[0].own_loss_after.auc != pytest.approx(gone.own_loss_after.auc)


def test_names_are_in_no_file_of_an_export(tmp_path: Path) -> None:
    names = dict(zip(LETTERS, ("antilope", "bison", "capybara", "dromedary", "elephant", "fennec"), strict=True))
    folder = draw_letters(tmp_path / "animals")
    for path in [*folder.glob("*/?")]:
        path.rename(path.with_name(names[path.name]))
    storage = Storage(tmp_path / "runs")
    storage.root.mkdir()
    make_composable_run(storage, "own", seeds=[0], source=get_source(f"folder:{folder}?tasks=3&epochs=1"))
    out = compose(["own"], forget=["dromedary,task:3"], export=tmp_path / "out", storage=storage.root)
    assert out.result.removal is not None
    left, gone = list(names.values())[:3], list(names.values())[3:]
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    held = {name for name in names.values() for path in files if name.encode() in path.read_bytes()}
    assert held == set(left) and len(files) > 12
    about = read_description(tmp_path / "out" / "timm" / "seed_0")
    assert about.class_names == tuple(left) and about.tasks == (2, 1)
    assert [each.name for each in out.result.removal.classes] == gone
    card = (tmp_path / "out" / "vectors" / "README.md").read_text(encoding="utf-8")
    remains = [f"- {line}" for line in out.result.removal.remains]
    assert set(remains) <= set(card.splitlines()) and "class 4 (task 2), class 5 (task 3), class 6 (task 3) of" in card
    assert 'load_model("FOLDER", keep=[1])' in card and "tausearch.compose" not in card
    zeros = load_file(tmp_path / "out/vectors/seed_0/task_2" / VECTOR_FILE)
    assert {name.split(".")[0] for name, value in zeros.items() if value.any()} == {"head", "anchor"}
    assert "- task 2: in `vectors`, zeros (for IA3 ones) stand in its place" in card
    models = tmp_path / "out" / "models" / "seed_0"
    assert "FOLDER/task_1/model.safetensors" in (models / "README.md").read_text(encoding="utf-8")
    assert (models / "task_1").is_dir() and not (models / "task_2").exists()
    assert load_model(tmp_path / "out", storage=tmp_path).classes == tuple(left)


def test_tasks_that_have_come_before_hold_nothing(made: Storage) -> None:
    found = {}
    for name, forget in (("ita", "task:3"), ("ita", "task:1"), ("iel", "task:1"), ("tmc", "task:1")):
        result = compose([name], forget=[forget], seeds=[0], storage=made.root).result
        assert result.removal is not None
        found[name, forget] = " ".join(result.removal.remains)
    assert "No other part of this composition" in found["ita", "task:3"] and "h0" not in found["ita", "task:3"]
    assert "tasks 2, 3: h0" in found["ita", "task:1"] and "curvature (Fisher)" in found["ita", "task:1"]
    assert "IEL trained" not in found["ita", "task:1"] and "tasks 2, 3: IEL trained" in found["iel", "task:1"]
    assert "TMC learns each task alone" in found["tmc", "task:1"] and "Fisher" not in found["tmc", "task:1"]


def remains(forgotten: set[int], regularised: str) -> list[str]:
    removal = Removal((range(2), range(2, 4)), frozenset(forgotten))
    return list(remaining_lines(removal, ["ita-lora"] * 2, [{"regularise": regularised}] * 2, ["r"]))


def test_what_was_not_regularised_holds_no_curvature() -> None:
    told = {kind: [line for line in remains({0, 1}, kind) if "Fisher" in line] for kind in ("all", "head", "none")}
    assert "vector and rows" in told["all"][0] and "its rows were" in told["head"][0] and told["none"] == []
    assert "task 1: the rows of its other classes are those of h0" in remains({0}, "none")[0]


def test_no_training_is_advised_where_no_task_would_be_left() -> None:
    alone = list(remaining_lines(Removal((range(3),), frozenset({0, 1})), ["ita-lora"], [{"regularise": "all"}], ["r"]))
    assert any(line.startswith("No training removes the above") for line in alone)
    assert not any("--retrain-later" in line for line in alone)
    assert any("it needs all of task 1 to be forgotten" in line for line in remains({0}, "all"))


def test_a_whole_task_of_tangents_goes_with_its_rows(made: Storage, tmp_path: Path) -> None:
    done = compose(["tmc"], forget=["task:2"], seeds=[0], export=tmp_path / "out", storage=made.root)
    assert done.exported.keys() == {"vectors"}
    for task in (1, 2):
        rows = load_file(tmp_path / f"out/vectors/seed_0/task_{task}/{VECTOR_FILE}")["classifier.weight"]
        assert len(rows) == 4
    model = load_model(tmp_path / "out", storage=tmp_path)
    assert model.classes == ("0", "1", "4", "5")
    (batch,) = small_benchmark().evaluation[2].batches(256, None, shuffle=False)
    right = (model.module(batch.x).argmax(1) + 2 == batch.y).float().mean()
    assert 100 * float(right) == done.result.accuracies[0][1]


def test_a_task_whose_vector_is_gone_has_its_new_number_after_a_task_that_is_gone_whole() -> None:
    removal = Removal((range(2), range(2, 4), range(4, 6)), frozenset({0, 1, 4}))
    assert ReducedPool((Path("task_2"), Path("task_3")), removal).empty == {2}


def test_a_task_that_has_lost_a_class_has_no_name_of_its_own_left() -> None:
    """The name may say which class is gone; a task that has all of its classes keeps it."""
    source = get_source("digits?task=low=0,1,2&task=high=7,8,9")
    left = without(build_benchmark(source, "search"), Removal((range(3), range(3, 6)), frozenset({1})))
    assert left.spec.task_names == (None, "high") and left.spec.class_names == tuple("02789")


def test_as_many_sets_of_images_are_counted_as_are_announced(made: Storage) -> None:
    pools = make_pools([find_source(made, "ita")], small_benchmark(), Backbone(), None)
    removal, counts = Removal(pools.benchmark.spec.task_classes, frozenset({3, 1, 0})), list[int]()
    again = Retraining(run="r", run_id="0", forgotten=(1, 2, 4), kept=0)
    result = evaluate_removal(pools, removal, reduced(pools, removal), removal_config(removal), counts.append, again)
    assert sum(counts) == n_removal_steps(pools, removal) and result.removal is not None
    assert result.removal.retrained == "r"
    assert [each.number for each in result.removal.classes] == [1, 2, 4]
    whole = evaluated(pools, uniform(3), counts.append)  # of task 3 all classes are left
    assert [before[1] for before in result.removal.before] == [row[2] for row in whole.accuracies]


def test_a_removal_from_several_runs(made: Storage) -> None:
    done = compose(["ita:1,3", "ia3:2"], forget=["class:3"], seeds=[0], storage=made.root).result
    assert done.label == "forget-class-4-of-ita:1,3+ia3:2-seeds-0" and done.weights == (0.5, 0.0, 0.5)
    alone = compose(["ita"], forget=["class:3"], seeds=[0], storage=made.root).result
    assert done.accuracies == alone.accuracies  # of ia3 a row of h0 is left, and both runs have the same


def test_it_is_registered_without_the_class(made: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def register(*arguments: Any) -> None:
        found.append(read_description(arguments[-1] / "timm" / "seed_0").class_names)

    monkeypatch.setattr("tausearch.api.composition.register_model", register)
    compose(["ita"], forget=["class:3"], seeds=[0], register=True, storage=made.root)
    assert found == [("0", "1", "2", "4", "5")]


def test_an_export_is_not_composed_again(exported: tuple[Path, CompositionResult], made: Storage) -> None:
    for call in (compose, evaluate, draw):
        with pytest.raises(InputError, match="vectors: was exported with --forget, so its classes are not those"):
            call([str(exported[0] / "vectors")], storage=made.root)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--forget", "3"], "--forget: 3 is a class and a task; write class:3 or task:3"),
        (["--forget", "9"], "--forget: there is no class or task '9'; classes: 0, 1, 2, ...; tasks: 1 to 3"),
        (["--forget", "task:4"], "--forget: there is no task '4'"),
        (["--forget", "task:1", "--forget", "class:0"], "--forget: names '0' twice"),
        (["--forget", "task:1,task:2,task:3"], "--forget: leaves no class of 6"),
        (["--forget", ","], "--forget: there is no class or task ''"),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str, made: Storage, shown: Command) -> None:
    before = sorted(made.root.rglob("*"))
    out, err = shown("compose", "ita", *words, code=2)
    assert out == "" and err.count("\n") == 1 and message in err, err
    assert sorted(made.root.rglob("*")) == before


def test_tangents_lose_whole_tasks_alone(made: Storage) -> None:
    with pytest.raises(InputError, match="--forget: of TMC whole tasks alone.* task:2 to forget all of its classes"):
        compose(["tmc"], forget=["class:3"], storage=made.root)


def test_classes_by_name_and_near_matches() -> None:
    names = ("zebra", "lion, male", "bear", "2")
    spec = BenchmarkSpec("b", names, num_tasks=2, epochs=1, batch_size=1, backbone="glyph_vit")
    assert removal_of(["zebra", "lion, male"], spec).forgotten == {0, 1}
    assert removal_of(["bear,'lion, male'"], spec).forgotten == {1, 2}
    assert removal_of(["'class:lion, male', zebra"], spec).forgotten == {0, 1}
    with pytest.raises(InputError, match="no class or task 'lion, mal'; classes: 'lion, male', zebra, bear, ...;"):
        removal_of(["'lion, mal'"], spec)
    assert removal_of(["bear, class:2"], spec).tasks == [1] and removal_of(["1"], spec).touched == [1]
    listed = "zebra, 'lion, male', bear, ...; tasks: 1 to 2; did you mean 'zebra'"
    with pytest.raises(InputError, match=f"no class or task 'zebre'; classes: {listed}"):
        removal_of(["zebre"], spec)
    named = replace(spec, task_names=("beasts", None))
    listed = "bear, zebra, 'lion, male', ...; tasks: 1 to 2 or beasts; did you mean 'beasts' or 'bear'"
    with pytest.raises(InputError, match=f"no class or task 'beast'; classes: {listed}"):
        removal_of(["beast"], named)
    umlauts = replace(spec, class_names=("zebra", "lo\u0308we, grau", "ba\u0308r", "2"))  # as in a folder of a Mac
    assert removal_of(["l\u00f6we, grau", "class:b\u00e4r"], umlauts).forgotten == {1, 2}


def losses(*rows: list[float]) -> Iterator[Tensor]:
    yield from map(torch.tensor, rows)


def test_membership_is_the_share_of_pairs_in_order() -> None:
    train, test = [*losses([0.0, 1.0, 2.0], [1.0, 1.0, 1.0])], [*losses([1.0, 3.0], [0.0, 0.0])]
    assert separation(train[:1], test[:1]).auc == pytest.approx((1 + 0.5 + 0 + 3) / 6)
    assert separation(train, test).auc == pytest.approx((4.5 / 6 + 0) / 2)  # the mean over seeds
    assert separation(train[:1] * 3, test[:1] * 3) == separation(train[:1], test[:1])  # seeds share their images
    assert separation([torch.tensor([1.0])], [torch.tensor([1.0001])]).auc == 1
    draws = torch.rand(2, 400, generator=torch.Generator().manual_seed(0))
    alike = separation([draws[0]], [draws[1]])
    assert alike.low < 0.5 < alike.high and 0.05 < alike.high - alike.low < 0.1  # 1.96 * 2 / sqrt(6 * 400) = 0.08
    assert separation([draws[0]], [draws[1] + 0.5]).low > 0.8


def test_an_interval_has_a_width_where_all_pairs_are_alike_and_covers_as_often_as_it_says() -> None:
    lowest, highest, equal = [*losses([0.0] * 6)], [*losses([1.0] * 6)], [*losses([2.0] * 6)]
    told = separation(lowest, highest)
    assert told.auc == 1 == told.high and told.low == pytest.approx(0.689, abs=0.001)  # 1 to 1 with a bootstrap
    assert separation(highest, lowest).high == pytest.approx(1 - told.low)
    tied = separation(equal, equal)
    assert tied.auc == 0.5 and tied.low == pytest.approx(0.224, abs=0.001) and tied.high == pytest.approx(1 - tied.low)
    for end in interval(0.9, 24, 6):  # both numbers count by their mean
        spread = 1 + (15 - 1) * ((1 - end) / (2 - end) + end / (1 + end))
        assert abs(0.9 - end) == pytest.approx(1.96 * (end * (1 - end) * spread / (24 * 6)) ** 0.5, rel=1e-4)
    generator = np.random.default_rng(0)
    far = NormalDist().inv_cdf(0.9) * 2**0.5  # normal losses this far apart have an area of 0.9
    held = 0
    for _ in range(400):
        wins = generator.normal(size=(24, 1)) < generator.normal(far, size=6)
        low, high = interval(float(wins.mean()), *wins.shape)
        held += low <= 0.9 <= high
    assert 0.93 < held / 400 < 0.99
