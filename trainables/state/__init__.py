"""The state of a trial between two tasks: its contents, and its files on disk.

Not here: the removal of a trial's checkpoints when it has ended (`tausearch.execution`).
"""

from __future__ import annotations

from trainables.state.checkpoints import Checkpoints, checkpoint_after, newest_checkpoint, whole_checkpoints
from trainables.state.contents import JSON, State
from trainables.state.files import (
    STATE_FILE,
    check_state,
    damaged_files,
    read_state,
    write_state,
)
from trainables.state.heartbeat import SILENT, Epoch, Heartbeat, make_trial_folder, read_heartbeat

__all__ = [
    "Checkpoints",
    "Epoch",
    "Heartbeat",
    "JSON",
    "SILENT",
    "STATE_FILE",
    "State",
    "check_state",
    "checkpoint_after",
    "damaged_files",
    "make_trial_folder",
    "newest_checkpoint",
    "read_heartbeat",
    "read_state",
    "whole_checkpoints",
    "write_state",
]
