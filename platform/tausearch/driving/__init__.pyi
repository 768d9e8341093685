from .driver import drive
from .job import Job, Listener

__all__ = [
    "Job",
    "Listener",
    "drive",
]
