"""Search-space files: every one fits its method, and whatever is wrong with one is named."""

from __future__ import annotations

import csv
import json
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from search_spaces import METHODS_WITH_SPACE, Range, far_off, load_space, paper_benchmarks, paper_points
from search_spaces.reading import read_space_file
from search_spaces.schema import Choices, ResolvedSpace, SpaceFile, resolve
from tausearch.api import SearchRequest, plan_search, space_for
from tausearch.studies.spaces import absent_images, require_runs, require_space_fits, space_of
from trainables.data import BENCHMARKS
from trainables.errors import InputError
from trainables.methods import METHODS, get_method

PAPER = ("imagenet_r", "cifar100", "cub200", "caltech256", "mit67", "resisc45", "cropdisease")
SEVENTEEN = (
    *("ita-fft", "ita-lora", "ita-ia3", "iel-fft", "iel-lora", "iel-ia3", "joint", "finetune"),
    *("ewc", "lwf-mc", "derpp", "l2p", "coda", "seed", "apt", "inflora", "tmc"),
)
OTHERS = {"probe", "tak"}  # none of the paper's systems
UNLISTED = {"joint", "apt"}  # the paper lists no hyperparameters for them
AT_A_LIMIT = {("ewc", "gamma", 1.0), ("lwf-mc", "wd", 0.0)}  # beyond these there is nothing to search
# Parsed from the source of the paper and compared with it cell by cell, numbers as they are written there.
TRANSCRIPT = list(csv.DictReader(Path(__file__).with_name("paper_hyperparameters.csv").open(encoding="utf-8")))


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_all_methods_have_a_file() -> None:
    assert {*SEVENTEEN, *OTHERS} == set(METHODS_WITH_SPACE) == set(METHODS)
    assert set(paper_benchmarks()) == set(PAPER)


@pytest.mark.parametrize("benchmark", [*dict.fromkeys([*BENCHMARKS, *PAPER])])
@pytest.mark.parametrize("method", METHODS_WITH_SPACE)
def test_every_file_fits_its_method(method: str, benchmark: str) -> None:
    space = load_space(method, benchmark)
    require_space_fits(get_method(method), space)
    assert space.space
    for name, dimension in space.space.items():
        assert space.start[name] in dimension
        if isinstance(dimension, Range) and dimension.high >= 100 * dimension.low > 0:
            assert dimension.log, f"{method}: {name} spans {dimension.low} to {dimension.high}"


def test_a_method_judges_the_start_and_all_ends_grid_values_and_choices() -> None:
    read: list[dict[str, Any]] = []
    ran: list[dict[str, Any]] = []
    entry: Any = SimpleNamespace(parse=lambda point: read.append(point) or point, validate=lambda p, _: ran.append(p))
    dimensions = {"lr": Range(low=1.0, high=9.0, grid=(2.0,)), "kind": Choices(choices=("a", "b"))}
    space = ResolvedSpace("probe", "digits", {**dimensions}, {"lr": 3.0, "kind": "a"}, {}, {"wd": 0.5})
    require_space_fits(entry, space)
    assert [(each["lr"], each["kind"]) for each in read] == [
        *((3, "a"), (1, "a"), (9, "a"), (2, "a"), (3, "a"), (3, "b")),
        (1.5, "a"),  # in a range that is not of whole numbers
    ]
    scenario: Any = None
    require_runs(entry, space, scenario)
    assert ran == read[:6] and all(each["wd"] == 0.5 for each in ran)


def test_a_range_for_a_whole_number_is_refused_unless_it_draws_whole_numbers(tmp_path: Path) -> None:
    """The method's own range of `r` has `integer: true`; an entry of the user's replaces it, key and all."""
    text = "space: {r: {low: 4, high: %s, grid: [4]}, epsilon: {low: 0.6, high: 0.9, grid: [0.7]}}"
    for high in (64, 5):
        said = "must be a whole number, got 4.5, which the search may draw; give its range `integer: true`$"
        with pytest.raises(InputError, match=f"mine.yaml: inflora: hyperparameter 'r': {said}"):
            space_of("inflora", "digits", write(tmp_path, text % high), {})
        space = space_of("inflora", "digits", write(tmp_path, text % f"{high}, integer: true"), {})
        assert space.space["r"].typed(4.0) == 4 and space.start["epsilon"] in space.space["epsilon"]


