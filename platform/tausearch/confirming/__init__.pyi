from .racing import FIRST_LOOK, LEVEL, Known, Race, Verdict, race, verdict

__all__ = ["FIRST_LOOK", "LEVEL", "Known", "Race", "Verdict", "race", "verdict"]
