"""Rules of imports between packages, and Python's own `platform`, which the layout must not hide."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.targets import ROOMS
from tests.support.imports import ROOT, SOURCES, circle, files, imports


def modules_of(path: Path) -> set[str]:
    return {each.module for each in imports(path)}


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("checked_input", {"tausearch", "trainables", "search_spaces", "mlflow", "optuna", "ray", "torch"}),
        ("trainables", {"tausearch", "search_spaces", "mlflow", "optuna"}),
        ("search_spaces", {"tausearch", "trainables", "mlflow", "optuna", "ray", "torch"}),
    ],
)
def test_lower_floors_know_nothing_of_the_platform(package: str, forbidden: set[str]) -> None:
    for path in files(package):
        assert not {name.split(".")[0] for name in modules_of(path)} & forbidden, path


def test_only_the_trial_knows_ray() -> None:
    users = {p.name for p in files("trainables") if any(n.split(".")[0] == "ray" for n in modules_of(p))}
    assert users == {"trial.py"}


FLOORS = [
    {"trial"},
    {"sequence"},
    {"removability"},
    {"methods"},
    {"preconsolidation", "composition", "evaluation"},
    {"curvature"},
    {"data", "task_vectors"},
    {"backbones", "bounds", "heads", "config", "metrics", "randomness", "device", "process", "errors", "state"}
    | {"tensor_files", "precision", "task_names", "user_code"},
]


def test_imports_only_go_down() -> None:
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    for path in files("trainables"):
        parts = path.relative_to(SOURCES["trainables"]).with_suffix("").parts
        if parts[0] == "__init__" or parts[-1] == "pretrain_glyph_vit":  # a script, imported by no module
            continue
        others = {name.split(".")[1] for name in modules_of(path) if name.startswith("trainables.")} - {parts[0]}
        assert {name for name in others if floor[name] <= floor[parts[0]]} <= FLOORS[-1], path


def test_no_module_imports_itself_on_a_way_round() -> None:
    modules = {_name(package, path): path for package in SOURCES for path in files(package)}
    arrows = {}
    for name, path in modules.items():
        named = [f"{each.module}.{each.name}" if each.name else each.module for each in imports(path)]
        reached = (each if each in modules else each.rpartition(".")[0] for each in named)
        arrows[name] = [each for each in reached if each in modules and each != name]
    assert sum(map(len, arrows.values())) > 300 and circle(arrows) == []


def _name(package: str, path: Path) -> str:
    parts = (package, *path.relative_to(SOURCES[package]).with_suffix("").parts)
    return ".".join(part for part in parts if part != "__init__")


def test_every_module_imports() -> None:
    count = 0
    for package in SOURCES:
        module = importlib.import_module(package)
        for info in pkgutil.walk_packages(module.__path__, f"{package}."):
            importlib.import_module(info.name)
            count += 1
    assert count > 40


def test_the_reference_imports_nothing_of_the_science_but_data_and_backbone() -> None:
    """A reference that calls the code that it checks would agree with any mistake."""
    between = {"joints", "conftest", "problem"}  # these and the tests know both sides
    paths = [path for path in (ROOT / "tests" / "reference").rglob("*.py") if not path.name.startswith("test_")]
    parts = {path.stem: modules_of(path) for path in paths if path.stem not in between}
    assert {"stages", "preconsolidation", "regularisers", "learner"} <= parts.keys()
    for part, modules in parts.items():
        taken = {name.split(".")[1] for name in modules if name.startswith("trainables.")}
        assert taken <= {"data", "backbones"}, part


def test_pythons_own_platform_module_is_not_hidden() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists()
    command = [sys.executable, "-c", "import platform; print(platform.system())"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in {"Linux", "Darwin", "Windows"}


def test_the_rooms_of_mutants_name_modules_and_tests_that_exist() -> None:
    for room in ROOMS:
        assert [name for name in room.tests if not (ROOT / name).exists()] == []
        assert [pattern for pattern in room.modules if not list(ROOT.glob(pattern))] == []