def test_what_has_no_effect_with_a_value_that_is_fixed_is_fixed_at_its_start(tmp_path: Path) -> None:
    whole = space_of("ita-lora", "digits", None, {})
    for value, idle in (("all", ()), ("head", ("alpha",)), ("none", ("alpha", "alpha_cls", "alpha_cls_prior"))):
        own = write(tmp_path, f"{{fixed: {{default: {{regularise: {value}}}}}}}")
        by_file, by_option = (
            space_of("ita-lora", "digits", *each) for each in ((own, {}), (None, {"regularise": value}))
        )
        assert by_file == by_option and set(by_option.space) == set(by_option.start) == {*whole.space} - {*idle}
        left = {name: whole.start[name] for name in idle}
        assert by_option.fixed == {**whole.fixed, "regularise": value, **left}
    official = space_of("iel-lora", "digits", None, {"formulation": "official", "beta_cls": 0.0})
    assert "beta_cls_prior" in official.fixed and "beta" in official.space
    searched = write(tmp_path, "{space: {regularise: {choices: [none, all]}}, start: {default: {regularise: none}}}")
    assert "alpha" in space_of("ita-lora", "digits", searched, {}).space


def test_a_grid_of_whole_numbers_needs_no_range_of_whole_numbers(tmp_path: Path) -> None:
    """It draws nothing between its values; an end or a value that is not whole is refused all the same."""
    text = "space: {r: {low: 4, high: %s, grid: [%s]}, epsilon: {low: 0.6, high: 0.9, grid: [0.7]}}"
    file = write(tmp_path, text % ("64", "4, 8"))
    asked = SearchRequest("digits", "inflora", space=file, algorithm="grid", storage=tmp_path)
    assert plan_search(asked).spec.trials > 1
    with pytest.raises(InputError, match="got 4.5, which the search may draw"):
        plan_search(replace(asked, algorithm="random"))
    for high, values in (("64", "4, 8.5"), ("64.5", "4, 8")):
        write(tmp_path, text % (high, values))
        with pytest.raises(InputError, match=f"'r': must be a whole number, got {'8.5' if high == '64' else '64.5'}$"):
            plan_search(asked)


@pytest.mark.parametrize("method", [name for name in SEVENTEEN if name.startswith(("ita", "iel"))])
def test_the_files_of_kronecker_factors_fit_their_methods(method: str) -> None:
    file = Path(__file__).parents[2] / "examples" / "spaces" / f"kronecker-{method[:3]}.yaml"
    known = [field.name for field in fields(get_method(method).config)]
    space = load_space(method, "digits", file=file, known=known)
    require_space_fits(get_method(method), space)
    strength = "alpha" if method.startswith("ita") else "beta"
    assert space.fixed["curvature"] == "kronecker" and space.start[strength] in space.space[strength]
    assert space.space[strength] != load_space(method, "digits").space[strength]


@pytest.mark.parametrize("method", SEVENTEEN)
def test_the_papers_values_come_first_and_leave_room(method: str) -> None:
    for benchmark in PAPER:
        space = load_space(method, benchmark)
        assert bool(space.paper) == (method not in UNLISTED)
        for name, value in space.paper.items():
            if name not in space.space:
                assert space.fixed[name] == value
                continue
            assert space.start[name] == value
            dimension = space.space[name]
            assert isinstance(dimension, Range)
            if (method, name, float(value)) not in AT_A_LIMIT:
                assert dimension.low < float(value) < dimension.high


