"""What each pass for the Neural Engine changes, refuses and keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.fx import symbolic_trace

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity.execution import run_program
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import for_backend
from edgec.ir.operators import RMS_NORM
from edgec.ir.program import Interface, Program, TensorType
from edgec.passes.cleanup.narrow_inputs import NarrowInputs
from edgec.passes.contract import Pass, clone, nodes_of, run_pass
from edgec.passes.static.finite_mask import HIDDEN, FiniteMask
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.half_precision import HalfPrecision
from edgec.passes.static.linear_to_conv2d import LinearToConv2d
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.separate_bias import SeparateBias
from edgec.passes.static.split_linear import SplitLinear
from edgec.passes.static.static_cache import StaticCache
from edgec.passes.static.static_method import StaticMethod
from tests.passes.static_methods import CHUNK, CONTEXT, PLAN, applied, cached, captured, methods, reference, run, tokens

aten = torch.ops.aten
# Float32 sums in another order.
TOLERANCE = 1e-4


def prefill(*passes: Pass) -> Program:
    return applied(cached("llama"), [StaticMethod("prefill", CHUNK), *passes])


@pytest.mark.long
def test_a_static_method_needs_the_inputs_of_last_logits() -> None:
    with pytest.raises(InputError, match="E400"):
        run_pass(captured("llama"), StaticMethod("prefill", CHUNK))


def test_no_size_varies_any_more() -> None:
    interface = prefill().interface
    assert [(t.name, t.shape, t.dtype) for t in interface.inputs] == [
        ("tokens", (1, CHUNK), torch.int32),
        ("start", (1,), torch.int32),
        ("last", (1,), torch.int32),
    ]


def test_rows_in_the_place_of_tokens_stay_inputs_and_truth_values_become_numbers() -> None:
    program = applied(with_rows(cached("llama")), [StaticMethod("prefill", CHUNK)])
    assert [(t.name, t.shape, t.dtype) for t in program.interface.inputs] == [
        ("tokens", (1, CHUNK), torch.int32),
        ("start", (1,), torch.int32),
        ("input_embeds", (1, CHUNK, 4), torch.float32),
        ("embeds_mask", (1, CHUNK, 1), torch.float32),
        ("last", (1,), torch.int32),
    ]
    (compared,) = nodes_of(program.graph, aten.gt.Scalar)
    assert compared.args[0].target == "embeds_mask"  # type: ignore[union-attr]


def with_rows(program: Program) -> Program:
    """A decoder's program that takes rows as well, and reads where they are."""
    graph, size = clone(program.graph), program.interface.inputs[0].shape[1]
    rows = (
        TensorType("input_embeds", torch.float32, (1, size, 4)),
        TensorType("embeds_mask", torch.bool, (1, size, 1)),
    )
    (last,) = [node for node in graph.graph.nodes if node.op == "placeholder" and node.target == "logit_index"]
    with graph.graph.inserting_before(last):
        _, seen = [graph.graph.placeholder(each.name) for each in rows]
    (embedded,) = nodes_of(graph, aten.embedding.default)
    with graph.graph.inserting_after(embedded):
        kept = graph.graph.call_function(aten.masked_fill.Scalar, (embedded, seen, 0.0))
    embedded.replace_all_uses_with(kept, delete_user_cb=lambda user: user is not kept)
    *before, wanted = program.interface.inputs
    return replace(program, graph=graph, interface=replace(program.interface, inputs=(*before, *rows, wanted)))


def test_layers_that_turn_alike_share_one_table() -> None:
    program = prefill(PositionTables(CONTEXT))
    assert not nodes_of(program.graph, aten.cos.default, aten.sin.default)
    tables = [name for name, _ in program.graph.named_buffers() if "position_table" in name]
    assert len(tables) == 2  # cosine and sine


@pytest.mark.long
def test_a_cache_that_turns_is_refused() -> None:
    from edgec.passes.cleanup.remove_noops import RemoveNoops
    from edgec.passes.kv.kv_cache import KvCache
    from edgec.passes.prefill.last_logits import LastLogits

    cache = KvCache(CONTEXT, 4, rings=True)
    program = applied(captured("mistral"), [RemoveNoops(), LastLogits(1), cache, StaticMethod("prefill", 4)])
    with pytest.raises(InputError, match="E401"):
        run_pass(program, StaticCache())


