from .api import FinalResult, SearchResult, compose, draw, edit, resume, search, train
from .campaigning import CampaignResult, campaign
from .choosing import BestFile, load_best
from .predicting import Model, Prediction, load_model

__version__: str

__all__ = [
    "BestFile",
    "CampaignResult",
    "FinalResult",
    "Model",
    "Prediction",
    "SearchResult",
    "campaign",
    "compose",
    "draw",
    "edit",
    "load_best",
    "load_model",
    "resume",
    "search",
    "train",
]
