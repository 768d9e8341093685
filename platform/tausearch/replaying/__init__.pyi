from .asking import DEFAULT_SEEDS, replays_of
from .command import show_replays
from .comparing import Comparison, Outcome
from .playing import Replay, replay
from .recorded import RecordedTrials

__all__ = [
    "Comparison",
    "DEFAULT_SEEDS",
    "Outcome",
    "RecordedTrials",
    "Replay",
    "replay",
    "replays_of",
    "show_replays",
]
