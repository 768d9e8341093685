from .checkpoints import ready
from .dispatcher import Alone, Fleet, Line, OpenRun
from .driver import Drive, drive, drive_together, read_by_trials
from .durations import bytes_of, seconds_per_trial
from .interrupt import Interrupt, interruptible
from .job import Job, Listener
from .previews import Preview, preview, preview_of
from .recorder import Books
from .storage_watch import StorageWatch

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
    "Preview",
    "StorageWatch",
    "bytes_of",
    "drive",
    "drive_together",
    "interruptible",
    "preview",
    "preview_of",
    "read_by_trials",
    "ready",
    "seconds_per_trial",
]
