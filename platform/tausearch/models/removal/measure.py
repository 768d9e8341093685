"""Evaluate a composition without some classes: the rest, where forgotten images land, and a membership test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tausearch.models.evaluation import Tick, evaluate, finite_logits, merging_rule
from tausearch.models.merge_configs import MergeConfig, uniform
from tausearch.models.pools import Pools
from tausearch.models.removal.membership import separation
from tausearch.models.removal.remnants import remaining_after_retraining, remaining_lines, removed_content_lines
from tausearch.models.removal.report import AnswerShare, ForgottenClass, RemovalReport
from tausearch.models.results import CompositionResult
from tausearch.models.sources import VectorSource
from tausearch.runs import FinalSpec, Retraining, Storage, bound_name, read_spec
from trainables.config import BOUNDS
from trainables.data import ImageSet, Removal, of_classes
from trainables.evaluation import answers
from trainables.process import threads


@dataclass(frozen=True)
class _Answers:
    """A model's answers to some images."""

    labels: Tensor  # int64 (n,), positions in the run's class order
    top: Tensor  # int64 (n,), likewise
    own_loss: Tensor  # cross-entropy of the likeliest class (n,), nats
    class_loss: Tensor | None  # of the label (n,); None for a model without its class


@dataclass(frozen=True)
class _Seed:
    """Answers to the test images of every task by the run, and to images of forgotten classes before and after."""

    whole: list[_Answers]
    train_before: dict[int, _Answers] = field(default_factory=dict)  # by forgotten class
    train_after: dict[int, _Answers] = field(default_factory=dict)
    test_after: dict[int, _Answers] = field(default_factory=dict)

    def test_before(self, task: int, c: int) -> _Answers:
        """Return the run's answers to the test images of a class."""
        every = self.whole[task - 1]
        rows = every.labels == c
        assert every.class_loss is not None
        return _Answers(every.labels[rows], every.top[rows], every.own_loss[rows], every.class_loss[rows])


def n_removal_steps(pools: Pools, removal: Removal) -> int:
    """Return the number of sets of images that `evaluate_removal` evaluates."""
    return len(pools.by_seed) * (pools.tasks + len(removal.tasks) + 3 * len(removal.forgotten))


def evaluate_removal(
    pools: Pools, removal: Removal, left: Pools, merge: MergeConfig, tick: Tick, retrained: Retraining | None = None
) -> CompositionResult:
    """Return the accuracies of a composition without some classes, with the report of the removal.

    `left` is what is left of `pools`, see `reduced`, or what was `retrained` without the classes. `merge` has a weight
    for each task that is left. `tick` counts the evaluated sets of images.
    """
    with threads(pools.threads):
        found = [_measure_seed(pools, left, seed, removal, merge, tick) for seed in pools.by_seed]
    result = evaluate(left, merge, tick)
    report = RemovalReport(
        tasks=tuple(removal.tasks),
        classes=tuple(_forgotten_class(pools, removal, c, found) for c in sorted(removal.forgotten)),
        before=tuple(tuple(_accuracy(each.whole[t - 1], removal) for t in removal.tasks) for each in found),
        left_out=removed_content_lines(removal, retrained),
        remains=tuple(_remains(pools, removal, retrained)),
        retrained=None if retrained is None else retrained.run,
    )
    return result.model_copy(update={"removal": report})


def _measure_seed(pools: Pools, left: Pools, seed: int, removal: Removal, merge: MergeConfig, tick: Tick) -> _Seed:
    pool, every = pools.by_seed[seed], list(range(len(pools.benchmark.spec.class_names)))
    pools.network.compose(pool, uniform(len(pool)).weights, pool.head())
    found = _Seed([_answers(pools, images, every, tick) for images in pools.benchmark.evaluation])
    for c in removal.forgotten:
        found.train_before[c] = _answers(pools, _training_images(pools, removal, c), every, tick)
    after = left.by_seed[seed]
    pools.network.compose(after, merge.weights, after.head(), merging_rule(merge, seed))
    for c in removal.forgotten:
        test = of_classes(pools.benchmark.evaluation[_task_of(removal, c) - 1], [c])
        found.train_after[c] = _answers(pools, _training_images(pools, removal, c), removal.rows, tick)
        found.test_after[c] = _answers(pools, test, removal.rows, tick)
    return found