@pytest.mark.parametrize(("multiple", "width"), [(1, 16), (32, 32), (48, 48)])
def test_states_are_padded_to_a_multiple(multiple: int, width: int) -> None:
    states = prefill(PositionTables(CONTEXT), StaticCache(multiple)).interface.states
    assert {state.shape for state in states} == {(1, 2, CONTEXT, width)}


FUSED = aten.scaled_dot_product_attention.default


@pytest.mark.long
@pytest.mark.parametrize(("name", "operators"), [("llama", 3), ("mistral", 3), ("gemma2", 0)])
def test_attention_is_one_operator_where_that_operator_can_say_it(name: str, operators: int) -> None:
    """Gemma 2's soft-capped scores are written out."""
    static = methods(cached(name), [PositionTables(CONTEXT), StaticCache(1, fused=True), FiniteMask()])
    assert float((run(static) - reference(name)).abs().max() / reference(name).abs().max()) < TOLERANCE
    assert len(nodes_of(static["decode"].graph, FUSED)) == operators


@pytest.mark.long
def test_padded_heads_are_scaled_by_their_own_width() -> None:
    static = methods(cached("llama"), [PositionTables(CONTEXT), StaticCache(48, fused=True)])
    assert float((run(static) - reference("llama")).abs().max() / reference("llama").abs().max()) < TOLERANCE


@pytest.mark.long
def test_tokens_that_windows_never_lose_stay_visible() -> None:
    program = cached("mistral", 2)
    static = methods(program, [PositionTables(CONTEXT), StaticCache()])
    wanted = run_program(program, tokens(), PLAN)
    assert float((run(static) - wanted).abs().max() / wanted.abs().max()) < TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("recipe", ["int4-channel", "lut4", "lut2"])
def test_compressed_weights_go_through_split_and_convolution(recipe: str) -> None:
    program = applied(cached("llama"), passes_for(for_backend(load_recipe(recipe), "coreml")))
    neural: list[Pass] = [Fp16SafeNorm(), SplitLinear(48, 40), LinearToConv2d()]
    static = methods(program, [PositionTables(CONTEXT), StaticCache(), *neural])
    wanted = run_program(program, tokens(), PLAN)
    assert float((run(static) - wanted).abs().max() / wanted.abs().max()) < TOLERANCE
    assert len(nodes_of(static["decode"].graph, aten.conv2d.default)) > 7


def test_logits_come_in_pieces_and_a_tied_table_is_stored_once() -> None:
    program = prefill(PositionTables(CONTEXT), StaticCache(), SplitLinear(0, 50))
    assert [tensor.name for tensor in program.interface.outputs] == ["logits_0", "logits_1", "logits_2"]
    assert [tensor.shape[-1] for tensor in program.interface.outputs] == [43, 43, 42]
    tables = [value for name, value in program.graph.named_parameters() if "embed" in name or "lm_head" in name]
    assert sum(value.numel() for value in tables) == 128 * 64


def test_a_norm_of_large_values_survives_float16() -> None:
    graph = symbolic_trace(lambda x: x)
    x = torch.randn(1, 3, 64) * 1000
    program = _norm(graph)
    wanted = RMS_NORM(x, None, 1e-6)
    half = run_pass(run_pass(program, Fp16SafeNorm()), HalfPrecision())
    got = half.graph(x.half())
    # Half a unit in the last place of values up to 4, a few times over.
    assert float((got.float() - wanted).abs().max()) < 1e-2
    plain = x.half() * torch.rsqrt((x.half() * x.half()).mean(-1, keepdim=True) + 1e-6)
    assert float(plain.abs().max()) == 0.0


