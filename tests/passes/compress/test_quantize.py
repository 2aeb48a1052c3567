from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
from torchao.quantization.granularity import PerAxis, PerGroup

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.ir.attributes import attribute, owner_of
from edgec.ir.graph_run import first_output
from edgec.ir.program import Program, held_bytes
from edgec.ir.quantized_form import CHOOSE, DEQUANTIZE, QUANTIZE, decisions_of
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.prefill.last_logits import lm_head_linear
from tests.passes.decoders import captured, tokens

aten = torch.ops.aten
FOUR, EIGHT = WeightScheme(4, 32), WeightScheme(8, 0)
_INT4 = torch.int4  # type: ignore[attr-defined]  # absent from torch's stubs
AO = {FOUR: (_INT4, PerGroup(32)), EIGHT: (torch.int8, PerAxis(0)), WeightScheme(4, 0): (_INT4, PerAxis(0))}


class _Mlp(nn.Module):
    """gate and up read one input; up has a bias."""

    def __init__(self, width: int = 64, hidden: int = 96) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))
        return result


def _mlp(**sizes: int) -> _Mlp:
    torch.manual_seed(0)
    return _Mlp(**sizes).eval().requires_grad_(False)


def _input(width: int = 64) -> Tensor:
    return torch.randn(1, 5, width, generator=torch.Generator().manual_seed(1))


def _program(module: nn.Module, x: Tensor) -> Program:
    return run_pass(capture_module(module, (x,)), RemoveNoops())


