"""What is told of a removal: which lines, which classes, in which order, and where a table is cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tausearch.models import CompositionResult, few_images, removal_tables
from tausearch.models.cards import card
from tausearch.models.descriptions import ModelDescription
from tausearch.models.removal import measure
from tausearch.models.removal.names import removal_of
from tausearch.models.removal.remnants import WORDS, remaining_lines, removed_content_lines
from tausearch.models.removal.report import AnswerShare, ForgottenClass, RemovalReport, Separation
from tausearch.runs import FinalSpec, Retraining, SearchSpec, Storage
from tests.support.runs.trials import final_spec
from trainables.data import BenchmarkSpec, Removal
from trainables.errors import InputError

THREE = (range(2), range(2, 4), range(4, 6))


def separated(auc: float) -> Separation:
    return Separation(auc=auc, low=auc - 0.1, high=auc + 0.1)


def forgotten(number: int, test: int = 30, answers: Sequence[AnswerShare] = (), **changes: Any) -> ForgottenClass:
    losses = {"class_loss": separated(0.9), "own_loss_before": separated(0.8), "own_loss_after": separated(0.7)}
    about = {"number": number, "task": 2, "name": f"c{number}", "train": 90, "itself": 60.0, "others": 0.0}
    return ForgottenClass(**{**about, **losses, "test": test, "answers": tuple(answers), **changes})


def report(*classes: ForgottenClass) -> RemovalReport:
    before = ((80.0, 60.0), (90.0, 50.0))
    return RemovalReport(tasks=(1, 3), classes=classes, before=before, left_out=(), remains=())


def test_the_rest_is_compared_by_the_runs_numbers_of_tasks_with_a_mean_below() -> None:
    rest, *_ = removal_tables(report(forgotten(3)), [(85.0, 40.0), (95.0, 50.0)])
    assert rest.texts == [
        ["1", "85.00 ± 7.07", "90.00 ± 7.07", "+5.00"],
        ["3", "55.00 ± 7.07", "45.00 ± 7.07", "-10.00"],
        ["mean", "70.00 ± 0.00", "67.50 ± 7.07", "-2.50"],
    ]
    assert rest.emphasis == {2: "total"}
    named, *_ = removal_tables(report(forgotten(3)), [(85.0, 40.0), (95.0, 50.0)], ("birds", "zebra, star"))
    assert [row[0] for row in named.texts] == ["1: birds", "3: zebra, star", "mean"]
    assert (rest.columns[0].right, named.columns[0].right) == (True, False)


def test_the_classes_that_images_land_on_are_cut_after_ten_and_summed() -> None:
    answers = [AnswerShare(label=f"a{n}", before=n, after=20.0 - n) for n in range(12)]
    _, landing, _ = removal_tables(report(forgotten(3, answers=answers), forgotten(4, others=5.0)), [(1.0, 1.0)] * 2)
    assert landing.rows[:2] == [("c3", "itself", 60.0, None), ("c3", "a0", 0.0, 20.0)]
    assert landing.rows[10:12] == [("c3", "a9", 9.0, 11.0), ("c3", "2 more", 21.0, 19.0)]
    assert landing.rows[12:] == [("c4", "itself", 60.0, None), ("c4", "others that are gone", 5.0, None)]


def test_membership_has_the_class_before_alone_and_the_own_answer_before_and_after() -> None:
    unnamed = report(forgotten(3), forgotten(4)).unnamed()
    *_, membership = removal_tables(unnamed, [(1.0, 1.0)] * 2)
    assert [row[0] for row in membership.rows[2:]] == ["class 4", "class 4"]
    assert membership.rows[:2] == [
        ("class 3", "90 / 30", "the class", "0.90 (0.80 to 1.00)", None),
        ("class 3", None, "own answer", "0.80 (0.70 to 0.90)", "0.70 (0.60 to 0.80)"),
    ]


def test_few_test_images_are_those_below_twenty_and_the_fewest_are_named() -> None:
    assert few_images(report(forgotten(3, test=20), forgotten(4, test=21))) is None
    line = few_images(report(forgotten(3, test=19), forgotten(4, test=7), forgotten(5)))
    assert line is not None and line.startswith("With 7 test images of a class")


@pytest.fixture
def about(spec: SearchSpec) -> ModelDescription:
    """The export of a run of three tasks that has lost task 2; of its own task 2 the vector has gone, too."""
    run = {"benchmark": "digits", "protocol": spec.protocol, "runs": ("r",), "methods": ("ita-lora",)}
    measured = {"weights": (1.0, 0.0), "accuracies": {0: (85.0, 40.0), 1: (95.0, 50.0)}}
    removal = report(forgotten(3, test=7), forgotten(4)).unnamed()
    return ModelDescription(**run, **measured, class_names=("a", "b", "c"), tasks=(2, 1), removal=removal)  # type: ignore[arg-type]


def test_a_card_says_what_was_taken_out_by_the_numbers_of_the_run(about: ModelDescription) -> None:
    lines = card(about).splitlines()
    assert "class 3 (task 2), class 4 (task 2) of the run. The model has no such answer." in lines
    assert "Tasks 1, 3 of the run are its tasks 1, 2." in lines
    assert "Tasks 1, 3 of the run" in card(about.model_copy(update={"removal": report(forgotten(3))}))
    retrained = card(about.model_copy(update={"removal": report(forgotten(3)).model_copy(update={"retrained": "r0"})}))
    assert "class 3 (task 2) of r0. The model has" in retrained and "Tasks 1, 3 of r0 are its" in retrained
    assert "Tasks" not in card(
        about.model_copy(update={"removal": report(forgotten(5)).model_copy(update={"tasks": (1, 2)})})
    )
    table = [re.sub(r" +", " ", line) for line in lines if re.match(r"\| \d: ", line)]
    assert table == [
        "| 1: a, b | 85.00 ± 7.07 | 90.00 ± 7.07 | +5.00 |",
        "| 3: c | 55.00 ± 7.07 | 45.00 ± 7.07 | -10.00 |",
    ]
    assert WORDS in lines and any(line.startswith("With 7 test images of a class") for line in lines)


def test_of_a_model_without_classes_no_task_is_said_to_be_still_answered(about: ModelDescription) -> None:
    assert about.still_answered == () and "still be answered" not in card(about)
    assert about.model_copy(update={"removal": None}).still_answered != ()


def test_a_title_names_the_classes_that_are_gone_and_says_what_else_the_label_does(about: ModelDescription) -> None:
    removal = report(forgotten(3), forgotten(4, name=None))
    of = {"label": "forget-class-3,4-seeds-0,1", "runs": ("r",), "benchmark": "digits", "seeds": (0, 1)}
    measured = {"weights": (1.0, 0.0), "accuracies": ((85.0, 40.0), (95.0, 50.0)), "task_classes": (("a", "b"), ("c",))}
    result = CompositionResult(**of, **measured, removal=removal)  # type: ignore[arg-type]
    assert result.title == "forget c3, class 4, seeds 0,1" and result.still_answered == ()
    assert list(result.summary()) == ["test/accuracy/task_1", "test/accuracy/task_3", "test/final_accuracy"]
    again = {"label": "forget-class-3,4-retrained", "removal": removal.model_copy(update={"retrained": "s"})}
    assert result.model_copy(update=again).title == "forget c3, class 4, retrained"


def test_tasks_that_a_retrained_run_numbers_otherwise_are_those_of_the_run_before() -> None:
    found, values = report(forgotten(3)), [[85.0, 40.0], [95.0, 50.0]]
    again = found.model_copy(update={"retrained": "s"})
    same = again.model_copy(update={"tasks": (1, 2)})
    heads = [removal_tables(each, values)[0].columns[0].name for each in (found, again, same)]
    assert heads == ["task", "task of s", "task"]


RETRAIN = {  # where a task would be left with one class
    frozenset(
        forget
    ): "`--retrain-later` removes all of the above, but none of the following, and a task is not trained on one"
    f" class: it needs all of {tasks} to be forgotten."
    for forget, tasks in {(0,): "task 1", (4,): "task 3", (0, 4): "tasks 1, 3"}.items()
}


@pytest.mark.parametrize(
    ("forget", "methods", "regularised", "told"),
    [
        (
            {0},
            "ita-lora ita-lora ita-lora",
            "all all all",
            ["task 1: the rows", "tasks 2, 3: h0", "tasks 2, 3: how firmly its task"],
        ),
        ({2, 3}, "ita-lora ita-lora ita-lora", "all all all", ["task 3: h0", "task 3: how firmly its task"]),
        ({2, 3}, "iel-fft ita-lora iel-fft", "all all none", ["task 3: h0", "task 3: IEL"]),
        (
            {0, 1},
            "ita-lora ita-lora iel-ia3",
            "all all head",
            ["tasks 2, 3: h0", "task 2: how firmly its task", "task 3: how firmly its rows", "task 3: IEL"],
        ),
        ({0, 1, 4, 5}, "ita-lora ita-lora ita-lora", "all all all", ["task 2: h0", "task 2: how firmly its task"]),
        ({0, 4}, "ita-lora ita-lora ita-lora", "all none all", ["tasks 1, 3: the rows", "task 2: h0"]),
        ({0, 1}, "ita-lora ita-lora tmc", "all none all", ["task 2: h0"]),
        ({0, 1}, "tak tak tak", "all all none", ["tasks 2, 3: h0", "task 2: how firmly its task vector was held is"]),
        ({0, 1}, "tmc tmc tmc", "all all all", ["TMC learns each task alone"]),
        ({0, 1}, "arithmetic arithmetic arithmetic", "all all all", ["arithmetic: what its later tasks have"]),
        ({0}, "tmc tmc tmc", "all all all", ["task 1: the rows"]),
        ({4}, "ita-lora ita-lora ita-lora", "all all all", ["task 3: the rows"]),
        ({0, 1}, "tmc arithmetic tmc", "all all all", ["arithmetic: what its later tasks have"]),
        ({0, 1}, "tmc theirs arithmetic", "all all all", ["arithmetic, theirs: what its later tasks have"]),
        ({0, 1}, "tmc arithmetic ita-lora", "all all none", ["task 3: h0", "arithmetic: what its later tasks have"]),
        ({4, 5}, "tmc tmc tmc", "all all all", ["No other part of this composition"]),
        ({0, 1, 2, 3}, "ita-lora ita-lora ita-lora", "none head all", ["task 3: h0", "task 3: how firmly its task"]),
    ],
)
def test_what_may_still_depend_on_images(forget: set[int], methods: str, regularised: str, told: list[str]) -> None:
    known = [{"regularise": each} for each in regularised.split()]
    lines = list(remaining_lines(Removal(THREE, frozenset(forget)), methods.split(), known, ["r", "s"]))
    *first, hyperparameters, theta_0, outside = lines
    if "h0" in " ".join(first):
        assert first.pop() == RETRAIN.get(
            frozenset(forget), "`--retrain-later` removes all of the above, but none of the following."
        )
    assert [line[: len(start)] for line, start in zip(first, told, strict=True)] == told
    assert hyperparameters.startswith("The hyperparameters") and theta_0.startswith("theta_0")
    assert outside.startswith("Outside this composition, all of it is still in r, s, any other run")


@pytest.mark.parametrize(
    ("forget", "kept", "told"),
    [
        ({2}, None, ["task 2: the whole", "task 2: in `vectors`, zeros", "1 of 6 classes: rows"]),
        ({0, 1}, None, ["task 1: the whole", "2 of 6 classes: rows"]),
        ({2}, 1, ["task 2: the whole", "tasks 2, 3: learned again", "1 of 6 classes: rows"]),
        ({0, 1, 4}, 1, ["tasks 1, 3: the whole", "task 3: learned again", "3 of 6 classes: rows"]),
    ],
)
def test_what_is_left_out_has_been_learned_again_or_is_zeros(
    forget: set[int], kept: int | None, told: list[str]
) -> None:
    again = None if kept is None else Retraining(run="r", run_id="0", forgotten=(1,), kept=kept)
    *lines, last = removed_content_lines(Removal(THREE, frozenset(forget)), again)
    assert [line[: len(start)] for line, start in zip(lines, told, strict=True)] == told
    assert last.startswith("mixtures and Fisher matrices of the forgotten classes")


def test_generic_references_keep_nothing_of_past_tasks_but_h0() -> None:
    known = [{}, {}, {"references": "generic"}]
    lines = list(remaining_lines(Removal(THREE, frozenset({0, 1})), ["tak"] * 3, known, ["r"]))
    assert [line.split(":")[0] for line in lines if "h0" in line] == ["tasks 2, 3"]
    assert [line.split(":")[0] for line in lines if "held" in line] == ["task 2"]


def test_each_task_is_told_of_by_the_run_that_it_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exported vectors do not say what was regularised; then all of it counts."""
    told: list[Sequence[str]] = []
    monkeypatch.setattr(measure, "remaining_lines", lambda _, *rest: told.extend(rest) or iter(()))
    folders = [Path(f"/{name}/seed_0/task_{task}") for task, name in enumerate("abc", start=1)]

    class Pool(list[Any]):
        """Vectors of three runs."""

        def __init__(self) -> None:
            super().__init__(SimpleNamespace(origin=SimpleNamespace(method=m)) for m in ("ita", "iel", "tmc"))
            self.folders = folders

    fixed = ({"regularise": "none"}, {}, None)
    specs = [None if each is None else SimpleNamespace(fixed=each) for each in fixed]
    about = [{"folder": Path(f"/{name}"), "text": name, "directory": None} for name in "abc"]
    sources = [SimpleNamespace(spec=spec, **each) for spec, each in zip(specs, about, strict=True)]
    measure._remains(SimpleNamespace(by_seed={0: Pool()}, sources=sources), Removal(THREE, frozenset({0})), None)  # type: ignore[arg-type]
    assert told == [["ita", "iel", "tmc"], [{"regularise": "none"}, {}, {}], ["a", "b", "c"]]


