"""The linter's rules as data (``lint_rules.toml``), and their checks on a Program, one function per kind of place."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from edgec.ir.attributes import attribute
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.operators import RMS_NORM
from edgec.ir.program import Dynamic, Program
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.passes.cleanup.fold_constants import constant_nodes

_RULES = Path(__file__).parent / "lint_rules.toml"
aten = torch.ops.aten
_PADDED_TO = 32
_HALF_BYTES = 2
_STATE_TYPES = (torch.float16, torch.float32)
_REPEATS = (aten.repeat_interleave.self_int, aten.repeat.default)
# Their arguments are bounds, not values.
_BOUNDS = (aten.slice.Tensor, aten.clamp.default)
_CASTS = {aten.to.dtype: 1, aten._to_copy.default: None}


@dataclass(frozen=True)
class LintRule:
    """One rule of the linter.

    Attributes:
        severity: ``warning`` or ``refused``.
        limit: the bound that may just be reached; its unit depends on the rule.
        found: the template that describes what was found.
        fix: what to do.
        together: all places of a method are one finding, described by the first of them.
        unit: the only unit that the rule holds for; empty: all.
    """

    name: str
    severity: str
    limit: float
    found: str
    fix: str
    together: bool = False
    unit: str = ""


@dataclass(frozen=True)
class Breach:
    """A place and what was found there, not yet in words."""

    rule: str
    place: str
    value: float | str
    shape: tuple[Any, ...] = ()


@cache
def rules() -> Mapping[str, LintRule]:
    """All rules of the linter, by name."""
    return {name: LintRule(name=name, **fields) for name, fields in tomllib.loads(_RULES.read_text()).items()}


Rules = Mapping[str, LintRule]


def breaches(program: Program, rules: Rules, stored_bytes: int | None, ranges: Mapping[str, float]) -> Iterator[Breach]:
    """Find every place that breaks a rule."""
    constant = constant_nodes(program.graph, program.interface)
    for node in program.graph.graph.nodes:
        if node not in constant and node.target not in (DEQUANTIZE, DEQUANTIZE_LUT):
            yield from _shape(node, rules)
        for check in _NODE_CHECKS:
            yield from check(program, node, rules)
        yield from _ranges(node, rules, ranges)
    yield from _states(program, rules)
    yield from _inputs(program)
    yield from _sizes(rules, stored_bytes)


def _value(node: Node) -> Tensor | None:
    value = node.meta.get("val")
    return value if isinstance(value, Tensor) and node.op == "call_function" else None


def _shape(node: Node, rules: Rules) -> Iterator[Breach]:
    """Rank, width, sizes that vary, and last dimensions whose padding costs memory; of activations, not of weights."""
    value = _value(node)
    if value is None:
        return
    shape = tuple(value.shape)
    fixed = [size for size in shape if isinstance(size, int)]
    if len(shape) > rules["rank"].limit:
        yield Breach("rank", node.name, len(shape), shape)
    if len(fixed) < len(shape):
        yield Breach("dynamic", node.name, 0, tuple(map(str, shape)))
    elif value.is_floating_point():
        yield from _extent(node, shape, rules)


def _extent(node: Node, shape: tuple[int, ...], rules: Rules) -> Iterator[Breach]:
    if max(shape, default=0) > rules["width"].limit:
        yield Breach("width", node.name, max(shape), shape)
    if shape and shape[-1]:
        wasted = math.prod(shape[:-1]) * (-shape[-1] % _PADDED_TO) * _HALF_BYTES
        if wasted > rules["narrow"].limit:
            yield Breach("narrow", node.name, wasted, shape)


def _numbers(program: Program, node: Node, rules: Rules) -> Iterator[Breach]:
    """Literals and constants that float16 does not hold."""
    limit = rules["infinite"].limit
    if node.op == "get_attr":
        held = attribute(program.graph, str(node.target))
        if isinstance(held, Tensor) and held.is_floating_point() and held.numel() and held.device.type != "meta":
            largest = float(max(torch.aminmax(held.detach()), key=lambda end: abs(float(end))))
            if abs(largest) > limit:
                yield Breach("infinite", str(node.target), _spelt(largest))
    elif node.op == "call_function" and node.target not in _BOUNDS:
        literals = [a for a in (*node.args, *node.kwargs.values()) if isinstance(a, float)]
        yield from (Breach("infinite", node.name, _spelt(a)) for a in literals if abs(a) > limit)


def _spelt(value: float) -> str:
    return f"{value:.4g}"


def _casts(program: Program, node: Node, rules: Rules) -> Iterator[Breach]:
    """Casts that make activations wider."""
    if node.target not in _CASTS:
        return
    place = _CASTS[node.target]
    wanted: Any = node.args[place] if place is not None else node.kwargs.get("dtype")
    source: Any = node.args[0]
    before = source.meta.get("val")
    narrower = isinstance(before, Tensor) and before.is_floating_point() and source.op != "get_attr"
    if wanted in (torch.float32, torch.float64) and narrower and before.dtype.itemsize < wanted.itemsize:
        yield Breach("float32", node.name, str(wanted).removeprefix("torch."))


def _integers(program: Program, node: Node, rules: Rules) -> Iterator[Breach]:
    """Scales per block, and scales that float16 holds with few digits."""
    if node.target is not DEQUANTIZE:
        return
    integers, block, scale = node.args[:3]
    if not all(isinstance(source, Node) and source.op == "get_attr" for source in (integers, scale)):
        return
    width = attribute(program.graph, str(integers.target)).shape[1]  # type: ignore[union-attr]
    scales: Tensor = attribute(program.graph, str(scale.target))  # type: ignore[union-attr]
    name = str(integers.target)  # type: ignore[union-attr]
    if block[1] < width:  # type: ignore[index]
        yield Breach("block_scales", name, int(block[1]))  # type: ignore[index,arg-type]
    smallest = float(scales.abs().min())
    if 0 < smallest < rules["small_scales"].limit:
        yield Breach("small_scales", name, _spelt(smallest))


def _repeats(program: Program, node: Node, rules: Rules) -> Iterator[Breach]:
    """Keys and values of grouped heads that are copied for every query head."""
    value = _value(node)
    if node.target in _REPEATS and value is not None and value.dim() >= 4 and value.is_floating_point():
        yield Breach("repeated_heads", node.name, 0, tuple(value.shape))


def _states(program: Program, rules: Rules) -> Iterator[Breach]:
    for state in program.interface.states:
        if state.dtype not in _STATE_TYPES:
            yield Breach("state_type", state.buffer, str(state.dtype).removeprefix("torch."))
        if state.shape and state.shape[-1] % rules["state_width"].limit:
            yield Breach("state_width", state.buffer, state.shape[-1], state.shape)
        if len(state.shape) > rules["rank"].limit:
            yield Breach("rank", state.buffer, len(state.shape), state.shape)


def _inputs(program: Program) -> Iterator[Breach]:
    """Inputs and outputs whose size varies."""
    for tensor in (*program.interface.inputs, *program.interface.outputs):
        if any(isinstance(size, Dynamic) for size in tensor.shape):
            shape = tuple(size.name if isinstance(size, Dynamic) else size for size in tensor.shape)
            yield Breach("dynamic", tensor.name, 0, shape)


def _sizes(rules: Rules, stored_bytes: int | None) -> Iterator[Breach]:
    for name in ("total_size", "file_size"):
        if stored_bytes is not None and stored_bytes > rules[name].limit:
            yield Breach(name, "the package", stored_bytes)
            return


def _ranges(node: Node, rules: Rules, ranges: Mapping[str, float]) -> Iterator[Breach]:
    """Values on the calibration text that float16 cannot hold, or nearly not."""
    largest = ranges.get(node.name, 0.0)
    for name in ("overflow", "near_overflow"):
        if largest > rules[name].limit:
            yield Breach(name, node.name, _spelt(largest))
            break
    if node.target is RMS_NORM:
        squared = ranges.get(node.all_input_nodes[0].name, 0.0)
        if squared > rules["norm_overflow"].limit:
            yield Breach("norm_overflow", node.name, _spelt(squared))


_NODE_CHECKS: tuple[Callable[[Program, Node, Rules], Iterator[Breach]], ...] = (
    _numbers,
    _casts,
    _integers,
    _repeats,
)
