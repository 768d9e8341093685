"""The commands in README, docs and notebooks, and a folder in which they can run."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from tausearch.api import SearchRequest, plan_search
from tausearch.campaigns import CampaignCells, CellRuns
from tausearch.runs import Plan, Record, Storage, parts_of
from tausearch.runs.creation import make_run_directory
from tausearch.studies import BestFile, unsearched_best_file
from tests.support.imports import ROOT
from tests.support.layouts import parquet
from tests.support.pages import NOTEBOOKS, markdown
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import make_trial
from tests.support.tutorials import steps

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")), *NOTEBOOKS]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL = ("", "sh", "bash")
_INLINE = re.compile(r"`(tausearch [a-z][^`]*)`")
_GROUPS = ("campaign", "data", "list", "runs")  # the first words of commands of two
_TOOL = re.compile(r"(?:^|-- +)tausearch ")
PLACEHOLDERS = {
    "RUN": "my-final",
    "BASELINE": "digits-ita-lora-2",
    "NAME": "my-search",
    "METHOD": "ita-lora",
    "FOLDER": "exported",
    "FILE": "best.yaml",
    "BEST.yaml": "best.yaml",
    "WORD": "base_patch16",
    "OTHER": "glyphs",
}
_OF_CAMPAIGNS = {"FILE": "embedded.yaml", "NAME": "table"}
_LEFT_OUT = {"[NAME]", "[RUN ...]", "..."}


@dataclass(frozen=True)
class Command:
    """A command of a page: its words, with placeholders replaced."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: tausearch {shlex.join(self.words)}"


def _named_files() -> Iterator[tuple[str, str]]:
    """Name and text of the blocks about the user's own code that begin with the name of their file."""
    pages = sorted((ROOT / "docs" / "how-to").glob("own-*.md"))
    texts = (page.read_text(encoding="utf-8") for page in pages)
    for _, block in _BLOCK.findall("\n".join(texts)):
        if named := re.match(r"# (\w+\.(?:py|yaml))\n", block):
            yield named[1], block


def commands() -> list[Command]:
    """All commands in blocks, and those in text that have an argument; each once per page."""
    found = (Command(page.name, words) for page in PAGES for words in _of_page(page))
    return list(dict.fromkeys(each for each in found if each.words and each.words[0][0] != "-"))


def _of_page(page: Path) -> Iterator[tuple[str, ...]]:
    text = markdown(page)
    for language, block in _BLOCK.findall(text):
        if language not in _SHELL:
            continue
        for line in re.sub(r"\\\n", " ", block).splitlines():
            if match := _TOOL.search(line):
                yield _words(line[match.end() :])
    for line in _INLINE.findall(_BLOCK.sub("", text)):
        if len(line.split()) > 2 + (line.split()[1] in _GROUPS) and "..." not in line:
            yield _words(line.removeprefix("tausearch "))


def _words(line: str) -> tuple[str, ...]:
    for each in ("[NAME]", "[RUN ...]"):
        line = line.replace(each, "")
    line = line.partition(" | xargs ")[0]  # what reads its output is not run
    words = [word for word in shlex.split(line, comments=True) if word not in _LEFT_OUT]
    table = {**PLACEHOLDERS, **(_OF_CAMPAIGNS if words[:1] == ["campaign"] or "--campaign" in words else {})}
    pattern = re.compile("|".join(rf"\b{name}\b" for name in table))
    return tuple(pattern.sub(lambda match: table[match[0]], word) for word in words)


