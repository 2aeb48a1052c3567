"""Training rounds as the export does: integers, scales and logits of the prepared graph are the exported one's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.coverage_parts.tiny import tiny_config, tiny_model
from edgec.errors import InputError
from edgec.exporter.adapt.student import make_trainable
from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.parity.execution import run_program
from edgec.exporter.sources import model_build
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.hf_config import plain_config
from edgec.ir.attributes import attribute, owner_of
from edgec.ir.call_plan import call_plan
from edgec.ir.lut_form import dequantize_lut
from edgec.ir.program import Program
from edgec.ir.quantized_form import decisions_of
from edgec.ir.weight_scheme import WeightScheme, balanced
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.expert_weights import routers
from edgec.passes.compress.palettize import Palettize
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.compress.rounding.learned_grids import record_grids
from edgec.passes.contract import Pass, run_pass, run_passes
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.kv.shared_kv import SharedKv
from edgec.passes.train.fake_quantize import FakeQuantize, learned_grids, prepared
from tests.families import FAMILIES, build, empty_model
from tests.passes.decoders import StateDict, captured, tokens

LENGTH = 24
SCHEMES = {
    "8-bit channel": WeightScheme(8, 0),
    "4-bit group 32, bfloat16 scales": WeightScheme(4, 32, scale_bits=16),
    "4-bit channel, float activations": WeightScheme(4, 0, activation_bits=0),
    "ternary": WeightScheme(4, 32, levels=3),
    "three bits": WeightScheme(4, 0, levels=8),
    "balanced": balanced(1),
    "balanced for 8 rows": balanced(8),
}


def family(name: str) -> Program:
    found = next(each for each in FAMILIES if each.name == name)
    skeleton = build_skeleton(empty_model(found.config()))
    spec = model_spec(found.config().to_dict())
    return run_pass(capture_decoder(skeleton, spec, StateDict(build(found, "eager")), 64, 4), RemoveNoops())


def logits(program: Program) -> Tensor:
    with torch.no_grad():
        output: Any = program.graph(torch.tensor([tokens(LENGTH)]), torch.arange(LENGTH))
    result: Tensor = output[0] if isinstance(output, (tuple, list)) else output
    return result


def moved(program: Program) -> Program:
    """A program whose trained numbers have moved, as training would move them."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in program.graph.parameters():
            parameter.mul_(1 + 0.05 * torch.randn(parameter.shape, generator=generator))
    return program


def exported(program: Program, trained: Program, passes: list[Pass]) -> Program:
    """The program that an export makes of the trained weights with the learned grids."""
    graph = program.graph
    for name, value in trained.graph.named_parameters():
        if not name.endswith("_log_scale"):
            # Experts are one matrix while they are trained.
            shape = attribute(graph, name).shape
            setattr(*owner_of(graph, name), torch.nn.Parameter(value.detach().view(shape), requires_grad=False))
    record_grids(graph, learned_grids(trained.graph))
    return run_passes(program, passes)


QUICK = ("4-bit group 32, bfloat16 scales", "balanced")


@pytest.mark.long
@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param(scheme, id=name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name, scheme in SCHEMES.items()
    ],
)
def test_the_prepared_graph_is_the_exported_one_bit_for_bit(scheme: WeightScheme) -> None:
    passes: list[Pass] = [Quantize(default=scheme, lm_head=WeightScheme(8, 0)), QuantizeEmbedding(8, 0, min_rows=1)]
    program = family("llama")
    make_trainable(program.graph)
    trained = moved(run_pass(program, FakeQuantize(*passes)))  # type: ignore[arg-type]
    written = exported(family("llama"), trained, passes)
    assert torch.equal(logits(trained), logits(written))
    assert {d.algorithm for d in decisions_of(written.graph) if d.used} == {"learned"}


# A family and a way to share its keys and values; the only full layer of this gemma has no donor.
SHARING = [
    ("qwen3", "project"),
    *(
        pytest.param(name, mode, marks=pytest.mark.slow)
        for name, mode in [
            ("gemma3_text", None),
            ("qwen3", None),
            ("qwen3", "reuse"),
            ("phi3", "reuse"),
            ("phi3", None),
            ("phi3", "project"),
        ]
    ),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "mode"), SHARING)
def test_every_family_rounds_alike(name: str, mode: str | None) -> None:
    sharing: list[Pass] = [SharedKv(2, mode)] if mode else []
    passes: list[Pass] = [Quantize(default=balanced(1)), QuantizeEmbedding(4, 32, min_rows=1)]
    program = run_passes(family(name), sharing)
    make_trainable(program.graph)
    trained = moved(run_pass(program, FakeQuantize(*passes)))  # type: ignore[arg-type]
    written = exported(run_passes(family(name), sharing), trained, passes)
    assert torch.equal(logits(trained), logits(written))


def tiny(kind: str) -> Program:
    """A tiny random decoder of one of transformers' types."""
    from transformers import AutoModelForCausalLM

    config = tiny_config(kind)
    options: dict[str, Any] = {"device": None, "attn_implementation": "edgec"}
    skeleton = build_skeleton(lambda: model_build.build(AutoModelForCausalLM, config, **options))
    program = capture_decoder(
        skeleton, model_spec(plain_config(config)), StateDict(tiny_model(tiny_config(kind))), 64, 4
    )
    return run_pass(program, RemoveNoops())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["olmoe", pytest.param("gpt_oss", marks=pytest.mark.slow)])
