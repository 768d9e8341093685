from .bars import LongWork
from .commands import code_words, command_on, storage_words, tool
from .live import LiveDisplay
from .plain import print_json, say_loading, say_unreadable
from .progress import ProgressDisplay
from .quiet import Stream, chatter_to
from .text import brief, clock, console, counted, number, percent, spread

__all__ = [
    "LiveDisplay",
    "LongWork",
    "ProgressDisplay",
    "Stream",
    "brief",
    "chatter_to",
    "clock",
    "code_words",
    "command_on",
    "console",
    "counted",
    "number",
    "percent",
    "print_json",
    "say_loading",
    "say_unreadable",
    "spread",
    "storage_words",
    "tool",
]
