from .cell_plans import CellPlan as CellPlan
from .cells import (
    CampaignCells as CampaignCells,
    CellRuns as CellRuns,
    campaign_of as campaign_of,
    read_cells as read_cells,
)
from .driver import (
    CampaignResult as CampaignResult,
    campaign as campaign,
    campaign_with as campaign_with,
    run_campaign as run_campaign,
)
from .estimates import (
    Estimate as Estimate,
    PilotMeasurement as PilotMeasurement,
    estimate as estimate,
    pilots_of as pilots_of,
    run_pilots as run_pilots,
    seconds_here as seconds_here,
)
from .extending import extend as extend, say_campaign_of_extended as say_campaign_of_extended
from .file import CellConfig as CellConfig, read_campaign as read_campaign
from .mlflow_tables import LOCAL as LOCAL, read_pages as read_pages, track_tables as track_tables
from .outputs import (
    not_comparable_cells as not_comparable_cells,
    selected_runs as selected_runs,
    write_campaign_report as write_campaign_report,
)
from .plans import (
    CampaignPlan as CampaignPlan,
    CampaignRequest as CampaignRequest,
    plan_campaign as plan_campaign,
    plan_with_refusals as plan_with_refusals,
    work_left as work_left,
)
from .status import (
    CampaignStatus as CampaignStatus,
    CellStatus as CellStatus,
    all_campaign_statuses as all_campaign_statuses,
    options_of as options_of,
    read_campaign_status as read_campaign_status,
    starting_campaigns as starting_campaigns,
)
