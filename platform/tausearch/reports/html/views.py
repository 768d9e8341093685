"""The content of the page for each cell, read from its run directories; an unreadable part becomes a line."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from checked_input.names import counted
from checked_input.text_files import TextFileError, read_text
from tausearch.models import code_difference_lines, evaluation_table, read_compositions, read_evaluation
from tausearch.presentation import (
    SearchPlots,
    Table,
    address_option,
    brief,
    clock,
    front_table,
    leave_one_out_table,
    percent,
    reevaluation_table,
    scores_table,
    trials_table,
)
from tausearch.reports.html import tables
from tausearch.reports.html.plots import PagePlot, script_json
from tausearch.reports.html.run_plots import hover_text, search_plots, slice_plots, time_plot
from tausearch.runs import (
    BesideBounds,
    ExperimentProtocol,
    FinalSpec,
    MultiSearchSpec,
    Reevaluation,
    RunDirectory,
    RunSpec,
    RunStatus,
    Score,
    SearchSpec,
    Storage,
    beside_bounds,
    choice_remark,
    leave_one_out,
    read_scores,
    read_status,
    shown_benchmark,
)
from trainables.errors import InputError
from trainables.metrics import TEST
from trainables.user_code import code_option

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReportCell:
    """A method on a benchmark, with the directories of its runs."""

    benchmark: str
    method: str
    search: RunDirectory | None
    final: RunDirectory | None
    state: str  # its progress in a few words: "searched 7/24", "done"
    others: tuple[FinalSpec, ...] = ()  # further final runs of the search, which the page names
    unreadable: tuple[str, ...] = ()  # a line for each run that may be a final run of the search and cannot be read


@contextmanager
def _noting(faults: list[str], what: str) -> Iterator[None]:
    """Turn any error while a part is read or drawn into a line; the rest of the page is made all the same."""
    try:
        yield
    except InputError as error:
        faults.append(str(error))
    except TextFileError as error:
        faults.append(f"{what}: {error}")
    except Exception as error:  # a record damaged by hand: any error of Optuna or plotly
        _log.warning("%s", what, exc_info=True)
        faults.append(f"{what}: cannot be shown ({type(error).__name__}: {error})")


@dataclass
class RunPlots:
    """The plots of one run: large ones in order, and slices side by side; `faults` as in `CellView`."""

    plots: list[PagePlot] = field(default_factory=list)
    slices_caption: str = ""
    slices: list[PagePlot] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass
class RunView:
    """What the page shows of one run."""

    name: str
    facts: dict[str, str] = field(default_factory=dict)  # the run's settings and progress: name to text
    drawn: RunPlots = field(default_factory=RunPlots)
    hover: str = "{}"  # the text of each trial at the pointer, by number; JSON
    tables: list[Table] = field(default_factory=list)
    best_file: str = ""
    trials: Table | None = None  # the table of trials or seeds
    score: str = ""  # the headline: best validation accuracy, or other value, of a search; test accuracy of a final run
    unit: str = "%"  # its unit
    incremental: str = ""
    forgetting: str = ""

    @property
    def score_in_percent(self) -> str:
        """The score for a column of percentages: with its unit if that is another."""
        return self.score if self.unit == "%" or not self.score else f"{self.score} {self.unit}"


@dataclass
class CellView:
    """What the page shows of one cell; `faults` say why parts are missing, a line each."""

    cell: ReportCell
    search: RunView | None = None
    final: RunView | None = None
    faults: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What the cell is called."""
        return f"{self.cell.method} on {shown_benchmark(self.cell.benchmark)}"


def read_cell(cell: ReportCell, drawn: RunPlots | None = None) -> CellView:
    """Read all of a cell. The plots of its search may have been drawn before."""
    view = CellView(cell, faults=[*cell.unreadable])
    if cell.search is not None:
        with _noting(view.faults, f"search {cell.search.name}"):
            _read_search(view, cell.search, drawn)
    if cell.final is not None:
        with _noting(view.faults, f"final run {cell.final.name}"):
            _read_final(view, cell.final)
    return view


