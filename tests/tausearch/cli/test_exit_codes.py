"""The end of the process `tausearch`: soon, with the exit code of the command and all that it printed."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tausearch import cli
from tausearch.cli import application, exit_codes
from tausearch.execution import Interrupt

SLOW = """
class Slow:
    def __del__(self):
        print("taken apart", flush=True)

import builtins
builtins.slow = Slow()  # as a module that Python takes apart at its end
"""


def process(command: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command's lines as the process `tausearch` does."""
    lines = "".join(f"    {line}\n" for line in command.splitlines())
    code = (
        f"import atexit, sys, threading, time\n{SLOW}\ndef command():\n{lines}\n"
        "from tausearch.cli.exit_codes import run_as_process\nrun_as_process(command)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run([sys.executable, "-c", code], text=True, env=environment, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("pass", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(2)", 2, ""),
        ("sys.exit('no such run')", 1, "no such run\n"),
        ("raise RuntimeError('a fault')", 1, "RuntimeError: a fault\n"),
    ],
)
def test_the_exit_code_is_that_of_the_command(command: str, code: int, told: str) -> None:
    done = process(f"print('shown', end='')\n{command}", stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (code, "shown") and done.stderr.endswith(told)


def test_threads_and_registered_functions_come_before_the_end() -> None:
    command = (
        "atexit.register(print, 'registered')\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('of a thread'))).start()"
    )
    assert process(command, stdout=subprocess.PIPE).stdout == "of a thread\nregistered\n"


@pytest.mark.parametrize(
    "command",
    [
        "print('shown', flush=True)",
        "print('kept until the end')",
        "print('shown', file=sys.stderr)\nsys.exit(0)",
        "import typer\napp = typer.Typer()\napp.command()(lambda: print('shown', flush=True))\napp([])",
        "from rich.console import Console\nConsole().print('shown')",
    ],
)
def test_an_output_that_nobody_reads_any_more_ends_a_command_with_141(command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lines = "".join(f"    {line}\n" for line in command.splitlines())
    code = f"import sys\ndef command():\n{lines}\nfrom tausearch.cli.exit_codes import run_as_process\n"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    arguments = [sys.executable, "-c", f"{code}run_as_process(command)"]
    try:
        assert subprocess.run(arguments, stdout=writer, stderr=writer, env=environment).returncode == 141
    finally:
        os.close(writer)


def test_the_command_is_run_as_a_process_that_ends_with_141_when_nobody_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unread() -> None:
        raise BrokenPipeError

    monkeypatch.setattr(application, "main", unread)
    monkeypatch.setattr(Interrupt, "alone", False)
    monkeypatch.setattr(exit_codes, "atexit", SimpleNamespace(register=lambda end: None))  # this process goes on
    with pytest.raises(SystemExit) as ended:
        cli.process()
    assert ended.value.code == 141 and Interrupt.alone  # so Ctrl-C may end it while Ray starts


def test_output_that_cannot_be_written_is_told() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this machine has no /dev/full")
    with full.open("w") as out:
        done = process("print('lost')", stdout=out)
    assert done.returncode == 120 and "No space left" in done.stderr