def test_the_papers_values_are_those_of_its_text() -> None:
    assert len(TRANSCRIPT) == len(PAPER) * (len(SEVENTEEN) - len(UNLISTED))
    listed = {
        (row["method"], row["benchmark"]): {
            k: float(v) for k, v in row.items() if v and k not in ("method", "benchmark")
        }
        for row in TRANSCRIPT
    }
    found = {
        (method, benchmark): {name: float(value) for name, value in values.items()}
        for method in SEVENTEEN
        for benchmark in PAPER
        if (values := load_space(method, benchmark).paper)
    }
    assert found == listed


def test_of_two_values_the_more_particular_wins() -> None:
    wide, whole = {"low": 0, "high": 9, "grid": [1]}, {"low": 1, "high": 9, "integer": True, "grid": [1]}
    own = {
        "space": {"lr": wide, "wd": wide},
        "paper": {"digits": {"lr": 0.3, "epochs": 5, "size": 7}},
        "start": {"default": {"lr": 0.1, "wd": 0.1, "rank": 4}, "digits": {"lr": 0.2, "wd": 0.2}},
        "fixed": {"default": {"epochs": 1, "size": 1, "rank": 1}, "digits": {"size": 2}},
    }
    user = {"space": {"rank": whole}, "paper": {"digits": {"wd": 0.4}}}
    first, second = (SpaceFile.model_validate(each) for each in (own, user))
    space = resolve([first], "m", "digits", {}, "a file")
    assert space.start == {"lr": 0.3, "wd": 0.2}  # the paper's, else the benchmark's own
    assert space.fixed == {"epochs": 5, "size": 2, "rank": 1}  # the benchmark's own, else the paper's
    other = resolve([first], "m", "glyphs", {}, "a file")
    assert (other.start, other.fixed) == ({"lr": 0.1, "wd": 0.1}, {"epochs": 1, "size": 1, "rank": 1})
    both = resolve([first, second], "m", "digits", {"lr": 8}, "two files")
    assert both.start == {"wd": 0.4, "rank": 4} and type(both.start["rank"]) is int
    assert both.paper == {"lr": 0.3, "epochs": 5, "size": 7, "wd": 0.4} and both.fixed["lr"] == 8
    third = SpaceFile.model_validate({"paper": {"digits": {"size": 8}}, "fixed": {"default": {"epochs": 9, "rank": 3}}})
    over = resolve([first, third], "m", "digits", {}, "two files")
    assert over.fixed == {"epochs": 9, "size": 8, "rank": 3}  # all of the user's file goes over all of the method's
    assert resolve([first, third], "m", "digits", {"size": 9}, "two files").fixed["size"] == 9


@pytest.mark.parametrize("start", [{}, {"lr": 20.0}])
def test_the_methods_own_file_must_have_a_start_inside_its_range(start: dict[str, float]) -> None:
    """Only a user's file may leave the start out, or narrow the range under it."""
    space = {"lr": {"low": 0, "high": 9, "grid": [1]}}
    file = SpaceFile.model_validate({"space": space, "start": {"default": start}})
    with pytest.raises(InputError, match="a file: start.*'lr'"):
        resolve([file], "m", "digits", {}, "a file")


def test_truth_is_no_number() -> None:
    dimension = Range(low=0, high=2, grid=(1,))
    assert True not in dimension and dimension.nearest(True) is True and 1 in dimension
    assert True not in Choices(choices=("yes", 2)) and Choices(choices=(True, 1)).choices == (True, 1)
    assert not Choices(choices=(True, False)).numbers and Choices(choices=(1, 2.5)).numbers


def test_the_papers_points_go_over_the_fixed_values() -> None:
    point = paper_points("ita-lora")["cub200"]
    assert (point["epochs_pre"], point["lr"]) == (8, 0.0003)  # 3 is fixed by default
    assert paper_points("lwf-mc")["cub200"] == {"wd": 0.0001, "lr": 0.01}


