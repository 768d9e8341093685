from .cache import entry_as_dict, show_cache
from .campaigns import plan_as_dict, show_campaign, show_plan, show_standing, show_standings
from .compositions import composed_as_dict, evaluated_as_dict, show_composed, show_evaluated
from .data import show_backbones, show_check, show_images, show_states
from .predictions import confusion_files, draw, draw_confusion, require_figure, require_truth, show_predictions
from .previews import show_preview
from .replays import show_replays
from .runs import (
    final_as_dict,
    nothing_chosen,
    search_as_dict,
    show_final,
    show_no_runs,
    show_protocols,
    show_search,
    show_starting,
    show_status,
    show_statuses,
    status_as_dict,
)
from .spaces import other_values, show_space, show_spaces, space_as_dict

__all__ = [
    "composed_as_dict",
    "draw",
    "draw_confusion",
    "evaluated_as_dict",
    "entry_as_dict",
    "final_as_dict",
    "nothing_chosen",
    "plan_as_dict",
    "confusion_files",
    "require_figure",
    "require_truth",
    "search_as_dict",
    "show_backbones",
    "show_check",
    "show_images",
    "show_composed",
    "show_evaluated",
    "show_final",
    "show_plan",
    "show_predictions",
    "show_preview",
    "show_protocols",
    "show_replays",
    "show_campaign",
    "show_search",
    "other_values",
    "show_space",
    "show_spaces",
    "show_standing",
    "show_standings",
    "show_starting",
    "show_states",
    "show_status",
    "show_no_runs",
    "show_statuses",
    "show_cache",
    "space_as_dict",
    "status_as_dict",
]
