"""The state of a trial between two tasks: its contents, and its files on disk.

Not here: the removal of a trial's checkpoints when it has ended (`tausearch.execution`).
"""

from __future__ import annotations

from trainables.state.checkpoints import (
    Checkpoints as Checkpoints,
    checkpoint_after as checkpoint_after,
    newest_checkpoint as newest_checkpoint,
    whole_checkpoints as whole_checkpoints,
)
from trainables.state.contents import JSON as JSON, State as State
from trainables.state.files import (
    STATE_FILE as STATE_FILE,
    check_state as check_state,
    damaged_files as damaged_files,
    read_state as read_state,
    write_state as write_state,
)
from trainables.state.heartbeat import (
    SILENT as SILENT,
    Epoch as Epoch,
    Heartbeat as Heartbeat,
    make_trial_folder as make_trial_folder,
    read_heartbeat as read_heartbeat,
)
