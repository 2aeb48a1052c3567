"""Decoders that write attention, layers or scales in their own way, as static methods in float32 and in float16."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from benchmarks.coverage_parts.tiny import tiny_config, tiny_model
from edgec.backends.qnn.host_part import split_host
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.parity.execution import run_program
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.hf_config import plain_config
from edgec.exporter.sources.model_build import build, tied_parameters
from edgec.ir.program import Program
from edgec.ir.reexport import reexport
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, nodes_of, run_pass
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.fuse.matmul_to_linear import MatmulToLinear
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.prefill.prefill_skip import PrefillSkip
from edgec.passes.static.finite_mask import FiniteMask
from edgec.passes.static.half_precision import HalfPrecision
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.separate_bias import SeparateBias
from edgec.passes.static.static_cache import StaticCache
from tests.passes.static_methods import CHUNK, CONTEXT, PLAN, applied, methods, run, tokens

aten = torch.ops.aten
# Views of values that lie otherwise in memory; a scale by the logarithm of the position, also of the last row alone;
# layers as products with a bias, and tokens in another shape.
KINDS = ["gptj", "ministral3", "gpt2"]
SLOW = ["bloom", "codegen", "mpt", "opt"]
# Float32 sums in another order.
TOLERANCE = 1e-4


class Stored:
    def __init__(self, model: torch.nn.Module) -> None:
        self.state = {name: v for name, v in model.state_dict().items() if name not in tied_parameters(model)}

    def tensor(self, name: str) -> torch.Tensor:
        result: torch.Tensor = self.state[name]
        return result


def captured(kind: str) -> Program:
    from transformers import AutoModelForCausalLM

    config = tiny_config(kind)
    weights, own = Stored(tiny_model(config)), deepcopy(config)
    skeleton = build_skeleton(lambda: build(AutoModelForCausalLM, own, device=None, attn_implementation="edgec"))
    return capture_decoder(skeleton, model_spec(plain_config(config)), weights, CONTEXT)


@pytest.mark.long
@pytest.mark.parametrize("kind", [*KINDS, *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)])
def test_methods_keep_the_numbers_and_have_a_form_in_float16(kind: str) -> None:
    program = captured(kind)
    wanted = run_program(program, tokens(), PLAN)
    cache = KvCache(CONTEXT, CHUNK, rings=False)
    shared: list[Pass] = [RemoveNoops(), MatmulToLinear(), LastLogits(1), FuseRmsNorm(), cache, PrefillSkip()]
    programs = methods(
        applied(program, [*shared, FoldConstants()]), [PositionTables(CONTEXT), StaticCache(32), FiniteMask()]
    )
    assert float((run(programs) - wanted).abs().max() / wanted.abs().max()) < TOLERANCE
    for method in programs.values():
        assert not nodes_of(method.graph, aten.log.default, aten.cos.default, aten.addmm.default)
        half = run_pass(run_pass(method, SeparateBias()), HalfPrecision())
        assert reexport(half.graph, half.interface)


@pytest.mark.long
def test_tokens_in_another_shape_stay_on_the_cpu_of_a_snapdragon() -> None:
    program = applied(captured("gpt2"), [RemoveNoops(), MatmulToLinear(), LastLogits(1), FuseRmsNorm()])
    cached = applied(program, [KvCache(CONTEXT, CHUNK, rings=False), PrefillSkip(), FoldConstants()])
    passes: list[Pass] = [PositionTables(CONTEXT), StaticCache(1, "caller"), FiniteMask()]
    host, npu = split_host(methods(cached, passes)["decode"])
    assert nodes_of(host.graph, aten.embedding.default)
    assert not [tensor for tensor in npu.interface.inputs if tensor.name == "tokens"]