def test_values_far_off_have_the_range_of_the_methods_own_file() -> None:
    found = far_off("ita-lora", {"lr": 5, "alpha": 1.0, "alpha_cls": 0, "lr_pre": 9})  # 0 turns a term off
    assert list(found) == ["lr"] and found["lr"].high == 0.02
    few = far_off("ita-lora", {"lr": 0.004, "alpha": 1e9}, own_images=True)
    assert (few["lr"].high, "alpha" in few) == (0.003, True), "the other ranges stay"


def test_integers_are_rounded_and_whole() -> None:
    whole = Range(low=1, high=9, integer=True, grid=(1,))
    assert (whole.nearest(2.7), whole.nearest(20), whole.nearest("a")) == (3, 9, "a")
    assert 2 in whole and 2.0 in whole and 2.5 not in whole and type(whole.typed(2.0)) is int


def test_set_fixes_a_value_and_takes_it_out_of_the_search() -> None:
    space = load_space("ita-lora", "digits", overrides={"lr": 0.001})
    assert "lr" not in space.space and space.fixed["lr"] == 0.001 and "alpha" in space.space
    assert (
        load_space("ewc", "digits", overrides={"batch": 3}, known=["lr", "gamma", "epsilon", "batch"]).fixed["batch"]
        == 3
    )


def test_a_narrowed_range_takes_the_start_along(tmp_path: Path) -> None:
    narrow = "space: {lr: {low: 1e-5, high: 1e-4, log: true, grid: [5e-5]}}"
    space = load_space("ita-lora", "digits", file=write(tmp_path, narrow))
    assert space.start["lr"] == 1e-4 and space.start["alpha"] == load_space("ita-lora", "digits").start["alpha"]
    assert load_space("ita-lora", "cifar100", file=write(tmp_path, narrow)).start["lr"] == 1e-4
    wide = "space: {lr: {low: 1e-9, high: 1, log: true, grid: [0.5]}}"
    space = load_space("ita-lora", "digits", file=write(tmp_path, wide))
    assert space.start["lr"] == load_space("ita-lora", "digits").start["lr"]
    kinds = "space: {r: {low: 3, high: 8, integer: true, grid: [4]}, epsilon: {choices: [0.5, 0.6]}}"
    space = load_space("inflora", "mit67", file=write(tmp_path, kinds))
    assert (space.start["r"], space.start["epsilon"]) == (8, 0.5)


def test_what_was_fixed_can_be_searched_and_starts_where_it_was(tmp_path: Path) -> None:
    text = "space: {epochs_pre: {low: 1, high: 20, integer: true, grid: [3, 8]}}"
    for benchmark, start in (("digits", 8), ("cub200", 8), ("cifar100", 3)):
        space = load_space("ita-lora", benchmark, file=write(tmp_path, text))
        assert space.start["epochs_pre"] == start and "epochs_pre" not in space.fixed and space.fixed["lr_pre"]


def test_a_users_file_fixes_what_is_searched_and_goes_over_the_paper(tmp_path: Path) -> None:
    space = load_space("ita-lora", "cub200", file=write(tmp_path, "fixed: {default: {lr: 0.5, epochs_pre: 1}}"))
    assert space.fixed == {"lr_pre": 0.01, "epochs_pre": 1, "lr": 0.5} and "lr" not in space.space
    assert space.paper["lr"] == 0.0003


def test_what_suits_the_images_gives_way_to_whatever_was_said(tmp_path: Path) -> None:
    suited = {"lr_pre": 0.12, "epochs_pre": 38}
    assert load_space("ita-lora", "folder:a", suited=suited).fixed == suited
    assert load_space("ita-lora", "folder:a", suited=suited, overrides={"lr_pre": 1}).fixed == {**suited, "lr_pre": 1}
    own = write(tmp_path, "fixed: {default: {epochs_pre: 7}}")
    assert load_space("ita-lora", "folder:a", suited=suited, file=own).fixed == {**suited, "epochs_pre": 7}
    assert load_space("ita-lora", "digits", suited=suited).fixed == load_space("ita-lora", "digits").fixed


