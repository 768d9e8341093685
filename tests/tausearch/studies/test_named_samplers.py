"""Samplers and pruners by name: Optuna's, and those of the user's code, which may keep state of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import optuna
import pytest

from search_spaces import Choices
from tausearch.runs import KnownPoint, SearchSpec
from tausearch.studies import OptunaSearcher, RebuiltSampler, algorithm_named, named_classes
from tausearch.studies.schedulers import pruner_named
from tausearch.studies.study import SearchStudy, require_sampler
from tests.support.packages import install
from tests.support.runs.trials import make_trial
from tests.tausearch.studies.test_searchers import play, recorded, with_
from trainables.errors import InputError
from trainables.user_code import allow_code


class Walk(optuna.samplers.BaseSampler):
    """Walk from the last point by steps of its own generator: its state is in the object alone."""

    def __init__(self, seed: int | None = None, step: float = 0.1) -> None:
        self.rng = np.random.default_rng(seed)
        self.step = step
        self.last: dict[str, float] = {}
        self.told: list[int] = []
        self.prepared: list[int] = []

    def before_trial(self, study: optuna.Study, trial: Any) -> None:
        self.prepared.append(trial.number)

    def infer_relative_search_space(self, study: optuna.Study, trial: Any) -> dict[str, Any]:
        return {}

    def sample_relative(self, study: optuna.Study, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        return {}

    def sample_independent(self, study: optuna.Study, trial: Any, param_name: str, param_distribution: Any) -> Any:
        low, high = param_distribution.low, param_distribution.high
        share = (self.last.get(param_name, 0.5) + self.step * float(self.rng.normal())) % 1.0
        self.last[param_name] = share
        return low + share * (high - low)

    def after_trial(self, study: optuna.Study, trial: Any, state: Any, values: Any) -> None:
        self.told.append(trial.number)
        self.step *= 0.9  # the next point depends on how many trials have ended, too


class Unseeded(Walk):
    """It cannot be rebuilt: its draws are of a generator without a seed."""

    def __init__(self) -> None:
        super().__init__(None)


class FailsAfter(Walk):
    def after_trial(self, study: optuna.Study, trial: Any, state: Any, values: Any) -> None:
        raise RuntimeError("no idea")


class Fails(Walk):
    def sample_independent(self, *arguments: Any) -> Any:
        raise RuntimeError("no idea")


class Says(Walk):
    """It proposes one value for everything."""

    def __init__(self, value: Any = "none") -> None:
        super().__init__()
        self.value = np.nan if value == "nan" else value

    def sample_independent(self, *arguments: Any) -> Any:
        return self.value


class Together(Says):
    """It proposes all values at once, and a value more, which Optuna does not ask for."""

    def infer_relative_search_space(self, study: optuna.Study, trial: Any) -> dict[str, Any]:
        return {"lr": optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True)}

    def sample_relative(self, study: optuna.Study, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        return {"lr": self.value, "more": 3}


class Unsure(optuna.pruners.BasePruner):
    def prune(self, study: optuna.Study, trial: Any) -> Any:
        return "perhaps"


class Never(optuna.pruners.BasePruner):
    def __init__(self, after: int = 2, *more: int) -> None:  # of `more` none must be given
        self.after = after

    def prune(self, study: optuna.Study, trial: Any) -> bool:
        return trial.last_step >= self.after


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("their_samplers")
    for each in (Walk, FailsAfter, Unseeded, Fails, Never, Says, Together, Unsure):
        setattr(module, each.__name__, each)
        allow_code(f"their_samplers:{each.__name__}")
    module.Broken = int
    allow_code("their_samplers:Broken")
    monkeypatch.setitem(sys.modules, "their_samplers", module)


NAMED = ["optuna:CmaEsSampler", "optuna:NSGAIISampler", "optuna:QMCSampler", "optuna:TPESampler", "their_samplers:Walk"]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_sampler_that_has_proposed_all_its_points_ends_no_search_with_an_error(spec: SearchSpec) -> None:
    space = {"alpha": Choices(choices=(1, 2)), "lr": Choices(choices=(0.01, 0.02))}
    spec = with_(spec, algorithm="optuna:BruteForceSampler", trials=4, space=space, start={"alpha": 1, "lr": 0.01})
    straight = OptunaSearcher(spec)
    points = play(spec, straight)
    assert len({tuple(point.items()) for point in points}) == 4
    assert OptunaSearcher(spec, recorded(points, straight, 4)).next() is None  # after a kill


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("algorithm", NAMED)
def test_one_that_was_killed_proposes_what_it_would_have_proposed(
    algorithm: str, running: bool, spec: SearchSpec
) -> None:
    spec = with_(spec, algorithm=algorithm, trials=24)
    straight = OptunaSearcher(spec)
    points = play(spec, straight)
    assert points[0] == spec.start and len({tuple(point.items()) for point in points}) == 24
    other = play(with_(spec, seed=1), OptunaSearcher(with_(spec, seed=1)))
    assert (other[1:] == points[1:]) == ("QMC" in algorithm)  # its sequence takes no seed if it is not scrambled
    history = recorded(points, straight, 14)
    if running:
        history[13] = make_trial(13, tasks=0, hyperparameters=points[13])
    continued = OptunaSearcher(spec, history)
    assert play(spec, continued) == points[13 if running else 14 :] and continued.study.agrees


@pytest.mark.parametrize("algorithm", ["optuna:NSGAIISampler", "optuna:TPESampler"])
def test_one_that_proposed_the_start_again_is_rebuilt(algorithm: str, spec: SearchSpec) -> None:
    space = {"alpha": Choices(choices=(1, 2)), "lr": Choices(choices=(0.01, 0.02))}
    start, warm = {"alpha": 1, "lr": 0.01}, KnownPoint(origin="", point={"alpha": 2, "lr": 0.01})
    spec = with_(spec, algorithm=algorithm, trials=40, space=space, start=start, warm_start=(warm,))
    straight = OptunaSearcher(spec)
    points = play(spec, straight)
    assert points[2:20].count(start) >= 1 and points[2:20].count(warm.point) >= 1
    continued = OptunaSearcher(spec, recorded(points, straight, 20))
    assert play(spec, continued) == points[20:] and continued.study.agrees


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A local copy of OptunaHub's registry, in the working folder, with one sampler of two modules."""
    folder = tmp_path / "package" / "samplers" / "drift"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from ._drift import Drift\n__all__ = ['Drift']\n")
    (folder / "_drift.py").write_text("from their_samplers import Walk\nclass Drift(Walk): pass\n")
    (folder.parent / "needs").mkdir()
    (folder.parent / "needs" / "__init__.py").write_text("import optunahub_is_absent\nclass Needs: pass\n")
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "package":
            del sys.modules[name]


