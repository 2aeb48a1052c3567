from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity.execution import run_program
from edgec.ir.attributes import attribute
from edgec.ir.call_plan import Call, call_inputs, call_plan
from edgec.ir.graph_run import first_output
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.program import Program, held_bytes
from edgec.ir.quantized_form import decisions_of
from edgec.ir.weight_scheme import WeightScheme, balanced, lut
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.compress.palettize import Palettize
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.rounding.weight_tables import tabulate
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.graph.activation_statistics import second_moments
from edgec.passes.graph.calibration import Calibration
from edgec.passes.kv.kv_cache import KvCache
from tests.passes.decoders import captured, tokens

EIGHT = WeightScheme(8, 0, activation_bits=0)


class _Model(nn.Module):
    """A convolution, a look-up and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(200, 64)
        self.conv = nn.Conv2d(64, 64, 1, bias=False)
        self.up = nn.Linear(64, 96)
        self.down = nn.Linear(96, 64, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        x = self.conv(x.transpose(1, 2).unsqueeze(2)).squeeze(2).transpose(1, 2)
        result: Tensor = self.down(torch.relu(self.up(x)))
        return result


IDS = torch.tensor([[3, 1, 199, 7, 0, 50, 12, 9]])


def _program() -> Program:
    torch.manual_seed(0)
    return capture_module(_Model().eval().requires_grad_(False), (IDS,))


def _call(program: Program, *inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return first_output(program.graph(*inputs))


def test_every_layer_reads_its_table() -> None:
    before = _program()
    after = run_pass(before, Palettize(default=lut(6, 16), embedding=lut(4)))
    assert len(nodes_of(after.graph, DEQUANTIZE_LUT)) == 4
    assert not [name for name, _ in after.graph.named_parameters() if name.endswith("weight")]
    assert attribute(after.graph, "conv.weight_index").shape == (64, 64, 1, 1)
    for name, scheme in (("up.weight", lut(6, 16)), ("down.weight", lut(6, 16)), ("table.weight_embedding", lut(4))):
        wanted = tabulate(attribute(before.graph, name.removesuffix("_embedding")).detach(), scheme)
        assert torch.equal(attribute(after.graph, f"{name}_index"), wanted.indices)
        assert torch.equal(attribute(after.graph, f"{name}_table"), wanted.table)


@pytest.mark.long
def test_more_bits_are_nearer() -> None:
    before = _program()
    wanted = _call(before, IDS)
    errors = [
        float((_call(run_pass(before, Palettize(default=lut(b, 16))), IDS) - wanted).norm()) for b in (2, 4, 6, 8)
    ]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.02 * float(wanted.norm())


def test_decisions_count_indices_and_tables() -> None:
    program = run_pass(_program(), Palettize(default=lut(4, 16)))
    decisions = {d.name: d for d in decisions_of(program.graph)}
    up = decisions["up.weight"]
    assert up.bytes == 96 * 64 // 2 + 6 * 16 * 2 and up.used == lut(4, 16) and up.reason == ""
    assert up.buffers == ("up.weight_index", "up.weight_table") and up.algorithm == "k-means"
    # one byte an index, float32 tables, the bias and the embedding in float
    held = 96 * 64 * 2 + 64 * 64 + (6 + 4 + 4) * 16 * 4 + 96 * 4 + 200 * 64 * 4
    assert held_bytes(program.graph) == held


def test_rules_choose_and_integers_are_left_to_quantize() -> None:
    rules = (("up.*", None), ("down.*", EIGHT), ("*", balanced(4)))
    program = run_pass(_program(), Palettize(rules=rules))
    assert {d.name: d.used for d in decisions_of(program.graph)} == {"conv.weight": balanced(4)}
    program = run_pass(program, Quantize(rules=rules, default=None))
    used = {d.name: d.used for d in decisions_of(program.graph)}
    assert used == {"conv.weight": balanced(4), "up.weight": None, "down.weight": EIGHT}


def test_tables_that_outweigh_the_matrix_leave_it_in_float() -> None:
    program = run_pass(_program(), Palettize(default=lut(8, 1)))
    assert not nodes_of(program.graph, DEQUANTIZE_LUT)
    assert all(d.used is None and "more than float16" in d.reason for d in decisions_of(program.graph))


def test_groups_that_do_not_divide_are_replaced_and_said() -> None:
    program = run_pass(_program(), Palettize(default=lut(4, 36)))
    decisions = {d.name: d for d in decisions_of(program.graph)}
    assert decisions["up.weight"].used == lut(4, 32) and "96" in decisions["up.weight"].reason


def test_applying_twice_and_folding_change_nothing() -> None:
    once = run_pass(_program(), Palettize(default=lut(4), embedding=lut(4)))
    for rewrite in (Palettize(default=lut(4), embedding=lut(4)), FoldConstants()):
        again = run_pass(once, rewrite)
        assert len(nodes_of(again.graph, DEQUANTIZE_LUT)) == 4 and decisions_of(again.graph) == decisions_of(once.graph)


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        run_pass(_program(), Palettize(default=lut(5)))
    assert caught.value.code == "E174"


@pytest.mark.long
@pytest.mark.parametrize("tied", [False, True])
def test_decoders_and_their_tied_tables(tied: bool) -> None:
    program = run_pass(captured(tie_word_embeddings=tied), KvCache(64, 16, "float32", 0, "edgec"))
    scheme = lut(6, 16)
    after = run_pass(program, Palettize(default=scheme, lm_head=scheme, embedding=scheme))
    roles = {d.role: d for d in decisions_of(after.graph)}
    assert (roles["vocabulary"].buffers == roles["embedding"].buffers) is tied
    ids, plan = tokens(), call_plan(40, 16, 8)
    logits = run_program(after, ids, plan)
    # the ladder reads rows of tables, the graph itself whole matrices: the same numbers
    whole = [_call(after, *call_inputs(after.interface, ids, 0, 8, torch.arange(8)))]
    rows = run_program(after, ids[:8], [Call(0, 8, 8)])
    assert torch.allclose(whole[0][0], rows, atol=1e-4) and bool(torch.isfinite(logits).all())


@pytest.mark.long
def test_moments_are_means_of_squares_and_leave_caches_alone() -> None:
    program = run_pass(captured(tie_word_embeddings=False), KvCache(64, 16, "float32", 0, "edgec"))
    states = {s.buffer: attribute(program.graph, s.buffer).clone() for s in program.interface.states}
    calls = [call_inputs(program.interface, tokens(), start, 8, torch.arange(8)) for start in (0, 8)]
    moments = second_moments(program, calls)
    for name, value in states.items():
        assert torch.equal(attribute(program.graph, name), value)
    layers = [name for name in moments if name.endswith("_proj.weight")]
    assert len(layers) == 14 and all(bool((moments[name] > 0).all()) for name in layers)


@pytest.mark.long
def test_tokens_are_fed_in_chunks_and_from_the_start_when_the_context_is_full() -> None:
    program = run_pass(captured(tie_word_embeddings=False), KvCache(64, 16, "float32", 0, "edgec"))
    calibration = Calibration(tokens(40), context=20)
    calls = list(calibration.calls(program))
    assert [inputs[0].shape[1] for inputs in calls] == [16, 16, 8]
    assert [int(inputs[1][0]) for inputs in calls] == [0, 0, 0]
    assert torch.cat([inputs[0][0] for inputs in calls]).tolist() == tokens(40)
    starts = [int(inputs[1][0]) for inputs in Calibration(tokens(40), context=64).calls(program)]
    assert starts == [0, 16, 32]
    after = run_pass(program, Palettize(default=lut(4, 16), calibration=calibration))
    assert after.history[-1].options["calibration"] == "40 tokens"
    assert {d.algorithm for d in decisions_of(after.graph)} == {"k-means, weighted by activations"}


def test_moments_of_a_layer() -> None:
    layer = nn.Linear(4, 8, bias=False).requires_grad_(False)
    program = capture_module(layer, (torch.ones(1, 4),))
    moments = second_moments(program, [[torch.tensor([[1.0, 2.0, 0.0, -1.0]])], [torch.tensor([[3.0, 2.0, 0.0, 1.0]])]])
    assert moments["weight"].tolist() == [5.0, 4.0, 0.0, 1.0]


def test_calibration_lowers_the_error_of_outputs() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(256, 64, bias=False).requires_grad_(False)
    loud = torch.linspace(0.0, 2.0, 256).exp()
    layer.weight.div_(loud.square())
    x = torch.randn(64, 256) * loud.square()
    program = capture_module(layer, (x,))
    wanted = _call(program, x)
    errors = [
        float((_call(run_pass(program, Palettize(default=lut(3, 16), calibration=known)), x) - wanted).norm())
        for known in (Calibration(), Calibration(calls=[[x]]))
    ]
    assert errors[1] < 0.7 * errors[0]


def test_the_balanced_set_as_integers_where_there_are_no_tables() -> None:
    before = _program()
    tables = run_pass(before, Palettize(default=balanced(4)))
    integers = run_pass(before, Quantize(default=balanced(4)))
    up = next(d for d in decisions_of(integers.graph) if d.name == "up.weight")
    assert (up.information_bits, up.container_bits, up.used) == (2, 4, WeightScheme(4, 0))
    assert "-3, -1, 1 and 3" in up.reason and up.algorithm == "balanced"
    values = attribute(integers.graph, "up.weight_int") * attribute(integers.graph, "up.weight_scale")
    table, index = (attribute(tables.graph, f"up.weight_{part}") for part in ("table", "index"))
    wanted = table.repeat_interleave(4, 0).gather(1, index.long())
    # float16 tables round 1.5 x scale once more
    assert torch.allclose(values, wanted, rtol=1e-3)
