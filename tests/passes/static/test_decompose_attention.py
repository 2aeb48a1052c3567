from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from edgec.ir.attention import OPERATOR, AttentionCall, reference_attention
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.reexport import reexport
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.static.decompose_attention import DecomposeAttention
from tests.encoder_decoders import captured_encoder_decoder
from tests.example_counts import examples

# The scale is applied to q instead of to the scores: rounding differs by a few units in the last place.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Case:
    batch: int
    groups: int
    repeats: int
    tokens: int
    keys: int
    width: int
    value_width: int
    causal: bool
    window: int
    softcap: float
    mask: tuple[int, int, int] | None
    sink: bool
    scale: float
    first_position: int

    def inputs(self) -> dict[str, Tensor | None]:
        generator = torch.Generator().manual_seed(self.tokens * 31 + self.keys)
        heads = self.groups * self.repeats
        keys = self.tokens if self.causal or self.window else self.keys

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator)

        return {
            "q": normal(self.batch, heads, self.tokens, self.width),
            "k": normal(self.batch, self.groups, keys, self.width),
            "v": normal(self.batch, self.groups, keys, self.value_width),
            "positions": torch.arange(self.first_position, self.first_position + self.tokens),
            "mask": None if self.mask is None else normal(*self._mask_sizes(heads), keys),
            "sink_logits": normal(heads) if self.sink else None,
        }

    def _mask_sizes(self, heads: int) -> list[int]:
        """Full size where ``mask`` holds 1, else 1 (broadcast)."""
        full = (self.batch, heads, self.tokens)
        return [size if kept else 1 for size, kept in zip(full, self.mask or (), strict=True)]


CASES = st.builds(
    Case,
    batch=st.integers(1, 2),
    groups=st.integers(1, 3),
    repeats=st.integers(1, 3),
    tokens=st.integers(1, 9),
    keys=st.integers(1, 9),
    width=st.sampled_from([4, 8, 16]),
    value_width=st.sampled_from([4, 8, 12]),
    causal=st.booleans(),
    window=st.sampled_from([0, 1, 3, 20, -3]),
    softcap=st.sampled_from([0.0, 5.0, 50.0]),
    mask=st.sampled_from([None, (0, 0, 1), (0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)]),
    sink=st.booleans(),
    scale=st.sampled_from([0.125, 0.5, 1.0]),
    first_position=st.sampled_from([0, 7]),
)


def _program(case: Case) -> Program:
    """One attention node with the shapes that passes read."""
    graph = Graph()
    nodes: dict[str, Node | None] = {}
    for name, value in case.inputs().items():
        nodes[name] = None
        if value is not None:
            nodes[name] = placeholder = graph.placeholder(name)
            placeholder.meta["val"] = value.to("meta")
    constants = (0, case.scale, case.causal, case.window, case.softcap)
    q, k, v, positions, mask, sink = nodes.values()
    graph.output(graph.call_function(OPERATOR, (q, k, v, positions, mask, *constants, sink)))
    return Program(GraphModule(nn.Module(), graph), Interface((), ()))


@pytest.mark.long
@given(CASES)
@settings(max_examples=examples(150), deadline=None)
def test_equals_the_reference(case: Case) -> None:
    q, k, v, positions, mask, sink = case.inputs().values()
    assert q is not None and k is not None and v is not None and positions is not None
    constants = (0, case.scale, case.causal, case.window, case.softcap)
    expected = reference_attention(q, k, v, positions, mask, *constants, sink)
    plain = run_pass(_program(case), DecomposeAttention())
    given_inputs = [value for value in (q, k, v, positions, mask, sink) if value is not None]
    torch.testing.assert_close(plain.graph(*given_inputs), expected, atol=TOLERANCE, rtol=0)


class _Layers(nn.Module):
    """Three causal layers, the last with a window, soft-capped and with sink logits."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = nn.Buffer(torch.tensor([0.1, -0.3, 0.5, 0.0]))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        for layer, (window, cap, sink) in enumerate(((0, 0.0, None), (0, 0.0, None), (3, 20.0, self.sink))):
            q = x.view(1, -1, 4, 8).transpose(1, 2)
            out = OPERATOR(q, q[:, :2], q[:, 2:], positions, None, layer, 0.35, True, window, cap, sink)
            x = x + out.reshape(1, -1, 32)
        return x


def _layers(high: int) -> Program:
    size = Dynamic("S", 1, high)
    inputs = (TensorType("x", torch.float32, (1, size, 32)), TensorType("positions", torch.int64, (size,)))
    dim = torch.export.Dim("S", min=2, max=high)
    exported = torch.export.export(
        _Layers(), (torch.zeros(1, 5, 32), torch.arange(5)), dynamic_shapes=({1: dim}, {0: dim}), strict=False
    )
    graph = exported.module(check_guards=False)
    assert isinstance(graph, GraphModule)
    return Program(graph, Interface(inputs, (TensorType("output", torch.float32, (1, size, 32)),)))


@pytest.mark.long
@pytest.mark.parametrize("tokens", [1, 4, 11])
def test_varying_length_survives_and_a_new_trace_takes_it(tokens: int) -> None:
    before = _layers(16)
    after = run_pass(before, DecomposeAttention())
    x = torch.randn(1, tokens, 32, generator=torch.Generator().manual_seed(tokens))
    expected = before.graph(x, torch.arange(tokens))
    torch.testing.assert_close(after.graph(x, torch.arange(tokens)), expected, atol=TOLERANCE, rtol=0)
    again = reexport(after.graph, after.interface).module(check_guards=False)
    torch.testing.assert_close(again(x, torch.arange(tokens)), expected, atol=TOLERANCE, rtol=0)


def test_layers_with_one_rule_share_one_mask_and_keys_are_not_repeated() -> None:
    after = run_pass(_layers(16), DecomposeAttention())
    assert not nodes_of(after.graph, OPERATOR)
    assert len(nodes_of(after.graph, torch.ops.aten.where.self)) == 2
    copies = (torch.ops.aten.repeat_interleave.self_int, torch.ops.aten.repeat.default)
    assert not nodes_of(after.graph, *copies)


def test_causal_attention_stays_for_a_cache_where_it_is_asked_to() -> None:
    captured = captured_encoder_decoder("whisper").forward
    written = run_pass(captured, DecomposeAttention(causal=False))
    kept = nodes_of(written.graph, OPERATOR)
    assert len(nodes_of(captured.graph, OPERATOR)) == 2 * len(kept) == 6
    assert all(AttentionCall.of(node).causal for node in kept)
    assert len(nodes_of(written.graph, torch.ops.aten.bmm.default)) == 6
