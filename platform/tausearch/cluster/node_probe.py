"""What runs on every node before the first trial. Standard library only: the node may have nothing else of ours.

`preflight` sends this module's code itself to the nodes, not its name.
"""

from __future__ import annotations

import time

SETTLE_SECONDS = 10.0  # network file systems may show a new file late


def probe_node(
    folder: str, token: str, mine: str, packages: list[str], modules: list[str], needed: list[str]
) -> dict[str, str]:
    """Report versions, import what trials need, read the driver's file and write one back.

    Args:
        folder: The run directory.
        token: Name of the driver's file in the run directory, and its content.
        mine: Name of the file to write to the run directory, and its content.
        packages: Names of the packages whose versions to report, "" where one is not installed.
        modules: Names of the modules that trials must be able to import.
        needed: Files and folders that must be there because trials read them.

    Returns:
        Package to version, "python" among them; "import" and "storage": what went wrong, "" if nothing; "missing": the
        first of `needed` that is not there, "" if all are.
    """
    import importlib  # here, so that the function carries all it needs
    import importlib.metadata
    import platform
    from pathlib import Path

    missing = next((path for path in needed if not Path(path).exists()), "")
    report = {"python": platform.python_version(), "import": "", "storage": "", "missing": missing}
    for package in packages:
        try:
            report[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            report[package] = ""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever an import can raise
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
    return report
