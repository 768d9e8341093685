"""What two tasks of a method take on ViT-B/16: memory and time of the process that computes them.

Through the command line, as a user would: a folder of four classes of noise, two tasks of four training images, one
epoch, one trial on one thread, random weights from a local file. The accuracy means nothing. Seconds of stages are of
the wall and want an idle machine; on one thread, CPU seconds are what it would take there.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from PIL import Image

from benchmarks.arithmetic import NAME, random_weights
from tausearch.runs import Record, Storage

METHODS = ("finetune", "joint", "ita-lora", "ewc", "lwf-mc", "derpp", "l2p", "coda", "apt", "inflora", "seed", "tmc")
CLASSES, TASKS = 4, 2
IMAGES = {"train": 3, "test": 1}  # of each class, the fewest there may be; one of the three validates
STAGES = {"seconds/preconsolidation": "before", "seconds/training": "training", "seconds/evaluation": "testing"}


class Watch:
    """Looks at a trial's process below this one, which Ray titles with the call that it is in.

    Attributes:
        peak: The most memory that it has held at once, bytes.
        seconds: CPU seconds of its tasks: of the calls of `train`.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = psutil.Process(process.pid)
        self.peak, self.seconds = 0, 0.0
        self.ended = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        before: dict[int, float] = {}
        while not self.ended.wait(0.2):
            with contextlib.suppress(psutil.NoSuchProcess):  # the command has just ended
                for child in self.process.children(recursive=True):
                    self._note(child, before)

    def _note(self, child: psutil.Process, before: dict[int, float]) -> None:
        with contextlib.suppress(psutil.Error, IndexError, OSError):  # it has just ended
            title, used = child.cmdline()[0], sum(child.cpu_times()[:2])
            if not title.startswith("ray::"):
                return
            self.peak = max(self.peak, most_held(child.pid))
            if ".train" in title:
                self.seconds += used - before.get(child.pid, used)
            before[child.pid] = used


def most_held(pid: int) -> int:
    """Return the largest resident size that a process has had, bytes: VmHWM. Source: man 5 proc_pid_status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def _draw_images(folder: Path) -> None:
    draws = np.random.default_rng(0)
    for part, count in IMAGES.items():
        for label in range(CLASSES):
            inside = folder / part / f"class-{label}"
            inside.mkdir(parents=True)
            for number in range(count):
                Image.fromarray(draws.integers(0, 256, (224, 224, 3), np.uint8)).save(inside / f"{number}.png")


def measure(method: str, images: Path, weights: Path, storage: Path) -> dict[str, Any]:
    """Search once with one configuration; return what its trial took."""
    search = ["-m", "tausearch", "search", f"folder:{images}", method, "--name", method, "--trials", "1"]
    size = ["--tasks", str(TASKS), "--epochs", "1", "--backbone", NAME, "--backbone-weights", str(weights)]
    command = [sys.executable, *search, *size, "--storage", str(storage), "--cpus-per-trial", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        watch = Watch(process)
        printed, _ = process.communicate()
        watch.ended.set()
    if process.returncode:
        raise RuntimeError(f"{method} ended with {process.returncode}:\n{printed.decode()}")
    row: dict[str, Any] = {"method": method, "peak memory, GB": watch.peak / 1e9, "CPU seconds": watch.seconds}
    (trial,) = Record(Storage(storage).run(method).record).trials()
    for each in trial.rows:
        row |= {f"task {int(each['task'])}, {text}": each[name] for name, text in STAGES.items()}
    return row


def run() -> list[dict[str, Any]]:
    """Measure all methods, one after the other."""
    with tempfile.TemporaryDirectory() as folder, random_weights() as weights:
        _draw_images(Path(folder, "images"))
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        return [measure(method, Path(folder, "images"), weights, Path(folder, "runs")) for method in METHODS]
