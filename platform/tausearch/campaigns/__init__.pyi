from .cells import CampaignCells, CellRuns, campaign_of, read_cells
from .driver import CampaignResult, campaign, campaign_with, run_campaign
from .estimates import Estimate, Measured, estimate, pilots_of, run_pilots, seconds_here
from .file import Cell, read_campaign
from .mlflow_tables import LOCAL, read_pages, track_tables
from .outputs import selected_runs, set_apart, write_campaign_report
from .plans import CampaignPlan, CampaignRequest, PlannedCell, plan_campaign, preview_campaign, work_left
from .status import CampaignStanding, CellStanding, all_standings, read_standing, starting_campaigns

__all__ = [
    "CampaignCells",
    "CampaignPlan",
    "CampaignRequest",
    "CampaignResult",
    "CampaignStanding",
    "Cell",
    "CellRuns",
    "CellStanding",
    "Estimate",
    "LOCAL",
    "Measured",
    "PlannedCell",
    "all_standings",
    "campaign",
    "campaign_of",
    "campaign_with",
    "estimate",
    "pilots_of",
    "plan_campaign",
    "preview_campaign",
    "read_campaign",
    "read_cells",
    "read_pages",
    "read_standing",
    "run_campaign",
    "run_pilots",
    "seconds_here",
    "selected_runs",
    "set_apart",
    "starting_campaigns",
    "track_tables",
    "work_left",
    "write_campaign_report",
]
