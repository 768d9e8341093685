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
from .campaigns import CampaignResult, campaign
from .execution import Preview
from .models import Model, Prediction, load_model
from .studies import BestFile, load_best

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