def test_a_package_of_optunahub_is_taken_from_a_local_registry_and_rebuilt(hub: Path, spec: SearchSpec) -> None:
    spec = with_(spec, algorithm="package.samplers.drift:Drift", trials=8)
    assert spec.code == ("package.samplers.drift:Drift",)
    with pytest.raises(InputError, match="a file names this code, .* --allow-code package.samplers.drift:Drift "):
        OptunaSearcher(spec)
    allow_code("package.samplers.drift:Drift")
    straight = OptunaSearcher(spec)
    points = play(spec, straight)
    continued = OptunaSearcher(spec, recorded(points, straight, 5))
    assert play(spec, continued) == points[5:] and continued.study.agrees
    allow_code("package.samplers.needs:Needs")
    with pytest.raises(InputError, match="No module named 'optunahub_is_absent' in .*needs/__init__.py, line 1"):
        algorithm_named("package.samplers.needs:Needs")


def test_one_that_cannot_be_rebuilt_is_noticed_and_keeps_the_points_of_the_record(spec: SearchSpec) -> None:
    spec = with_(spec, algorithm="their_samplers:Unseeded", trials=6)
    straight = OptunaSearcher(spec)
    points = play(spec, straight)
    continued = OptunaSearcher(spec, recorded(points, straight, 4))
    assert not continued.study.agrees and straight.study.agrees
    assert [trial.params for trial in continued.study.optuna.trials] == points[:4]


def test_a_sampler_that_proposed_another_value_once_does_not_agree(spec: SearchSpec) -> None:
    spec = with_(spec, algorithm="their_samplers:Walk", trials=6)
    straight = OptunaSearcher(spec)
    points = play(spec, straight)
    history = recorded(points, straight, 4)
    history[2] = make_trial(2, value=50.0, hyperparameters={**points[2], "alpha": 0.123})
    assert not OptunaSearcher(spec, history).study.agrees


