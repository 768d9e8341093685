"""CODA-Prompt (Smith et al., CVPR 2023, arXiv 2211.13218): prefixes as weighted sums of components that tasks add.

With the query q of an image (the class token of the frozen ViT), each prompted layer has components of a prompt p_m
(L_p rows), a key K_m and an attention A_m, pool_size / T of them per task, rounded down:

    w_m    = cos(q * A_m, K_m)
    prefix = sum over the components of tasks 1..t of w_m p_m
    loss   = CE_local(W z(x) + b, y) + ortho_mu * penalty

The first half of the prefix's rows goes before the layer's keys, the other before its values; z(x) is the class token.
Adam with the cosine schedule trains the task's components and its rows of the head; earlier components do not move.
The penalty is the mean square of the entries of R R^T - 1, for R of all rows of p (flattened), K and A, summed over
them and over the layers; the authors' final code gives it the weight 0.

A task's components start by Gram-Schmidt on normal draws. As in the authors' code, the draws are
projected onto the trained earlier rows, which are no longer orthogonal to each other. So new rows are not exactly
orthogonal to them. `ortho_start: span` removes the whole span of the earlier rows instead, as the paper describes; it
needs a width of at least pool_size. The authors' head starts as torch's `nn.Linear` (`head_start: linear`), ours like
those of all methods here. The authors prompt five layers of twelve; here it is the first five, or all of a shorter
ViT. See also docs/explanation/methods/coda.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from trainables.data import Batch, Task
from trainables.errors import InputError
from trainables.heads import HEAD_STARTS, Heads, HeadStart
from trainables.methods.contract import Context, Scenario
from trainables.methods.hyperparameters import NonNegative, Positive, PositiveCount
from trainables.methods.prompts.frozen import CLASS_TOKEN, Queries, load_frozen, require_open
from trainables.methods.prompts.learner import PromptLearner
from trainables.methods.training import Schedule
from trainables.randomness import make_generator
from trainables.state import State

if TYPE_CHECKING:
    from trainables.backbones.token_vit import Prefix

PARTS = ("prompts", "keys", "attentions")
AUTHORS_LAYERS = 5
NOTHING_LEFT = 1e-3  # share of a draw's norm; a smaller remainder is rounding
LEAST_NORM = 1e-12  # of `F.normalize`, which the authors' code uses


@dataclass(frozen=True, kw_only=True)
class CODAConfig:
    """Hyperparameters of CODA-Prompt."""

    lr: Positive  # at the start of a task
    pool_size: PositiveCount = 100  # components of a layer; every task gets an equal part, rounded down
    prompt_length: PositiveCount = 8  # L_p, rows of a component: half of them for keys, half for values
    layers: PositiveCount | Literal["authors"] = "authors"  # prompted, from the first; the authors' are at most five
    ortho_mu: NonNegative = 0.0  # weight of the orthogonality penalty
    schedule: Schedule = "cosine"  # the authors' code has "late"
    ortho_start: Literal["rows", "span"] = "rows"  # new rows start orthogonal to each earlier row, or to their span
    head_start: HeadStart = "normal"  # the authors' code has "linear"


def validate(config: CODAConfig, scenario: Scenario) -> None:
    """Refuse a pool, prompt length or number of layers that does not fit the tasks and the backbone."""
    require_open("coda", scenario)
    shape, tasks, pool = scenario.backbone.shape, scenario.num_tasks, config.pool_size
    if pool < tasks:
        raise InputError(
            f"coda: hyperparameter 'pool_size': must be at least the number of tasks ({tasks}), got {pool}"
        )
    rows, counted = (pool, "the pool's") if config.ortho_start == "span" else (pool // tasks, "a task's")
    if rows > shape.width:
        raise InputError(
            f"coda: hyperparameter 'pool_size': {counted} components must be at most the backbone's width"
            f" ({shape.width}) to be orthogonal, got {rows}"
        )
    if config.prompt_length % 2:
        raise InputError(f"coda: hyperparameter 'prompt_length': must be even, got {config.prompt_length}")
    if config.layers != "authors" and config.layers > shape.depth:
        raise InputError(
            f"coda: hyperparameter 'layers': must be at most the backbone's blocks ({shape.depth}), got {config.layers}"
        )


def build(context: Context, config: CODAConfig) -> PromptLearner:
    """Return the learner."""
    components = Components(context, config)
    start = HEAD_STARTS[config.head_start]
    return PromptLearner(context, components, lr=config.lr, schedule=config.schedule, new_head=start)


class Components:
    """The components of all tasks so far; those of the current task are trained.

    Prompts are `(l, n, L_p, d)`, keys and attentions `(l, n, d)`, for l layers and n components.
    """

    def __init__(self, context: Context, config: CODAConfig) -> None:
        self.context = context
        self.config = config
        self.vit = load_frozen(context)
        self.width = self.vit.vit.num_features
        self.layers = min(AUTHORS_LAYERS, self.vit.depth) if config.layers == "authors" else config.layers
        self.per_task = config.pool_size // context.num_tasks
        self.queries = Queries(context, self.vit)
        self.past = {name: torch.empty(self.layers, 0, *self._row(name), device=context.device) for name in PARTS}
        self.current: dict[str, nn.Parameter] = {}

    def _row(self, name: str) -> tuple[int, ...]:
        """Return the shape of one component's part."""
        return (self.config.prompt_length, self.width) if name == "prompts" else (self.width,)

    def begin(self, task: Task) -> None:
        """Begin the task's components at random rows orthogonal to the earlier rows."""
        self.queries.begin(task)
        generator = make_generator(self.context.seed, "components", task.index)
        for name in PARTS:
            past = self.past[name].flatten(2)
            if self.config.ortho_start == "span":
                past = torch.linalg.qr(past.mT).Q.mT
            draws = torch.randn(self.layers, self.per_task, past.shape[2], generator=generator)
            rows = orthogonal_rows(past, draws.to(past.device))
            self.current[name] = nn.Parameter(rows.unflatten(2, self._row(name)))

    def trained(self) -> list[nn.Parameter]:
        """Return the components of the current task."""
        return [self.current[name] for name in PARTS]

    def read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return class tokens and the orthogonality penalty; see `Prompts`."""
        prompts = self.prompts(self.queries.of(batch))
        return self._features(batch.x, prompts), self.config.ortho_mu * self._penalty()

    def prompts(self, queries: Tensor) -> Tensor:
        """Return the prefix rows of each layer for queries `(b, d)`: `(l, b, L_p, d)`; the first half is for keys."""
        total = weighted_sum(queries, *(self.past[name] for name in PARTS))
        return total + weighted_sum(queries, *self.trained()) if self.current else total

    def _features(self, images: Tensor, prompts: Tensor) -> Tensor:
        half = self.config.prompt_length // 2
        prefixes: dict[int, Prefix] = {k: (rows[:, :half], rows[:, half:]) for k, rows in enumerate(prompts)}
        return self.context.features(lambda x: self.vit(x, prefixes=prefixes, read=CLASS_TOKEN)[:, 0], images)

    def _penalty(self) -> Tensor:
        """Return the distance of all rows from orthonormal: of each part and layer the mean square, summed."""
        if self.config.ortho_mu == 0:
            return self.past["keys"].new_zeros(())
        rows = (torch.cat([self.past[name], self.current[name]], 1).flatten(2) for name in PARTS)
        return sum(map(distance_from_orthonormal, rows), start=self.past["keys"].new_zeros(()))

    def end(self) -> None:
        """Freeze the components of the current task."""
        self.past = {name: torch.cat([self.past[name], self.current[name].detach()], 1) for name in PARTS}
        self.current = {}

    def logits(self, images: Tensor, heads: Heads) -> Tensor:
        """Return logits of all finished classes; see `Prompts`."""
        return heads.logits(self._features(images, self.prompts(self.queries.compute(images))))

    def state(self) -> State:
        """Return the components of finished tasks, which never change."""
        named = {name: self.past[name].split(self.per_task, 1) for name in PARTS}
        count = len(named["keys"]) if self.past["keys"].numel() else 0
        constant = {f"task_{t + 1}/{name}": named[name][t].contiguous() for t in range(count) for name in PARTS}
        return State(constant=constant, values={"tasks": count})

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        for name in PARTS:
            tasks = [state.constant[f"task_{t + 1}/{name}"] for t in range(int(str(state.values["tasks"])))]
            self.past[name] = torch.cat([self.past[name], *(each.to(self.context.device) for each in tasks)], 1)


def weighted_sum(queries: Tensor, prompts: Tensor, keys: Tensor, attentions: Tensor) -> Tensor:
    """Return sum_m cos(q * A_m, K_m) p_m for every layer, `(l, b, L_p, d)`.

    Queries q are `(b, d)`, prompts p `(l, n, L_p, d)`, keys K and attentions A `(l, n, d)`. No tensor holds the product
    of every query with every component. The cosine with a vector of zeros is 0, as in the authors' code: each norm is
    at least that of `F.normalize`.
    """
    dots = queries @ (attentions * keys).mT  # [l, b, n]: (q * A).K = q.(A * K)
    squares = queries.square() @ attentions.square().mT
    # Bounded before the root, whose gradient at 0 is infinite.
    norms = squares.clamp_min(LEAST_NORM**2).sqrt() * keys.norm(dim=2).clamp_min(LEAST_NORM)[:, None]
    return torch.einsum("lbn,lnpd->lbpd", dots / norms, prompts)


def distance_from_orthonormal(rows: Tensor) -> Tensor:
    """Return the mean square of the entries of R R^T - 1, summed over layers: `(l, n, d)` to a number."""
    products = rows @ rows.mT
    return (products - torch.eye(rows.shape[1], device=rows.device, dtype=rows.dtype)).square().mean((1, 2)).sum()


def orthogonal_rows(past: Tensor, draws: Tensor) -> Tensor:
    """Return unit rows `(l, n, d)` from random draws, in turn: u = v - sum_j (v.u_j / |u_j|^2) u_j, then u / |u|.

    The sum is over all earlier rows as they are. If those are orthogonal to each other, this is Gram-Schmidt. Trained
    rows are not; then a new row is not exactly orthogonal to them either. Once the rows of `past` leave nothing of a
    draw, they are left out of the sum, so that there is room for the rest.

    Args:
        past: Earlier rows of each layer, `(l, s, d)`; s may be 0.
        draws: Random rows, `(l, n, d)` with n <= d.
    """
    new = past[:, :0]
    for draw in draws.unbind(1):
        left = _without(draw, torch.cat([past, new], 1))
        full = left.norm(dim=1) < NOTHING_LEFT * draw.norm(dim=1)
        past = past.masked_fill(full[:, None, None], 0)
        row = _without(draw, torch.cat([past, new], 1))
        new = torch.cat([new, (row / row.norm(dim=1, keepdim=True))[:, None]], 1)
    return new


def _without(draw: Tensor, rows: Tensor) -> Tensor:
    """Subtract from a draw, `(l, d)`, its projection on each of the rows, `(l, s, d)`; rows of zeros take nothing."""
    parts = torch.einsum("ld,lsd->ls", draw, rows) / rows.square().sum(2).clamp_min(torch.finfo(rows.dtype).tiny)
    return draw - torch.einsum("ls,lsd->ld", parts, rows)
