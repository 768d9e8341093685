"""The check that runs on every node before the first trial.

It uses the standard library only, as a node may lack our package: `preflight` sends the code of this module.
"""

from __future__ import annotations

import fcntl
import importlib
import importlib.metadata
import platform
import sys
import time
from pathlib import Path

SETTLE_SECONDS = 10.0  # network file systems can show a new file late


def environment() -> str:
    """Return what tells this process's machine, its view of the disk and its packages from others'; "" if unknown."""
    try:
        booted, mounts = Path("/proc/sys/kernel/random/boot_id").read_text(), Path("/proc/self/ns/mnt").readlink()
    except OSError:  # only Linux has them
        return ""
    return f"{booted} {mounts} {sys.prefix}"


def probe_node(
    folder: str,  # the run directory
    token: str,  # name of the driver's file there, and its content
    mine: str,  # name of the answer file there, and its content
    lock: str,  # a file that the driver has locked
    packages: list[str],  # whose versions to report
    modules: list[str],  # that trials import
    needed: list[str],  # files and folders that trials read
    drivers: str,  # the driver's `environment`
) -> dict[str, str]:
    """Report versions, import modules, read the driver's file and write an answer file.

    In the driver's environment nothing is imported: that costs as much as the start of a trial's process beside it, and
    a Ray that the driver starts itself has no such check either.

    Returns:
        Package to version, "python" among them, "" where a package is not installed. "import" and "storage" are error
        texts, "" without an error. "lock" says why the driver's lock does not hold here, "" if it does. "missing" is
        the first of `needed` that does not exist, "" if all exist.
    """
    missing = next((path for path in needed if not Path(path).exists()), "")
    report = {"python": platform.python_version(), "import": "", "storage": "", "lock": "", "missing": missing}
    for package in packages:
        try:
            report[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            report[package] = ""
    ours = drivers != "" and environment() == drivers
    for module in () if ours else modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # an import can raise any error
            report["import"] = f"{module} ({type(error).__name__}: {error}".splitlines()[0] + ")"
            break
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        try:
            if Path(folder, token).read_text() == token:
                break
            report["storage"] = "it holds something else there"
        except OSError as error:
            report["storage"] = error.strerror or str(error)
        if time.monotonic() > deadline:
            return report
        time.sleep(0.2)
    report["storage"] = ""
    try:
        Path(folder, mine).write_text(mine)
    except OSError as error:
        report["storage"] = f"it cannot write there: {error.strerror or error}"
    try:
        with Path(lock).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        report["lock"] = "the lock is not seen"
    except BlockingIOError:
        pass
    except OSError as error:
        report["lock"] = error.strerror or str(error)
    return report
