"""Methods of the user, from a module and from an installed package: found, checked and planned like ours."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from tausearch.api import SearchRequest, TrainRequest, plan_search, plan_training
from tausearch.campaigns import read_campaign
from tausearch.cli import completion
from tausearch.runs import note_code, read_spec
from tausearch.studies import load_best, unsearched_best_file
from tausearch.studies.best_file import make_best_file
from tests.support.command_line import Ask, run
from tests.support.imports import imports
from tests.support.packages import EXAMPLE, install, install_example
from tests.support.runs.trials import make_trial
from trainables import user_code
from trainables.errors import InputError
from trainables.methods import METHODS, declared, get_method, known_method
from trainables.user_code import allow_code

GOOD = """\
from dataclasses import dataclass
from trainables.errors import InputError
from trainables.methods import Capabilities, ExtraMetric

@dataclass(frozen=True, kw_only=True)
class Config:
    lr: float
    kind: str = "plain"

class Mine:
    config = Config
    capabilities = Capabilities(joint=True)
    metrics = (ExtraMetric("train/mine", "1"),)
    neutral_values = {"kind": "plain"}
    space = "mine.yaml"
    def __init__(self, context, config): pass
    def begin_task(self, task): pass
    def train_task(self, task): return {"train/loss": 0.0}
    def end_task(self, task): pass
    def predict(self, images): pass
    def state(self): pass
    def load_state(self, state): pass
    def validate(config, scenario):
        if config.lr > 5:
            raise InputError(f"lr is too large for {scenario.num_tasks} task")
    def own_data_defaults(scenario, steps): return {"kind": "own"}
"""
SPACE = "space: {lr: {low: 0.1, high: 1, grid: [0.5]}}\nstart: {default: {lr: 0.5}}\nfixed: {default: {kind: fancy}}\n"
BROKEN = {
    "raise": ("from dataclasses import dataclass\n", "raise KeyError('lost')\n", r"KeyError: 'lost' in .*, line 1\)"),
    "none": ("class Mine:", "class Other:", "'Mine' must be a class, got nothing of that name"),
    "function": ("class Mine:", "Mine = print\nclass Other:", "'Mine' must be a class, got builtin_function"),
    "config": (
        "config = Config",
        "config = dict",
        "config must be the dataclass of its hyperparameters, got the class dict$",
    ),
    "type": ("lr: float", "lr: 'Nowhere'", "config Config failed .*Nowhere"),
    "taken": (
        "kind: str",
        "seed: int = 0; kind: str",
        r"hyperparameter 'seed': MLflow has a parameter of each trial of this name; rename it$",
    ),
    "capabilities": ("Capabilities(joint=True)", "dict(joint=True)", "capabilities must be a Capabilities, got dict"),
    "lacks": ("def end_task", "def end", r"the class Mine lacks end_task\(\) of the protocol Method$"),
    "several": (
        "def end_task(self, task): pass\n    def predict",
        "def p",
        r"lacks end_task\(\), predict\(\) of the",
    ),
    "arguments": ("begin_task(self, task)", "begin_task(self, task, more)", r"Mine.begin_task must take \(task\)"),
    "made": ("__init__(self, context, config)", "__init__(self, config)", r"must take \(context, config\)"),
    "vectors": ("joint=True", "composable=True", r"the class Mine lacks vector\(\), composed\(\), continue_after\(\) "),
    "curved": ("joint=True", "composable=True, curvature=True", r"the class Mine lacks curvature\(\), vector\(\), "),
    "uncomposed": ("joint=True", "curvature=True", "capabilities: curvature goes with composable"),
    "unkept": ('"train/mine"', '"drift"', "metric 'drift': its name must begin with train/ and not be train/loss$"),
    "unnamed": ('"train/mine"', "3", "metric 3: its name must begin with train/"),
    "timed": ('"train/mine"', '"seconds/mine"', "metric 'seconds/mine': its name must begin with train/"),
    "loss": ('"train/mine"', '"train/loss"', "metric 'train/loss': its name must begin with train/ and not be"),
    "warning": (
        'ExtraMetric("train/mine", "1")',
        'ExtraMetric("train/mine", "1", limit=1.0, warning="bad {worse}")',
        r"metric 'train/mine': warning must be a template with the fields trial, .* \(KeyError: 'worse'\)$",
    ),
    "digits": (
        'ExtraMetric("train/mine", "1")',
        'ExtraMetric("train/mine", "1", limit=2, warning="bad {worst:d}")',
        r"warning must be a template .* \(ValueError: Unknown format code 'd'",
    ),
    "indexed": (
        'ExtraMetric("train/mine", "1")',
        'ExtraMetric("train/mine", "1", limit=2, warning="bad {worst[0]}")',
        r"warning must be a template .* \(TypeError: ",
    ),
    "metrics": ('(ExtraMetric("train/mine", "1"),)', '["train/mine"]', "metrics must be a tuple of ExtraMetric"),
    "metric": ('(ExtraMetric("train/mine", "1"),)', '("train/mine",)', "ExtraMetric, got a tuple with 'train/mine'$"),
    "neutral": ('{"kind": "plain"}', '{"kind": "odd"}', "'kind' must be a hyperparameter whose default is 'odd'"),
    "unknown": ('{"kind": "plain"}', '{"kinds": "plain"}', "'kinds' must be a hyperparameter whose default"),
    "checks": ("def validate(config, scenario)", "def validate(config)", r"validate: must take \(config, scenario\)"),
    "fails": ("if config.lr > 5", "if 1 / 0", r"validate failed \(ZeroDivisionError: .*, line 24\)"),
    "path": ('"mine.yaml"', '"../mine.yaml"', "space must be the name of a file beside own_path.py"),
    "nospace": ('"mine.yaml"', '"gone.yaml"', "has no search space; write .*gone.yaml, or give a file with --space"),
    "lone": ('    space = "mine.yaml"\n', "", "write .*own_lone.yaml, or give"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder; nothing is allowed yet, and what is imported from here is forgotten afterwards."""
    monkeypatch.setattr(user_code, "_allowed", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SPACE)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("own_", "tausearch_example")):
            del sys.modules[name]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def refused(*words: str, shown: str = "") -> str:
        code, out, err = run(list(words), capsys, monkeypatch)
        assert (code, err.count("\n")) == (2, 1) and shown in out and bool(shown) == bool(out), err
        return err.strip()

    return refused


