"""The differences between the user's own final runs: paired by seed where they can be, and every form of them."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from typing import Any

import pytest

from tausearch.reports import read_final_run
from tausearch.reports.comparison.run_differences import RunDifference, _as_dict, difference_table, differences
from tausearch.runs import DataFacts, Storage, read_accuracies
from tests.support.command_line import Ask
from tests.support.runs.built_runs import make_run
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import search_spec


def of(storage: Storage, *names: str) -> list[RunDifference]:
    """The differences of runs from the first one."""
    runs = [found for name in names if (found := read_final_run(storage.run(name))[1]) is not None]
    return differences(runs, [read_accuracies(run.spec, storage.run(run.spec.name)) for run in runs])


def test_shared_seeds_are_paired(storage: Storage) -> None:
    make_final_run(storage, "base", [80.0, 90.0, 70.0, None])
    make_final_run(storage, "other", [81.0, 93.0, 72.0, 10.0])  # the last seed is not shared, so it does not count
    file = storage.run("base").results_file
    results = json.loads(file.read_text())
    results["seeds"][3] |= {"test/final_accuracy": 50.0}  # failed after its last task
    file.write_text(json.dumps(results))
    first, other = of(storage, "base", "other")
    by_seed = [1.0, 3.0, 2.0]
    assert (first.points, first.error, first.basis) == (None, None, "the baseline")
    assert other.points == pytest.approx(2.0) and (other.paired, other.shared) == (True, 3)
    assert other.error == pytest.approx(statistics.stdev(by_seed) / math.sqrt(3))
    assert (other.text, other.basis) == ("+2.00 ± 0.58", "paired, 3 shared seeds")


@pytest.mark.parametrize(
    ("other", "shared"), [([None, None, None, 70.0, 74.0], 0), ([None, None, 71.0, 73.0, 72.0], 1)]
)
def test_without_two_shared_seeds_the_means_are_compared(
    other: list[float | None], shared: int, storage: Storage
) -> None:
    make_final_run(storage, "base", [80.0, 90.0, 85.0, None, None])
    make_final_run(storage, "other", other)
    found = of(storage, "base", "other")[1]
    had = [value for value in other if value is not None]
    assert found.points == pytest.approx(72.0 - 85.0) and (found.paired, found.shared) == (False, shared)
    assert found.error == pytest.approx(math.sqrt(25 / 3 + statistics.variance(had) / len(had)))
    assert found.basis == f"unpaired, {shared} shared seed{'s' * (shared != 1)}"
    assert _as_dict(found)["shared_seeds"] == shared


def test_one_seed_has_no_error(storage: Storage) -> None:
    make_final_run(storage, "base", [80.0, 90.0])
    make_final_run(storage, "shared", [None, 91.0])
    make_final_run(storage, "apart", [None, None, 91.0])
    _, shared, apart = of(storage, "base", "shared", "apart")
    assert of(storage, "shared", "base")[1].basis == "paired, 1 shared seed: no error"  # all that the baseline has
    assert (shared.text, shared.error, shared.basis) == ("+1.00", None, "paired, 1 shared seed: no error")
    assert (apart.text, apart.error, apart.basis) == ("+6.00", None, "unpaired, 0 shared seeds: no error")


def test_class_orders_are_paired_with_their_seeds(storage: Storage) -> None:
    make_final_run(storage, "base", [80.0, 90.0, 60.0, 70.0], protocol={"class_orders": (0, 1)})
    make_final_run(storage, "other", [61.0, 73.0, 50.0, 50.0], protocol={"class_orders": (1, 2)})
    make_final_run(storage, "own", [80.0, 90.0])
    _, other, own = of(storage, "base", "other", "own")
    assert (other.points, other.error) == (pytest.approx(2.0), pytest.approx(1.0))
    assert other.basis == "paired, 2 shared pairs of class order and seed"
    assert own.points is None and own.basis == "other class orders"


def test_other_benchmarks_protocols_and_images_have_no_difference(storage: Storage) -> None:
    def with_images(
        name: str, digest: str, evaluation: int = 10, evaluation_digest: str | None = "c" * 64, epochs: int = 20
    ) -> None:
        spec = make_final_run(storage, f"{name}-made", [70.0, 71.0], protocol={"epochs": epochs})
        tested = {"evaluation": evaluation, "evaluation_digest": evaluation_digest}
        facts = DataFacts(digest=digest, train=10, **tested)
        make_run(storage, spec.model_copy(update={"name": name, "data": facts}), [])
        results = json.loads(storage.run(f"{name}-made").results_file.read_text())
        storage.run(name).results_file.write_text(json.dumps({**results, "name": name}))

    with_images("base", "a" * 64)
    with_images("same", "a" * 64)
    with_images("changed", "b" * 64)
    with_images("more", "a" * 64, evaluation=11)
    with_images("tested", "a" * 64, evaluation_digest="d" * 64)
    with_images("earlier", "a" * 64, evaluation_digest=None)
    with_images("both", "b" * 64, epochs=99)
    digests = {"weights_digest": "1" * 64, "initial_head_digest": "2" * 64}
    make_final_run(storage, "long", [80.0, 81.0], protocol={"epochs": 99, **digests})
    make_final_run(storage, "split", [80.0, 81.0], protocol={"split_seed": 7, "initial_head": "/a/head"})
    make_final_run(storage, "there", [80.0, 81.0], benchmark="mit67")
    others = ("same", "earlier", "changed", "more", "tested", "long", "both", "split", "there")
    found = {each.run.spec.name: each for each in of(storage, "base", *others)}
    assert found["more"].not_comparable == ("other images",)
    assert [name for name, each in found.items() if each.may_differ] == ["changed", "tested"]
    assert found["changed"].basis == "paired, 2 shared seeds; images may be others" and not found["same"].may_differ
    differ = ("another weights digest", "another initial head digest")
    assert found["long"].not_comparable == ("epochs 99, the baseline's 20", *differ)
    assert found["there"].not_comparable == ("on mit67",) and found["long"].shared == 2
    assert found["both"].not_comparable == ("epochs 99, the baseline's 20",)  # which says enough
    assert [name for name, each in found.items() if each.points is None] == [
        "base",
        "more",
        "long",
        "both",
        "there",
    ]
    table = difference_table(list(found.values()))
    assert table.title == "final accuracy, percent, and the difference from base, points"  # one run is on mit67
    alike = difference_table([found["base"], found["same"]])
    assert alike.title == "cifar100: final accuracy, percent, and the difference from base, points"
    assert table.texts[6][3:] == ["", "; ".join(found["long"].not_comparable)]


def test_every_form(storage: Storage, ask: Ask) -> None:
    make_final_run(storage, "base", [80.0, 90.0])
    make_final_run(storage, "other", [79.0, 90.0], overrides={"lr": 0.5})  # the very same thing but for a value

    def shown(*words: str) -> str:
        code, out, err = ask("compare", *words, "--storage", str(storage.root))
        assert (code, err) == (0, "")
        return out

    assert not storage.comparison_figure.exists()
    content = json.loads(shown("base", "other", "--format", "json"))
    first, other = content["rows"]
    assert content["baseline"] == first["run"] == "base" and first["difference"] is first["paired"] is None
    named: dict[str, Any] = {"run": "other", "difference": -0.5, "standard_error": 0.5, "paired": True}
    assert {**other, **named, "shared_seeds": 2, "settings": {"lr": 0.5}} == other and other["protocol"]["tasks"] == 10
    table = list(csv.DictReader(io.StringIO(shown("other", "base", "--format", "csv"))))
    assert [(row["run"], row["difference"], row["standard_error"]) for row in table] == [
        *(("other", "", ""), ("base", "0.5", "0.5"))
    ]
    markdown = shown("base", "other", "--format", "markdown")
    row = "| other | ita-lora (lr=0.5) | 84.50 ± 7.78 (2) | -0.50 ± 0.50 | paired, 2 shared seeds |"
    assert row in markdown and "| difference ± standard error |" in markdown
    latex = shown("base", "other", "--format", "latex")
    assert r"$-$0.50{\tiny$\pm$0.50}" in latex
    for deviation, form in (("±", markdown), (r"$\pm$", latex)):
        assert f"Final accuracy: mean {deviation} standard deviation (seeds)." in form
        assert f"Difference: points above base, {deviation} standard error; paired: " in form
    text = shown("base", "other")
    assert "difference: points above base, ± standard error" in text and "-0.50 ± 0.50" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["base"], "name another final run"),
        (["base", "other", "other"], "compare other: is given twice"),
        (["digits-ita-lora-1"], "is a search; train what it chose with"),  # another name would not help
        (["bsae", "digit"], "there is no run of this name, either; there are: base"),
        (["base", "bsae"], "no run named 'bsae' in"),
        (["base", "digits"], "is a benchmark; name benchmarks or final runs, not both"),
        (["base", "mit67"], "compare mit67: is a benchmark"),
        (["base", "failed"], "compare failed: has no finished seed yet"),
        (["base", "digits-ita-lora-1"], "is a search; train what it chose with"),
        (["base", "other", "--ablation"], "--ablation: does not go with names of runs"),
        (["base", "other", "--figure", "a.png"], "--figure: does not go with names of runs"),
        (["base", "other", "--campaign", "t"], "--campaign: does not go with names of runs"),
        (["base", "other", "--paper", "--format", "latex"], "--paper: does not go with names of runs"),
    ],
)
def test_what_cannot_be_compared_is_refused(words: list[str], message: str, storage: Storage, ask: Ask) -> None:
    for name, accuracies in (("base", [80.0]), ("other", [81.0]), ("failed", [None])):
        make_final_run(storage, name, accuracies)
    make_run(storage, search_spec(), [])
    code, out, err = ask("compare", *words, "--storage", str(storage.root))
    assert (code, out) == (2, "") and message in err


def test_a_run_that_bears_the_name_of_a_benchmark_hides_it_not(storage: Storage, ask: Ask) -> None:
    make_final_run(storage, "digits", [80.0, 82.0])
    make_final_run(storage, "base", [80.0, 81.0])
    for words, rows in ((["digits"], []), (["base", "digits"], ["base", "digits"])):
        command = ["compare", *words, "--format", "json", "--storage", str(storage.root)]
        code, out, _ = ask(*command)
        assert code == 0 and [row["run"] for row in json.loads(out)["rows"] if "run" in row] == rows
