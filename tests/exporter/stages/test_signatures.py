"""What executes a GPU's methods computes in float16, though the artifact holds float32."""

from __future__ import annotations

import copy

import pytest
import torch

from edgec.backends.forms import FORMS
from edgec.exporter.parity.half_range import LIMIT, largest_value
from edgec.exporter.stages.pass_orders import method_passes
from edgec.exporter.stages.static_lowering import measured_ranges
from edgec.ir.operators import RMS_NORM
from edgec.ir.program import Program
from edgec.ir.static_methods import PREFILL, first_chunk
from edgec.passes.contract import nodes_of, run_passes
from tests.passes.static_methods import CHUNK, CONTEXT, cached, tokens

GROWN = 2_000.0


def _grown(program: Program) -> Program:
    """The same decoder with embeddings, which are its lm_head, whose squares float16 does not hold."""
    program = copy.deepcopy(program)
    with torch.no_grad():
        for name, values in program.graph.named_parameters():
            if "lm_head" in name:
                values.mul_(GROWN / values.abs().max())
    return program


@pytest.mark.parametrize("packed", ["litertlm", "tflite"])
def test_norms_of_a_gpu_keep_large_activations_in_range(packed: str) -> None:
    form = FORMS["litert_gpu", packed]
    methods = {PREFILL: run_passes(_grown(cached("short llama")), method_passes(PREFILL, CHUNK, CONTEXT, form))}
    assert not nodes_of(methods[PREFILL].graph, RMS_NORM), "its squares are values that nobody sees"
    calls = {PREFILL: [first_chunk(methods[PREFILL], tokens(CONTEXT))]}
    largest = largest_value(methods, measured_ranges(methods, calls))
    assert GROWN / 2 < largest.value < LIMIT, str(largest)
