from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.sources.model_build import PositionalModel
from edgec.ir.attention import OPERATOR
from edgec.ir.attributes import attribute
from edgec.ir.program import Dynamic, Program
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.fuse.fuse_sdpa import FuseSdpa
from edgec.passes.static.decompose_attention import DecomposeAttention
from tests.modules import ConvNet, Mlp, bert, bert_body, padded_text, vit

# The graph does the module's own float32 arithmetic; passes reorder a scale or a mask: last places only.
TOLERANCE = 1e-5


def _names(program: Program) -> tuple[list[str], list[str]]:
    return [t.name for t in program.interface.inputs], [t.name for t in program.interface.outputs]


@torch.no_grad()
def test_a_plain_module() -> None:
    module, x = Mlp(), torch.randn(2, 8)
    program = capture_module(module, (x,))
    assert _names(program) == (["features"], ["output"])
    assert program.interface.inputs[0].shape == (2, 8)
    assert program.interface.outputs[0].shape == (2, 3)
    assert program.spec is None
    torch.testing.assert_close(program.graph(x)[0], module(x), atol=TOLERANCE, rtol=0)


def test_weights_are_shared_tied_ones_stay_tied_and_the_module_keeps_its_own() -> None:
    module = Mlp()
    module.last.weight = module.first.weight
    module.last.out_features = 8
    module.last.bias = nn.Parameter(torch.zeros(8))
    program = capture_module(module, (torch.randn(2, 8),))
    linears: list[Any] = nodes_of(program.graph, torch.ops.aten.linear.default)
    weights = [attribute(program.graph, node.args[1].target) for node in linears]
    assert weights[0] is weights[1]
    assert weights[0].data_ptr() == module.first.weight.data_ptr()
    assert not weights[0].requires_grad
    assert module.first.weight.requires_grad


class _Many(nn.Module):
    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, input: Tensor, other: Tensor) -> Any:
        answers = {
            "tuple": (input, other + 1),
            "dict": {"sum": input + other, "parts": [input * 2, other * 2]},
            "with none": (input + 1, None, other + 1),
        }
        return answers[self.answer]


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ("tuple", ["output_0", "output_1"]),
        ("dict", ["parts_0", "parts_1", "sum"]),
        ("with none", ["output_0", "output_2"]),
    ],
)
def test_outputs_are_named_by_their_place(answer: str, names: list[str]) -> None:
    inputs = (torch.ones(2), torch.full((2,), 3.0))
    program = capture_module(_Many(answer), inputs)
    assert _names(program)[0] == ["input", "other"]
    assert sorted(_names(program)[1]) == sorted(names)
    results = dict(zip(_names(program)[1], program.graph(*inputs), strict=True))
    expected = _Many(answer)(*inputs)
    if answer == "dict":
        expected = {"sum": expected["sum"], "parts_0": expected["parts"][0], "parts_1": expected["parts"][1]}
    else:
        expected = {f"output_{i}": value for i, value in enumerate(expected) if value is not None}
    assert {name: value.tolist() for name, value in results.items()} == {k: v.tolist() for k, v in expected.items()}


def test_input_names_by_keyword_by_order_and_as_asked() -> None:
    x, y = torch.ones(2), torch.zeros(2)
    assert _names(capture_module(_Many("tuple"), {"input": x, "other": y}))[0] == ["input", "other"]
    assert _names(capture_module(_Many("tuple"), (x, y), input_names=("a", "b")))[0] == ["a", "b"]

    class Star(nn.Module):
        def forward(self, *tensors: Tensor) -> Tensor:
            return tensors[0] + tensors[1]

    assert _names(capture_module(Star(), (x, y)))[0] == ["tensors_0", "tensors_1"]


class _Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x