def test_ranges_for_own_images_replace_the_usual_ones_there_alone(tmp_path: Path) -> None:
    for method in ("ita-lora", "iel-lora"):
        usual, own = load_space(method, "folder:a"), load_space(method, "folder:a", suited={})
        assert {name for name in usual.space if usual.space[name] != own.space[name]} == {"lr"}
        assert (usual.space["lr"].grid, own.space["lr"].grid) == ((0.0003, 0.003, 0.01), (0.0003, 0.001, 0.003))
    mine = write(tmp_path, "own_images: {lr: {low: 0.1, high: 1, log: true, grid: [0.5]}}")
    assert load_space("ita-lora", "folder:a", file=mine).space == load_space("ita-lora", "folder:a").space
    found = load_space("ita-lora", "folder:a", file=mine, suited={})
    assert found.space["lr"].grid == (0.5,) and found.start["lr"] == 0.1  # the nearest end of the range
    with pytest.raises(InputError, match="own_images: unknown hyperparameter 'speed'"):
        load_space("ita-lora", "digits", file=write(tmp_path, "own_images: {speed: {choices: [1, 2]}}"))


def test_methods_that_do_not_run_yet_are_checked_all_the_same(tmp_path: Path) -> None:
    assert load_space("ewc", "digits", overrides={"lr": 1}).fixed == {"lr": 1}
    for text, message in (
        ("fixed: {digits: {lr: fast}}", "mine.yaml: fixed: lr=fast: must be a number, such as"),
        ("start: {digits: {speed: 1}}", "mine.yaml: start.digits: unknown hyperparameter 'speed'; allowed: epsilon"),
    ):
        with pytest.raises(InputError, match=message):
            load_space("ewc", "digits", file=write(tmp_path, text))
    for name, value, message in (
        ("lr", "fast", "--set lr=fast: must be a number, such as 0.001"),
        ("lr", float("nan"), "--set lr=nan: must be a number"),
        ("lr", float("inf"), "--set lr=inf: must be a number"),
        ("lr", 10**400, "--set lr=1000+.*: must be a number"),
        ("lr", 10**5000, "--set lr=a int too large to show: must be a number"),
        ("speed", 1, "--set speed=1: unknown hyperparameter 'speed'; allowed: epsilon, gamma, lr"),
    ):
        with pytest.raises(InputError, match=message):
            load_space("ewc", "digits", overrides={name: value})
    with pytest.raises(InputError, match="--set r=2.5: must be a whole number"):
        load_space("inflora", "digits", overrides={"r": 2.5})


def test_a_misspelt_benchmark_is_not_passed_over(tmp_path: Path) -> None:
    known = ("digits", "glyphs")
    for section in ("paper", "start", "fixed"):
        text = f"{section}: {{digit: {{lr: 0.001}}}}"
        with pytest.raises(InputError, match=f"mine.yaml: {section}: unknown benchmark 'digit'; .* allowed: .*glyphs"):
            load_space("ita-lora", "digits", file=write(tmp_path, text), benchmarks=known)
    with pytest.raises(InputError, match="paper: unknown benchmark 'default'"):  # the paper has no such values
        load_space("ita-lora", "digits", file=write(tmp_path, "paper: {default: {lr: 0.1}}"), benchmarks=known)
    own = write(tmp_path, "fixed: {'folder:/data/birds': {lr: 0.001}, mine: {lr: 0.1}, mit67: {lr: 0.2}}")
    assert load_space("ita-lora", "mine", file=own, benchmarks=known).fixed["lr"] == 0.1


