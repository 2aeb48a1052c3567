from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.backends.coreml.activation_ranges import activation_ranges
from edgec.backends.coreml.lint import Finding, lint, lint_methods
from edgec.backends.coreml.lint_checks import rules
from edgec.exporter.capture.module import capture_module
from edgec.ir.program import Dynamic, Interface, Program, State, TensorType
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from tests.passes.decoders import captured


class _Calls(nn.Module):
    """A function of one input as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _program(function: Callable[..., Tensor], *shape: int) -> Program:
    return capture_module(_Calls(function), (torch.ones(*shape),))


def _found(program: Program, **options: Any) -> dict[str, Finding]:
    return {finding.rule: finding for finding in lint(program, **options)}


def _state(dtype: torch.dtype, *shape: int) -> State:
    return State("cache", 0, "key", dtype, shape, "full", shape[-2])


def _with_state(state: State) -> Program:
    program = _program(lambda x: x + 1, 1, 64)
    return replace(program, interface=replace(program.interface, states=(state,)))


BROKEN: list[tuple[str, Program | Callable[[], Program], str]] = [
    ("rank", lambda: _program(lambda x: x.view(1, 2, 2, 2, 2, 4) * 2, 1, 64), "rank 6: 1 x 2 x 2 x 2 x 2 x 4"),
    ("width", lambda: _program(lambda x: x.repeat(1, 512) * 2, 1, 64), "32,768"),
    ("narrow", lambda: _program(lambda x: x.view(1, -1, 1) * 2, 1, 32768), "2,031,616 bytes"),
    ("infinite", lambda: _program(lambda x: x.masked_fill(x > 0, -float("inf")), 1, 64), "-inf"),
    ("float32", lambda: _program(lambda x: x.half().to(torch.float32), 1, 64), "float32"),
    ("state_width", lambda: _with_state(_state(torch.float16, 1, 2, 64, 40)), "40"),
    ("state_type", lambda: _with_state(_state(torch.int8, 1, 2, 64, 64)), "int8"),
    ("repeated_heads", lambda: _program(lambda x: x.repeat_interleave(4, 1), 1, 2, 8, 64), "1 x 8 x 8 x 64"),
]


@pytest.mark.parametrize(("rule", "build", "words"), BROKEN, ids=[row[0] for row in BROKEN])
def test_each_rule_is_found_in_a_graph_that_breaks_it(rule: str, build: Callable[[], Program], words: str) -> None:
    findings = _found(build())
    assert rule in findings and words in findings[rule].found and findings[rule].fix and findings[rule].place


@pytest.mark.parametrize("rule", ["rank", "state_type"])
def test_refused_is_what_core_ml_refuses(rule: str) -> None:
    assert [name for name, each in rules().items() if each.severity == "refused"] == ["rank", "state_type"]
    build = next(row[1] for row in BROKEN if row[0] == rule)
    assert isinstance(build, Callable)  # type: ignore[arg-type]
    assert _found(build())[rule].severity == "refused"  # type: ignore[operator]


def test_a_plain_graph_breaks_nothing() -> None:
    assert lint(_program(lambda x: (x * 2).softmax(-1), 1, 64)) == ()


def test_a_constant_that_float16_does_not_hold() -> None:
    program = _program(lambda x: x + torch.full((1, 64), -1e9), 1, 64)
    program.graph.register_buffer("mask", torch.full((64,), -1e9))
    node = next(n for n in program.graph.graph.nodes if n.op == "call_function")
    with program.graph.graph.inserting_before(node):
        mask = program.graph.graph.get_attr("mask")
    node.args = (*node.args[:1], mask, *node.args[2:])
    assert _found(program)["infinite"].found == "the number -1e+09"


@pytest.mark.long
def test_sizes_that_vary() -> None:
    findings = _found(captured())
    assert findings["dynamic"].severity == "warning" and "more" in findings["dynamic"].place


def test_a_varying_input_alone_is_found() -> None:
    program = _program(lambda x: x + 1, 1, 64)
    size = Dynamic("S", 1, 64)
    inputs = (TensorType("x", torch.float32, (1, size)),)
    findings = _found(replace(program, interface=Interface(inputs, program.interface.outputs)))
    assert findings["dynamic"].place == "x" and "1 x S" in findings["dynamic"].found


@pytest.mark.parametrize(
    ("size", "rule"), [(999_999_999, None), (1_000_000_001, "file_size"), (3 * 10**9, "total_size")]
)
def test_file_sizes(size: int, rule: str | None) -> None:
    assert set(_found(_program(lambda x: x + 1, 1, 64), stored_bytes=size)) == ({rule} if rule else set())


def _linear(scheme: WeightScheme, scale: float = 1.0) -> Program:
    torch.manual_seed(0)
    layer = nn.Linear(64, 32, bias=False).requires_grad_(False)
    layer.weight.mul_(scale)
    return run_pass(capture_module(layer, (torch.ones(1, 64),)), Quantize(default=scheme))


def test_scales_per_block_but_not_per_channel() -> None:
    assert "32 values" in _found(_linear(WeightScheme(4, 32, activation_bits=0)))["block_scales"].found
    assert "block_scales" not in _found(_linear(WeightScheme(8, 0, activation_bits=0)))


def test_rules_of_the_neural_engine_are_not_those_of_gpus() -> None:
    blocks = _linear(WeightScheme(4, 32, activation_bits=0))
    assert "block_scales" not in _found(blocks, unit="gpu")
    state = _with_state(_state(torch.int8, 1, 2, 64, 40))
    assert set(_found(state, unit="gpu")) == {"state_type"} < set(_found(state))


def test_scales_below_what_float16_holds_with_all_its_digits() -> None:
    small = _linear(WeightScheme(8, 0, activation_bits=0), scale=1e-3)
    assert _found(small)["small_scales"].place == "weight_int"
    assert "small_scales" not in _found(_linear(WeightScheme(8, 0, activation_bits=0), scale=1.0))


def test_ranges_on_calibration_inputs() -> None:
    program = _program(lambda x: (x * 1000) * 100, 1, 64)
    for largest, rule in ((0.01, None), (0.3, "near_overflow"), (1.0, "overflow")):
        ranges = activation_ranges(program, [[torch.full((1, 64), -largest)]])
        assert set(_found(program, ranges=ranges)) == ({rule} if rule else set())


def test_ranges_keep_the_largest_of_all_calls() -> None:
    program = _program(lambda x: x * 2, 1, 64)
    ranges = activation_ranges(program, [[torch.full((1, 64), value)] for value in (1.0, -3.0, 2.0)])
    assert list(ranges.values()) == [6.0]


def test_a_norm_that_squares_large_values() -> None:
    def norm(x: Tensor) -> Tensor:
        result: Tensor = torch.ops.edgec.rms_norm(x * 300.0, None, 1e-6)
        return result

    program = _program(norm, 1, 64)
    ranges = activation_ranges(program, [[torch.ones(1, 64)]])
    assert "300" in _found(program, ranges=ranges)["norm_overflow"].found
    assert "norm_overflow" not in _found(program)


def test_the_same_in_several_methods_is_said_once() -> None:
    program = _program(lambda x: x.masked_fill(x > 0, -float("inf")), 1, 64)
    (finding,) = lint_methods({"prefill": program, "decode": program})
    assert "prefill: " in finding.place and "decode: " in finding.place


def test_findings_are_ordered_and_plain_data() -> None:
    findings = lint(_with_state(_state(torch.int8, 1, 2, 64, 40)), method="decode")
    assert [finding.severity for finding in findings] == ["refused", "warning"]
    assert json.loads(json.dumps(findings[0].to_json()))["rule"] == "state_type"
    assert findings[0].place == "decode: cache" and len(findings) == 2
