from .cache import entry_as_dict as entry_as_dict, show_cache as show_cache
from .campaigns import (
    plan_as_dict as plan_as_dict,
    show_campaign as show_campaign,
    show_campaign_status as show_campaign_status,
    show_campaign_statuses as show_campaign_statuses,
    show_plan as show_plan,
)
from .compositions import (
    composed_as_dict as composed_as_dict,
    evaluated_as_dict as evaluated_as_dict,
    show_composed as show_composed,
    show_evaluated as show_evaluated,
)
from .data import (
    show_backbones as show_backbones,
    show_check as show_check,
    show_images as show_images,
    show_states as show_states,
)
from .predictions import (
    draw as draw,
    draw_confusion as draw_confusion,
    require_figure as require_figure,
    require_truth as require_truth,
    require_two_files as require_two_files,
    show_predictions as show_predictions,
)
from .previews import show_preview as show_preview
from .replays import show_replays as show_replays
from .results import show_final as show_final, show_search as show_search
from .run_dicts import (
    final_as_dict as final_as_dict,
    search_as_dict as search_as_dict,
    status_as_dict as status_as_dict,
)
from .run_lines import nothing_chosen as nothing_chosen
from .spaces import (
    other_values as other_values,
    show_space as show_space,
    show_spaces as show_spaces,
)
from .statuses import (
    show_early_choices as show_early_choices,
    show_no_runs as show_no_runs,
    show_starting as show_starting,
    show_status as show_status,
    show_statuses as show_statuses,
)
