from . import tables as tables
from .api import (
    Composed as Composed,
    Drawn as Drawn,
    Evaluated as Evaluated,
    FinalResult as FinalResult,
    InputError as InputError,
    SearchResult as SearchResult,
    allow_code as allow_code,
    compose as compose,
    draw as draw,
    evaluate as evaluate,
    preview_search as preview_search,
    preview_train as preview_train,
    resume as resume,
    search as search,
    train as train,
)
from .campaigns import CampaignResult as CampaignResult, campaign as campaign, extend as extend
from .execution import Preview as Preview
from .models import (
    CompositionResult as CompositionResult,
    EvaluationResult as EvaluationResult,
    Model as Model,
    Prediction as Prediction,
    load_model as load_model,
)
from .runs import Reevaluation as Reevaluation, TrialSummary as TrialSummary
from .studies import BestFile as BestFile, load_best as load_best
from .tracking import (
    BestFileWritten as BestFileWritten,
    Callback as Callback,
    ChoiceChanged as ChoiceChanged,
    Event as Event,
    ResultsWritten as ResultsWritten,
    RunBegan as RunBegan,
    RunEnded as RunEnded,
    RunInfo as RunInfo,
    TaskDone as TaskDone,
    TrialBegan as TrialBegan,
    TrialEnded as TrialEnded,
)

__version__: str