def draw_search_plots(status: RunStatus) -> RunPlots:
    """Draw the plots of a search."""
    assert isinstance(status.spec, SearchSpec)
    drawn, name = RunPlots(), status.spec.name
    plots = SearchPlots(status.spec, status.trials, correlations=status.rank_correlations, chosen=_best(status))
    with _noting(drawn.faults, f"plots of {name}"):
        drawn.plots.extend(search_plots(plots))
    with _noting(drawn.faults, f"slices of {name}"):
        if (slices := plots.slices()) is not None:
            drawn.slices_caption = slices.caption
            drawn.slices.extend(slice_plots(slices))
    return drawn


def _read_search(view: CellView, directory: RunDirectory, drawn: RunPlots | None) -> None:
    status = read_status(directory)
    assert isinstance(status.spec, SearchSpec)
    shown = view.search = RunView(directory.name, _facts(status, directory), trials=_trials(status))
    travel = leave_one_out(status.spec, status.trials)
    if status.best is not None:
        shown.score, shown.unit = percent(status.accuracy), status.spec.value_labels.unit
        shown.tables.append(tables.chosen_table(status.spec, status.best.hyperparameters))
        with _noting(view.faults, str(directory.best_file)):
            if directory.best_file.exists():
                shown.best_file = read_text(directory.best_file)
    if status.reevaluation is not None and status.reevaluation.runs:
        shown.tables.append(reevaluation_table(status.reevaluation))
    if travel:
        shown.tables.append(leave_one_out_table(travel))
    if len(status.front) > 1:
        shown.tables.append(front_table(status.spec, status.front, _best(status)))
    shown.hover = script_json({trial.number: hover_text(status.spec, trial) for trial in status.trials})
    shown.drawn = drawn or draw_search_plots(status)
    view.faults.extend(shown.drawn.faults)


def _read_final(view: CellView, directory: RunDirectory) -> None:
    status = read_status(directory)
    facts = _facts(status, directory) | _others(view.cell.others)
    shown = view.final = RunView(directory.name, facts, trials=_trials(status))
    with _noting(view.faults, str(directory.results_file)):
        _add_scores(shown, status.spec, read_scores(status.spec, directory))
    shown.tables.append(tables.trained_table(status.spec))
    finished = [trial for trial in status.trials if trial.status == "complete" and trial.rows]
    with _noting(view.faults, f"accuracies of {directory.name}"):
        if finished:
            shown.tables.append(tables.task_accuracy_table(status.spec, finished))
            shown.drawn.plots.extend(filter(None, [time_plot(finished, status.spec)]))
    with _noting(view.faults, f"compositions of {directory.name}"):
        composed = read_compositions(directory, view.faults)
        shown.tables.extend(tables.composition_tables(composed))
        if differences := code_difference_lines(composed):
            shown.facts["compositions"] = "; ".join(differences)
    with _noting(view.faults, f"evaluation of {directory.name}"):
        if (found := read_evaluation(directory)) is not None:
            shown.tables.append(evaluation_table(found, found.part_of(status.spec)))


def _trials(status: RunStatus) -> Table:
    return trials_table(status.spec, status.trials, _best(status)).without_empty()


def _best(status: RunStatus) -> int | None:
    return None if status.best is None else status.best.number


def _add_scores(shown: RunView, spec: RunSpec, scores: dict[str, Score]) -> None:
    if not scores:
        return
    shown.tables.append(scores_table(spec, scores))
    names = (TEST.final_accuracy, TEST.average_incremental_accuracy, TEST.forgetting)
    texts = (scores[name].text() if name in scores else "" for name in names)
    shown.score, shown.incremental, shown.forgetting = texts


