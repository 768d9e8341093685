from .racing import FIRST_LOOK, LEVEL, Race, Verdict, race, verdict

__all__ = ["FIRST_LOOK", "LEVEL", "Race", "Verdict", "race", "verdict"]
