"""APT, a-la-carte prompt tuning (Bowman et al., CVPR 2023, arXiv 2302.07994): one isolated prompt per task.

The prompt p_t is one token beside the image's; at every layer l it has memory tokens m_l^t of its own. Attention:

    image tokens -> image tokens: the frozen ViT, as without prompts
    prompt t     -> image tokens, itself, m_l^t
    memory tokens are keys and values only; every layer has its own

    z_t(x) = prompt t after the last layer and the final norm;  loss = CE(W_t z_t(x) + b_t, y) over the task's classes

Prompt, memory and head of a task are trained on its images alone, by Adam with the cosine schedule. In prediction all
prompts pass with one image; each task's logits are those of its own prompt, set side by side.

Image tokens need no prompt, so their keys and values are computed once, without gradients, and prompts are further
queries to them. The numbers are those of the masked sequence of all tokens (a test checks it), at the cost of a frozen
forward pass and a few tokens. The authors published no code: start, memory size and optimiser are not known, and
docs/explanation/methods/apt.md says what was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data import Batch, Task
from trainables.heads import Heads
from trainables.methods.contract import Context
from trainables.methods.hyperparameters import Count, Positive
from trainables.methods.prompts.frozen import embedded_class_token, load_frozen
from trainables.methods.prompts.learner import PromptLearner
from trainables.methods.training import Schedule
from trainables.randomness import make_generator
from trainables.state import State

START_STD = 0.02  # timm's for tokens


@dataclass(frozen=True, kw_only=True)
class APTConfig:
    """Hyperparameters of APT."""

    lr: Positive  # at the start of a task
    memory_tokens: Count = 5  # of a prompt in every layer
    schedule: Schedule = "cosine"
    start: Literal["class_token", "normal"] = "class_token"  # of a prompt: the ViT's class token with noise, or noise


def build(context: Context, config: APTConfig) -> PromptLearner:
    """Return the learner."""
    return PromptLearner(context, SeparatePrompts(context, config), lr=config.lr, schedule=config.schedule)


class SeparatePrompts:
    """One prompt per task, `(d,)`, with its memory, `(depth, m, d)`; those of the current task are trained."""

    def __init__(self, context: Context, config: APTConfig) -> None:
        self.context = context
        self.config = config
        self.vit = load_frozen(context)
        self.width = self.vit.vit.num_features
        self.prompts = torch.empty(0, self.width, device=context.device)  # (t, d), of finished tasks
        self.memory = torch.empty(0, self.vit.depth, config.memory_tokens, self.width, device=context.device)
        self.current: list[nn.Parameter] = []

    @torch.no_grad()
    def begin(self, task: Task) -> None:
        """Begin a prompt and its memory."""
        generator = make_generator(self.context.seed, "prompt", task.index)
        prompt = START_STD * torch.randn(self.width, generator=generator)
        memory = START_STD * torch.randn(self.memory.shape[1:], generator=generator)
        if self.config.start == "class_token":
            prompt += embedded_class_token(self.vit).cpu()
        self.current = [nn.Parameter(each.to(self.context.device)) for each in (prompt, memory)]

    def trained(self) -> list[nn.Parameter]:
        """Return the current prompt and its memory."""
        return self.current

    def read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the current prompt's features; see `Prompts`."""
        prompt, memory = self.current
        return self.tokens(batch.x, prompt[None], memory[None])[:, 0], batch.x.new_zeros(())

    def tokens(self, images: Tensor, prompts: Tensor, memory: Tensor) -> Tensor:
        """Return z, `(b, t, d)`, for prompts `(t, d)` and memory tokens `(t, depth, m, d)`, each as if alone."""
        return self.context.features(lambda x: self._pass(x, prompts, memory), images)

    def _pass(self, images: Tensor, prompts: Tensor, memory: Tensor) -> Tensor:
        with torch.no_grad():
            image = self.vit.embed(images)
        tokens = prompts.expand(len(images), *prompts.shape)  # [b, t, d]
        mask = _mask(len(prompts), image.shape[1], memory.shape[2], image.device)
        for k in range(self.vit.depth):
            with torch.no_grad():
                projected = self.vit.project(k, image)
                if k + 1 < self.vit.depth:  # the last layer needs only keys and values
                    image = self.vit.complete(k, image, *projected)
            queries, *of_prompts = self.vit.project(k, tokens)
            _, *of_memory = self.vit.project(k, memory[:, k].flatten(0, 1)[None])  # [1, t * m, d] each
            keys, values = (
                torch.cat([of_image, of_prompt, rows.expand(len(tokens), -1, -1)], 1)
                for of_image, of_prompt, rows in zip(projected[1:], of_prompts, of_memory, strict=True)
            )
            tokens = self.vit.complete(k, tokens, queries, keys, values, mask)
        return self.vit.finish(tokens)

    def end(self) -> None:
        """Freeze the current prompt and its memory."""
        prompt, memory = (each.detach()[None] for each in self.current)
        self.prompts, self.memory = torch.cat([self.prompts, prompt]), torch.cat([self.memory, memory])
        self.current = []

    def logits(self, images: Tensor, heads: Heads) -> Tensor:
        """Return each task's logits from its own prompt, side by side; see `Prompts`."""
        sizes = [len(classes) for classes in self.context.task_classes[: len(self.prompts)]]
        read = self.tokens(images, self.prompts, self.memory).unbind(1)
        rows = zip(read, heads.weight.split(sizes), heads.bias.split(sizes), strict=True)
        return torch.cat([F.linear(*each) for each in rows], 1)

    def state(self) -> State:
        """Return the prompts and memories of finished tasks, which never change."""
        constant: dict[str, Tensor] = {}
        for t, (prompt, memory) in enumerate(zip(self.prompts, self.memory, strict=True), start=1):
            constant |= {f"task_{t}/prompt": prompt, f"task_{t}/memory": memory}
        return State(constant=constant, values={"tasks": len(self.prompts)})

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        for t in range(1, int(str(state.values["tasks"])) + 1):
            pair = (state.constant[f"task_{t}/{name}"] for name in ("prompt", "memory"))
            self.current = [nn.Parameter(each.to(self.context.device)) for each in pair]
            self.end()


def _mask(prompts: int, image: int, memory: int, device: torch.device) -> Tensor:
    """Return the attention mask of prompts over image tokens, prompts and memories: bool `(t, n + t + t * m)`."""
    itself = torch.eye(prompts, dtype=torch.bool, device=device)
    return torch.cat([itself.new_ones(prompts, image), itself, itself.repeat_interleave(memory, 1)], 1)
