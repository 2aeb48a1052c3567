from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from edgec.exporter.capture.module import capture_module
from edgec.ir.attributes import attribute
from edgec.ir.graph_run import first_output
from edgec.ir.program import Program
from edgec.ir.quantized_form import decisions_of
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.contract import nodes_of, run_pass
from tests.passes.decoders import captured, tokens

aten = torch.ops.aten
IDS = torch.tensor([[0, 5, 199, 7, 9, 0]])


class _Table(nn.Module):
    """A scaled look-up with a padding row, as Gemma has it."""

    def __init__(self, width: int, rows: int = 200) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, width, padding_idx=0)

    def forward(self, ids: Tensor) -> Tensor:
        result: Tensor = self.table(ids) * 8.0
        return result


def _program(width: int, rows: int = 200) -> Program:
    torch.manual_seed(0)
    return capture_module(_Table(width, rows).eval().requires_grad_(False), (IDS.clamp(max=rows - 1),))


def _call(graph: GraphModule, *inputs: Tensor) -> Tensor:
    return first_output(graph(*inputs))


def _executed(graph: GraphModule, folder: Path) -> tuple[Tensor, set[str]]:
    """The graph as a .pte, run by ExecuTorch, and the look-up operators in it."""
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge

    from edgec.runtime_py.engines.executorch_binding import runtime
    from edgec.runtime_py.engines.open_artifact import TorchMethod

    runtime()  # registers the out variants of the look-ups
    exported = torch.export.export(graph, (IDS,), strict=False)
    edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True))
    program = edge.to_executorch(ExecutorchBackendConfig(do_quant_fusion_and_const_prop=True))
    names = {str(getattr(n.target, "__name__", "")) for n in program.exported_program().graph.nodes}
    artifact = folder / "model.pte"
    artifact.write_bytes(program.buffer)
    return TorchMethod(artifact)((IDS,))[0], {name for name in names if "embedding" in name}


@pytest.mark.sweep(3)
@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "bits", "group", "operator"),
    [
        (64, 2, 32, "embedding_2bit.out"),
        (64, 4, 32, "embedding_4bit.out"),
        (64, 8, 32, "embedding_byte.out"),
        (64, 2, 0, "embedding_2bit.out"),
        (64, 4, 0, "embedding_4bit.out"),
        (64, 8, 0, "embedding_byte.out"),
        (172, 4, 32, "embedding_4bit.out"),
    ],
)
def test_executorch_fuses_the_form_and_agrees(width: int, bits: int, group: int, operator: str, tmp_path: Path) -> None:
    program = run_pass(_program(width), QuantizeEmbedding(bits, group))
    result, operators = _executed(program.graph, tmp_path)
    assert operators == {operator}
    # integer times scale in float32 on both sides
    assert torch.equal(result, _call(program.graph, IDS))


@pytest.mark.parametrize(("bits", "step"), [(8, 2 / 255), (4, 2 / 15)])
def test_a_row_errs_by_half_a_step(bits: int, step: float) -> None:
    before = _program(64)
    table = attribute(before.graph, "table.weight")
    after = run_pass(before, QuantizeEmbedding(bits, 0, algorithm="rtn"))
    error = (_call(after.graph, IDS) - _call(before.graph, IDS)).abs() / 8.0
    largest = table[IDS[0]].abs().amax(-1).view(1, -1, 1)
    assert bool((error <= largest * step / 2 * 1.001 + 1e-7).all())


def test_small_tables_stay_in_float_and_say_why() -> None:
    before = _program(64, rows=4)
    after = run_pass(before, QuantizeEmbedding(4, 32))
    (decision,) = decisions_of(after.graph)
    assert decision.used is None and "4 rows" in decision.reason
    assert nodes_of(after.graph, aten.embedding.default)[0].args[0].op == "get_attr"  # type: ignore[union-attr]


@pytest.mark.long
def test_a_tied_table_gets_integers_of_its_own() -> None:
    before = captured("llama", tie_word_embeddings=True)
    parts = (Quantize(default=WeightScheme(4, 32), lm_head=WeightScheme(8, 0)), QuantizeEmbedding(4, 32, min_rows=1))
    after = before
    for rewrite in parts:
        after = run_pass(after, rewrite)
    vocabulary = next(d for d in decisions_of(after.graph) if d.role == "vocabulary")
    embedding = next(d for d in decisions_of(after.graph) if d.role == "embedding")
    assert vocabulary.name == embedding.name and not set(vocabulary.buffers) & set(embedding.buffers)
    assert not [name for name, _ in after.graph.named_parameters() if "lm_head" in name or "embed" in name]
    ids = torch.tensor([tokens(8)])
    inputs = (ids, torch.arange(8), torch.tensor([7]))
    assert bool(torch.isfinite(_call(after.graph, *inputs)).all())


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(200, 64)

    def forward(self, ids: Tensor) -> Tensor:
        return torch.nn.functional.linear(self.table(ids), self.table.weight)


@pytest.mark.parametrize("embedding_first", [False, True])
@pytest.mark.parametrize("scheme", [WeightScheme(8, 0), WeightScheme(4, 32, scale_bits=16)], ids=str)
def test_a_tied_table_of_the_matrixs_scheme_shares_its_integers(scheme: WeightScheme, embedding_first: bool) -> None:
    table = QuantizeEmbedding(scheme.bits, scheme.group_size, scale_bits=scheme.scale_bits)
    parts = (Quantize(default=scheme), table)
    before = after = capture_module(_Tied().eval().requires_grad_(False), (IDS,))
    for rewrite in reversed(parts) if embedding_first else parts:
        after = run_pass(after, rewrite)
    first, second = decisions_of(after.graph)
    assert {first.role, second.role} == {"linear", "embedding"} and first.buffers == second.buffers
    assert len(list(after.graph.named_buffers())) == 3 and not list(after.graph.parameters())
    (lookup,), (linear,) = (nodes_of(after.graph, op) for op in (aten.embedding.default, aten.linear.default))
    assert [n.target for n in lookup.args[0].all_input_nodes] == [n.target for n in linear.args[1].all_input_nodes]  # type: ignore[union-attr]
    for other in (
        replace(table, algorithm="rtn"),
        replace(table, bits=2),
        replace(table, scale_bits=48 - scheme.scale_bits),
    ):
        apart = run_pass(run_pass(before, Quantize(default=scheme)), other)
        assert len({d.buffers for d in decisions_of(apart.graph)}) == 2


def test_order_of_the_two_passes_does_not_matter() -> None:
    first = run_pass(run_pass(captured(), Quantize(lm_head=WeightScheme(8, 0))), QuantizeEmbedding(min_rows=1))
    second = run_pass(run_pass(captured(), QuantizeEmbedding(min_rows=1)), Quantize(lm_head=WeightScheme(8, 0)))
    ids = torch.tensor([tokens(8)])
    inputs = (ids, torch.arange(8), torch.tensor([7]))
    assert torch.equal(_call(first.graph, *inputs), _call(second.graph, *inputs))
