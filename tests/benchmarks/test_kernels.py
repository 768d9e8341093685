"""What counts as a kernel in the benchmark `kernels`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.kernels import launches


def test_products_and_lists_count_once_and_views_not_at_all() -> None:
    x, weight, bias = torch.randn(5, 3), torch.randn(2, 3, requires_grad=True), torch.randn(2)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        turned = F.linear(x, weight, bias).reshape(2, 5).T[1:].unsqueeze(0)  # one, the product
        torch._foreach_mul([x, bias], 2.0)  # one
        turned.contiguous()  # one, a copy
        x.contiguous().view(3, 5)
    assert sum(launches(event) for event in profiler.events() if event.cpu_parent is None) == 3