def test_no_hyperparameter_has_the_name_of_what_mlflow_shows_of_each_trial(folder: Path) -> None:
    assert not {*declared._TAKEN} & {field.name for entry in METHODS.values() for field in fields(entry.config)}
    names = [*make_trial(0).facts.keys() - {"seed"}, "method", "algorithm"]  # tables and MLflow keep them apart
    (folder / "own_names.py").write_text(
        GOOD.replace("kind: str", f"{': int = 0; '.join(names)}: int = 0; kind: str", 1)
    )
    allow_code("own_names:Mine")
    assert {*names} < {field.name for field in fields(get_method("own_names:Mine").config)}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_with_it_is_one_line(kind: str, folder: Path, refused: Callable[..., str]) -> None:
    old, new, message = BROKEN[kind]
    assert old in GOOD
    (folder / f"own_{kind}.py").write_text(GOOD.replace(old, new, 1))
    err = refused("search", "digits", f"own_{kind}:Mine", "--dry-run")
    assert re.search(message, err) and f"method 'own_{kind}:Mine'" in err, err


def test_code_that_was_edited_between_two_starts_is_said_once(folder: Path) -> None:
    file = folder / "own_edited.py"
    file.write_text(GOOD)
    allow_code("own_edited:Mine")
    plan = plan_search(SearchRequest("digits", "own_edited:Mine", storage=folder / "runs"))

    def started() -> list[str]:
        return note_code(read_spec(plan.directory), plan.directory)

    with plan.open_locked():
        assert [started(), started()] == [[], []]
        file.write_text(f"{GOOD}\n")
        assert started() == [
            "the code of own_edited:Mine has changed since this run last started; trials that had ended ran the"
            " earlier code"
        ]
        assert started() == []
        file.unlink()
        assert started() == []


def test_code_that_was_edited_since_the_search_is_said_in_its_final_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "own_tuned.py"
    file.write_text(GOOD)
    allow_code("own_tuned:Mine")
    search = plan_search(SearchRequest("digits", "own_tuned:Mine", storage=folder / "runs"))
    with search.open_locked() as (spec, directory):
        note_code(spec, directory)
    best = make_best_file(spec, make_trial(0, value=50.0, hyperparameters={"lr": 0.5}), 1)

    def said() -> str:
        plan_training(TrainRequest(best, storage=folder / "runs"))
        return capsys.readouterr().err

    assert said() == ""
    file.write_text(f"{GOOD}\n")
    name = search.spec.name
    assert said() == f"tausearch: the code of own_tuned:Mine has changed since search {name} last started\n"
    search.directory.spec_file.write_text(f"id: {spec.id}\n")  # damaged, but the best file has all that is needed
    assert plan_training(TrainRequest(best, storage=folder / "runs", tracking="none")).spec.source == name


def test_what_it_prints_is_not_among_the_results(folder: Path, ask: Ask) -> None:
    asked = GOOD.replace("        if config.lr", "        print('asked')\n        if config.lr")
    (folder / "own_loud.py").write_text(f"{asked}\nprint('in')\n")
    code, out, err = ask("search", "digits", "own_loud:Mine", "--dry-run", "--format", "json")
    assert code == 0 and json.loads(out)["method"] == "own_loud:Mine"
    assert {"in", "asked"} <= set(err.split())
    assert "in\n" in ask("search", "digits", "own_loud:Mine", "--dry-run")[1]


def test_a_wrong_space_is_said_of_the_file_that_was_given(folder: Path, refused: Callable[..., str]) -> None:
    bounded = GOOD.replace("lr: float", "lr: Annotated[float, Field(le=5)]")
    imports_ = "from typing import Annotated\nfrom pydantic import Field\n"
    (folder / "own_bounded.py").write_text(imports_ + bounded)
    (folder / "given.yaml").write_text(SPACE.replace("high: 1", "high: 9"))
    allow_code("own_bounded:Mine")
    err = refused("list", "spaces", "own_bounded:Mine", "--space", "given.yaml")
    assert err.startswith("tausearch: given.yaml: ")


