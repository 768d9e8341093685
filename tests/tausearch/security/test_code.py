"""No file names code that runs by itself, and no file in the working folder stands in for a package."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tausearch.runs import Storage, read_spec
from tausearch.studies import unsearched_best_file
from tests.support.command_line import Ask
from tests.tausearch.security.conftest import Refused
from trainables import user_code

EVIL = "from pathlib import Path\nPath('ran').touch()\nX = 1\n"
OPTIONAL = (  # what our libraries try to import and this environment lacks
    "dill", "pynvml", "xformers", "flash_attn", "tensorflow", "jax", "cupy", "ujson", "orjson", "bitsandbytes",
    "uvloop", "wandb", "kaleido", "lxml", "bs4", "IPython", "ipywidgets", "pandas_gbq", "numexpr", "bottleneck",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(user_code, "_allowed", {})
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("evil", "model"):
            del sys.modules[name]


def with_code(file: Path, benchmark: str) -> None:
    """Let a model ask for a benchmark in its own code, and leave out what would make it needless."""
    said = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**said, "benchmark": benchmark, "transform": None}), encoding="utf-8")


@pytest.mark.parametrize("form", ["vectors", "timm/seed_0", "adapter/seed_0"])
def test_a_model_folder_runs_no_code_of_its_own(
    form: str, model: Path, image: str, refused: Refused, tmp_path: Path
) -> None:
    (model / "evil.py").write_text(EVIL)
    (model / "__init__.py").touch()
    with_code(model / form / "model.json", "model.evil:X")
    err = refused("predict", str(model / form), image)
    assert not (tmp_path / "ran").exists()
    if form == "vectors":
        assert "--allow-code model.evil:X" in err


@pytest.mark.parametrize("command", [["compose", "."], ["evaluate", "."], ["figures", "."], ["predict", ".", "IMAGE"]])
def test_inside_the_folder_neither(
    command: list[str], model: Path, image: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model / "vectors"
    (folder / "evil.py").write_text(EVIL)
    with_code(folder / "model.json", "evil:X")
    monkeypatch.chdir(folder)
    assert "--allow-code evil:X" in refused(*(image if word == "IMAGE" else word for word in command))
    assert not (folder / "ran").exists()


def test_what_the_user_allows_is_imported_from_the_working_folder(
    model: Path, image: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, before = model / "vectors", list(sys.path)
    (folder / "evil.py").write_text(EVIL)
    with_code(folder / "model.json", "evil:X")
    monkeypatch.chdir(folder)
    assert "--allow-code evil:X" in refused("predict", ".", image, "--allow-code", "other:X")
    assert "of the form MODULE:NAME" in refused("predict", ".", image, "--allow-code", "evil")
    assert not (folder / "ran").exists()
    assert "'X' must be a BenchmarkSource, got int" in refused("predict", ".", image, "--allow-code", "evil:X")
    assert (folder / "ran").exists() and sys.path == before


def test_all_code_of_a_file_is_asked_for_at_once(
    model: Path, image: str, trained: Storage, refused: Refused, tmp_path: Path
) -> None:
    def with_own(file: Path, **changes: str) -> None:
        said = yaml.safe_load(file.read_text(encoding="utf-8"))
        said["protocol"]["backbone"] = "evil:NET"
        said.update(changes)
        file.write_text(json.dumps(said), encoding="utf-8")  # JSON is YAML

    folder, spec = tmp_path / "tausearch-runs" / "letters", read_spec(trained.run("letters"))
    shutil.copytree(trained.run("letters").path, folder)
    unsearched_best_file(spec).save(tmp_path / "best.yaml")
    unsearched_best_file(spec).save(tmp_path / "other.yaml")
    with_own(model / "vectors" / "model.json", rule="evil:Rule")
    with_own(folder / "run.yaml", benchmark="evil:X")
    with_own(tmp_path / "best.yaml", benchmark="evil:X")
    with_own(tmp_path / "other.yaml", method="evil:Mine")
    for command, first, second in (
        (["predict", str(model / "vectors"), image], "evil:NET", "evil:Rule"),
        (["compose", "letters"], "evil:X", "evil:NET"),
        (["resume", "letters"], "evil:X", "evil:NET"),
        (["train", "best.yaml", "--dry-run"], "evil:X", "evil:NET"),
        (["train", "other.yaml", "--dry-run"], "evil:Mine", "evil:NET"),
    ):
        said = refused(*command)
        assert f"a file names the code {first} and {second}, you did not" in said, command
        assert f" with --allow-code {first} --allow-code {second} (in Python" in said


def test_all_code_of_a_campaign_file_is_asked_for_at_once(refused: Refused, tmp_path: Path) -> None:
    search = "algorithm: 'evil:Sampler', scheduler: 'optuna:MedianPruner', backbone: 'evil:NET'"
    (tmp_path / "c.yaml").write_text(
        f"campaign: c\nbenchmarks: [digits, 'evil:X?epochs=1']\nmethods: ['evil:Mine']\nsearch: {{{search}}}\n"
        "train: {set: {curvature: 'evil:F'}}\n",
        encoding="utf-8",
    )
    names = ["evil:Mine", "evil:NET", "evil:Sampler", "evil:F", "evil:X"]
    for command in ("plan", "run"):
        said = refused("campaign", command, "c.yaml")
        assert f"a file names the code {' and '.join(names)}, you did not; if you trust it, let it run with" in said
        assert f" with{''.join(f' --allow-code {name}' for name in names)} (in Python" in said


@pytest.fixture
def evil_best(trained: Storage, tmp_path: Path) -> Path:
    """A best file that names code beside it."""
    spec = read_spec(trained.run("letters"))
    best = unsearched_best_file(spec.model_copy(update={"benchmark": "evil:X"}))
    best.save(tmp_path / "best.yaml")
    (tmp_path / "evil.py").write_text(EVIL)
    return tmp_path / "best.yaml"


def test_a_best_file_and_a_campaign_file_run_no_code(evil_best: Path, refused: Refused, tmp_path: Path) -> None:
    assert "--allow-code evil:X" in refused("train", "best.yaml", "--dry-run")
    (tmp_path / "c.yaml").write_text("campaign: c\nbenchmarks: ['evil:X']\nmethods: [finetune]\n", encoding="utf-8")
    for command in (["plan"], ["run"]):
        assert "--allow-code evil:X" in refused("campaign", *command, "c.yaml")
    assert not (tmp_path / "ran").exists()


def test_a_run_directory_runs_no_code(trained: Storage, refused: Refused, tmp_path: Path) -> None:
    run_folder = tmp_path / "tausearch-runs" / "letters"
    shutil.copytree(trained.run("letters").path, run_folder)
    file = run_folder / "run.yaml"
    said = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump({**said, "benchmark": "evil:X"}), encoding="utf-8")
    (tmp_path / "evil.py").write_text(EVIL)
    for command in (["resume", "letters"], ["compose", "letters"]):
        assert "--allow-code evil:X" in refused(*command)
    assert not (tmp_path / "ran").exists()


def test_a_search_may_import_what_was_typed(tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    _, _, err = ask("search", "evil:X", "finetune", "--dry-run")
    assert "'X' must be a BenchmarkSource" in err and (tmp_path / "ran").exists()


COMMANDS = (
    ["list", "benchmarks"],
    ["list", "spaces", "ita-lora"],
    ["compare"],
    ["search", "digits", "ita-lora", "--dry-run"],
)
CALLS = """
import sys
from tausearch.cli import main
for words in {commands}:
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
"""


def test_no_file_of_the_working_folder_stands_in_for_a_package(model: Path, image: str) -> None:
    """As a script is started: its own folder is on the path of modules, the working folder is not."""
    folder = model.parent
    for name in OPTIONAL:
        (folder / f"{name}.py").write_text(EVIL)
    calls = CALLS.format(commands=[*COMMANDS, ["predict", "model", image]])
    done = subprocess.run([sys.executable, "-P", "-c", calls], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (folder / "ran").exists()


def test_nor_where_it_is_started_as_a_module(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(EVIL)
    words = [sys.executable, "-m", "tausearch", "--version"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not (tmp_path / "ran").exists(), done.stderr
