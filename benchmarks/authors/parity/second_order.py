"""mammoth's `SecondOrder` beside ours in the `official` formulation: ITA and IEL, with and without regularisers.

Theirs runs as it is, and once more with regularisers after `FIXES`; docs/explanation/parity.md says what they mend.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.authors import theirs
from benchmarks.authors.checkout import Change, make_runnable
from benchmarks.authors.parity.mammoth import CHECKOUT, arguments, learner
from benchmarks.authors.parity.ours import sequence
from benchmarks.authors.parity.shared import Learn, Program, Run, answer, put
from benchmarks.authors.point import EPOCHS_PRE, LR_PRE
from trainables.data import Benchmark, Task
from trainables.heads import new_head
from trainables.randomness import make_generator

STRENGTHS = {  # of the regulariser on tau and the learning rate, by system
    "ita-fft": (50.0, 0.001),
    "ita-lora": (50.0, 0.01),
    "ita-ia3": (5.0, 0.01),
    "iel-fft": (25.0, 0.001),
    "iel-lora": (100.0, 0.01),
    "iel-ia3": (20.0, 0.01),
}
_NAMES = {"ita": "alpha", "iel": "beta"}  # of their strengths
_PARTS = "models/lora_prototype_utils"
FIXES: tuple[Change, ...] = (
    (f"{_PARTS}/tuners/full_tuner.py", r"g = my_var\n", "g = my_var.clone()\n", 1),
    ("models/second_order.py", r"if self\.args\.use_iel:(?=\n +if self)", "if not self.args.use_iel:", 1),
    (f"{_PARTS}/fisher.py", r"(self\.num_examples) \+= (self.*)", r"\1 = \1 * (self.current_task > 1) + \2", 1),
    (f"{_PARTS}/fisher.py", r"self\.num_examples - self\.num_current_examples", "self.num_examples", 1),
    (f"{_PARTS}/generative_replay.py", r"torch\.rsqrt\(self\.var\)", "self.var.reciprocal()", 1),
)


def _run(system: str, regularised: bool) -> Run:
    strength, lr = STRENGTHS[system]
    name = _NAMES[system.partition("-")[0]]
    strengths = {name: strength, f"{name}_cls": 0.5, f"{name}_cls_prior": 0.015}
    given = strengths if regularised else dict.fromkeys(strengths, 0.0)
    fixed = {"lr": lr, "lr_pre": LR_PRE, "epochs_pre": EPOCHS_PRE, "formulation": "official", "fisher_passes": "all"}
    return Run(method=system, hyperparameters=given | fixed)


RUNS = {(system, word): _run(system, word == "yes") for system in STRENGTHS for word in ("yes", "no")}
REGULARISED = tuple(run for (_, word), run in RUNS.items() if word == "yes")


def _arguments(run: Run) -> dict[str, Any]:
    """Return what `SecondOrder` calls a system and its strengths."""
    aim, _, tuning = run.method.partition("-")
    on_tau, on_head, prior = (run.hyperparameters[_NAMES[aim] + part] for part in ("", "_cls", "_cls_prior"))
    strengths = {"alpha_ita": on_tau, "beta_iel": 0.0} if aim == "ita" else {"alpha_ita": 0.0, "beta_iel": on_tau}
    head = {"req_weight_cls": on_head, "simple_reg_weight_cls": prior}
    return {"use_iel": int(aim == "iel"), "tuning_style": "full" if tuning == "fft" else tuning, **strengths, **head}


def build(run: Run, benchmark: Benchmark) -> Learn:
    """Build theirs. Heads, adapters and the batches of fine-tuning begin as ours; pre-consolidation draws its own."""
    dataset = theirs.Dataset(benchmark)
    model = theirs.build(arguments(run, benchmark, **_arguments(run)), benchmark, dataset)
    ours: Any = sequence(run, benchmark).method

    def begin(task: Task) -> None:
        head, vectors = model.net.vit.head.heads[task.index - 1], ours.vectors
        put(new_head(len(task.classes), ours.width, make_generator(run.seed, "head", task.index)), head.parameters())
        if vectors.parametrisation == "lora":
            vectors.begin(1.0, make_generator(run.seed, "tau", task.index))
            for name in vectors.theta_0:
                _, layer, _, part, *_ = name.split(".")  # such as blocks.0.attn.qkv.weight
                put([vectors.factors(name)[0][None]], [getattr(model.net.tuner, f"A_{part}_{layer}_{task.index - 1}")])
        dataset.train_loader.generator = make_generator(run.seed, "finetune", task.index)

    return learner(model, run, benchmark, dataset, predict=model, begin=begin)


_MODULE = "benchmarks.authors.parity.second_order"
PROGRAM = Program(_MODULE, CHECKOUT, tuple(RUNS.values()), make_runnable)
PROGRAM_FIXED = Program(_MODULE, CHECKOUT, REGULARISED, partial(make_runnable, changes=FIXES))

if __name__ == "__main__":
    answer(build)