def _call(program: Program, *inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return first_output(program.graph(*inputs))


@pytest.mark.parametrize("scheme", AO, ids=str)
def test_bit_for_bit_what_torchao_computes(scheme: WeightScheme) -> None:
    dtype, granularity = AO[scheme]
    module, x = _mlp(), _input()
    ours = run_pass(_program(module, x), Quantize(default=scheme, algorithm="rtn"))
    quantize_(module, Int8DynamicActivationIntxWeightConfig(weight_dtype=dtype, weight_granularity=granularity))
    for name in ("gate", "up", "down"):
        reference: Any = getattr(module, name).weight
        assert torch.equal(attribute(ours.graph, f"{name}.weight_int"), reference.qdata)
        assert torch.equal(attribute(ours.graph, f"{name}.weight_scale"), reference.scale)
        assert torch.equal(attribute(ours.graph, f"{name}.weight_zero_point"), reference.zero_point)
    assert torch.equal(_call(ours, x), module(x))


def _form(graph: torch.fx.Graph, linear: Node) -> list[tuple[Any, tuple[Any, ...]]]:
    """Targets and literal arguments of a linear layer's quantisation, input chain first."""
    dequantized, weight = linear.args[0], linear.args[1]
    assert isinstance(dequantized, Node) and isinstance(weight, Node)
    quantized = dequantized.args[0]
    assert isinstance(quantized, Node)
    scale, zero = quantized.args[2], quantized.args[3]
    assert isinstance(scale, Node) and isinstance(zero, Node)
    chain = [scale.args[0], scale, zero, quantized, dequantized, weight, linear]
    nodes = [node for node in chain if isinstance(node, Node)]
    return [(n.target, tuple("node" if isinstance(a, Node) else a for a in n.args)) for n in nodes]


@pytest.mark.parametrize("scheme", [FOUR, EIGHT], ids=str)
def test_node_for_node_what_torch_export_prints_for_torchao(scheme: WeightScheme) -> None:
    dtype, granularity = AO[scheme]
    module, x = _mlp(), _input()
    ours = run_pass(_program(module, x), Quantize(default=scheme)).graph.graph
    quantize_(module, Int8DynamicActivationIntxWeightConfig(weight_dtype=dtype, weight_granularity=granularity))
    exported = torch.export.export(module, (x,), strict=False).graph
    pairs = zip(_linears(ours), _linears(exported), strict=True)
    for mine, reference in pairs:
        assert _form(ours, mine) == _form(exported, reference)


def _linears(graph: torch.fx.Graph) -> list[Node]:
    return [node for node in graph.nodes if node.target is aten.linear.default]


def test_one_activation_chain_for_all_readers_of_an_input() -> None:
    graph = run_pass(_program(_mlp(), _input()), Quantize(default=FOUR)).graph
    gate, up, down = _linears(graph.graph)
    assert gate.args[0] is up.args[0] and down.args[0] is not gate.args[0]
    assert len(nodes_of(graph, CHOOSE)) == len(nodes_of(graph, QUANTIZE)) == 2
    assert len(nodes_of(graph, operator.getitem)) == 4


def test_weights_are_replaced_not_added() -> None:
    before = _program(_mlp(), _input())
    after = run_pass(before, Quantize(default=FOUR))
    assert not any(name.endswith("weight") for name, _ in after.graph.named_parameters())
    values = 3 * 64 * 96
    # int8 containers, float32 scales and int8 zero points per group of 32, and the float bias
    assert held_bytes(after.graph) == values + values // 32 * 5 + 96 * 4
    assert held_bytes(before.graph) == values * 4 + 96 * 4


def test_awkward_width_falls_back_and_says_so() -> None:
    program = run_pass(_program(_mlp(hidden=172), _input()), Quantize(default=FOUR))
    decisions = {d.name: d for d in decisions_of(program.graph)}
    assert decisions["gate.weight"].used == FOUR and decisions["gate.weight"].reason == ""
    down = decisions["down.weight"]
    assert (down.requested, down.used, down.information_bits) == (FOUR, EIGHT, 8)
    assert "172" in down.reason and down.bytes == 64 * 172 + 64 * 4
    assert down.buffers == ("down.weight_int", "down.weight_scale", "down.weight_zero_point")


def test_rules_override_by_name_and_may_keep_float() -> None:
    rules = (("up.*", None), ("*.weight", EIGHT))
    program = run_pass(_program(_mlp(), _input()), Quantize(rules=rules, default=FOUR))
    used = {d.name: d.used for d in decisions_of(program.graph)}
    assert used == {"gate.weight": EIGHT, "up.weight": None, "down.weight": EIGHT}
    _, up, _ = _linears(program.graph.graph)
    assert isinstance(up.args[1], Node) and up.args[1].op == "get_attr"


def test_weight_only_leaves_the_input_alone() -> None:
    scheme = WeightScheme(8, 0, activation_bits=0)
    graph = run_pass(_program(_mlp(), _input()), Quantize(default=scheme)).graph
    assert not nodes_of(graph, CHOOSE) and len(nodes_of(graph, DEQUANTIZE)) == 3


def test_applying_twice_changes_nothing() -> None:
    once = run_pass(_program(_mlp(), _input()), Quantize(default=FOUR))
    twice = run_pass(once, Quantize(default=FOUR))
    assert [str(n.target) for n in twice.graph.graph.nodes] == [str(n.target) for n in once.graph.graph.nodes]
    assert decisions_of(twice.graph) == decisions_of(once.graph)


@pytest.mark.parametrize("wrong", [Quantize(default=WeightScheme(5)), Quantize(algorithm="magic")])
def test_unknown_schemes_and_algorithms_are_refused(wrong: Quantize) -> None:
    with pytest.raises(InputError) as caught:
        run_pass(_program(_mlp(), _input()), wrong)
    assert caught.value.code == "E174"


def test_bfloat16_weights_are_read_through_their_cast() -> None:
    x = _input()
    program = _program(_mlp(), x)
    exact = run_pass(program, Quantize(default=FOUR, algorithm="rtn"))
    halved = _with_bfloat16(program)
    quantized = run_pass(halved, Quantize(default=FOUR, algorithm="rtn"))
    assert not nodes_of(quantized.graph, aten.to.dtype)
    # bfloat16 moves a weight by at most 2^-9 of itself: a step of the grid here and there
    difference = attribute(quantized.graph, "gate.weight_int").int() - attribute(exact.graph, "gate.weight_int").int()
    assert int(difference.abs().max()) <= 1


def _with_bfloat16(program: Program) -> Program:
    """The program as capture makes it from a bfloat16 checkpoint: casts in the graph."""
    copy = run_pass(program, RemoveNoops())
    graph = copy.graph
    for node in [n for n in graph.graph.nodes if n.op == "get_attr" and str(n.target).endswith("weight")]:
        module, leaf = owner_of(graph, str(node.target))
        setattr(module, leaf, nn.Parameter(getattr(module, leaf).detach().to(torch.bfloat16), requires_grad=False))
        with graph.graph.inserting_after(node):
            cast = graph.graph.call_function(aten.to.dtype, (node, torch.float32))
        node.replace_all_uses_with(cast, delete_user_cb=lambda user, keep=cast: user is not keep)
    graph.recompile()
    return copy


def test_the_vocabulary_matrix_has_bits_of_its_own() -> None:
    program = run_pass(captured(), Quantize(default=FOUR, lm_head=EIGHT))
    roles = {d.role: d.used for d in decisions_of(program.graph)}
    assert roles == {"linear": FOUR, "vocabulary": EIGHT}
    linear = lm_head_linear(program.graph)
    assert linear is not None and isinstance(linear.args[1], Node) and linear.args[1].args[-2:] == (-128, 127)


def test_eight_bits_barely_move_a_decoder() -> None:
    before = captured()
    ids = torch.tensor([tokens(16)])
    inputs = (ids, torch.arange(16), torch.tensor([0, 7, 15]))
    after = run_pass(before, Quantize(default=EIGHT, lm_head=EIGHT))
    expected, result = _call(before, *inputs), _call(after, *inputs)
    # 8-bit weights and activations: each product is off by about 1/127 of its range, two layers deep
    assert float((result - expected).abs().max()) < 0.1 * float(expected.abs().max())
    assert float((result - expected).abs().max()) > 0


def _executed(graph: GraphModule, x: Tensor, folder: Path) -> Tensor:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    from edgec.runtime_py.engines.open_artifact import TorchMethod

    exported = torch.export.export(graph, (x,), strict=False)
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()], compile_config=config)
    artifact = folder / "model.pte"
    artifact.write_bytes(edge.to_executorch().buffer)
    result: Tensor = TorchMethod(artifact)((x,))[0]
    return result


