"""Attention without causal order, and biases of relative positions over a cache's slots."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.ir.attention import OPERATOR
from edgec.ir.encoder_operators import BIASED_ATTENTION, ENCODER_ATTENTION
from edgec.ir.graph_run import first_output
from edgec.ir.program import Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_passes
from edgec.passes.kv.encoder_attention import EncoderAttention
from edgec.passes.kv.kv_cache import KvCache
from tests.encoder_decoders import captured_encoder_decoder, example_source
from tests.passes.decoders import CONTEXT

TOKENS = torch.randint(4, 90, (1, 21), generator=torch.Generator().manual_seed(3))
CALLS = (0, 8, 9, 10, 18, 19, 20, 21)


def memory_of(family: str) -> tuple[Tensor, ...]:
    programs = captured_encoder_decoder(family)
    memory: tuple[Tensor, ...] = programs.cross.graph(programs.encode.graph(example_source(family)))
    return memory


def fed(program: Program, memory: tuple[Tensor, ...]) -> Tensor:
    """Logits of a program with a cache, fed a chunk, single tokens, a chunk and single tokens."""
    parts = []
    for start, end in pairwise(CALLS):
        parts.append(first_output(program.graph(TOKENS[:, start:end], torch.arange(start, end), *memory)).clone())
    return torch.cat(parts, 1)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_decoder_with_relative_positions_continues_from_its_cache(dtype: str) -> None:
    captured, memory = captured_encoder_decoder("t5").forward, memory_of("t5")
    program = run_passes(captured, [RemoveNoops(), EncoderAttention(), KvCache(CONTEXT, 16, dtype)])
    with torch.no_grad():
        wanted = captured.graph(TOKENS, torch.arange(21), *memory)
        got = fed(program, memory)
    # float32: another order of sums. Below: what 11 and 8 bits of keys and values leave; T5's softmax is sharp.
    allowed = {"float32": 1e-5, "float16": 1e-2, "int8": 0.1}[dtype]
    assert float((got - wanted).abs().mean()) <= allowed * float(wanted.abs().mean())


@pytest.mark.long
def test_layers_share_one_bias_for_the_slots_and_the_bias_of_zeros_is_gone() -> None:
    captured = captured_encoder_decoder("t5").forward
    program = run_passes(captured, [RemoveNoops(), EncoderAttention(), KvCache(CONTEXT, 16)])
    biased = nodes_of(program.graph, BIASED_ATTENTION)
    assert len(biased) == 3 and len({node.args[6] for node in biased}) == 1
    assert all(node.args[3] is None for node in nodes_of(program.graph, ENCODER_ATTENTION))
    assert not nodes_of(program.graph, OPERATOR)


@pytest.mark.long
def test_an_encoder_keeps_its_bias_and_numbers() -> None:
    captured, source = captured_encoder_decoder("t5").encode, example_source("t5", 17)
    program = run_passes(captured, [RemoveNoops(), EncoderAttention()])
    assert all(node.args[3] is not None for node in nodes_of(program.graph, ENCODER_ATTENTION))
    with torch.no_grad():
        # The same reference arithmetic in another layout.
        torch.testing.assert_close(program.graph(source), captured.graph(source), atol=1e-5, rtol=0)
    again = run_passes(program, [EncoderAttention()])
    assert len(nodes_of(again.graph, ENCODER_ATTENTION)) == 2


@pytest.mark.long
def test_standard_kernels_and_masks_of_another_kind_are_refused() -> None:
    captured = captured_encoder_decoder("t5").forward
    program = run_passes(captured, [RemoveNoops(), EncoderAttention()])
    with pytest.raises(InputError) as error:
        run_passes(program, [KvCache(CONTEXT, 16, kernels="standard")])
    assert error.value.code == "E181"
    encode = captured_encoder_decoder("t5").encode
    graph = run_passes(encode, [RemoveNoops()]).graph
    for node in nodes_of(graph, OPERATOR):
        node.update_arg(8, 4)
    with pytest.raises(InputError) as error:
        run_passes(replace(encode, graph=graph), [EncoderAttention()])
    assert error.value.code == "E533"
