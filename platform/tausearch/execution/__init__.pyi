from .checkpoints import ready
from .dispatcher import Dispatcher
from .driver import Driver, drive, read_by_trials
from .durations import bytes_of, seconds_per_trial
from .interrupt import Interrupt
from .previews import Preview, preview, preview_of
from .queue import RunQueue, RunSource, SingleRun
from .run import Listener, Run
from .storage_watch import StorageWatch

__all__ = [
    "RunSource",
    "Dispatcher",
    "Driver",
    "Interrupt",
    "Listener",
    "Preview",
    "Run",
    "RunQueue",
    "SingleRun",
    "StorageWatch",
    "bytes_of",
    "drive",
    "preview",
    "preview_of",
    "read_by_trials",
    "ready",
    "seconds_per_trial",
]