def test_own_images_in_a_users_file_are_named_as_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "birds").mkdir()
    birds, text = f"folder:{tmp_path}/birds", "fixed: {'%s': {lr: 0.5}}"
    for name in ("folder:birds", "folder:./birds/", birds):
        file = write(tmp_path, text % name)
        assert space_of("ita-lora", birds, file, {}, {}).fixed["lr"] == 0.5
        assert "lr" in space_of("ita-lora", "digits", file, {}).space
    gone = write(tmp_path, text % "folder:gone")  # as of a prepared Parquet file, or on another machine
    assert space_of("ita-lora", f"folder:{tmp_path}/gone", gone, {}, {}).fixed["lr"] == 0.5
    assert "lr" in space_of("ita-lora", birds, gone, {}, {}).space
    for section, name, fault in (
        ("start", "folder:birds?tasks=2", "a space is that of all its options; write 'folder:birds'$"),
        ("paper", "own.module:NAME?tasks=2", "a space is that of all its options; write 'own.module:NAME'$"),
        ("paper", "foldr:birds-1", "unknown benchmark 'foldr:birds-1'"),
        ("fixed", f"folder:birds': {{lr: 1}}, '{birds}", f"benchmark '{birds}' is there twice$"),
    ):
        file = write(tmp_path, f"{section}: {{'{name}': {{lr: 0.1}}}}")
        with pytest.raises(InputError, match=f"^{file}: {section}: .*{fault}"):
            space_of("ita-lora", birds, file, {}, {})


def test_images_of_another_machine_in_a_users_file_are_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(
        tmp_path, "fixed: {'folder:/gone': {lr: 0.5}, 'own.module:NAME': {lr: 0.2}}\nstart: {'parquet:b': {}}\n"
    )
    file.write_text(f"{file.read_text()}paper: {{'folder:{tmp_path}': {{lr: 0.1}}}}\n")
    for benchmark in ("digits", "letters"):
        space_for(SearchRequest(benchmark, "ita-lora", space=file))
        plan_search(SearchRequest(benchmark, "ita-lora", space=file, storage=tmp_path / "runs"))
    line = f"tausearch: {file}: no such file or folder here: parquet:b, folder:/gone; their values are left out\n"
    assert capsys.readouterr().err == line
    assert absent_images(file, ["folder:/gone", f"parquet:{Path.cwd()}/b"]) == ""


def test_a_start_of_what_is_not_searched_is_refused_unless_the_user_fixes_it(tmp_path: Path) -> None:
    start = "start: {default: {lr_pre: 0.5}}"
    for benchmark, suited in (("digits", None), ("folder:a", {"lr_pre": 0.12})):
        with pytest.raises(InputError, match="mine.yaml: start.default: 'lr_pre' is not searched; take it out, or"):
            load_space("ita-lora", benchmark, file=write(tmp_path, start), suited=suited)
    for more in ("fixed: {digits: {lr_pre: 0.2}}", "paper: {digits: {lr_pre: 0.2}}"):
        assert load_space("ita-lora", "digits", file=write(tmp_path, f"{start}\n{more}")).fixed["lr_pre"] == 0.2
    file = write(tmp_path, start)
    assert load_space("ita-lora", "digits", file=file, overrides={"lr_pre": 0.2}).fixed["lr_pre"] == 0.2
    wide = "space: {lr_pre: {low: 0.1, high: 1, grid: [0.2]}}"
    assert load_space("ita-lora", "digits", file=write(tmp_path, f"{start}\n{wide}")).start["lr_pre"] == 0.5
    elsewhere = write(tmp_path, "start: {glyphs: {lr_pre: 0.5}}")
    assert load_space("ita-lora", "digits", file=elsewhere) == load_space("ita-lora", "digits")


