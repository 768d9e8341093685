"""InfLoRA: each task adds a low-rank branch whose input directions are free of past tasks' inputs.

Task t, for every block: W_k <- W_k + B_t^k A_t and W_v <- W_v + B_t^v A_t. A_t is designed before training (see
`dualgpm`): the r directions of most energy among those orthogonal to the protected space of past inputs, so that
B_t A_t x = 0 for every protected x. B_t starts at 0 and is trained with the task's own head by Adam on the local
cross-entropy; everything else is frozen. After training the protected space grows by the new task's directions.
One forward pass with all branches and the heads of all tasks side by side predicts a class.

Source: Liang and Li, CVPR 2024, https://arxiv.org/abs/2404.00228; github.com/liangyanshuo/InfLoRA (methods/inflora.py,
models/vit_inflora.py), with its names A (fixed) and B (trained): the paper calls them B and A.
Follows the code: the same A for keys and values, scaled by 1/sqrt(3); H over training images under the training
transform, in a pass before the training and one after it; Adam without weight decay.
Departs from it: the schedule is not an epoch late (`schedule: late` is as there); heads start as in all methods here, a
truncated normal of deviation 0.02 (`head_start: linear` is as there, torch's `nn.Linear`); tasks may differ in size
(there all have the first one's); its unused cluster centres are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from trainables.backbones.recording import recorded
from trainables.data import Batch, Task
from trainables.errors import InputError
from trainables.heads import HEAD_STARTS, Heads, HeadStart
from trainables.methods.contract import Context, Scenario
from trainables.methods.hyperparameters import Positive, PositiveCount
from trainables.methods.inflora.branches import branch_keys_and_values
from trainables.methods.inflora.dualgpm import ProtectedSpace, Regime, design_a, protect, threshold
from trainables.methods.training import Schedule, fit, gradient_steps, local_loss
from trainables.metrics import TRAIN_LOSS
from trainables.randomness import make_generator
from trainables.state import JSON, State


@dataclass(frozen=True, kw_only=True)
class InfLoRAConfig:
    """Hyperparameters of InfLoRA."""

    lr: Positive  # of Adam at the start
    epsilon: Annotated[float, Field(gt=0, lt=1)] = 0.98  # share of the energy protected after the first task
    r: PositiveCount = 10  # rank of a task's branch
    schedule: Schedule = "cosine"  # the authors' code has "late"
    head_start: HeadStart = "normal"  # the authors' code has "linear"


def validate(config: InfLoRAConfig, scenario: Scenario) -> None:
    """Refuse a rank beyond the backbone's width, and a backbone without plain keys and values, by an InputError."""
    shape = scenario.backbone.shape
    if shape.closed is not None:
        raise InputError(f"inflora: backbone {scenario.backbone.name!r} has no plain keys and values: {shape.closed}")
    if config.r > shape.width:
        raise InputError(f"inflora: r must be at most the backbone's width, {shape.width}, got {config.r}")


class InfLoRA:
    """InfLoRA; see the module."""

    def __init__(self, context: Context, config: InfLoRAConfig) -> None:
        self.context = context
        self.config = config
        self.model = context.backbone.load(context.device)
        self.branches = branch_keys_and_values(self.model)
        self.spaces: dict[str, ProtectedSpace] = {}
        self.heads = Heads(self.model.num_features, context.device)
        self._finished: list[dict[str, Tensor]] = []  # A and B of every block, by task; constant

    def begin_task(self, task: Task) -> None:
        """Design A in the free directions of every block, and begin the task's head at fresh rows."""
        moments = self._moments(task, "before")
        for name, branch in self.branches.items():
            branch.begin(design_a(moments[name], self.spaces.get(name), self.config.r))
        generator = make_generator(self.context.seed, "head", task.index)
        start = HEAD_STARTS[self.config.head_start]
        self.heads.begin(start(len(task.classes), self.model.num_features, generator))

    def train_task(self, task: Task) -> dict[str, float]:
        """Train B of every block and the task's head."""
        parameters = [*(b for each in self.branches.values() for b in each.parameters()), *self.heads.current]
        optimizer = torch.optim.Adam(parameters, lr=self.config.lr, fused=True)

        def loss(batch: Batch) -> Tensor:
            return local_loss(self.context, self.model, self.heads, batch.x, batch.y - task.classes.start)

        step = gradient_steps(optimizer, loss)
        return {TRAIN_LOSS: fit(task, self.context, step, parameters, schedule=self.config.schedule)}

    def end_task(self, task: Task) -> None:
        """Freeze branch and head, and protect the task's directions."""
        finished = {}
        for name, branch in self.branches.items():
            finished[f"{name}/A"], finished[f"{name}/B"] = branch.end()
        self._finished.append(finished)
        self.heads.end()
        share = threshold(self.config.epsilon, task.index, self.context.num_tasks)
        for name, moment in self._moments(task, "after").items():
            self.spaces[name] = protect(moment, self.spaces.get(name), share)

    @torch.no_grad()
    def _moments(self, task: Task, when: str) -> dict[str, Tensor]:
        """Return H of every branch's inputs on the task's images, `(d, d)` each, on the CPU: one pass."""
        generator = make_generator(self.context.seed, f"moments-{when}", task.index)
        batches = task.train.batches(self.context.batch_size, generator, shuffle=False, device=self.context.device)
        sums = {name: torch.zeros_like(branch.weight[: branch.width]) for name, branch in self.branches.items()}
        tokens = 0
        with recorded(self.branches) as activations:
            for batch in batches:
                self.context.features(self.model, batch.x)
                for name, total in sums.items():
                    read = activations[name][0].flatten(0, -2).to(total.dtype)
                    total.addmm_(read.T, read)
                tokens += len(read)
        return {name: (total / tokens).cpu() for name, total in sums.items()}

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits over all classes seen so far."""
        return self.heads.logits(self.context.features(self.model, images))

    def state(self) -> State:
        """Return the finished branches, written once, the protected spaces and the heads; the rest is theta_0."""
        branches = {f"{t}/{name}": part for t, parts in enumerate(self._finished) for name, part in parts.items()}
        regimes: dict[str, JSON] = {name: space.regime for name, space in self.spaces.items()}
        spaces = State({name: space.basis for name, space in self.spaces.items()}, values=regimes)
        finished = State(constant=branches, values={"tasks": len(self._finished)})
        return finished.within("branches") | spaces.within("spaces") | self.heads.state().within("heads")

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        kept, spaces = state.part("branches"), state.part("spaces")
        for t in range(int(str(kept.values["tasks"]))):
            parts = State(constant=kept.constant).part(str(t)).constant
            self._finished.append({name: part.to(self.context.device, copy=True) for name, part in parts.items()})
            for name, branch in self.branches.items():
                branch.add(self._finished[t][f"{name}/A"], self._finished[t][f"{name}/B"])
        for name, basis in spaces.tensors.items():
            regime: Regime = "remove" if spaces.values[name] == "remove" else "retain"
            self.spaces[name] = ProtectedSpace(basis.clone(), regime)
        self.heads.load_state(state.part("heads"))