def test_all_that_it_declares_counts(folder: Path) -> None:
    (folder / "own_good.py").write_text(GOOD)
    allow_code("own_good:Mine")
    request = SearchRequest("digits", "own_good:Mine", storage=folder / "runs")
    spec = plan_search(request).spec
    assert (spec.name, spec.method, spec.steps) == ("digits-own_good-Mine-1", "own_good:Mine", 1)  # joint
    assert (set(spec.space), spec.start, spec.fixed) == ({"lr"}, {"lr": 0.5}, {"kind": "fancy"})
    assert spec.code == ("own_good:Mine",)
    config = spec.trial_config(0, {"lr": 0.5}, cache=None)
    assert config.method == "own_good:Mine" and config.code == {"own_good:Mine": str(folder)}
    assert [metric.name for metric in known_method("own_good:Mine").metrics] == ["train/mine"]  # type: ignore[union-attr]
    with pytest.raises(InputError, match="lr is too large for 1 task"):
        plan_search(SearchRequest("digits", "own_good:Mine", storage=folder, set={"lr": 6.0}))
    with pytest.raises(InputError, match="--set rl=6.0: unknown hyperparameter 'rl'; allowed: lr, kind"):
        plan_search(SearchRequest("digits", "own_good:Mine", storage=folder, set={"rl": 6.0}))


def test_its_space_is_beside_it_or_given(folder: Path, refused: Callable[..., str]) -> None:
    (folder / "own_bare.py").write_text(GOOD.replace('    space = "mine.yaml"\n', ""))
    (folder / "mine.yaml").rename(folder / "given.yaml")
    allow_code("own_bare:Mine")
    request = SearchRequest("digits", "own_bare:Mine", storage=folder / "runs", space="given.yaml", set={"kind": "odd"})
    spec = plan_search(request).spec
    assert (spec.start, spec.fixed) == ({"lr": 0.5}, {"kind": "odd"})
    (folder / "own_bare.yaml").write_text("space: {rl: {low: 0, high: 1, grid: [0]}}\nstart: {default: {rl: 0}}\n")
    err = refused("list", "spaces", "own_bare:Mine")
    assert err.endswith("own_bare.yaml: space: unknown hyperparameter 'rl'; allowed: lr, kind"), err


def test_a_file_that_names_it_does_not_import_it(folder: Path, refused: Callable[..., str]) -> None:
    (folder / "own_evil.py").write_text(f"from pathlib import Path\nPath('ran').touch()\n{GOOD}")
    (folder / "c.yaml").write_text("campaign: c\nbenchmarks: [digits]\nmethods: ['own_evil:Mine']\n")
    assert read_campaign("c.yaml").cells[0].title == "digits/own_evil-Mine"
    for command, shown in (("plan", "digits/own_evil-Mine"), ("run", "")):
        assert "--allow-code own_evil:Mine" in refused("campaign", command, "c.yaml", shown=shown)
    assert known_method("own_evil:Mine") is None and not (folder / "ran").exists()
    allow_code("own_evil:Mine")
    best = unsearched_best_file(plan_search(SearchRequest("digits", "own_evil:Mine", storage=folder / "runs")).spec)
    best.save(folder / "best.yaml")
    (folder / "ran").unlink()
    user_code._allowed.clear()
    assert "best.yaml: method 'own_evil:Mine': a file names this code" in refused("train", "best.yaml", "--dry-run")
    assert not (folder / "ran").exists()
    allow_code("own_evil:Mine")
    found = load_best("best.yaml")
    assert found.hyperparameters == {"lr": 0.5, "kind": "fancy"}
    assert plan_training(TrainRequest(found, storage=folder / "runs")).spec.code == ("own_evil:Mine",)


def test_an_installed_package_brings_a_method_under_a_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    site = folder / "site"
    install_example(site)
    install(site, "greedy", {"methods finetune": "own_greedy:Mine"}, own_greedy="raise SystemExit")
    monkeypatch.syspath_prepend(site)
    assert completion.methods("sl") == ["slda"]
    plan = plan_search(SearchRequest("digits", "slda", storage=folder / "runs"))
    assert plan.spec.name == "digits-slda-1" and plan.spec.start == {"shrinkage": 0.01} and plan.spec.code == ()
    message = "method 'finetune': tausearch itself and package 'greedy' (own_greedy:Mine) have one of this name"
    assert message in refused("search", "digits", "finetune", "--dry-run")
    assert "unknown method 'slde'; did you mean 'slda'?" in refused("search", "digits", "slde", "--dry-run")


def test_the_example_uses_public_names_only() -> None:
    for path in (EXAMPLE / "tausearch_example").glob("*.py"):
        for each in imports(path):
            assert not any(part.startswith("_") for part in [*each.module.split("."), each.name or ""][1:]), each
