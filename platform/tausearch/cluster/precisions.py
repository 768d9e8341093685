"""Choose the precision of trials: as asked for, or by their GPUs.

`auto` is no precision of a run: before the run is made, it becomes bf16 where every GPU has it, else fp32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeVar

from tausearch.cluster.capacity import gpus_here
from tausearch.cluster.session import temporary_connection
from tausearch.runs import FinalSpec, MultiSearchSpec, Plan, SearchSpec, read_spec
from trainables.config import PRECISIONS, Precision
from trainables.errors import InputError

S = TypeVar("S", SearchSpec, FinalSpec)
AskedPrecision = Literal[Precision, "auto"]
ASKED_PRECISIONS: tuple[AskedPrecision, ...] = (*PRECISIONS, "auto")
Bf16At = Callable[[str | None], bool]
"""Returns whether every GPU of this machine (None), or of the Ray cluster at an address, has bf16; `bf16_at` does."""

_AMPERE = (8, 0)  # compute capability of the first GPUs that multiply in bf16 and in TF32
_TYPE = "accelerator_type:"  # begins the resource by which Ray names the GPU of a node
# Ray's names of the GPUs of data centres from Ampere on.
_WITH_BF16 = (
    {"A2", "A10", "A10G", "A16", "A30", "A40", "A100", "L4", "L40", "L40S"}
    | {"H20", "H100", "H200", "H800", "GH200"}
    | {"B100", "B200", "B300", "GB200", "GB300", "RTX-PRO-6000"}
)


def precision_to_plan(asked: AskedPrecision, on_gpu: bool) -> Precision:
    """Return the precision to plan a run with: fp32 for "auto", which `with_auto` replaces; refuse tf32 off a GPU."""
    if asked == "auto":
        return "fp32"
    if not on_gpu:
        require_cpu_has(asked, "--precision")
    return asked


def require_cpu_has(precision: Precision, where: str) -> None:
    """Refuse tf32 on a CPU, which would compute in float32 under another name; `where` begins the error."""
    if precision == "tf32":
        raise InputError(f"{where} tf32: trials run on the CPU, and TF32 is for GPUs; allowed on a CPU: fp32, bf16")


def require_gpus_have(precision: Precision, where: str, address: str | None) -> None:
    """Refuse tf32 on GPUs of this machine that lack it; on those of a cluster, torch computes in float32 there."""
    if precision == "tf32" and address is None and not bf16_at(None):
        raise InputError(f"{where} tf32: not every GPU of this machine has TF32; allowed on them: fp32, bf16")


def with_auto(plan: Plan[S], address: str | None, bf16: Bf16At) -> Plan[S]:
    """Return the plan of a run whose precision was asked for as "auto", with the precision that its trials get.

    A run that goes on keeps its precision. `bf16` is asked where trials are on GPUs.
    """
    precision: Precision
    if plan.exists:
        earlier = read_spec(plan.directory)
        precision, chosen_by = earlier.protocol.precision, earlier.resources.precision_from
    else:
        precision = "bf16" if plan.spec.resources.gpus_per_trial and bf16(address) else "fp32"
        chosen_by = "auto"
    resources = plan.spec.resources.model_copy(update={"precision_from": chosen_by})
    return replace(plan, spec=_with_precision(plan.spec, precision).model_copy(update={"resources": resources}))


def _with_precision(spec: S, precision: Precision) -> S:
    change = {"precision": precision}
    changed: dict[str, object] = {"protocol": spec.protocol.model_copy(update=change)}
    if isinstance(spec, MultiSearchSpec):
        changed["parts"] = {
            name: part.model_copy(update={"protocol": part.protocol.model_copy(update=change)})
            for name, part in spec.parts.items()
        }
    return spec.model_copy(update=changed)


def bf16_at(address: str | None) -> bool:
    """Return whether every GPU of this machine, or of the Ray cluster at an address, has bf16, as far as is known.

    Ray names the GPUs of a node by their type; a type that is not known here counts as one without. A cluster is joined
    for a moment.
    """
    if address is None:
        import torch  # takes seconds to import

        capabilities = [torch.cuda.get_device_capability(index) for index in range(gpus_here())]
        return bool(capabilities) and all(each >= _AMPERE for each in capabilities)
    with temporary_connection(address):
        return _named_gpus_have_bf16()


def _named_gpus_have_bf16() -> bool:
    """Return whether Ray names the GPU of each node of the joined cluster that has any, and each has bf16."""
    import ray  # takes seconds to import

    with_gpus = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
    types = [{name.removeprefix(_TYPE) for name in has if name.startswith(_TYPE)} for has in with_gpus]
    return bool(types) and all(each and each <= _WITH_BF16 for each in types)
