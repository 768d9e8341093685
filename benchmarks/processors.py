"""How far a trial's numbers lie apart on other processors: every method on digits, under three instruction sets.

A fresh process that may use only an older instruction set computes as an older processor would. Each method runs under
each setting, and once more begun under the first and continued under the last after its second task. All start from one
seed. `accuracy` is the mean over tasks on validation images, percent; `state` the largest difference of what a
checkpoint would hold, relative to the largest number in the same tensor.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.repeats import INTERRUPTED_AFTER, begun, largest_difference
from trainables.methods import METHODS
from trainables.process import settle
from trainables.state import State

CAPABILITIES = ("DEFAULT", "AVX2", "AVX512")  # torch's names, in order
SETTINGS = (
    {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "OMP_NUM_THREADS": "1"},
    {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "2"},
    {"ATEN_CPU_CAPABILITY": "avx512", "OMP_NUM_THREADS": "2"},
)
MOVED = "moved"


def name_of(setting: dict[str, str]) -> str:
    """Return the setting's capability, which names it."""
    return setting["ATEN_CPU_CAPABILITY"]


def runs_here(setting: dict[str, str]) -> bool:
    """Say whether this processor has the instructions: torch does not look before it uses them."""
    wanted, here = name_of(setting).upper(), torch.backends.cpu.get_cpu_capability()
    return wanted == "DEFAULT" or (here in CAPABILITIES and CAPABILITIES.index(wanted) <= CAPABILITIES.index(here))


def printed_under(setting: dict[str, str], module: str, *arguments: str) -> str:
    """Return what `python -m MODULE` prints in a fresh process under a setting."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env={**os.environ, **setting}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} under {setting}: {done.stderr}")
    return done.stdout


def run() -> list[dict[str, Any]]:
    """Run all methods under all settings that this processor has, two processes at a time."""
    settings = [setting for setting in SETTINGS if runs_here(setting)]
    first, last = settings[0], settings[-1]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda setting: _run_all(setting, folder, name_of(setting), "-"), settings))
        _run_all(last, folder, MOVED, name_of(first))
        ways = [*map(name_of, settings), MOVED]
        return [_row(method, {way: _read(Path(folder), way, method) for way in ways}) for method in METHODS]


def _run_all(setting: dict[str, str], folder: str, way: str, begun_as: str) -> None:
    printed_under(setting, "benchmarks.processors", folder, way, begun_as, setting["OMP_NUM_THREADS"])


def _row(method: str, found: dict[str, tuple[list[float], State]]) -> dict[str, Any]:
    row: dict[str, Any] = {"method": method}
    row |= {f"accuracy, {way}": sum(accuracies) / len(accuracies) for way, (accuracies, _) in found.items()}
    (_, reference), *others = found.values()
    worst = {way: largest_difference(reference, state) for way, (_, state) in zip([*found][1:], others, strict=True)}
    return row | {f"state, {way}": f"{difference:.1e}" for way, difference in worst.items()}


def _file(folder: Path, way: str, method: str) -> Path:
    return folder / f"{way}-{method}.pt"


def _read(folder: Path, way: str, method: str) -> Any:
    return torch.load(_file(folder, way, method), weights_only=False)  # written by ourselves, a moment ago


def _compute(folder: Path, way: str, begun_as: str, threads: int) -> None:
    """Run every method; leave the state after some tasks and at the end, with the last accuracies."""
    settle(threads)
    for method in METHODS:
        sequence = begun(method, torch.device("cpu"))
        if begun_as != "-":
            sequence.load_state(_read(folder, f"{begun_as}-half", method))
        while not sequence.finished:
            sequence.run_next_task()
            if sequence.tasks_done == min(INTERRUPTED_AFTER, len(sequence.tasks)):
                torch.save(sequence.state(), _file(folder, f"{way}-half", method))
        torch.save((sequence.accuracies[-1], sequence.state()), _file(folder, way, method))


if __name__ == "__main__":
    _compute(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