def test_experts_round_alike_and_routers_not_at_all(kind: str) -> None:
    passes: list[Pass] = [Quantize(default=WeightScheme(4, 32)), QuantizeEmbedding(4, 32, min_rows=1)]
    program = tiny(kind)
    choosing = {str(node.args[1].target) for node in routers(program.graph)}  # type: ignore[union-attr]
    make_trainable(program.graph)
    trained = moved(run_pass(program, FakeQuantize(*passes)))  # type: ignore[arg-type]
    rounded = {each.weight for each in prepared(trained.graph)}
    assert choosing and not choosing & rounded and any(".experts." in name for name in rounded)
    written = exported(tiny(kind), trained, passes)
    assert torch.equal(logits(trained), logits(written))


@pytest.mark.long
def test_a_model_without_attention_has_no_keys_to_round() -> None:
    program = tiny("mamba2")
    make_trainable(program.graph)
    trained = run_pass(program, FakeQuantize(Quantize(default=WeightScheme(4, 32)), cache="float16"))
    assert prepared(trained.graph)


@pytest.mark.long
def test_integers_and_scales_are_those_of_training() -> None:
    passes: list[Pass] = [Quantize(default=balanced(1))]
    program = family("llama")
    make_trainable(program.graph)
    trained = moved(run_pass(program, FakeQuantize(*passes)))  # type: ignore[arg-type]
    written = exported(family("llama"), trained, passes)
    grids = {grid.parameter: grid for grid in learned_grids(trained.graph)}
    for decision in decisions_of(written.graph):
        if decision.used:
            integers, scale, _ = (attribute(written.graph, name) for name in decision.buffers)
            assert torch.equal(scale, grids[decision.name].scale)
            assert set(integers.unique().tolist()) <= {-3, -1, 1, 3}
            # bfloat16 scales: three of them make a float16, as tables hold them
            assert torch.equal(scale * 3, (scale * 3).half().float())


@pytest.mark.long
def test_tables_of_the_balanced_set_are_those_of_training() -> None:
    program = family("llama")
    make_trainable(program.graph)
    trained = moved(run_pass(program, FakeQuantize(Quantize(default=replace(balanced(8), activation_bits=0)))))
    integers = exported(family("llama"), trained, [Quantize(default=balanced(8))])
    tables = exported(family("llama"), trained, [Palettize(default=balanced(8))])
    compared = 0
    for decision in decisions_of(tables.graph):
        if decision.used:
            indices, table = (attribute(tables.graph, name) for name in decision.buffers[:2])
            twin = next(d for d in decisions_of(integers.graph) if d.name == decision.name)
            whole, scale, _ = (attribute(integers.graph, name) for name in twin.buffers)
            assert torch.equal(dequantize_lut(indices, table, None, 8), whole * scale)
            compared += 1
    assert compared > 10


@pytest.mark.parametrize("dtype", ["float16", "int8", "int4"])
def test_keys_and_values_are_rounded_as_a_cache_does(dtype: str) -> None:
    program = captured("llama")
    plan = call_plan(40, 16, 8)
    ids = tokens(40)
    cached = run_program(run_pass(program, KvCache(64, 16, dtype)), ids, plan)
    imitated = run_program(run_pass(program, FakeQuantize(cache=dtype)), ids, plan)
    plain = run_program(program, ids, plan)
    # Sums of another length may put a value on the other side of an edge between two steps; that is rare.
    assert float((imitated - cached).abs().mean()) < 0.05 * float((plain - cached).abs().mean())


@pytest.mark.long
def test_gradients_reach_every_weight_and_scale() -> None:
    program = family("llama")
    make_trainable(program.graph)
    passes = Quantize(default=WeightScheme(4, 32), lm_head=WeightScheme(8, 0)), QuantizeEmbedding(8, 0, min_rows=1)
    program = run_pass(program, FakeQuantize(*passes, cache="int8"))
    batch = torch.randint(0, 128, (3, LENGTH), generator=torch.Generator().manual_seed(0))
    output: Any = program.graph(batch, torch.arange(LENGTH))
    output[0].logsumexp(-1).square().mean().backward()
    for name, parameter in program.graph.named_parameters():
        assert parameter.grad is not None and bool(torch.isfinite(parameter.grad).all()), name
        assert float(parameter.grad.abs().max()) > 0, name


@pytest.mark.long
def test_a_tied_matrix_has_one_grid_for_both_readers() -> None:
    program = family("llama")
    make_trainable(program.graph)
    both = FakeQuantize(Quantize(default=None, lm_head=WeightScheme(8, 0)), QuantizeEmbedding(8, 0, min_rows=1))
    (grid,) = prepared(run_pass(program, both).graph)
    assert grid.decision.role == "vocabulary"
    other = replace(both, embedding=QuantizeEmbedding(4, 32, min_rows=1))
    assert len(prepared(run_pass(program, other).graph)) == 2


def test_an_unknown_cache_is_refused() -> None:
    with pytest.raises(InputError, match="float8") as caught:
        run_pass(captured("llama"), FakeQuantize(cache="float8"))
    assert caught.value.code == "E500"