def test_a_sampler_is_made_once_with_the_seed_of_the_search_and_its_options(spec: SearchSpec) -> None:
    study = SearchStudy(with_(spec, algorithm="their_samplers:Walk", sampler_options={"step": 0.5}, seed=7))
    assert study.rebuilt is not None
    walk = study.rebuilt.sampler
    assert isinstance(walk, Walk) and walk.step == 0.5
    for number in range(3):
        study.ask(number)
        study.tell(number, "complete", 50.0)
    assert (
        study.optuna.sampler is study.rebuilt
        and study.rebuilt.sampler is walk
        and walk.told == walk.prepared == [0, 1, 2]
    )
    other = np.random.default_rng(7)
    assert walk.last == pytest.approx(_walked(other, list(spec.space), 3))


def _walked(rng: np.random.Generator, names: list[str], count: int) -> dict[str, float]:
    at, step = dict.fromkeys(names, 0.5), 0.5
    for _ in range(count):
        for name in names:
            at[name] = (at[name] + step * float(rng.normal())) % 1.0
        step *= 0.9
    return at


def test_what_is_known_of_optunas_own() -> None:
    known = {name: algorithm_named(f"optuna:{name}") for name in ("CmaEsSampler", "QMCSampler", "TPESampler")}
    assert {name: each.learns for name, each in known.items()} == {
        "CmaEsSampler": True,
        "QMCSampler": False,
        "TPESampler": True,
    }
    assert [name for name, each in known.items() if each.needs_complete_trials] == ["CmaEsSampler"]
    assert algorithm_named("their_samplers:Walk").learns and algorithm_named("their_samplers:Walk").keeps_state
    assert not algorithm_named("tpe").keeps_state
    whole, blind = (
        ("GPSampler", "NSGAIIISampler", "NSGAIISampler"),
        ("BruteForceSampler", "GridSampler", "RandomSampler"),
    )
    assert all(algorithm_named(f"optuna:{name}").needs_complete_trials for name in whole)
    assert not any(algorithm_named(f"optuna:{name}").learns for name in blind)


def test_options_reach_ours_over_what_we_take() -> None:
    for no in ("false", "False"):
        sampler: Any = algorithm_named("tpe", {"n_startup_trials": 9, "constant_liar": no}).sampler(3)
        assert (sampler._n_startup_trials, sampler._constant_liar, sampler._multivariate) == (9, False, True)
    asha: Any = pruner_named("asha", {"reduction_factor": 4})
    assert (asha._reduction_factor, asha._min_resource) == (4, 3)
    for first_stop in (5, 0, 2.0):  # the last two are of searches of earlier versions, which go on
        assert vars(pruner_named("median", {"first_stop": first_stop}))["first_stop"] == first_stop


