from . import tables
from .api import (
    FinalResult,
    InputError,
    SearchResult,
    allow_code,
    compose,
    draw,
    evaluate,
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
from .tracking import (
    BestFileWritten,
    Callback,
    ChoiceChanged,
    Event,
    ResultsWritten,
    RunBegan,
    RunEnded,
    RunInfo,
    TaskDone,
    TrialBegan,
    TrialEnded,
)

__version__: str

__all__ = [
    "BestFile",
    "BestFileWritten",
    "Callback",
    "CampaignResult",
    "ChoiceChanged",
    "Event",
    "FinalResult",
    "InputError",
    "Model",
    "Prediction",
    "Preview",
    "ResultsWritten",
    "RunBegan",
    "RunEnded",
    "RunInfo",
    "SearchResult",
    "TaskDone",
    "TrialBegan",
    "TrialEnded",
    "allow_code",
    "campaign",
    "compose",
    "draw",
    "evaluate",
    "extend",
    "load_best",
    "load_model",
    "preview_search",
    "preview_train",
    "resume",
    "search",
    "tables",
    "train",
]