def _facts(status: RunStatus, directory: RunDirectory) -> dict[str, str]:
    spec, protocol = status.spec, status.spec.protocol
    counts = ", ".join(f"{count} {name}" for name, count in status.counts.items() if count)
    facts = {"state": status.state, "trials" if spec.purpose == "search" else "seeds": counts}
    if spec.purpose == "search":
        stopping = "" if spec.scheduler == "none" else f", stopped early by {spec.scheduler}"
        facts["algorithm"] = f"{spec.algorithm}, seed {spec.seed}{stopping}"
        if status.gain is not None:
            facts["gain"] = str(status.gain)
        if status.ending is not None:
            facts["ended"] = str(status.ending)
        if status.reevaluation is not None:
            facts["reevaluated"] = _reevaluated(status.reevaluation)
        if spec.objectives:
            facts["aims at"] = str(spec.aim)
            if status.best is not None:
                facts["chosen"] = f"trial {status.best.number}: {spec.words(status.best)}"
        if spec.constraints:
            facts["constraints"] = "; ".join(map(str, spec.constraints))
            violated = [] if status.reevaluation is None else status.reevaluation.violated_constraints()
            facts |= {"broken over fresh runs": "; ".join(violated)} if violated else {}
            if status.best is None:
                facts["chosen"] = f"nothing: {status.why_nothing_chosen}"
    else:
        if spec.source is not None:
            facts["chosen by"] = f"search {spec.source} on {spec.tuned_on}"
        if remark := choice_remark(directory, spec):
            facts["choice"] = remark
        if spec.overrides:
            facts["overridden"] = _overridden(spec)
    facts["protocol"] = f"{_size(protocol)}, {protocol.backbone}, {protocol.precision}"
    if isinstance(spec, MultiSearchSpec):
        facts["protocol"] = f"{protocol.backbone}, {protocol.precision}; value of a trial: {spec.across}"
        facts |= {title: _size(part.protocol) for title, part in zip(spec.titles, spec.parts.values(), strict=True)}
    if spec.device:
        facts["trials on"] = spec.device
    facts["time in trials"] = clock(sum(trial.seconds for trial in status.trials))
    if (beside := beside_bounds(status, Storage(directory.path.parent))) is not None:
        facts["bounds"] = _beside_bounds(beside)
    return facts


def _beside_bounds(beside: BesideBounds) -> str:
    """Return the bounds in a line whose command holds wherever the page is read: it has no path of this machine."""
    command = (
        f"tausearch resume {beside.run} --storage FOLDER{code_option(*beside.code)}{address_option(beside.address)}"
    )
    where = "; FOLDER is the storage folder, which holds the run" if beside.missing else ""
    return f"{beside.line(command)}{where}"


def _others(specs: Sequence[FinalSpec]) -> dict[str, str]:
    """Name final runs that the page does not show, with what sets each apart: class orders, and what was overridden."""
    apart = [", ".join(filter(None, (spec.protocol.orders_text, _overridden(spec)))) for spec in specs]
    named = [f"{spec.name} ({what})" if what else spec.name for spec, what in zip(specs, apart, strict=True)]
    return {"other final runs": ", ".join(named)} if named else {}


def _overridden(spec: FinalSpec) -> str:
    return brief(spec.overrides, list(spec.overrides))


def _size(protocol: ExperimentProtocol) -> str:
    return f"{counted(protocol.tasks, 'task')}, {counted(protocol.epochs, 'epoch')}, batch size {protocol.batch_size}"


def _reevaluated(reevaluation: Reevaluation) -> str:
    verdict, aim = reevaluation.verdict, reevaluation.spec.search.aim
    if verdict is None:
        return "not yet" if not reevaluation.race.over else "no candidate is left"
    error = "" if verdict.error is None else f" ± {verdict.error:.2f} (standard error)"
    runs = counted(reevaluation.race.rounds, "fresh run")
    if aim.by_knee:
        return f"{aim.words_of(reevaluation.means(verdict.chosen))}: trial {verdict.chosen}, means over {runs}"
    unit = f" {reevaluation.unit}".rstrip() if aim.objectives else ""
    return f"{verdict.mean:.2f}{error}{unit}: trial {verdict.chosen} over {runs}"
