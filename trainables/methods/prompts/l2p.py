"""L2P, Learning to Prompt (Wang et al., CVPR 2022, arXiv 2112.08654): a pool of prompts, chosen per image by its query.

With the query q(x) of an image (the class token of the frozen ViT), M prompts P_i of L_p tokens and keys k_i, it takes
the N keys nearest in cosine, and inserts the tokens of their prompts after the class token:

    S(x)  = the N largest of cos(q(x), k_i)
    z(x)  = mean over the N L_p prompt tokens of ViT([class, P_i for i in S(x), patches])
    loss  = CE_local(W z(x) + b, y) - lambda * mean over the batch of sum_{i in S(x)} cos(q(x), k_i)

Adam at a constant learning rate trains prompts, keys and the task's rows of the head; the norm of all gradients
together is clipped. Prompts and keys are shared by all tasks.

Where the public codes differ (google-research/l2p in JAX; its PyTorch port, of which mammoth's is a copy), this is the
port: it adds the class token's position to every prompt token where JAX adds none, and prompts start uniform in (-1, 1)
where JAX has (0, 0.01) (`start: jax`). All three have a mode in which a batch votes for one set of prompts (on in JAX,
in the port and in mammoth's configuration of CIFAR-100): tests come sorted by task, so that it tells the task; here
every image chooses for itself. docs/explanation/methods/l2p.md has the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data import Batch, Task
from trainables.errors import InputError
from trainables.heads import Heads
from trainables.methods.contract import Context, Scenario
from trainables.methods.hyperparameters import NonNegative, Positive, PositiveCount
from trainables.methods.prompts.frozen import Queries, class_position, load_frozen, require_open
from trainables.methods.prompts.learner import PromptLearner
from trainables.methods.training import Schedule
from trainables.randomness import make_generator
from trainables.state import State

PORTED_BATCH = 256  # examples per step for the public codes' learning rate
_STARTS = {"port": (-1.0, 1.0), "jax": (0.0, 0.01)}  # bounds of uniform draws


@dataclass(frozen=True, kw_only=True)
class L2PConfig:
    """Hyperparameters of L2P."""

    lr: Positive
    pool_size: PositiveCount = 10  # M, prompts
    prompt_length: PositiveCount = 5  # L_p, tokens of a prompt
    top_k: PositiveCount = 5  # N, prompts per image
    pull_constraint: NonNegative = 0.1  # lambda, weight of the term that draws chosen keys to the queries
    clip_norm: Positive = 1.0  # limit of the norm of all gradients together
    scale_lr: bool = True  # multiply `lr` by batch size / 256, as all public codes do
    schedule: Schedule = "constant"
    start: Literal["port", "jax"] = "port"  # of prompts and keys; the bounds are in `_STARTS`


def validate(config: L2PConfig, scenario: Scenario) -> None:
    """Refuse more prompts per image than the pool has, and a backbone that cannot be given prompts."""
    require_open("l2p", scenario)
    if config.top_k > config.pool_size:
        raise InputError(
            f"l2p: hyperparameter 'top_k': must be at most pool_size ({config.pool_size}), got {config.top_k}"
        )


def build(context: Context, config: L2PConfig) -> PromptLearner:
    """Return the learner."""
    lr = config.lr * (context.batch_size / PORTED_BATCH if config.scale_lr else 1.0)
    pool = PromptPool(context, config)
    return PromptLearner(context, pool, lr=lr, schedule=config.schedule, clip_norm=config.clip_norm)


class PromptPool:
    """Prompts and their keys, shared by all tasks."""

    def __init__(self, context: Context, config: L2PConfig) -> None:
        self.context = context
        self.config = config
        self.vit = load_frozen(context)
        self.width = self.vit.vit.num_features
        self.queries = Queries(context, self.vit)
        self.position = class_position(self.vit)
        generator = make_generator(context.seed, "prompts", 0)
        prompts = torch.empty(config.pool_size, config.prompt_length, self.width)
        keys = torch.empty(config.pool_size, self.width)
        self.prompts, self.keys = (
            nn.Parameter(each.uniform_(*_STARTS[config.start], generator=generator).to(context.device))
            for each in (prompts, keys)
        )

    def begin(self, task: Task) -> None:
        """Add no prompts: the pool is shared."""
        self.queries.begin(task)

    def trained(self) -> list[nn.Parameter]:
        """Return all prompts and keys."""
        return [self.prompts, self.keys]

    def choose(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return the N prompts with keys nearest to queries `(b, d)`, int64 `(b, N)`, and their cosines `(b, N)`."""
        cosines = F.normalize(queries, dim=1) @ F.normalize(self.keys, dim=1).T
        nearest = cosines.topk(self.config.top_k, dim=1)
        return nearest.indices, nearest.values

    def features(self, images: Tensor, chosen: Tensor) -> Tensor:
        """Return z(x), `(b, d)`, the mean of the ViT's output prompt tokens, for each image's prompts `(b, N)`."""
        tokens = self.prompts[chosen].flatten(1, 2) + self.position  # [b, N * L_p, d]
        read = slice(1, 1 + tokens.shape[1])
        return self.context.features(lambda x: self.vit(x, insert=tokens, read=read).mean(1), images)

    def read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return features, and the term that draws chosen keys to the queries; see `Prompts`."""
        chosen, cosines = self.choose(self.queries.of(batch))
        return self.features(batch.x, chosen), -self.config.pull_constraint * cosines.sum(1).mean()

    def end(self) -> None:
        """Freeze nothing: the pool is shared."""

    def logits(self, images: Tensor, heads: Heads) -> Tensor:
        """Return logits of all finished classes; see `Prompts`."""
        chosen, _ = self.choose(self.queries.compute(images))
        return heads.logits(self.features(images, chosen))

    def state(self) -> State:
        """Return prompts and keys."""
        return State({"prompts": self.prompts.detach(), "keys": self.keys.detach()})

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        self.prompts.data.copy_(state.tensors["prompts"])
        self.keys.data.copy_(state.tensors["keys"])
