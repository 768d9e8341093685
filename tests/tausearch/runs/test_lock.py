"""One driver at a time, whichever of its threads lets go."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tausearch.runs import RunDirectory, driver_lock, is_driven
from trainables.errors import InputError


def test_a_lock_that_another_thread_lets_go_is_free(tmp_path: Path) -> None:
    directory, held = RunDirectory(tmp_path), ExitStack()
    held.enter_context(driver_lock(directory))
    assert is_driven(directory)
    with pytest.raises(InputError, match="driven by another process"), driver_lock(directory):
        pass
    thread = threading.Thread(target=held.close)
    thread.start()
    thread.join()
    assert not is_driven(directory)
    with driver_lock(directory):
        assert is_driven(directory)
