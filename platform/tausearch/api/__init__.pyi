from .analysis import Drawn as Drawn, draw as draw, draw_with as draw_with
from .benchmarks import Opening as Opening, allow_code as allow_code, open_benchmark as open_benchmark
from .composition import (
    Composed as Composed,
    Evaluated as Evaluated,
    compose as compose,
    compose_with as compose_with,
    evaluate as evaluate,
    evaluate_with as evaluate_with,
)
from .continuation import resume as resume, resume_with as resume_with
from .datasets import (
    CheckResult as CheckResult,
    DataState as DataState,
    ListedImage as ListedImage,
    check_dataset as check_dataset,
    dataset_states as dataset_states,
    list_images as list_images,
    prepare_dataset as prepare_dataset,
)
from .export import export_best as export_best
from .final_runs import (
    FinalResult as FinalResult,
    FinalRun as FinalRun,
    preview_train as preview_train,
    preview_train_with as preview_train_with,
    train as train,
    train_with as train_with,
)
from .management import (
    delete_driven as delete_driven,
    delete_run as delete_run,
    finish_deletion as finish_deletion,
    rename_run as rename_run,
)
from .plans.final_runs import plan_training as plan_training
from .plans.searches import plan_search as plan_search, space_for as space_for
from .requests import (
    ComposeRequest as ComposeRequest,
    DriveRequest as DriveRequest,
    EvaluateRequest as EvaluateRequest,
    FiguresRequest as FiguresRequest,
    InputError as InputError,
    ResumeRequest as ResumeRequest,
    SearchRequest as SearchRequest,
    TrainRequest as TrainRequest,
    field_fault as field_fault,
    with_fields_of as with_fields_of,
    within as within,
)
from .retraining import StoppedError as StoppedError
from .searches import (
    SearchResult as SearchResult,
    SearchRun as SearchRun,
    preview_search as preview_search,
    preview_search_with as preview_search_with,
    run_search as run_search,
    search as search,
    search_with as search_with,
)
from .synchronisation import sync_run as sync_run
