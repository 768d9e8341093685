from .analysis import Drawn, draw
from .benchmarks import OpenBenchmark, Opening, allow_code, allow_typed, open_benchmark
from .composition import Composed, Edited, compose, edit
from .continuation import extend, resume
from .datasets import CheckResult, DataState, check_dataset, dataset_states, prepare_dataset
from .export import export_adapters, export_best, export_vectors
from .final_runs import FinalResult, FinalRun, preview_train, train
from .management import delete_run, rename_run, size_of
from .plans import plan_search, plan_training, space_for
from .requests import (
    ComposeRequest,
    DriveRequest,
    EditRequest,
    FiguresRequest,
    ResumeRequest,
    SearchRequest,
    TrainRequest,
    with_fields_of,
    within,
)
from .searches import SearchResult, SearchRun, preview_search, run_search, search
from .synchronisation import sync_run

__all__ = [
    "CheckResult",
    "ComposeRequest",
    "Composed",
    "DataState",
    "Drawn",
    "DriveRequest",
    "EditRequest",
    "Edited",
    "FiguresRequest",
    "FinalResult",
    "OpenBenchmark",
    "Opening",
    "ResumeRequest",
    "SearchRequest",
    "SearchResult",
    "TrainRequest",
    "allow_code",
    "allow_typed",
    "check_dataset",
    "compose",
    "dataset_states",
    "delete_run",
    "draw",
    "edit",
    "export_adapters",
    "export_best",
    "export_vectors",
    "extend",
    "open_benchmark",
    "plan_search",
    "plan_training",
    "prepare_dataset",
    "preview_search",
    "preview_train",
    "rename_run",
    "resume",
    "run_search",
    "search",
    "SearchRun",
    "size_of",
    "space_for",
    "sync_run",
    "train",
    "FinalRun",
    "with_fields_of",
    "within",
]