def test_images_are_still_in_a_run_in_its_search_and_in_the_bounds_of_both_that_exist(tmp_path: Path) -> None:
    for name in ("final", "search", "final-joint", "search-probe", "other-probe"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.yaml").touch()
    for search, others in (("search", ["search", "search-probe", "final-joint"]), (None, ["final-joint"])):
        spec, directory = SimpleNamespace(name="final", source=search, retrained=None), Storage(tmp_path).run("final")
        source: Any = SimpleNamespace(text="final:1,2", spec=spec, directory=directory)
        assert sorted(measure._holders(source)) == sorted(["final", *others])


def test_answers_are_those_after_the_removal_first_then_those_before_it() -> None:
    def answers(*top: int) -> measure._Answers:
        label, loss = torch.full((len(top),), 2), torch.arange(len(top)) / 10
        return measure._Answers(label, torch.tensor(top), loss, loss)

    seed = measure._Seed([answers(2), answers(2, 0, 1, 1, 3, 3, 3, 3)])
    seed.train_before[2] = seed.train_after[2] = answers(2, 2)
    seed.test_after[2] = answers(0, 1, 4, 4)
    pools = SimpleNamespace(benchmark=SimpleNamespace(spec=SimpleNamespace(class_names=tuple("abcdef"))))
    found = measure._forgotten_class(pools, Removal(THREE, frozenset({2, 3})), 2, [seed])  # type: ignore[arg-type]
    assert (found.number, found.task, found.name, found.train, found.test) == (3, 2, "c", 2, 8)
    assert [(each.label, each.before, each.after) for each in found.answers] == [
        ("e", 0.0, 50.0),
        ("b", 25.0, 25.0),
        ("a", 12.5, 25.0),
    ]
    assert (found.itself, found.others) == (12.5, 50.0)
    assert (found.own_loss_before.auc, found.own_loss_after.auc, found.class_loss.auc) == (0.875, 0.75, 0.875)


def test_shares_are_of_the_images_of_all_seeds() -> None:
    def answers(*top: int) -> measure._Answers:
        return measure._Answers(torch.zeros(len(top)), torch.tensor(top), torch.zeros(len(top)), None)

    assert measure._shares([answers(0, 1), answers(1, 1)]) == {0: 25.0, 1: 75.0}


def test_training_images_are_taken_as_they_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "of_classes", lambda images, classes: (images, classes))
    tasks = [SimpleNamespace(unaugmented=f"plain {n}", train=f"augmented {n}") for n in (1, 2, 3)]
    pools: Any = SimpleNamespace(benchmark=SimpleNamespace(tasks=tasks))
    assert measure._training_images(pools, Removal(THREE, frozenset({3})), 3) == ("plain 2", [3])