def _answers(pools: Pools, images: ImageSet, rows: Sequence[int], tick: Tick) -> _Answers:
    """Return the answers of the network's composition; `rows` are its classes in the run's class order."""
    tops, own, losses = [], [], []
    places = torch.tensor(rows)
    known = set(images.labels.tolist()) <= set(rows)
    for logits, labels in answers(partial(finite_logits, pools), images, pools.device):
        tops.append(places[logits.argmax(1).cpu()])
        own.append(-logits.float().log_softmax(1).max(1).values.cpu())
        if known:  # then all classes of the run are there, in order
            losses.append(F.cross_entropy(logits.float(), labels, reduction="none").cpu())
    tick(1)
    return _Answers(images.labels, torch.cat(tops), torch.cat(own), torch.cat(losses) if known else None)


def _training_images(pools: Pools, removal: Removal, c: int) -> ImageSet:
    """Return the training images of a class as they are tested: without augmentation."""
    return of_classes(pools.benchmark.tasks[_task_of(removal, c) - 1].unaugmented, [c])


def _task_of(removal: Removal, c: int) -> int:
    return next(task for task, classes in enumerate(removal.task_classes, start=1) if c in classes)


def _accuracy(answers: _Answers, removal: Removal) -> float:
    rows = ~torch.isin(answers.labels, torch.tensor(sorted(removal.forgotten)))
    return 100.0 * int((answers.top == answers.labels)[rows].sum()) / int(rows.sum())


def _forgotten_class(pools: Pools, removal: Removal, c: int, found: Sequence[_Seed]) -> ForgottenClass:
    task, names = _task_of(removal, c), pools.benchmark.spec.class_names
    tests = [each.test_before(task, c) for each in found]
    before, after = _shares(tests), _shares([each.test_after[c] for each in found])
    given = [
        AnswerShare(label=names[row], before=before[row], after=after[row])
        for row in sorted(removal.rows, key=lambda row: (-after[row], -before[row], row))
        if before[row] or after[row]
    ]
    train = [each.train_before[c] for each in found]
    return ForgottenClass(
        number=c + 1,
        task=task,
        name=names[c],
        train=len(train[0].labels),
        test=len(tests[0].labels),
        itself=before[c],
        others=sum(before[other] for other in removal.forgotten if other != c),
        answers=tuple(given),
        class_loss=separation([_known(each) for each in train], [_known(each) for each in tests]),
        own_loss_before=separation([each.own_loss for each in train], [each.own_loss for each in tests]),
        own_loss_after=separation(
            [each.train_after[c].own_loss for each in found], [each.test_after[c].own_loss for each in found]
        ),
    )


def _known(answers: _Answers) -> Tensor:
    assert answers.class_loss is not None
    return answers.class_loss


def _shares(found: Sequence[_Answers]) -> Counter[int]:
    """Return the share of images that each class gets, percent, mean over the seeds."""
    counts = Counter(row for each in found for row in each.top.tolist())
    images = sum(len(each.top) for each in found)
    return Counter({row: 100.0 * count / images for row, count in counts.items()})


def _remains(pools: Pools, removal: Removal, retrained: Retraining | None) -> Iterator[str]:
    holders = list(dict.fromkeys(name for source in pools.sources for name in _holders(source)))
    if retrained is not None:
        return remaining_after_retraining(holders)
    first = next(iter(pools.by_seed.values()))
    sources = {source.folder: source for source in pools.sources}
    methods: list[str] = []
    known: list[Mapping[str, Any]] = []
    for folder, vector in zip(first.folders, first, strict=True):
        methods.append(vector.origin.method)
        source = next((sources[each] for each in folder.parents if each in sources), None)
        known.append({} if source is None or source.spec is None else source.spec.fixed)
    return remaining_lines(removal, methods, known, holders)


def _learned_from(spec: FinalSpec, storage: Storage) -> Iterator[str]:
    """Yield the run that a retrained run took its first vectors from, and so on, as far as they can be read."""
    if spec.retrained is None:
        return
    by_id = {each.id: each for each in storage.read_each(read_spec)[0] if isinstance(each, FinalSpec)}
    while spec.retrained is not None and (before := by_id.pop(spec.retrained.run_id, None)) is not None:
        yield before.name
        spec = before


def _holders(source: VectorSource) -> list[str]:
    """Return the names of a run, of its search, and of the bounds of both (`--with-bounds`), as far as they exist.

    A run that was trained again without some classes took its first vectors from another run, which is named, too.
    """
    if source.spec is None or source.directory is None:
        return [source.text]
    storage = Storage(source.directory.path.parent)
    named = [source.spec.name, *_learned_from(source.spec, storage), *filter(None, [source.spec.source])]
    bounds = [bound_name(name, method) for name in named for method in BOUNDS]
    return [source.spec.name, *filter(storage.run_exists, [*named[1:], *bounds])]