@pytest.mark.long
@pytest.mark.parametrize(
    ("hidden", "scheme"),
    [
        (96, WeightScheme(4, 32, scale_bits=16)),
        pytest.param(128, WeightScheme(4, 0, scale_bits=16), marks=pytest.mark.slow),
        pytest.param(172, WeightScheme(4, 32, scale_bits=16), marks=pytest.mark.slow),
        (96, EIGHT),
    ],
)
def test_xnnpack_computes_what_the_graph_says(hidden: int, scheme: WeightScheme, tmp_path: Path) -> None:
    module, x = _mlp(hidden=hidden), _input()
    module.gate.weight[3] = 0
    program = run_pass(_program(module, x), Quantize(default=scheme))
    expected = _call(program, x)
    # scales that bfloat16 can hold lose nothing in the lowering: float32 rounding is what remains
    assert float((_executed(program.graph, x, tmp_path) - expected).abs().max()) < 1e-5 * float(expected.abs().max())


class _Odd(nn.Module):
    """A layer that reads one value, one that reads no input, and a plain one."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.constant, self.last = nn.Linear(1, 64), nn.Linear(32, 64), nn.Linear(64, 32)
        self.register_buffer("table", torch.randn(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(torch.relu(self.one(x)) @ self.constant(self.table))
        return result


@torch.no_grad()
def test_layers_of_one_value_or_no_input_stay_in_float() -> None:
    module, x = _Odd().eval(), torch.rand(4, 1)
    program = run_pass(capture_module(module, (x,)), Quantize(default=EIGHT))
    rounded = {decision.name: decision.used is not None for decision in decisions_of(program.graph)}
    assert rounded == {"one.weight": False, "last.weight": True}
    wanted = module(x)
    # Inputs and weights of one layer in 8 bits.
    torch.testing.assert_close(program.graph(x)[0], wanted, atol=0.03 * float(wanted.abs().max()), rtol=0)
