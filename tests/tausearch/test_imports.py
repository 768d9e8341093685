"""What is only shown is shown at once: importing torch and Ray takes seconds. An interpreter answers several questions.

What is imported stays so: a question whose answer may hold more comes after those that it would spoil.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tausearch.campaigns import CampaignCells, CellRuns
from tausearch.runs import Record, SearchSpec, Storage
from tests.support.runs.trials import make_trial
from tests.tausearch.reports.html.runs import make_search

COMMAND = """
sys.argv[1:] = {words}
try:
    from tausearch.cli import main
    main()
except SystemExit as end:
    assert not end.code
"""


def test_what_only_shows_needs_neither_torch_nor_ray(tmp_path: Path, spec: SearchSpec) -> None:
    storage, at = Storage(tmp_path), ["--storage", str(tmp_path)]
    make_search(storage)
    directory = storage.run(spec.name)
    directory.path.mkdir()
    spec.save(directory)
    Record(directory.record).write(make_trial(0, value=70.0))
    names = dict(
        benchmark="digits", method="ita-lora", title="digits/ita-lora", search="the-search", final="no-run-yet"
    )
    cells = (CellRuns(**names, trials=2, seeds=3, steps=5),)
    storage.campaign("table").path.mkdir(parents=True)
    CampaignCells(campaign="table", file="table.yaml", cells=cells).save(storage.campaign("table"))
    campaign = ["campaign", "status", *at]
    commands = (["--help"], ["status", spec.name, *at], campaign, [*campaign, "table"], ["report", "the-search", *at])
    shown, status, campaigns, table, report = imported_after(*(COMMAND.format(words=words) for words in commands))
    assert not {"torch", "ray", "numpy", "pyarrow", "pydantic"} & shown
    assert not {"torch", "ray", "optuna", "scipy"} & status
    assert not {"torch", "ray", "mlflow"} & campaigns and not {"torch", "ray", "mlflow"} & table
    assert {"plotly", "optuna"} <= report and not {"torch", "ray", "mlflow"} & report


def test_a_trial_needs_no_peft_and_who_starts_a_search_on_an_embedded_benchmark_builds_no_network() -> None:
    search = "import tausearch; tausearch.search; from trainables.backbones import Backbone as B; B().digest, B().input"
    trial, searching = imported_after("import trainables.trial", search)
    assert not {"peft", "sklearn", "optuna", "mlflow"} & trial
    assert not {"timm", "torchvision", "torch._dynamo", "matplotlib", "mlflow"} & searching


def imported_after(*steps: str) -> list[set[str]]:
    """Modules that a fresh process has imported after each of some steps."""
    shown = "\nprint(json.dumps(list(sys.modules)), file=answers)\n"
    code = f"import io, json, sys; answers = io.StringIO()\n{shown.join((*steps, ''))}print(answers.getvalue())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [set(json.loads(line)) for line in done.stdout.splitlines()[-len(steps) - 1 : -1]]
