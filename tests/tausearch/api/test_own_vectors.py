"""Final runs of a composable method that is not ours: composed, exported and predicted, with its code and without."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tausearch import load_model
from tausearch.runs import Record, Storage, open_storage
from tests.support.command_line import Command
from tests.support.packages import EXAMPLE, install_example
from tests.support.runs.composable_runs import make_composable_run, small_benchmark
from tests.tausearch.api.test_retraining import Trainings
from trainables import user_code
from trainables.composition import CURVATURE_FILE, VECTOR_FILE
from trainables.evaluation import accuracies
from trainables.user_code import allow_code

pytestmark = pytest.mark.usefixtures("no_mlflow")
TYPED = "their_arithmetic:TaskArithmetic"


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith(("tausearch_example", "their_arithmetic"))]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """Two final runs: of the method of an installed package, and of the same class as `MODULE:NAME`; both are gone."""
    storage, site = (tmp_path_factory.mktemp(name) for name in ("runs", "site"))
    install_example(site)
    shutil.copyfile(EXAMPLE / "tausearch_example" / "arithmetic.py", site / "their_arithmetic.py")
    found = open_storage(storage, write=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        patch.setattr(user_code, "_allowed", dict(user_code._allowed))
        allow_code(TYPED, site)
        make_composable_run(found, "installed", "arithmetic", seeds=[0])
        make_composable_run(found, "typed", TYPED, seeds=[0], curvature="diagonal")
        forget()
    yield found
    forget()


def test_it_is_composed_exported_and_predicted_though_its_code_is_gone(
    trained: Storage, command: Command, tmp_path: Path
) -> None:
    for name in ("installed", "typed"):
        out, root = tmp_path / name, ("--storage", trained.root)
        done = json.loads(command("compose", name, "--export", out, "--format", "json", *root)[0])
        (trial,) = Record(trained.run(name).record).trials()
        own = [trial.final[f"test/accuracy/task_{task}"] for task in (1, 2, 3)]
        assert done["accuracies"] == [own] and sorted(done["exported"]) == ["models", "timm", "vectors"]
        for what in (out / "timm" / "seed_0", out / "vectors", trained.run(name).path):
            model = load_model(what, storage=trained.root)
            assert accuracies(model.module, small_benchmark().evaluation, "cpu") == own, what
        assert len(list((out / "vectors").rglob(VECTOR_FILE))) == 3
        twice = json.loads(command("compose", out / "vectors", "--weights", "0.5,0.5,0", "--format", "json", *root)[0])
        assert twice["accuracies"] != [own]
        assert not [each for each in sys.modules if each.startswith(("tausearch_example", "their_arithmetic"))]


def test_training_it_again_needs_its_code(trained: Storage, command: Command, tmp_path: Path) -> None:
    needs = {"installed": "unknown method 'arithmetic'; allowed: ", "typed": f"with --allow-code {TYPED}"}
    before = sorted(trained.root.rglob("*"))
    for name, words in needs.items():
        out, err = command("compose", name, "--forget", "0", "--retrain-later", "--storage", trained.root, code=2)
        assert out == "" and err.count("\n") == 1 and words in err, err
    assert sorted(trained.root.rglob("*")) == before


def test_with_its_code_it_is_trained_again(
    trained: Storage, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, trainings, again = Storage(tmp_path / "runs"), Trainings(), "typed-retrained-1"
    shutil.copytree(trained.root, storage.root)
    shutil.copyfile(EXAMPLE / "tausearch_example" / "arithmetic.py", tmp_path / "their_arithmetic.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(user_code, "_allowed", dict(user_code._allowed))
    monkeypatch.setattr("tausearch.api.retraining.run_training", trainings)
    words = ("--forget", "task:2", "--retrain-later", "--rule", "fisher", "--allow-code", TYPED)
    done = json.loads(command("compose", "typed", *words, "--storage", storage.root, "--format", "json")[0])
    assert trainings.done == [(0, 2)] and len(done["weights"]) == 2  # the first task is taken over
    before, now = (storage.run(name).artifacts / "seed_0" / "task_1" / CURVATURE_FILE for name in ("typed", again))
    assert before.read_bytes() == now.read_bytes() and (now.parent.parent / "task_2" / CURVATURE_FILE).is_file()
