from .books import Books
from .checkpoints import ready
from .driver import Drive, drive, drive_together, read_by_trials
from .fleet import Alone, Fleet, Line, OpenRun
from .interrupt import Interrupt, interruptible
from .job import Job, Listener
from .watch import StorageWatch

__all__ = [
    "Alone",
    "Books",
    "Drive",
    "Fleet",
    "Interrupt",
    "Job",
    "Line",
    "Listener",
    "OpenRun",
    "StorageWatch",
    "drive",
    "drive_together",
    "interruptible",
    "read_by_trials",
    "ready",
]
