"""The file that keeps what a benchmark measured, where and when: `measured/NAME.json`."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import BaseModel

from benchmarks.performance.lines import Rows

MEASURED = Path(__file__).parent / "measured"


class Machine(BaseModel):
    """What a benchmark ran on; None is what was not noted."""

    processor: str | None  # its model
    cores: int  # their number
    instructions: str | None  # the newest set that torch uses
    gibibytes: int  # memory
    torch: str  # version of PyTorch
    load: float | None = None  # processes that computed on average in the minute before
    gpu: str | None = None  # model of the GPU; None also where there is none
    driver: str | None = None  # version of its driver

    @classmethod
    def here(cls) -> Machine:
        """Describe this machine."""
        gpu, driver = _gpu()
        return cls(
            processor=_processor(),
            cores=os.cpu_count() or 1,
            instructions=torch.backends.cpu.get_cpu_capability(),
            gibibytes=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            torch=torch.__version__.partition("+")[0],
            load=round(os.getloadavg()[0], 1),
            gpu=gpu,
            driver=driver,
        )


class Measured(BaseModel):
    """The file where the machine may not have been noted."""

    day: str  # when it was measured, as YYYY-MM-DD
    commit: str  # the commit that ran
    carried_over: str | None = None  # where the figures were taken from, if no benchmark wrote the file
    rows: list[dict[str, Any]]  # what the benchmark returned, six digits of each number

    @classmethod
    def of(cls, name: str, folder: Path) -> Self:
        """Read the file of that name."""
        return cls.model_validate_json(_file(name, folder).read_text(encoding="utf-8"))

    @property
    def source(self) -> str:
        """Day and commit, and that the machine was not noted if no benchmark wrote the file."""
        machine = "" if self.carried_over is None else " (the machine was not noted)"
        return f"{self.day}, commit {self.commit}{machine}"

    @property
    def when(self) -> str:
        """The source as a sentence."""
        return f"Figures of {self.source}."


class Kept(Measured):
    """The file of a benchmark that has noted its machine."""

    machine: Machine


def measure(name: str, run: Callable[[], Rows], folder: Path = MEASURED, commit: str | None = None) -> Kept:
    """Run a benchmark, and keep what it measured in place of what was kept before; git says the commit by default."""
    machine, commit = Machine.here(), commit or commit_here()
    kept = Kept(day=time.strftime("%Y-%m-%d"), commit=commit, machine=machine, rows=list(map(rounded, run())))
    folder.mkdir(parents=True, exist_ok=True)
    _file(name, folder).write_text(kept.model_dump_json(indent=1, exclude={"carried_over"}) + "\n", encoding="utf-8")
    return kept


def read(names: Iterable[str], folder: Path = MEASURED) -> dict[str, Kept]:
    """Return what benchmarks have kept, by name; one that was never run is left out."""
    return {name: Kept.of(name, folder) for name in names if _file(name, folder).exists()}


def today() -> str:
    """Return the sentence that says when a table was measured, and at which commit."""
    return Measured(day=time.strftime("%Y-%m-%d"), commit=commit_here(), rows=[]).when


def _file(name: str, folder: Path) -> Path:
    return folder / f"{name}.json"


def rounded(value: Any) -> Any:
    """Return a value with six digits of each number."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _processor() -> str:
    """Return the processor's model; Python's `platform` knows none on Linux."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _gpu() -> tuple[str | None, str | None]:
    """Return model and driver of the first GPU, from NVIDIA's own tool: torch would keep memory of the card."""
    found = _said("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    if not found:
        return None, None
    name, _, driver = found.splitlines()[0].partition(",")
    return name.strip(), driver.strip() or None


def commit_here() -> str:
    """Return the commit; a copy of the files without git's folder has none."""
    return _said("git", "rev-parse", "--short", "HEAD") or "not noted"


def _said(*command: str) -> str:
    """Return what a command printed; nothing if it failed or is not there."""
    try:
        return subprocess.run(command, cwd=MEASURED.parent, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