def test_a_run_that_was_trained_again_names_every_run_that_its_vectors_came_from(spec: SearchSpec) -> None:
    def run(name: str, before: str) -> FinalSpec:
        retrained = Retraining(run="renamed since", run_id=before, forgotten=(1,), kept=0)
        return final_spec(spec, name=name, id=f"id of {name}", retrained=retrained)

    def told(*runs: FinalSpec) -> list[str]:
        storage: Any = SimpleNamespace(read_each=lambda read: (list(runs), []))
        return list(islice(measure._learned_from(runs[0], storage), 9))

    third, second, first = run("c", "id of b"), run("b", "id of a"), run("a", "gone")
    assert told(third, first, second) == ["b", "a"] and told(first, third) == []
    assert told(third, second, run("a", "id of b")) == ["b", "a"]  # a damaged one ends, too
    assert told(final_spec(spec), first) == []


def test_of_classes_that_were_trained_without_the_images_are_outside_alone() -> None:
    source = SimpleNamespace(text="a:1", spec=None, directory=None)
    pools: Any = SimpleNamespace(sources=[source, SimpleNamespace(**{**vars(source), "text": "b:2"}), source])
    again = Retraining(run="r", run_id="0", forgotten=(1,), kept=0)
    first, *_, outside = measure._remains(pools, Removal(THREE, frozenset({0})), again)
    assert first == "No part of this model was learned from images of the forgotten classes."
    assert "all of it is still in a:1, b:2, any other run" in outside


