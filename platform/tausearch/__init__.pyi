from .api import FinalResult, SearchResult, compose, draw, edit, resume, search, train
from .campaigning import CampaignResult, campaign
from .choosing import BestFile, load_best

__all__ = [
    "BestFile",
    "CampaignResult",
    "FinalResult",
    "SearchResult",
    "campaign",
    "compose",
    "draw",
    "edit",
    "load_best",
    "resume",
    "search",
    "train",
]
