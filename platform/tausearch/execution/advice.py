"""What a dry run advises for the user's own images: settings that do not suit so few, and a backbone for this CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from checked_input.names import counted
from search_spaces import for_own_images
from tausearch.presentation import clock
from tausearch.runs import FinalSpec, RunSpec, SearchSpec
from trainables.backbones import EMBEDDED, SMALL, Backbone
from trainables.data import BenchmarkRef
from trainables.data.few_images import OwnImages, Unsuited
from trainables.data.sources import steps_of, unsuited_pace
from trainables.methods import get_method

_COARSE = 1.0  # percentage points per validation image, above which trials tie


@dataclass(frozen=True)
class BackboneTime:
    """The time of a backbone in a run on this CPU; `here` is None for the backbone of the run.

    Attributes:
        step: Seconds of a training step.
        trial: Seconds of all steps of fine-tuning in a trial.
        here: Whether the weights of an offered backbone are on this machine.
    """

    name: str
    step: float
    trial: float
    here: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `--dry-run --format json` prints."""
        return {"backbone": self.name, "seconds_per_step": self.step, "seconds_of_fine_tuning": self.trial}


def unsuited_to(spec: RunSpec) -> tuple[Unsuited, ...]:
    """Return the usual settings of benchmark, method and validation split that do not suit the user's own images."""
    images = _own_images(spec)
    if images is None:
        return ()
    ref = BenchmarkRef.parse(spec.benchmark)
    entry = get_method(spec.method)
    start = spec.start if isinstance(spec, SearchSpec) else {}
    config = entry.parse({**spec.fixed, **start})
    usual = (*unsuited_pace(ref, images), *entry.unsuited(config, images))
    return (*usual, *_ranges(spec), *_coarse_split(spec))


def backbone_times(spec: RunSpec, address: str | None) -> tuple[BackboneTime, ...]:
    """Time the backbone of a search, and a small one of timm unless the search's own is as small.

    Returns:
        Nothing on a GPU or a cluster, for embedded and published images, for the user's own network, and in a final
        run, whose backbone is that of the search.
    """
    images, name = _own_images(spec), spec.protocol.backbone
    if images is None or isinstance(spec, FinalSpec) or address is not None or spec.resources.gpus_per_trial:
        return ()
    if Backbone(name).own is not None:  # who brings a network has chosen it
        return ()
    is_small = name != EMBEDDED and Backbone(name).shape.parameters <= Backbone(SMALL).shape.parameters
    offered = [] if is_small else [(SMALL, Backbone(SMALL).here)]
    from trainables.backbones.timing import seconds_per_image  # imports timm, which takes two seconds

    steps = images.epochs * sum(steps_of(each, images.batch_size) for each in images.per_task)
    found = []
    for each, here in ((name, None), *offered):
        step = seconds_per_image(each, spec.resources.cpus_per_trial) * images.batch_size
        found.append(BackboneTime(each, step, step * steps, here))
    return tuple(found)


def backbone_line(spec: RunSpec, own: BackboneTime, offered: BackboneTime | None = None) -> str:
    """Say in a line how long training takes with a backbone, beside a small one if that is offered."""
    times = [own] if offered is None else [own, offered]
    each = ", ".join(f"{time.name} ({_reads(time.name)}) {time.step:.2g} s" for time in times)
    trial = " or ".join(clock(time.trial) for time in times)
    line = (
        f"a step of {counted(spec.protocol.batch_size, 'image')} takes {each}, measured now on this CPU;"
        f" all steps of a trial {trial}"
    )
    if offered is None:
        return line
    where = "weights are here" if offered.here else "weights: from the hub, or --backbone-weights FILE"
    return f"{line}; choose with --backbone {offered.name} ({where})"


def grey_line(spec: RunSpec) -> str | None:
    """Say that the backbone reads the user's own images without their colours; None where it does not."""
    name = spec.protocol.backbone
    if not BenchmarkRef.parse(spec.benchmark).is_own or Backbone(name).input.channels != 1:
        return None
    return f"{name} reads {_reads(name)}; images that have colours lose them"


def _reads(name: str) -> str:
    reads = Backbone(name).input
    return f"{reads.size} x {reads.size} {'grey' if reads.channels == 1 else 'colour'}"


def _own_images(spec: RunSpec) -> OwnImages | None:
    """Return the images of a run on the user's own; None on others, and where they were not counted."""
    data = spec.data
    if data is None or not data.per_task or not BenchmarkRef.parse(spec.benchmark).is_own:
        return None
    protocol, classes = spec.protocol, tuple(len(task.classes) for task in spec.tasks)
    if get_method(spec.method).capabilities.joint:
        return OwnImages((sum(data.per_task),), (sum(classes),), protocol.batch_size, protocol.epochs)
    return OwnImages(data.per_task, classes, protocol.batch_size, protocol.epochs)


def _ranges(spec: RunSpec) -> Iterator[Unsuited]:
    """Name the hyperparameters whose usual range the method's search space replaces on the user's own images."""
    if not isinstance(spec, SearchSpec):
        return
    for name, (usual, own) in for_own_images(spec.method, get_method(spec.method).space).items():
        if spec.space.get(name) == own:
            reason = f"is usually searched over {usual.allowed}, which goes too far on few images"
            yield Unsuited(name, reason, f"{own.allowed} is searched")


def _coarse_split(spec: RunSpec) -> Iterator[Unsuited]:
    if not isinstance(spec, SearchSpec) or spec.data is None or spec.accuracy_resolution < _COARSE or spec.trials == 1:
        return
    images = counted(spec.data.evaluation, "image")
    reason = f"of {images} judges in steps of up to {spec.accuracy_resolution:.2g} points, so trials tie by luck"
    suggestion = "--reevaluate 3 runs the best again on other splits"
    if (asked := spec.reevaluate) is not None:
        suggestion = f"the best {asked.best} are run again on {asked.runs} other splits"
    yield Unsuited("validation split", reason, suggestion)