def test_a_pruner_of_the_user_stops_trials(spec: SearchSpec) -> None:
    study = SearchStudy(with_(spec, scheduler="their_samplers:Never", pruner_options={"after": 3}))
    study.ask(0)
    assert [study.report(0, step, 50.0) for step in (1, 2, 3)] == [False, False, True]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"algorithm": "optuna:Tree"}, "unknown algorithm 'optuna:Tree': Optuna has no such sampler; allowed: BruteF"),
        ({"algorithm": "tree"}, "unknown algorithm 'tree'; allowed: tpe, gp, random, grid, optuna:CLASS, MODULE:NAME"),
        ({"scheduler": "late"}, "unknown scheduler 'late'; allowed: none, asha, median, optuna:CLASS, MODULE:NAME"),
        ({"scheduler": "optuna:Late"}, "unknown scheduler 'optuna:Late': Optuna has no such pruner; allowed: "),
        ({"scheduler": "optuna:HyperbandPrunr"}, "; did you mean 'HyperbandPruner'"),
        ({"algorithm": "optuna:TPESamplr"}, "; did you mean 'TPESampler' or "),
        ({"algorithm": "their_samplers:Broken"}, "sampler 'their_samplers:Broken': must be a subclass of optuna's"),
        ({"algorithm": "their_samplers:Fails"}, "sampler 'their_samplers:Fails' failed (RuntimeError: no idea in"),
        ({"algorithm": "their_samplers:Other"}, "a file names this code, you did not"),
        ({"algorithm": "tpe", "sampler_options": {"steps": 3}}, "sampler 'tpe': unknown option 'steps'; allowed: "),
        *(
            (
                {"algorithm": algorithm, "sampler_options": {"n_startup_trials": number}},
                f"sampler '{algorithm}': n_startup_trials must be a whole number from 0 to 1000, got {number!r}",
            )
            for algorithm, number in (("tpe", "x"), ("tpe", -3), ("tpe", 1.5), ("gp", "true"))
        ),
        *(
            ({"algorithm": "tpe", "sampler_options": {name: value}}, f"sampler 'tpe' with {name}={value} failed (")
            for name, value in (("n_ei_candidates", 0), ("gamma", 3))  # which count only once it learns
        ),
        *(
            (
                {"algorithm": "tpe", "sampler_options": {name: value}},
                f"sampler 'tpe': {name} must be true or false, got {value!r}",
            )
            for name, value in (("multivariate", "maybe"), ("consider_endpoints", "banana"), ("group", 2))
        ),
        *(
            (
                {"algorithm": name, "sampler_options": {"seed": 5}},
                f"sampler '{name}': draws by the --seed of the search",
            )
            for name in ("tpe", "random", "optuna:TPESampler")
        ),
        ({"algorithm": "random", "sampler_options": {"a": 1, "b": 2}}, "'random': unknown option 'a'; allowed: none"),
        ({"algorithm": "their_samplers:Walk", "sampler_options": {"stp": 1}}, "option 'stp'; allowed: step"),
        ({"algorithm": "grid", "sampler_options": {"steps": 3}}, "--sampler-option: a grid has no sampler"),
        (
            {"scheduler": "median", "pruner_options": {"steps": 3}},
            "pruner 'median': unknown option 'steps'; allowed: first_stop",
        ),
        (
            {"scheduler": "their_samplers:Unsure"},
            "'their_samplers:Unsure': prune must return True or False, got 'perhaps'",
        ),
        (
            {"scheduler": "optuna:PercentilePruner"},
            "pruner 'optuna:PercentilePruner': needs --pruner-option percentile=...",
        ),
        (
            {"scheduler": "optuna:ThresholdPruner", "pruner_options": {"lower": "x"}},
            "pruner 'optuna:ThresholdPruner' with lower=x failed (",
        ),
        (
            {"algorithm": "optuna:QMCSampler", "sampler_options": {"qmc_type": "x"}},
            "sampler 'optuna:QMCSampler' with qmc_type=x failed",
        ),
        (
            {"algorithm": "optuna:PartialFixedSampler"},
            "needs --sampler-option fixed_params=... and --sampler-option base_sampler=...",
        ),
    ],
)
def test_what_cannot_work_is_said_in_a_line_before_any_work(
    changes: dict[str, Any], fault: str, spec: SearchSpec
) -> None:
    with pytest.raises(InputError) as caught:
        require_sampler(with_(spec, **changes))
    assert fault in str(caught.value) and "\n" not in str(caught.value)


def test_an_error_after_a_trial_is_one_line(spec: SearchSpec) -> None:
    study = SearchStudy(with_(spec, algorithm="their_samplers:FailsAfter"))
    study.ask(0)
    with pytest.raises(
        InputError, match=r"^sampler 'their_samplers:FailsAfter' failed \(RuntimeError: no idea in .*line \d+"
    ):
        study.tell(0, "complete", 50.0)


@pytest.mark.parametrize("sampler", ["Says", "Together"])
@pytest.mark.parametrize(
    ("value", "shown"),
    [(1e9, "1000000000.0"), (0.0, "0.0"), ("a", "'a'"), ("nan", "nan"), ("none", "None"), ("true", "True")],
)
def test_a_proposal_outside_its_range_or_of_another_type_is_refused(
    sampler: str, value: Any, shown: str, spec: SearchSpec
) -> None:
    with pytest.raises(
        InputError, match=f"^sampler 'their_samplers:{sampler}': proposed {shown} for '.*', which must be a num"
    ):
        require_sampler(with_(spec, algorithm=f"their_samplers:{sampler}", sampler_options={"value": value}))


