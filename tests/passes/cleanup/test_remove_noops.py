from __future__ import annotations

import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_pass

aten = torch.ops.aten
GONE = (aten.dropout.default, aten.contiguous.default, aten._assert_tensor_metadata.default)
X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class _Noisy(nn.Module):
    """A cast to the value's own dtype, a cast that changes numbers, and a dropout that is off."""

    def forward(self, x: Tensor) -> Tensor:
        kept = nn.functional.dropout(x.to(torch.float32), 0.5, training=False)
        return kept.contiguous() + x.to(torch.float16).to(torch.float32)


def test_identities_go_and_the_numbers_stay() -> None:
    before = capture_module(_Noisy().eval(), (X,))
    after = run_pass(before, RemoveNoops())
    assert len(after.graph.graph.nodes) < len(before.graph.graph.nodes)
    assert not nodes_of(after.graph, *GONE)
    # No arithmetic was touched, so not a bit may differ.
    torch.testing.assert_close(after.graph(X), before.graph(X), atol=0, rtol=0)


def test_a_cast_that_rounds_is_kept() -> None:
    after = run_pass(capture_module(_Noisy().eval(), (X,)), RemoveNoops())
    casts = nodes_of(after.graph, aten.to.dtype, aten.to.dtype_layout, aten._to_copy.default)
    assert [node.meta["val"].dtype for node in casts] == [torch.float16, torch.float32]


class _Turned(nn.Module):
    """Two pairs that cancel, the second by dimensions counted from the last, and one that does not."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heads = x.view(2, 2, 2, 1).transpose(1, 2)
        return heads.contiguous().transpose(1, 2), heads.transpose(-2, -3), heads.transpose(2, 3)


def test_a_transposition_that_undoes_another_goes_with_it() -> None:
    before = capture_module(_Turned().eval(), (X,))
    after = run_pass(before, RemoveNoops())
    assert len(nodes_of(before.graph, aten.transpose.int)) == 4
    assert len(nodes_of(after.graph, aten.transpose.int)) == 2
    for got, wanted in zip(after.graph(X), before.graph(X), strict=True):
        torch.testing.assert_close(got, wanted, atol=0, rtol=0)  # no arithmetic was touched


def test_it_is_idempotent_and_leaves_a_record() -> None:
    once = run_pass(capture_module(_Noisy().eval(), (X,)), RemoveNoops())
    twice = run_pass(once, RemoveNoops())
    assert len(twice.graph.graph.nodes) == len(once.graph.graph.nodes)
    assert [change.name for change in twice.history] == ["remove_noops", "remove_noops"]
    assert twice.history[-1].nodes_before == twice.history[-1].nodes_after
