"""Decoders of an encoder with methods of fixed shapes: attention to the encoder, and biases of relative positions."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch
from torch import Tensor

from edgec.backends.forms import FORMS
from edgec.bundle.entry_points import Limits
from edgec.exporter.parity.encoder_decoder import SourceProbe, named_memory
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.stages.pass_orders import method_passes, static_encoder_decoder_passes
from edgec.ir.call_plan import static_plan
from edgec.ir.encoder_operators import BIASED_ATTENTION, ENCODER_ATTENTION
from edgec.ir.memory_inputs import RememberingMethods, handed_on, is_memory
from edgec.ir.program import Program
from edgec.ir.static_methods import GraphMethods, run_static
from edgec.passes.contract import nodes_of, run_passes
from edgec.passes.static.half_precision import HalfPrecision
from tests.encoder_decoders import captured_encoder_decoder, example_source, tiny_encoder_decoder

CHUNK, CONTEXT = 8, 32
LIMITS = Limits(context=CONTEXT, prefill_chunk=CHUNK, logit_rows=1)
TOKENS = torch.randint(4, 90, (1, 29), generator=torch.Generator().manual_seed(3))
PLAN = static_plan(29, CHUNK)
aten = torch.ops.aten
# Float32 sums in another order; T5 does not scale its scores.
TOLERANCE = 1e-4


def inputs_of(family: str) -> tuple[Tensor, ...]:
    """What ``encode`` takes of a source that is shorter than the encoder's length, where it reads text."""
    source = example_source(family)
    taken = captured_encoder_decoder(family, fixed=True).encode.interface.inputs[0]
    length = 0 if source.is_floating_point() else int(taken.shape[1])  # type: ignore[arg-type]
    return SourceProbe("source", (source,), length).inputs(source)


def source_memory_of(family: str) -> dict[str, Tensor]:
    """What a family's decoder knows of its source."""
    programs, inputs = captured_encoder_decoder(family, fixed=True), inputs_of(family)
    with torch.no_grad():
        return named_memory((*programs.cross.graph(programs.encode.graph(*inputs)), *inputs[1:]))


@lru_cache(maxsize=2)
def fixed_methods(family: str, form: str) -> dict[str, Program]:
    """The static methods of a family's decoder for a format."""
    shape = FORMS[{"mlpackage": ("coreml", "mlpackage"), "onnx": ("onnx", "onnx")}[form]]
    passes = static_encoder_decoder_passes(Recipe("float"), LIMITS, shape)["forward"]
    program = run_passes(captured_encoder_decoder(family, fixed=True).forward, passes)
    sizes = {"prefill": CHUNK, "decode": 1}
    return {name: run_passes(program, method_passes(name, size, CONTEXT, shape)) for name, size in sizes.items()}


@pytest.mark.long
@pytest.mark.parametrize("form", ["mlpackage", "onnx"])
@pytest.mark.parametrize("family", ["whisper", "t5"])
def test_the_methods_give_what_transformers_gives_after_a_source(family: str, form: str) -> None:
    model = tiny_encoder_decoder(family)
    with torch.no_grad():
        methods = RememberingMethods(GraphMethods(fixed_methods(family, form)), source_memory_of(family))
        got = run_static(methods, TOKENS[0].tolist(), PLAN)
        # Without any padding.
        whole = model(**{model.main_input_name: example_source(family)}, decoder_input_ids=TOKENS).logits[0]
    wanted = torch.stack([whole[call.start + call.size - 1] for call in PLAN])
    torch.testing.assert_close(got, wanted, atol=TOLERANCE * float(wanted.abs().max()), rtol=0)
    assert {call.size for call in PLAN} >= {CHUNK, 1} and len(PLAN) > 3


@pytest.mark.long
def test_keys_and_values_of_the_encoder_are_inputs_as_they_come_and_states_are_the_decoder_s_own() -> None:
    for program in fixed_methods("whisper", "mlpackage").values():
        names = [tensor.name for tensor in program.interface.inputs]
        kept = [name for name in names if is_memory(name)]
        assert names == ["tokens", "start", *kept, "last"] and len(kept) == 6
        assert len(program.interface.states) == 6 and not nodes_of(program.graph, ENCODER_ATTENTION)
        placed = [
            node for node in program.graph.graph.nodes if node.op == "placeholder" and is_memory(str(node.target))
        ]
        readers = {user.target for node in placed for user in node.users}
        # Keys are transposed for their product; nothing else is done to them in a call.
        assert readers <= {aten.transpose.int, aten.matmul.default}


@pytest.mark.long
def test_what_one_method_hands_to_another_is_float16_where_methods_compute_in_it() -> None:
    programs, decode = captured_encoder_decoder("t5", fixed=True), fixed_methods("t5", "mlpackage")["decode"]
    assert handed_on(programs.cross.interface) == {"states"} and not handed_on(programs.encode.interface)
    half = run_passes(decode, [HalfPrecision()])
    dtypes = {tensor.name: tensor.dtype for tensor in half.interface.inputs}
    # Which tokens are padding comes from the caller, as it is.
    assert dtypes["cross_key_0"] == torch.float16 and dtypes["source_used"] == torch.float32
    assert dtypes["tokens"] == torch.int32


@pytest.mark.long
def test_a_bias_of_relative_positions_is_one_table_for_all_layers() -> None:
    for form, copies in (("mlpackage", 0), ("onnx", 1)):
        for program in fixed_methods("t5", form).values():
            tables = {name: value for name, value in program.graph.named_buffers() if name.startswith("bias_table")}
            assert not nodes_of(program.graph, BIASED_ATTENTION, aten.log.default)
            assert tables["bias_table_0"].shape == (CONTEXT, 4 * CONTEXT)
            # Where the caller holds the states, a call's own rows have the bias of the first ones.
            assert len(tables) == 1 + copies