def prepare(folder: Path) -> None:
    """Make the files that the commands name: runs, best files, images, a campaign."""
    best = {name: _searched(folder, name, *what) for name, what in _SEARCHES.items()}
    best["digits-ita-lora"].save(folder / "best.yaml")
    best["letters-ita-lora-1"].save(folder / "mine.yaml")
    for name in ("my-final", "digits-ita-lora-2"):
        make_final_run(plan_of(folder, name).storage, name, [80.0, 82.0, 84.0], benchmark="digits")
    storage = Storage(folder / "tausearch-runs")
    names: dict[str, str] = {
        "benchmark": "digits",
        "method": "ita-lora",
        "title": "digits/ita-lora",
        "final": "my-final",
    }
    cell = CellRuns(**names, search=None, trials=0, seeds=3, steps=1)
    storage.campaign("table").path.mkdir(parents=True)
    CampaignCells(campaign="table", file="table.yaml", cells=(cell,)).save(storage.campaign("table"))
    (folder / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "embedded.yaml", folder / "examples" / "embedded.yaml")
    shutil.copy(ROOT / "examples" / "embedded.yaml", folder / "embedded.yaml")
    shutil.copy(ROOT / "examples" / "own_benchmark.py", folder)
    for name, text in _named_files():
        (folder / name).write_text(text, encoding="utf-8")
    for name, classes in (("birds", 20), ("shapes", 4)):
        _images(folder / name, [f"class{label}" for label in range(classes)])
    _images(folder / "animals", _ANIMALS)
    (folder / "order.txt").write_text("\n".join(_ANIMALS))
    (folder / "tasks.yaml").write_text("owls: [tawny, barn]\nfinches: [robin, great tit]\n")
    (photos,) = (text for _, text in steps("own-images") if "save_file" in text)
    with contextlib.chdir(folder):
        exec(photos, {})
    birds = sorted((folder / "birds").rglob("*.png"))
    rows = [{"bytes": each.read_bytes(), "path": each.name, "label": int(each.parent.name[5:])} for each in birds]
    parquet(folder / "birds.parquet", rows, None)


_ANIMALS = ("barn", "tawny", "kite", "hawk", "falcon", "robin", "great tit")
_SEARCHES = {
    "my-search": ("digits", "ita-lora"),
    "digits-ita-lora-1": ("digits", "ita-lora"),
    "glyphs-ita-lora-1": ("glyphs", "ita-lora"),
    "letters-ita-lora-1": ("letters", "ita-lora"),
    "digits-glyphs-letters-ita-lora-1": ("digits,glyphs,letters", "ita-lora"),
    "digits-ita-lora": ("digits", "ita-lora"),
    "digits-ewc": ("digits", "ewc"),
    "digits-finetune-1": ("digits", "finetune"),
    "start": ("letters", "ita-lora"),
    "shapes": ("digits", "ita-lora"),
    "photos": ("digits", "ita-lora"),
    "two": ("digits", "ita-lora"),
    "one": ("digits", "ita-lora"),
}


def plan_of(folder: Path, name: str, benchmark: str = "digits", method: str = "ita-lora") -> Plan:
    return plan_search(SearchRequest(benchmark, method, trials=24, name=name, storage=folder / "tausearch-runs"))


def _searched(folder: Path, name: str, benchmark: str, method: str) -> BestFile:
    """Make a finished search of trials made by hand."""
    plan = plan_of(folder, name, benchmark, method)
    spec, directory = make_run_directory(plan.spec, plan.storage)
    record, parts = Record(directory.record, {}, tasks=spec.steps, metric_names=spec.metrics), parts_of(spec)
    for number in range(spec.trials if parts is None else parts.trials):
        trial_number, units = (number, spec) if parts is None else (parts.trial_of(number), parts)
        point = {name: type(value)(value * (1 + trial_number / 100)) for name, value in spec.start.items()}  # type: ignore
        trial = make_trial(number, tasks=units.steps_of(number), value=60.0 + trial_number)
        trial.hyperparameters = {**spec.fixed, **point}
        record.write(trial)
    best = unsearched_best_file(spec)
    best.save(directory.best_file)
    return best


def _images(folder: Path, classes: Sequence[str]) -> None:
    generator = np.random.default_rng(0)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(12):
            pixels = generator.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
