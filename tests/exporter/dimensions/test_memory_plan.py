"""Planned memory: by hand, and as ExecuTorch's own planner has it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

from edgec.exporter.dimensions.memory_plan import TensorInMemory, planned_bytes


def theirs(tensors: Sequence[TensorInMemory]) -> int:
    """Bytes that ExecuTorch plans for the same tensors."""
    from executorch.exir.memory_planning import greedy
    from executorch.exir.tensor import TensorSpec

    specs = [TensorSpec(torch.uint8, torch.Size([each.bytes])) for each in tensors]
    for spec, each in zip(specs, tensors, strict=True):
        spec.lifetime = [each.first, each.last]
    # Their sizes differ, so that the order of a set does not matter.
    graph = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
    return int(sum(greedy(16, set(specs), graph, None, 0).bufsizes))


def test_what_is_never_needed_at_once_shares_memory() -> None:
    chain = [TensorInMemory(64, place, place + 1) for place in range(6)]
    assert planned_bytes(chain) == 2 * 64
    assert planned_bytes([*chain, TensorInMemory(32, 0, 6)]) == 2 * 64 + 32
    assert planned_bytes([]) == 0


def test_small_tensors_lie_side_by_side_where_a_large_one_is_not_needed() -> None:
    large, small = TensorInMemory(100, 0, 1), [TensorInMemory(40, 2, 5), TensorInMemory(30, 2, 5)]
    # Each is rounded up to 16 bytes: 112, and within it 48 + 32.
    assert planned_bytes([large, *small]) == 112


@pytest.mark.parametrize("seed", range(20))
def test_it_is_as_much_as_executorch_plans(seed: int) -> None:
    drawn = random.Random(seed)
    sizes = drawn.sample(range(1, 400), 40)
    begins = [drawn.randrange(50) for _ in sizes]
    tensors = [
        TensorInMemory(16 * size, first, first + drawn.randrange(12)) for size, first in zip(sizes, begins, strict=True)
    ]
    live = max(sum(each.bytes for each in tensors if each.first <= place <= each.last) for place in range(64))
    assert planned_bytes(tensors) == theirs(tensors) >= live
