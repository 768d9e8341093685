"""Compositions by a rule: its draws, its parameters and code of one's own, and the curvature that it reads."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from tausearch import compose, load_model
from tausearch.api import EvaluateRequest
from tausearch.api.composition import open_pools
from tausearch.models import export, find_source
from tausearch.runs import Storage
from tests.support.command_line import Command
from tests.support.runs.composable_runs import pool_of, small_benchmark
from trainables import user_code
from trainables.backbones import Backbone
from trainables.composition import ComposedNetwork, choose_rule, read_curvature
from trainables.errors import InputError
from trainables.evaluation import accuracies


def test_a_rule_draws_with_the_seed_of_the_run(made: Storage) -> None:
    done = compose(["ita"], rule="dare", density=0.1, seeds=[1], storage=made.root).result
    pool = pool_of(made, "ita", 1)
    network = ComposedNetwork(Backbone(), torch.device("cpu"))
    network.compose(pool, done.weights, pool.head(), choose_rule("dare", {"density": 0.1}, 1))
    assert list(done.accuracies[0]) == accuracies(network.predict, small_benchmark().evaluation, "cpu")


RULE = """
from trainables.composition import Merging, Parameter

class Part:
    parameters = {"part": Parameter(0.5, low=-1, high=1)}

    def merge(self, merging: Merging):
        taus, part = merging.taus, merging.parameters["part"]
        return {n: part * sum(w * tau[n] for tau, w in zip(taus, merging.weights)) for n in merging.names}
"""


def test_a_rule_of_ones_own_takes_its_parameters_and_is_code_that_must_be_allowed(
    made: Storage, tmp_path: Path, shown: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "their_part.py").write_text(RULE, encoding="utf-8")
    words = ("--seeds", "0", "--format", "json", "--rule", "their_part:Part")
    whole = json.loads(shown("compose", "ita", *words, "--set", "part=1")[0])
    turned = json.loads(shown("compose", "ita", *words, "--set", "part=-1", "--export", "out")[0])
    assert whole["accuracies"] == json.loads(shown("compose", "ita", *words[:4])[0])["accuracies"]
    assert turned["label"] == "uniform-their_part.Part--1-seeds-0" and turned["rule_parameters"] == {"part": -1.0}
    negative = json.loads(shown("compose", "ita", *words[:4], "--weights", ",".join([f"{-1 / 3}"] * 3))[0])
    assert turned["accuracies"] == negative["accuracies"] != whole["accuracies"]
    monkeypatch.setattr(user_code, "_allowed", {})
    with pytest.raises(InputError, match=r"a file names this code.*--allow-code their_part:Part"):
        load_model(tmp_path / "out" / "vectors")
    assert '\ntausearch.allow_code("their_part:Part")  #' in (tmp_path / "out" / "vectors" / "README.md").read_text()


def test_the_code_of_a_rule_that_has_changed_is_told(
    made: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "their_edited.py"
    file.write_text(RULE, encoding="utf-8")
    options: dict[str, Any] = {"rule": "their_edited:Part", "seeds": [0], "storage": made.root}
    first = compose(["ita"], set={"part": 1}, export="out", forms=["vectors"], **options)
    same = compose(["ita"], set={"part": 1}, **options).result
    assert first.result.code_digests == same.code_digests and "their_edited:Part" in same.code_digests
    with warnings.catch_warnings(action="error"):
        load_model("out")
    capsys.readouterr()
    file.write_text(f"{RULE}\n# edited\n", encoding="utf-8")
    old = r"^'their_edited:Part': .*their_edited.py has changed since this Python imported it; restart Python \(in a"
    with pytest.raises(InputError, match=old):
        load_model("out")
    with pytest.raises(InputError, match=old):
        compose(["ita"], set={"part": 0.5}, **options)
    monkeypatch.delitem(sys.modules, "their_edited")
    with pytest.warns(UserWarning, match="the code of their_edited:Part has changed since the test"):
        load_model("out")
    with warnings.catch_warnings(action="error"):
        load_model("out", keep=[1, 2])  # the weighted sum
    compose(["ita"], set={"part": 0.5}, **options)
    line = "the code of their_edited:Part has changed since these compositions of ita: "
    assert capsys.readouterr().err.count(f"tausearch: {line}{first.result.label}\n") == 1
    pools = open_pools([find_source(made, "ita")], EvaluateRequest(["ita"], seeds=[0]))
    words = "^the code of their_edited:Part has changed since .* was tested; compose it again"
    with pytest.raises(InputError, match=words):
        export(tmp_path / "again", ["vectors"], pools, first.result, lambda n: None)


def test_rules_that_read_curvature_find_it_in_the_run_and_in_its_export(
    curved: Storage, command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    root = ("--format", "json", "--storage", curved.root)
    words = ("--rule", "fisher", "--set", "damping=0.01", "--export", out, "--forms", "vectors")
    done = json.loads(command("compose", "diagonal", *words, *root)[0])
    assert done["label"] == "uniform-fisher-0.01" and done["rule_parameters"] == {"damping": 0.01}
    pool, network = pool_of(curved, "diagonal", 0), ComposedNetwork(Backbone(), torch.device("cpu"))
    vectors = list(pool)
    fishers = [read_curvature(each, network.theta_0).mean.tensors() for each in vectors]
    name, theta_0 = next(iter(network.theta_0.items()))
    taus = [each.dense(name, theta_0) for each in vectors]
    least = 0.01 * sum(each[name].double().mean() for each in fishers) / 3
    above = sum((each[name].double() + least) * tau for each, tau in zip(fishers, taus, strict=True))
    network.compose(pool, [1 / 3] * 3, pool.head(), choose_rule("fisher", {"damping": 0.01}))
    wanted = theta_0 + above / sum(each[name].double() + least for each in fishers)
    torch.testing.assert_close(network.weights[name], wanted.float())
    model = load_model(out / "vectors", seed=0)
    found = [accuracies(model.module, small_benchmark().evaluation, "cpu")]
    assert found == done["accuracies"][:1]
    assert json.loads(command("compose", "kronecker", "--rule", "regmean", *root)[0])["rule"] == "regmean"
    without = ("diagonal:1", "plain:2,3", "--weights", "1,0,0")  # what has no share needs no curvature
    assert json.loads(command("compose", *without, "--rule", "fisher", *root)[0])["weights"] == [1, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plain", "--rule", "fisher"], "rule 'fisher' reads curvatures: the task vector of task 1 was saved without"),
        (["kronecker", "--rule", "fisher"], "is a curvature of the kind kronecker, must be diagonal"),
        (["diagonal", "--rule", "regmean"], "is a curvature of the kind diagonal, must be kronecker"),
        (["diagonal", "--rule", "fisher", "--forget", "0"], "--forget: rule 'fisher' reads curvatures, which"),
    ],
)
def test_a_curvature_that_a_rule_needs_is_missed_in_a_line(
    arguments: list[str], words: str, curved: Storage, command: Command
) -> None:
    out, err = command("compose", *arguments, "--storage", curved.root, code=2)
    assert out == "" and err.count("\n") == 1 and words in err, err