def test_the_json_form_has_what_the_tables_have() -> None:
    plain = json.loads(json.dumps(load_space("inflora", "mit67").as_dict()))
    assert plain["paper"] == {"lr": 0.001, "r": 10, "epsilon": 0.95} and plain["fixed"] == {}
    assert {"low", "high", "log", "grid"} <= set(plain["space"]["r"]) and plain["space"]["r"]["log"] is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("space: {lr: {low: 1", "is not valid YAML at line"),
        ("- 1\n", "must be a mapping with the keys space, paper, start, fixed"),
        ("sapce: {}\n", "sapce: unknown key; allowed: space, .*; did you mean 'space'"),
        ("space: {lr: {low: 1, high: 0.5, grid: [1]}}\n", "space.lr: low must be below high, got low=1 and high=0.5$"),
        ("space: {lr: {low: 1, high: 1, grid: [1]}}\n", "space.lr: .*low must be below high, got low=1 and high=1"),
        ("space: {lr: {low: 0, high: 1, log: true, grid: [1]}}\n", "space.lr: .*above 0 on a log scale"),
        ("space: {lr: {low: 0.1, high: 1, grid: [2]}}\n", "space.lr: a grid value must be .* from 0.1 to 1, got 2$"),
        ("space: {lr: {low: 0, high: 1, grid: [2]}}\n", "a grid value must be a number from 0 to 1, got 2$"),
        ("space: {lr: {low: 0.1, high: 1, grid: []}}\n", "space.lr: .*at least one value"),
        ("space: {lr: {low: 0.1, high: 1, grid: [0.5, 0.5]}}\n", "grid must be different values, 0.5 is there twice"),
        ("space: {lr: {low: 0.5, high: 2, integer: true, grid: [1]}}\n", "whole numbers, got low=0.5 and high=2"),
        ("space: {lr: {low: 1, high: 2.5, integer: true, grid: [1]}}\n", "whole numbers, got low=1 and high=2.5"),
        ("space: {lr: {low: 1, high: 9, integer: true, grid: [2.5]}}\n", "must be a whole number from 1 to 9, got 2.5"),
        ("space: {lr: {choices: [a, b, a]}}\n", "choices must be different values, 'a' is there twice"),
        ("space: {lr: {choices: [1, 1.0]}}\n", "choices must be different values, 1.0 is there twice"),
        ("space: {lr: {choices: []}}\n", "choices must hold at least one value"),
        ("start: {default: {lr: .inf}}\n", "start.default.lr.*must be finite"),
        ("fixed: {default: {lr: .nan}}\n", "fixed.default.lr.*must be finite"),
        ("space: {lr: {low: x, high: 1, grid: [1]}}\n", "space.lr.low: .*got 'x'"),
        (
            "space: {lr: {low: 0.1, high: 1, grid: [1], step: 1}}\n",
            "space.lr.step: unknown key; allowed: low, high, log, integer, grid",
        ),
        (
            "space: {lr: {low: 0.5, high: 1, grid: [1]}}\nstart: {default: {lr: 0.01}}\n",
            "start value of 'lr' must be a number from 0.5 to 1, got 0.01",
        ),
        ("space: {momentum: {low: 0.5, high: 1, grid: [1]}}\n", "space: unknown hyperparameter 'momentum'; allowed: "),
        (
            "space: {lr: {low: 0.1, high: 1}}\n",
            "space.lr.grid is missing; a whole entry is like lr: {low: .*, grid: .*}",
        ),
        (
            "space: {lr: {low: x, logs: true}, wd: {choice: [1]}}\n",
            "space.lr.low: .*, got 'x'; space.lr.high is missing; space.lr.grid is missing; space.lr.logs: unknown key;"
            " allowed: .*; did you mean 'log'.*; space.wd.low is missing; .*space.wd.choice: unknown key",
        ),
        ("start: {default: {lr: .nan}}\n", "start.default.lr: must be finite, got nan$"),
        ("space: {r: {low: 1, high: 9, grid: [1]}}\n", "space: unknown hyperparameter 'r'"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"mine.yaml: .*{message}"):
        load_space("ita-lora", "digits", file=write(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_space_file(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        read_space_file(tmp_path / "binary.yaml")
    with pytest.raises(InputError, match="no search space for method 'itta'; allowed: "):
        load_space("itta", "digits")


def test_choices_are_searched_as_they_are(tmp_path: Path) -> None:
    text = "space: {optimizer: {choices: [sgd, adamw]}}\nstart: {default: {optimizer: sgd}}\n"
    space = load_space("joint", "digits", file=write(tmp_path, text))
    assert space.grid_size() == 4 * 2 and "optimizer" not in space.fixed
