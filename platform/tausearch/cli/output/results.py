"""What a search or a final run leaves, for people, when it ends."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from checked_input.names import counted
from tausearch import api, models
from tausearch.cli.output.run_lines import (
    Lines,
    nothing_chosen,
    show_errors,
    show_front,
    show_gain,
    show_left_out,
    show_settings,
    show_trials,
    show_trust,
)
from tausearch.presentation import bounds_line, brief, console, see_page, sync_advice, tool
from tausearch.runs import (
    FinalSpec,
    MetricSummary,
    RunResult,
    RunSpec,
    SearchSpec,
    TrialSummary,
    chance,
    hardly_learned,
    little_left,
    metric_kind,
    rank_correlations,
    summarise_orders,
    waiting_share,
)
from trainables.errors import InputError
from trainables.user_code import code_option

_WAITED = 0.25  # share of the training in which GPUs waited for images, from which on a user is told
_MUCH_FORGOTTEN = 50.0  # percentage points


def show_search(result: api.SearchResult, spec: SearchSpec, storage_option: str) -> None:
    """Print what a search found and what to do next."""
    lines = Lines(console(), 12)
    selection = None if result.best is None else result.best.selection
    best = None if selection is None else selection.trial
    show_trials(lines, spec, result.trials, best)
    lines.say("ended", result.ending)
    if result.best is None or selection is None:
        lines.warn(nothing_chosen(spec, result.trials))
        _say_what_does_not_follow(lines, result, spec)
    else:
        chosen = brief(dict(result.best.hyperparameters), list(spec.dimensions))
        trial = next(each for each in result.trials if each.number == selection.trial)
        value = spec.words(trial) if spec.objectives else f"{spec.value_text(selection.value)} ({selection.metric})"
        lines.say("best", f"{value}: {chosen}")
        show_gain(lines, spec, result.trials, result.reevaluation)
        forgetting = {trial.number: trial.forgetting for trial in result.trials}
        chosen_trials = [trial for trial in result.trials if trial.number == selection.trial]
        _show_left(lines, spec, f"trial {selection.trial}", chosen_trials, forgetting[selection.trial])
        lines.say("bounds", result.bounds and bounds_line(result.bounds))
        lines.say("best file", result.best_file)
        file, code = shlex.quote(str(result.best_file)), code_option(*spec.code)
        for on in [f" --benchmark {shlex.quote(name)}" for name in result.best.benchmarks] or [""]:
            lines.say("final run", f"{tool()} train {file}{on} --seeds 0,1,2{storage_option}{code}")
    show_settings(lines, spec, result.trials)
    show_left_out(lines, spec, result.trials)
    show_front(lines, spec, result.trials, best)
    _say_trackers(lines, spec, result, storage_option)
    lines.say("log", result.log_file)
    if (result.path / "figures").exists():
        lines.say("figures", result.path / "figures")
    show_trust(lines, spec, result.trials, rank_correlations(result.trials, spec.steps, spec.metrics))
    if result.tracking_error:
        lines.warn(sync_advice(result.name, result.tracking_error, storage_option))
    _show_metric_warnings(lines, spec, result.trials)
    _show_waiting(lines, spec, result.trials)
    show_errors(lines, spec, result.trials)


def show_final(result: api.FinalResult, spec: FinalSpec, storage_option: str) -> None:
    """Print the test results of a final run."""
    lines = Lines(console(), 14)
    show_trials(lines, spec, result.trials, None)
    for metric, part in result.summary.items():
        lines.out.print(f"{metric:<35}{_mean_text(part, metric_kind(metric).unit, spec.trial_noun)}")
    for order, summary in summarise_orders(spec, result.trials).items():
        if accuracy := summary.get(spec.metrics.final_accuracy):
            lines.out.print(f"class order {order:<23}{_mean_text(accuracy, '%', 'seed')}")
    forgetting = result.summary.get(spec.metrics.forgetting)
    forgotten = 0.0 if forgetting is None else forgetting["mean"]
    _show_left(lines, spec, "this configuration", result.trials, forgotten)
    lines.say("bounds", result.bounds and bounds_line(result.bounds))
    show_settings(lines, spec, result.trials)
    if spec.tuned_on is not None:
        elsewhere = "" if spec.tuned_on == spec.benchmark else f", judged on {spec.benchmark}"
        lines.say("tuned on", f"{spec.tuned_on} (search {spec.source}){elsewhere}")
    show_errors(lines, spec, result.trials)
    if failed := sorted({str(trial.seed) for trial in result.trials if trial.status == "failed"}):
        lines.warn(f"`resume` does not run what has failed again; train another run with --seeds {','.join(failed)}")
    lines.say("results", result.results_file)
    if (result.path / "task_vectors").exists():
        lines.say("task vectors", result.path / "task_vectors")
        code = code_option(*_names_to_load(result, spec))
        lines.say("predict", f"{tool()} predict {result.name} IMAGES{storage_option}{code}")
    _say_trackers(lines, spec, result, storage_option)
    if result.tracking_error:
        lines.warn(sync_advice(result.name, result.tracking_error, storage_option))
    _show_waiting(lines, spec, result.trials)


def _names_to_load(result: api.FinalResult, spec: FinalSpec) -> tuple[str, ...]:
    """Return the code that `predict` imports; that of the method is not among it."""
    try:
        return models.read_description(result.path / "task_vectors").code
    except InputError:  # it could not be written
        return spec.code


def _show_left(lines: Lines, spec: RunSpec, who: str, trials: Sequence[TrialSummary], points: float) -> None:
    """Warn in one line if little is left of tasks, which an accuracy alone does not tell."""
    where = f"({see_page('troubleshooting')})"
    if points > _MUCH_FORGOTTEN:
        lines.warn(f"{who} forgets {points:.0f} points: little is left of earlier tasks {where}")
    elif tasks := little_left(spec, trials):
        lines.warn(f"{who}: little is left of task {tasks} {where}")
    if tasks := hardly_learned(spec, trials):
        lines.warn(f"{who}: hardly more than chance ({chance(spec):.0f} %) was learned of task {tasks} {where}")


def _show_metric_warnings(lines: Lines, spec: RunSpec, trials: Sequence[TrialSummary]) -> None:
    from trainables.methods import known_method  # torch takes seconds to import

    entry = known_method(spec.method)
    for metric in () if entry is None else entry.metrics:
        for trial in trials:
            lines.warn(metric.warn(trial.number, trial.rows))


def _show_waiting(lines: Lines, spec: RunSpec, trials: Sequence[TrialSummary]) -> None:
    share = waiting_share(trials)
    if spec.resources.gpus_per_trial and share >= _WAITED:
        instead = f"prepare the images ({tool()} data prepare), or give a trial four CPUs (--cpus-per-trial 4)"
        lines.warn(f"trials waited for images in {100 * share:.0f} % of their training: {instead}")


def _mean_text(part: MetricSummary, unit: str, noun: str) -> str:
    """Return a mean with its deviation; the noun says over what: seeds, or trials with class orders."""
    spread = "" if part["std"] is None else f" ± {part['std']:.2f}"
    several = f"(one {noun})" if part["std"] is None else f"over {counted(part['seeds'], noun)}"
    return f"{part['mean']:6.2f}{spread} {f'{unit} ' if unit else ''}{several}"


def _say_trackers(lines: Lines, spec: RunSpec, result: RunResult, storage_option: str) -> None:
    if "mlflow" in spec.trackers:
        lines.say("MLflow", spec.tracking_uri or f"{tool()} runs ui{storage_option}")
    if "tensorboard" in spec.trackers:
        lines.say("TensorBoard", f"tensorboard --logdir {shlex.quote(str(result.path))}")


def _say_what_does_not_follow(lines: Lines, result: api.SearchResult, spec: SearchSpec) -> None:
    """Say that a search that was not stopped and has chosen nothing lacks what was to follow it."""
    asked = {"the re-evaluation": spec.reevaluate is not None, "the bounds": spec.with_bounds}
    lacking = [what for what, wanted in asked.items() if wanted]
    if lacking and result.signal is None and not result.out_of_time:
        lines.warn(f"As nothing is chosen, what was to follow is not run: {' and '.join(lacking)}.")
