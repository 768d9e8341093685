from .concurrency import concurrent_trials as concurrent_trials, concurrent_trials_here as concurrent_trials_here
from .dispatcher import Dispatcher as Dispatcher
from .driver import DriveOptions as DriveOptions, Driver as Driver, drive as drive, read_by_trials as read_by_trials
from .durations import (
    SecondsPerTrial as SecondsPerTrial,
    bytes_of as bytes_of,
    n_cache_misses as n_cache_misses,
    n_reevaluation_cache_misses as n_reevaluation_cache_misses,
    pace_of as pace_of,
    pace_of_trials as pace_of_trials,
)
from .interrupt import Interrupt as Interrupt, interruptible as interruptible
from .previews import Preview as Preview, preview_plan as preview_plan, preview_spec as preview_spec
from .queue import RunQueue as RunQueue, RunSource as RunSource
from .recorder import record_of as record_of
from .run import Run as Run
from .storage_watch import StorageWatch as StorageWatch
