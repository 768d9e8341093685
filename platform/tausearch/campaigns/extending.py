"""Extend a search that may belong to a campaign."""

from __future__ import annotations

from tausearch.api import ResumeRequest, SearchResult, resume_with, with_fields_of
from tausearch.campaigns.cells import campaign_of
from tausearch.campaigns.status import options_of, read_campaign_status
from tausearch.presentation import print_notices
from tausearch.runs import is_driven, open_storage, storage_option
from trainables.errors import InputError


def say_campaign_of_extended(request: ResumeRequest) -> None:
    """Say on stderr what a campaign needs whose search gets more trials.

    Raises:
        InputError: If a process drives the campaign.
    """
    root, name, trials = open_storage(request.storage, write=False), request.name, request.trials
    if trials is None or (campaign := campaign_of(root, name)) is None:
        return
    if is_driven(root.campaign(campaign)):
        raise InputError(f"run {name!r}: belongs to campaign {campaign!r}, which runs now; extend it afterwards")
    status = read_campaign_status(root, root.campaign(campaign))
    for cell in (each for each in status.cells if each.runs.search == name and trials > each.runs.trials):
        options = f"trials: {trials}" if cell.search is None else options_of(cell.search.spec, trials)
        again = status.command(storage_option(request.storage))
        first = f"write {options} for {cell.runs.title} in its file, then: {again}"
        print_notices(f"{name}: belongs to campaign {campaign!r}, whose final run may be of another choice; {first}")


def extend_with(request: ResumeRequest) -> SearchResult:
    """Run more trials of a search; the algorithm knows all earlier ones. `trials` is the new total.

    Returns:
        All trials and the best configuration.

    Raises:
        InputError: As `resume`, and if `trials` is None, or a process drives the search's campaign.
    """
    if request.trials is None:
        raise InputError("extend: needs trials, the new total")
    say_campaign_of_extended(request)
    result = resume_with(request)
    assert isinstance(result, SearchResult)  # a final run is refused
    return result


extend = with_fields_of(ResumeRequest, extend_with)