@pytest.mark.parametrize(
    ("wanted", "classes"),
    [
        (["birds"], {2, 3}),
        (["task:birds, d"], {2, 3, 4}),
        (["task:a"], {0}),  # a class of this name goes before what the words could mean
        (["task:b"], {4, 5}),
        (["class:b"], {1}),
    ],
)
def test_a_class_or_a_task_by_its_name(wanted: list[str], classes: set[int]) -> None:
    named = {"num_tasks": 3, "task_names": (None, "birds", "b")}
    spec = BenchmarkSpec("x", ("task:a", "b", "a", "c", "d", "e"), epochs=1, batch_size=1, backbone="v", **named)  # type: ignore[arg-type]
    assert removal_of(wanted, spec).forgotten == classes


def test_every_mistake_of_a_removal_is_said() -> None:
    spec = BenchmarkSpec("x", ("a", "b", "c"), num_tasks=3, epochs=1, batch_size=1, backbone="v")
    with pytest.raises(InputError) as error:
        removal_of(["gone, a", "task:9"], spec)
    assert [text.split(";")[0] for text in error.value.args] == [
        "--forget: there is no class or task 'gone'",
        "--forget: there is no task '9'",
    ]
    with pytest.raises(InputError, match="--forget: names 'b' twice"):
        removal_of(["a", "b", "task:2"], spec)
    with pytest.raises(InputError, match="--forget: name a class or the number of a task"):
        removal_of([], spec)
    assert "..." not in str(error.value)  # all three are named