@pytest.mark.parametrize(
    ("module", "inputs", "reason"),
    [
        (_Branches(), (torch.ones(2),), "data-dependent"),
        (Mlp(), (torch.ones(2, 8), torch.ones(2)), "does not take"),
        (Mlp(), {"feature": torch.ones(2, 8)}, "does not take"),
        (Mlp(), ([1.0, 2.0],), "not a tensor"),
        (Mlp(), (torch.ones(2, 9),), "[2, 9]"),
    ],
)
def test_what_cannot_be_traced_is_a_typed_error(module: nn.Module, inputs: Any, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        capture_module(module, inputs, name="my.module:make")
    assert caught.value.code == "E109"
    assert caught.value.where == "my.module:make"
    assert reason in caught.value.why.lower()


@torch.no_grad()
def test_batch_norm_runs_in_evaluation_mode() -> None:
    module, x = ConvNet(), torch.randn(1, 3, 16, 16)
    module.train()
    program = capture_module(module, (x,))
    first = program.graph(x)[0]
    torch.testing.assert_close(program.graph(x)[0], first, atol=0, rtol=0)
    torch.testing.assert_close(first, module.eval()(x), atol=TOLERANCE, rtol=0)


def _rewritten(program: Program) -> Program:
    for rewrite in (RemoveNoops(), FuseSdpa()):
        program = run_pass(program, rewrite)
    return program


def _call(program: Program, inputs: Mapping[str, Tensor]) -> Tensor:
    result: Tensor = program.graph(*inputs.values())[0]
    return result


@pytest.mark.long
@torch.no_grad()
def test_an_encoder_with_a_padded_batch_of_one() -> None:
    model, (padded, short) = bert(), padded_text()
    expected = model(**padded).logits
    captured = capture_module(model, padded)
    assert _names(captured) == (["input_ids", "attention_mask"], ["logits"])
    fused = _rewritten(captured)
    nodes = nodes_of(fused.graph, OPERATOR)
    assert len(nodes) == 2
    assert all(node.args[7] is False and node.args[4] is not None for node in nodes)
    for program in (captured, fused, run_pass(fused, DecomposeAttention())):
        torch.testing.assert_close(_call(program, padded), expected, atol=TOLERANCE, rtol=0)
        torch.testing.assert_close(_call(program, padded), model(**short).logits, atol=TOLERANCE, rtol=0)
        unmasked = {**padded, "attention_mask": torch.ones_like(padded["attention_mask"])}
        assert (_call(program, unmasked) - expected).abs().max() > 1e-2, "the padding would have shown"


@pytest.mark.long
@torch.no_grad()
def test_a_vision_model_needs_no_mask() -> None:
    model, pixels = vit(), {"pixel_values": torch.randn(1, 3, 16, 16)}
    fused = _rewritten(capture_module(model, pixels))
    assert [node.args[4] for node in nodes_of(fused.graph, OPERATOR)] == [None, None]
    torch.testing.assert_close(_call(fused, pixels), model(**pixels).logits, atol=TOLERANCE, rtol=0)


class _Heads(nn.Module):
    """A view of a transposed value, which only the copy between the two allows."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).contiguous().view(1, -1)


@torch.no_grad()
def test_a_view_does_not_depend_on_the_copy_that_a_pass_removes() -> None:
    x = torch.arange(6.0).reshape(1, 2, 3)
    program = run_pass(capture_module(_Heads(), (x,)), RemoveNoops())
    assert program.graph(x)[0].tolist() == [[0, 3, 1, 4, 2, 5]]


@pytest.mark.long
@torch.no_grad()
def test_outputs_may_be_as_long_as_the_text() -> None:
    model, tokens = PositionalModel(bert_body(), ("input_ids", "attention_mask")), Dynamic("T", 1, 40)
    example = padded_text()[0]
    program = capture_module(model, tuple(example.values()), input_names=tuple(example), tokens=tokens)
    assert [each.shape for each in program.interface.outputs] == [(1, tokens, 32), (1, 32)]
    for length in (1, 3, 40):
        text = (torch.arange(length).unsqueeze(0) % 9, torch.ones(1, length, dtype=torch.long))
        torch.testing.assert_close(program.graph(*text)[0], model(*text)[0], atol=TOLERANCE, rtol=0)


class _InPlace(nn.Module):
    """Writes into a value that is computed from a parameter alone."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[4.0, 8.0]]))

    def forward(self, x: Tensor) -> Tensor:
        scaled = self.weight * 1.5
        scaled /= 2.0
        return x + scaled


@torch.no_grad()
def test_what_is_written_in_place_is_the_same_in_every_call() -> None:
    x = torch.ones(1, 2)
    program = run_pass(capture_module(_InPlace(), (x,)), FoldConstants())
    assert [program.graph(x)[0].tolist() for _ in range(2)] == [[[4.0, 7.0]]] * 2
