from .checkpoints import ready
from .concurrency import concurrent_trials, concurrent_trials_here
from .dispatcher import Dispatcher
from .driver import Driver, drive, read_by_trials
from .durations import Pace, bytes_of, cold_reevaluations, cold_trials, pace_of, pace_of_trials
from .interrupt import Interrupt, interruptible
from .previews import Preview, preview, preview_of
from .queue import After, RunQueue, RunSource, SingleRun
from .recorder import record_of
from .run import Listener, Run
from .storage_watch import StorageWatch

__all__ = [
    "After",
    "RunSource",
    "Dispatcher",
    "Driver",
    "Interrupt",
    "Listener",
    "Pace",
    "Preview",
    "Run",
    "RunQueue",
    "SingleRun",
    "StorageWatch",
    "bytes_of",
    "concurrent_trials",
    "concurrent_trials_here",
    "cold_reevaluations",
    "cold_trials",
    "drive",
    "interruptible",
    "pace_of",
    "pace_of_trials",
    "preview",
    "preview_of",
    "read_by_trials",
    "ready",
    "record_of",
]