def test_what_may_be_proposed() -> None:
    kinds = optuna.distributions
    space = {
        "lr": kinds.FloatDistribution(1e-3, 1.0, log=True),
        "rank": kinds.IntDistribution(2, 8),
        "kind": kinds.CategoricalDistribution(("a", "b")),
        "wide": kinds.FloatDistribution(0.0, 1e6),
        "size": kinds.CategoricalDistribution((1, 2)),
        "on": kinds.CategoricalDistribution((False, True)),
    }
    sampler = RebuiltSampler(Walk(), space, "sampler 'mine'")
    good = {
        "lr": [1e-3, np.float32(0.5), 1],
        "rank": [2, 8.0, np.int64(3)],
        "kind": ["a", np.str_("b")],
        "size": [1, np.int64(2), True],
        "on": [True, np.bool_(False)],
    }
    own = {"lr": float, "rank": int, "kind": str, "size": int, "on": bool}
    for name, values in good.items():
        found = [sampler._known(name, value) for value in values]
        assert found == values and {type(value) for value in found} == {own[name]}, "JSON has no type of numpy"
    space["low"] = kinds.FloatDistribution(1e-3, 0.1)
    assert sampler._known("low", np.float32(0.1)) == 0.1, "which is above 0.1"
    assert sampler._known("lr", np.exp(np.log(1.0)) * (1 + 1e-12)) == 1.0  # of a logarithm
    assert sampler._known("wide", 1e6 + 1e-5) == 1e6
    bad = {"lr": [1.001, 1e-4], "rank": [2.5, 9, 1], "kind": ["c", 0, None], "wide": [True]}
    for name, values in bad.items():
        for value in values:
            with pytest.raises(InputError, match=f"^sampler 'mine': proposed .* for '{name}', which must be "):
                sampler._known(name, value)
    with pytest.raises(InputError, match="must be a whole number from 2 to 8$"):
        sampler._known("rank", 2.5)
    with pytest.raises(InputError, match="must be one of 'a', 'b'$"):
        sampler._known("kind", "c")
    sampler.recorded = {"kind": "a"}  # while the search is rebuilt
    with pytest.raises(InputError, match="must be one of 'a', 'b'$"):
        sampler._known("kind", "c")
    study: Any = None
    together = RebuiltSampler(Together(), space)
    assert together.infer_relative_search_space(study, study).keys() == {"lr"}, "it proposes that with others"
    with pytest.raises(InputError, match="proposed 'none' for 'lr'"):
        together.sample_relative(study, study, {})
    together = RebuiltSampler(Together(0.5), space)
    together.recorded = {"lr": 0.25}
    assert together.sample_relative(study, study, {}) == {"lr": 0.25, "more": 3} and not together.agrees


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    ("changes", "right", "wrong"),
    [
        ({"algorithm": "their_samplers:Walk"}, {"step": 0.2}, {"stp": 0.2}),
        ({"algorithm": "optuna:TPESampler"}, {"n_startup_trials": 1}, {"n_startup_trials": "x"}),
        ({}, {"n_startup_trials": 1}, {"n_startup_trails": 1}),
    ],
)
def test_what_was_accepted_proposes_and_the_same_with_a_wrong_option_is_refused(
    changes: dict[str, Any], right: dict[str, Any], wrong: dict[str, Any], spec: SearchSpec
) -> None:
    accepted = with_(spec, **changes, sampler_options=right, scheduler="optuna:HyperbandPruner")
    require_sampler(accepted)
    study = SearchStudy(accepted)
    points = [study.ask(number) for number in range(3)]
    assert points[0] != points[1]
    with pytest.raises(InputError):
        require_sampler(accepted.model_copy(update={"sampler_options": wrong}))


def test_only_code_of_the_user_is_code_of_the_run(spec: SearchSpec) -> None:
    assert with_(spec, algorithm="optuna:TPESampler", scheduler="optuna:NopPruner").code == ()
    assert with_(spec, algorithm="a.b:C", scheduler="d:E").code == ("a.b:C", "d:E")
    curvatures = {**spec.space, "curvature": Choices(choices=("fisher", "mine:Curvature"))}
    assert with_(spec, space=curvatures).code == ("mine:Curvature",)


def test_a_sampler_that_a_package_brings_is_named_among_those_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.studies.named_classes.installed", lambda kind: ("theirs",))
    with pytest.raises(InputError, match="allowed: tpe, gp, random, grid, theirs, optuna:CLASS"):
        algorithm_named("nobodys")


def test_a_package_takes_no_name_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "taker", {"samplers tpe": "taker:X", "pruners median": "taker:X"}, taker="raise SystemExit")
    monkeypatch.syspath_prepend(tmp_path)
    claims = r"tausearch itself and package 'taker' \(taker:X\) have one of this name; uninstall all but one$"
    with pytest.raises(InputError, match=f"^sampler 'tpe': {claims}"):
        algorithm_named("tpe")
    with pytest.raises(InputError, match=f"^pruner 'median': {claims}"):
        pruner_named("median")
    assert algorithm_named("random").sampler(0) and pruner_named("asha")


def test_a_switch_is_what_is_annotated_as_one_or_has_such_a_default_alone() -> None:
    def make(a: bool, b: bool | str = False, c=True, d: bool | None = None, e: int = True) -> None:  # type: ignore[no-untyped-def]
        """Only its signature counts."""

    parameters = signature(make).parameters
    assert [name for name in parameters if named_classes._is_switch(parameters[name])] == ["a", "c", "d"]
