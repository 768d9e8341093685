from .composing import Composed, Edited, compose, edit
from .datasets import CheckResult, DataState, check_dataset, dataset_states, prepare_dataset
from .drawing import Drawn, draw
from .exporting import export_adapters, export_best, export_best_of, export_vectors
from .opening import OpenBenchmark, Opening, allow_code, allow_typed, open_benchmark
from .planning import plan_search, plan_training, space_for
from .requests import (
    CheckedRequest,
    ComposeRequest,
    EditRequest,
    FiguresRequest,
    ResumeRequest,
    SearchRequest,
    TrainRequest,
    with_fields_of,
    within,
)
from .resuming import extend, resume
from .searching import SearchResult, preview_search, run_search, search, search_job
from .syncing import sync_run
from .training import FinalResult, preview_train, train, training_job

__all__ = [
    "CheckResult",
    "CheckedRequest",
    "ComposeRequest",
    "Composed",
    "DataState",
    "Drawn",
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
    "draw",
    "edit",
    "export_adapters",
    "export_best",
    "export_best_of",
    "export_vectors",
    "extend",
    "open_benchmark",
    "plan_search",
    "plan_training",
    "prepare_dataset",
    "preview_search",
    "preview_train",
    "resume",
    "run_search",
    "search",
    "search_job",
    "space_for",
    "sync_run",
    "train",
    "training_job",
    "with_fields_of",
    "within",
]
