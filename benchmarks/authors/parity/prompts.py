"""mammoth's `L2P` and `CodaPrompt`, which build a ViT-B/16 of their own.

Here both are given its class in the size of the embedded ViT, with our weights.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from benchmarks.authors.checkout import make_runnable
from benchmarks.authors.parity.mammoth import CHECKOUT, arguments, learner
from benchmarks.authors.parity.ours import sequence
from benchmarks.authors.parity.shared import SMALL, Learn, Program, Run, answer, joined_heads, put
from benchmarks.authors.theirs import Dataset
from trainables.backbones import glyph_vit
from trainables.data import Benchmark, Task
from trainables.heads import linear_head
from trainables.methods.prompts.coda import PARTS

WIDTH, DEPTH = SMALL["embed_dim"], SMALL["depth"]
POOL = 60  # CODA's components: its Gram-Schmidt never ends where untrained ones outnumber the width, which is 64
_CODA = {"lr": 0.003, "schedule": "constant", "pool_size": POOL, "head_start": "linear"}  # it never steps its schedule
RUNS = tuple(
    Run(method=method, hyperparameters=given, own_draws=own)
    for method, given in (("l2p", {"lr": 0.1}), ("coda", _CODA))
    for own in (False, True)
)
THEIR_NAMES = dict(zip(PARTS, ("e_p", "e_k", "e_a"), strict=True))


def _with_our_weights(model: Any) -> nn.Module:
    """Load the embedded ViT; positions that prompts have beside it are the class token's, as theirs extends them."""
    state = load_file(glyph_vit.WEIGHTS)
    positions = state["pos_embed"]
    more = model.pos_embed.shape[1] - positions.shape[1]
    state["pos_embed"] = torch.cat([positions[:, :1].expand(1, 1 + more, -1), positions[:, 1:]], 1)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all(name.startswith(("prompt", "head")) for name in missing)
    return model


def _l2p(run: Run, benchmark: Benchmark, dataset: Dataset) -> Any:
    """Build its L2P with its defaults, which are ours too."""
    inner: Any = import_module("models.l2p_utils.l2p_model")
    vit = import_module("models.l2p_utils.vit_prompt").VisionTransformer
    inner.get_dataset = lambda arguments: dataset
    inner.vit_base_patch16_224_l2p = lambda pretrained, **options: _with_our_weights(vit(**SMALL, **options))
    own = {
        **{"prompt_pool": True, "pool_size_l2p": 10, "length": 5, "top_k": 5, "prompt_key": True},
        **{"prompt_key_init": "uniform", "use_prompt_mask": False, "batchwise_prompt": 0, "embedding_key": "cls"},
        **{"pull_constraint": True, "pull_constraint_coeff": 0.1, "head_type": "prompt", "clip_grad": 1.0},
        **{"freeze": ["blocks", "patch_embed", "cls_token", "norm", "pos_embed"], "use_original_ckpt": 0},
    }
    given = arguments(run, benchmark, optimizer="adam", **own)
    return import_module("models.l2p").L2P(None, nn.functional.cross_entropy, given, None, dataset)


def _coda(run: Run, benchmark: Benchmark, dataset: Dataset) -> Any:
    """Build its CODA-Prompt with its defaults."""
    outer: Any = import_module("models.coda_prompt")
    inner: Any = import_module("models.coda_prompt_utils.model")
    vit = import_module("models.coda_prompt_utils.vit").VisionTransformer

    class Prompts(inner.CodaPrompt):
        def _init_smart(self, width: int, prompt_param: Any) -> None:
            super()._init_smart(width, prompt_param)
            self.e_layers = list(range(DEPTH))  # its fifth, which this ViT has not, would never be trained

    class Model(inner.Model):
        def __init__(self, num_classes: int, pt: bool, prompt_param: Any) -> None:
            nn.Module.__init__(self)
            self.task_id = None
            self.last = nn.Linear(WIDTH, num_classes)
            self.prompt = Prompts(WIDTH, *prompt_param, key_dim=WIDTH)
            self.feat = _with_our_weights(vit(**SMALL))

    outer.Model, outer.get_dataset = Model, lambda arguments: dataset
    own = {"mu": 0.0, "pool_size": POOL, "prompt_len": 8, "ortho_mu": 0.0, "virtual_bs_iterations": 1}
    given = arguments(run, benchmark, optimizer="adam", **own)
    return outer.CodaPrompt(None, nn.functional.cross_entropy, given, None, dataset)


def _our_pool(run: Run, benchmark: Benchmark, model: Any) -> Callable[[Task], None]:
    """Return what gives its L2P, before the first task, the prompts, keys and head that ours starts with."""

    def begin(task: Task) -> None:
        if task.index == 1:
            pool, net = sequence(run, benchmark).method.prompts, model.net.model  # type: ignore[attr-defined]
            head = joined_heads(run, benchmark, WIDTH)
            put([pool.prompts, pool.keys, *head], [net.prompt.prompt, net.prompt.prompt_key, *net.head.parameters()])

    return begin


def _our_components(run: Run, benchmark: Benchmark, model: Any) -> Callable[[Task], None]:
    """Return what gives its CODA-Prompt the components and heads that ours would begin a task with.

    New components depend on what the earlier ones have become, so ours are told theirs.
    """
    ours: Any = sequence(run, benchmark).method.prompts  # type: ignore[attr-defined]
    heads = joined_heads(run, benchmark, WIDTH, linear_head)

    def theirs(name: str, rows: slice) -> list[Tensor]:
        return [getattr(model.net.prompt, f"{THEIR_NAMES[name]}_{layer}").data[rows] for layer in range(DEPTH)]

    def begin(task: Task) -> None:
        start, stop = ((task.index - step) * ours.per_task for step in (1, 0))
        ours.past = {name: torch.stack(theirs(name, slice(start))) for name in PARTS}
        ours.begin(task)
        for name in PARTS:
            put(ours.current[name], theirs(name, slice(start, stop)))
        if task.index == 1:
            put(heads, model.net.last.parameters())

    return begin


def build(run: Run, benchmark: Benchmark) -> Learn:
    """Build its model of a method."""
    make, starts = {"l2p": (_l2p, _our_pool), "coda": (_coda, _our_components)}[run.method]
    dataset = Dataset(benchmark)
    model = make(run, benchmark, dataset)
    begin = (lambda task: None) if run.own_draws else starts(run, benchmark, model)
    return learner(model, run, benchmark, dataset, predict=model, begin=begin)


PROGRAM = Program("benchmarks.authors.parity.prompts", CHECKOUT, RUNS, make_runnable)

if __name__ == "__main__":
    answer(build)
