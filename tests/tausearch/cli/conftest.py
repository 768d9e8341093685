"""What tests of the command line share."""

from __future__ import annotations

import pytest

from tests.support.command_line import Ask, run


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Call the command line in this process; returns exit code, stdout and stderr."""
    return lambda *arguments: run(list(arguments), capsys, monkeypatch)
