from .analysis import Drawn, draw, draw_with
from .benchmarks import OpenBenchmark, Opening, allow_code, open_benchmark
from .composition import Composed, Evaluated, compose, compose_with, evaluate, evaluate_with
from .continuation import extend, resume, resume_with
from .datasets import CheckResult, DataState, ListedImage, check_dataset, dataset_states, list_images, prepare_dataset
from .export import export_best
from .final_runs import FinalResult, FinalRun, preview_train, preview_train_with, train, train_with
from .management import delete_driven, delete_run, rename_run
from .plans import plan_search, plan_training, space_for
from .requests import (
    ComposeRequest,
    DriveRequest,
    EvaluateRequest,
    FiguresRequest,
    InputError,
    ResumeRequest,
    SearchRequest,
    TrainRequest,
    field_fault,
    with_fields_of,
    within,
)
from .retraining import StoppedError
from .searches import (
    SearchResult,
    SearchRun,
    preview_search,
    preview_search_with,
    run_search,
    search,
    search_with,
)
from .synchronisation import sync_run

__all__ = [
    "CheckResult",
    "ComposeRequest",
    "Composed",
    "DataState",
    "Drawn",
    "DriveRequest",
    "EvaluateRequest",
    "Evaluated",
    "FiguresRequest",
    "FinalResult",
    "InputError",
    "OpenBenchmark",
    "Opening",
    "ResumeRequest",
    "SearchRequest",
    "SearchResult",
    "StoppedError",
    "TrainRequest",
    "allow_code",
    "ListedImage",
    "check_dataset",
    "list_images",
    "compose",
    "compose_with",
    "dataset_states",
    "delete_driven",
    "delete_run",
    "draw",
    "draw_with",
    "evaluate",
    "evaluate_with",
    "export_best",
    "extend",
    "open_benchmark",
    "plan_search",
    "plan_training",
    "prepare_dataset",
    "preview_search",
    "preview_search_with",
    "preview_train",
    "preview_train_with",
    "rename_run",
    "resume",
    "resume_with",
    "run_search",
    "search",
    "search_with",
    "SearchRun",
    "space_for",
    "sync_run",
    "train",
    "train_with",
    "FinalRun",
    "with_fields_of",
    "field_fault",
    "within",
]
