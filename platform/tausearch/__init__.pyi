from .api import (
    FinalResult,
    SearchResult,
    allow_code,
    compose,
    draw,
    edit,
    extend,
    preview_search,
    preview_train,
    resume,
    search,
    train,
)
from .campaigning import CampaignResult, campaign
from .choosing import BestFile, load_best
from .predicting import Model, Prediction, load_model
from .previewing import Preview

__version__: str

__all__ = [
    "BestFile",
    "CampaignResult",
    "FinalResult",
    "Model",
    "Prediction",
    "Preview",
    "SearchResult",
    "allow_code",
    "campaign",
    "compose",
    "draw",
    "edit",
    "extend",
    "load_best",
    "load_model",
    "preview_search",
    "preview_train",
    "resume",
    "search",
    "train",
]