class Lengths(torch.nn.Module):
    """Vectors of length 1 by torch's function or by a division, and their lengths."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        unit = torch.nn.functional.normalize(x, dim=-1)
        return unit, x / (x.norm(dim=1, keepdim=True) + 1e-3), x.norm(dim=-1), x.norm(dim=(1, 2), keepdim=True)


@pytest.mark.parametrize("size", [1e3, 1.0, 1e-3])
def test_lengths_of_large_values_survive_float16(size: float) -> None:
    x = torch.randn(1, 3, 64, generator=torch.Generator().manual_seed(0)) * size
    x[0, 2] = 0.0
    graph = torch.export.export(Lengths(), (x,)).module(check_guards=False)
    program = Program(torch.fx.GraphModule(graph, graph.graph), Interface((), ()))
    safe = run_pass(program, Fp16SafeNorm())
    assert not nodes_of(safe.graph, aten.linalg_vector_norm.default, aten.clamp_min.default)
    half = run_pass(safe, HalfPrecision())
    for wanted, same, rounded in zip(program.graph(x), safe.graph(x), half.graph(x.half()), strict=True):
        # 2^-14 beside a sum of squares of at least 1/4.
        torch.testing.assert_close(same, wanted, rtol=2e-4, atol=1e-6)
        # Eleven bits, a few operations after each other; the smallest squares are subnormal.
        assert float((rounded.float() - wanted).abs().max() / wanted.abs().max()) < 1e-2


def _norm(graph: torch.fx.GraphModule) -> Program:
    """A graph of one norm."""
    new = torch.fx.Graph()
    x = new.placeholder("x")
    x.meta["val"] = torch.empty(1, 3, 64)
    norm = new.call_function(RMS_NORM, (x, None, 1e-6))
    norm.meta["val"] = torch.empty(1, 3, 64)
    new.output(norm)
    kind = TensorType("x", torch.float32, (1, 3, 64))
    return Program(torch.fx.GraphModule(graph, new), Interface((kind,), (kind,)))


def test_masks_become_finite_and_the_softmax_stays() -> None:
    class Masked(torch.nn.Module):
        def forward(self, scores: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
            return scores.masked_fill(~seen, -torch.inf).softmax(-1)

    scores, seen = torch.randn(2, 5), torch.ones(2, 5, dtype=torch.bool)
    seen[:, 3:] = False
    graph = torch.export.export(Masked(), (scores, seen)).module(check_guards=False)
    program = Program(torch.fx.GraphModule(graph, graph.graph), Interface((), ()))
    changed = run_pass(program, FiniteMask())
    fill = nodes_of(changed.graph, aten.masked_fill.Scalar)[0]
    assert fill.args[2] == HIDDEN
    assert torch.equal(changed.graph(scores, seen), program.graph(scores, seen))


class Attends(torch.nn.Module):
    """Weights of keys under a mask that is added, or filled in; and the mask itself, where it is shown."""

    def __init__(self, lowest: float, *, fills: bool = False, shows: bool = False) -> None:
        super().__init__()
        self.lowest, self.fills, self.shows = lowest, fills, shows

    def forward(self, scores: torch.Tensor, seen: torch.Tensor) -> tuple[torch.Tensor, ...]:
        added = (1.0 - seen.float()) * self.lowest
        hidden = scores.masked_fill(seen == 0, self.lowest) if self.fills else scores + added.unsqueeze(-2)
        return (hidden.softmax(-1), hidden) if self.shows else (hidden.softmax(-1),)


def attends(module: Attends) -> tuple[Program, tuple[torch.Tensor, ...]]:
    """A graph whose first row sees some keys and whose second sees none."""
    # Below 32: -1e9 takes in what is smaller.
    scores = 5 * torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(0))
    seen = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]])
    inputs = (scores, seen if not module.fills else seen[:, None].expand(2, 5, 5).contiguous())
    graph = torch.export.export(module, inputs).module(check_guards=False)
    return Program(torch.fx.GraphModule(graph, graph.graph), Interface((), ())), inputs


@pytest.mark.parametrize("fills", [False, True])
@pytest.mark.parametrize("lowest", [torch.finfo(torch.float32).min, -1e9])
def test_rows_that_see_nothing_weigh_all_keys_alike(fills: bool, lowest: float) -> None:
    program, inputs = attends(Attends(lowest, fills=fills))
    changed = run_pass(program, FiniteMask(hidden_rows=True))
    (wanted,), (got,) = program.graph(*inputs), changed.graph(*inputs)
    # The sum of five exponentials, in another order where a compiler chooses so.
    torch.testing.assert_close(got, wanted, atol=1e-6, rtol=0)
    assert wanted[1, 0].tolist() == pytest.approx([0.2] * 5)
    again = run_pass(changed, FiniteMask(hidden_rows=True))
    assert [node.target for node in again.graph.graph.nodes] == [node.target for node in changed.graph.graph.nodes]
    largest = max(abs(value) for node in changed.graph.graph.nodes for value in node.args if isinstance(value, float))
    assert largest < torch.finfo(torch.float16).max


def test_rows_that_all_see_something_need_no_clamp() -> None:
    program, _ = attends(Attends(-1e9))
    assert not nodes_of(run_pass(program, FiniteMask()).graph, aten.clamp.default)


@pytest.mark.parametrize("lowest", [-torch.inf, -1e30])
def test_a_mask_that_an_output_shows_stays(lowest: float) -> None:
    program, inputs = attends(Attends(lowest, fills=True, shows=True))
    changed = run_pass(program, FiniteMask(hidden_rows=True))
    assert torch.equal(changed.graph(*inputs)[1], program.graph(*inputs)[1])


def test_inputs_of_64_bits_are_narrowed() -> None:
    new = torch.fx.Graph()
    ids = new.placeholder("ids")
    ids.meta["val"] = torch.empty(1, 4, dtype=torch.int64)
    doubled = new.call_function(aten.add.Tensor, (ids, ids))
    doubled.meta["val"] = torch.empty(1, 4, dtype=torch.int64)
    new.output(doubled)
    kind = TensorType("ids", torch.int64, (1, 4))
    program = run_pass(Program(torch.fx.GraphModule({}, new), Interface((kind,), (kind,))), NarrowInputs())
    assert program.interface.inputs[0].dtype is torch.int32
    assert program.graph(torch.ones(1, 4, dtype=torch.int32)).dtype is torch.int64


@pytest.mark.parametrize(
    ("module", "x"),
    [
        (torch.nn.ConvTranspose2d(3, 5, 4, stride=2, padding=1, output_padding=1), torch.randn(1, 3, 6, 6)),
        (torch.nn.Conv1d(8, 8, 3, padding=1, groups=2), torch.randn(1, 8, 9)),
        (torch.nn.Conv1d(8, 4, 3, padding="same"), torch.randn(1, 8, 9)),
        (torch.nn.ConvTranspose1d(3, 4, 2, stride=2), torch.randn(1, 3, 6)),
    ],
    ids=["transposed", "one dimension", "same size", "one dimension, transposed"],
)
def test_the_bias_of_a_convolution_is_added_after_it(module: torch.nn.Module, x: torch.Tensor) -> None:
    program = capture_module(module.eval(), (x,))
    separate = run_pass(program, SeparateBias()).graph
    layer = next(n for n in separate.graph.nodes if "conv" in str(n.target) and n.op == "call_function")
    assert layer.args[2] is None and nodes_of(separate, aten.add.Tensor)
    (made,) = separate(x)
    assert float((made - module(x)).detach().abs().max()) < TOLERANCE


@pytest.mark.parametrize("affine", [True, False])
def test_a_group_norm_of_large_values_is_exact_in_float16(affine: bool) -> None:
    drawn = torch.Generator().manual_seed(0)
    norm = torch.nn.GroupNorm(4, 8, affine=affine).requires_grad_(False)
    for parameter in norm.parameters():
        parameter.copy_(torch.randn(8, generator=drawn))
    x = 1000.0 * torch.randn(1, 8, 5, 3, generator=drawn)
    before = capture_module(norm.eval(), (x,))
    after = run_pass(before, Fp16SafeNorm())
    assert not nodes_of(after.graph, aten.group_norm.default)
    torch.testing.assert_close(after.graph(x), before.graph(x), atol=1e-5, rtol=0)
    half = run_pass(after, HalfPrecision())
    # Squares of these values exceed float16's range; roundings to 11 bits, of values up to 10.
    torch.testing.assert_close(half.graph(x)[0].float(), norm(x), atol=3e-2, rtol=0)
