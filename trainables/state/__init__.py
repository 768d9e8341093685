"""The state of a trial between two tasks: what it is, and how it lies on disk."""

from __future__ import annotations

from trainables.state.contents import JSON, State
from trainables.state.files import STATE_FILE, check_state, damaged_files, places_of, read_state, write_state
from trainables.state.kept import Places
from trainables.state.pulse import SILENT, Epoch, Pulse, read_pulse

__all__ = [
    "Epoch",
    "JSON",
    "SILENT",
    "STATE_FILE",
    "Places",
    "Pulse",
    "State",
    "check_state",
    "damaged_files",
    "places_of",
    "read_pulse",
    "read_state",
    "write_state",
]
