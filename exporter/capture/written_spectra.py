"""Spectra in real numbers, since no target computes with complex ones.

    stft(x, 400, 160, window=w)   ==>   conv1d(x, [w cos | -w sin], stride=160)  ->  real part, imaginary part
    abs(spectrum) ** 2            ==>   re * re + im * im

``torch.stft`` and ``torch.fft.rfft`` become a convolution with a table; ``view_as_complex``, ``complex`` and complex
constants are two parts already. What moves or scales the values of a spectrum does so to both parts; sums and products
of two spectra, and what makes real numbers of one (``abs``, ``real``, ``imag``, ``view_as_real``), are written out.
Measured against float64 with windows of 128 to 2,048 samples: 6e-7 of the largest value, torch's own stft 1.5e-7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.exporter.capture.known_numbers import constant_value
from edgec.ir.attributes import attribute
from edgec.ir.spectra import SPECTRUM
from edgec.passes.graph.emit import Emitter, shared_constant

aten = torch.ops.aten
ComplexParts = tuple[Node, Node]
_STFT, _RFFT = aten.stft.default, aten.fft_rfft.default
_SQUARES: Mapping[Any, Callable[[Node], bool]] = {
    aten.square.default: lambda node: True,
    aten.pow.Tensor_Scalar: lambda node: bool(node.args[1] == 2),
    aten.mul.Tensor: lambda node: node.args[0] is node.args[1],
}
# Of one complex value alone, which comes first.
_MOVES = frozenset(
    {
        *(aten.slice.Tensor, aten.select.int, aten.transpose.int, aten.permute.default, aten.unsqueeze.default),
        *(aten.squeeze.dim, aten.squeeze.dims, aten.view.default, aten.reshape.default, aten.contiguous.default),
        *(aten.clone.default, aten.flatten.using_ints, aten.narrow.default, aten.neg.default),
        *(aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar),
    }
)


def write_out_spectra(graph: GraphModule, where: str) -> None:
    """Replace spectra and what reads them by operators on real numbers.

    Raises:
        InputError: E945, something else is done to a spectrum, or it is made in another way.
    """
    pairs: dict[Node, ComplexParts] = {}
    written = False
    for node in list(graph.graph.nodes):
        made = _written(graph, node, pairs, where)
        written |= made is not None
        if isinstance(made, Node):
            node.replace_all_uses_with(made)
        elif made is not None:
            pairs[node] = made
    if written:
        graph.graph.eliminate_dead_code()


def _written(
    graph: GraphModule, node: Node, pairs: Mapping[Node, ComplexParts], where: str
) -> Node | ComplexParts | None:
    """Both parts of a spectrum, or the real value in a node's place; None for a node that reads and makes none."""
    reads = [source for source in node.all_input_nodes if source in pairs]
    maker = _MAKERS.get(_constant_of_parts if node.op == "get_attr" and _is_complex(node) else node.target)
    if not reads and maker is None and not (_is_complex(node) and node.users) and not _is_other_transform(node):
        return None
    with graph.graph.inserting_before(node):
        emit = _Beside(graph.graph, node)
        if reads:
            made = _read_or_mixed(emit, node, pairs, reads)
        else:
            made = maker(graph, emit, node) if maker is not None else None
    if made is None:
        raise _refused(where, node)
    return made


def _is_complex(node: Node) -> bool:
    """Whether a node's value has complex numbers."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.is_complex()


def _read_or_mixed(
    emit: Emitter, node: Node, pairs: Mapping[Node, ComplexParts], reads: Sequence[Node]
) -> Node | ComplexParts | None:
    """What an operator makes of one spectrum, or of two."""
    if _is_first_alone(node, reads):
        return _read(emit, node, pairs[reads[0]])
    mix, operands = _MIXES.get(node.target), node.args[:2]
    if mix is None or node.kwargs or len(node.args) != 2:
        return None
    if all(each in pairs for each in operands):
        return mix(emit, *(pairs[each] for each in operands if isinstance(each, Node)))
    return _scaled(emit, node, pairs) if node.target is aten.mul.Tensor else None


def _scaled(emit: Emitter, node: Node, pairs: Mapping[Node, ComplexParts]) -> ComplexParts | None:
    """A real factor times a spectrum, which comes second."""
    factor, spectrum = node.args
    if not isinstance(spectrum, Node) or spectrum not in pairs or isinstance(factor, complex):
        return None
    first, second = (emit(aten.mul.Tensor, each, factor) for each in pairs[spectrum])
    return first, second


def _product(emit: Emitter, one: ComplexParts, other: ComplexParts) -> ComplexParts:
    a, b, c, d = (emit(aten.mul.Tensor, one[i], other[j]) for i, j in ((0, 0), (1, 1), (0, 1), (1, 0)))
    return emit(aten.sub.Tensor, a, b), emit(aten.add.Tensor, c, d)


def _in_parts(operator: Any) -> Callable[[Emitter, ComplexParts, ComplexParts], ComplexParts]:
    """An operator that does the same to both parts of two spectra."""
    return lambda emit, one, other: (emit(operator, one[0], other[0]), emit(operator, one[1], other[1]))


_MIXES: Mapping[Any, Callable[[Emitter, ComplexParts, ComplexParts], ComplexParts]] = {
    aten.mul.Tensor: _product,
    aten.add.Tensor: _in_parts(aten.add.Tensor),
    aten.sub.Tensor: _in_parts(aten.sub.Tensor),
}


def _is_first_alone(node: Node, reads: Sequence[Node]) -> bool:
    """Whether an operator's first argument is the one spectrum that it reads, and no factor is complex."""
    others = (*node.args[1:], *node.kwargs.values())
    return [*node.args[:1]] == [*reads] and not any(each in reads or isinstance(each, complex) for each in others)


@dataclass(frozen=True)
class _Beside(Emitter):
    """Calls operators in a node's place, as parts of its layer."""

    like: Node

    def __call__(self, operator: Any, *args: Any, **kwargs: Any) -> Node:
        made = super().__call__(operator, *args, **kwargs)
        made.meta = {**self.like.meta, **made.meta}
        return made


def _read(emit: Emitter, node: Node, parts: ComplexParts) -> Node | ComplexParts | None:
    """What an operator makes of a spectrum, which is its first argument."""
    real, imaginary = parts
    if node.target in _MOVES:
        first, second = (emit(node.target, each, *node.args[1:], **node.kwargs) for each in parts)
        return first, second
    if node.target is aten.real.default:
        return real
    if node.target is aten.imag.default:
        return imaginary
    if node.target is aten.view_as_real.default:
        return emit(aten.stack.default, [real, imaginary], -1)
    return _absolute(emit, node, parts) if node.target is aten.abs.default else None


def _absolute(emit: Emitter, node: Node, parts: ComplexParts) -> Node:
    """The length of each value; where only its square is wanted, no root is drawn of it."""
    squares = [emit(aten.mul.Tensor, each, each) for each in parts]
    power = emit(aten.add.Tensor, *squares)
    for user in [*node.users]:
        if user.target in _SQUARES and _SQUARES[user.target](user):
            user.replace_all_uses_with(power)
    return emit(aten.sqrt.default, power)


def _stft(graph: GraphModule, emit: Emitter, node: Node) -> Node | ComplexParts | None:
    given = _arguments(node)
    size, length = given["n_fft"], given["win_length"] or given["n_fft"]
    window = constant_value(graph, given["window"]) if given["window"] is not None else torch.ones(length)
    if window is None or given["align_to_window"]:
        return None
    left = (size - length) // 2
    factors = torch.nn.functional.pad(window.double(), (left, size - length - left))
    bins = size if given["onesided"] is False else size // 2 + 1
    table = _cosines_and_sines(size, bins) * factors / (math.sqrt(size) if given["normalized"] else 1)
    sound = given["self"]
    several = sound.meta["val"].dim() == 2
    rows = emit(aten.unsqueeze.default, sound, 1) if several else emit(aten.reshape.default, sound, [1, 1, -1])
    mixed = _convolved(graph, emit, rows, table, given["hop_length"] or size // 4)
    mixed = mixed if several else emit(aten.squeeze.dim, mixed, 0)
    parts = _halves(emit, mixed, -2, bins)
    return parts if given["return_complex"] else emit(aten.stack.default, [*parts], -1)


def _rfft(graph: GraphModule, emit: Emitter, node: Node) -> ComplexParts | None:
    given = _arguments(node)
    x, shape = given["self"], [*given["self"].meta["val"].shape]
    if given["dim"] % len(shape) != len(shape) - 1:
        return None
    size = given["n"] or shape[-1]
    taken, bins = min(size, shape[-1]), size // 2 + 1
    factor = {"ortho": math.sqrt(size), "forward": size}.get(given["norm"], 1)
    x = x if taken == shape[-1] else emit(aten.slice.Tensor, x, -1, 0, taken)
    rows = emit(aten.reshape.default, x, [-1, 1, taken])
    mixed = _convolved(graph, emit, rows, _cosines_and_sines(size, bins)[:, :taken] / factor, 1)
    return _halves(emit, emit(aten.reshape.default, mixed, [*shape[:-1], 2 * bins]), -1, bins)


def _side_by_side(graph: GraphModule, emit: Emitter, node: Node) -> ComplexParts:
    """Both parts of ``view_as_complex``."""
    first, second = (emit(aten.select.int, node.args[0], -1, part) for part in (0, 1))
    return first, second


def _given_parts(graph: GraphModule, emit: Emitter, node: Node) -> ComplexParts:
    """Both parts of ``complex``."""
    real, imaginary = node.args
    assert isinstance(real, Node) and isinstance(imaginary, Node)
    return real, imaginary


def _constant_of_parts(graph: GraphModule, emit: Emitter, node: Node) -> ComplexParts:
    """Both parts of a complex constant."""
    value = attribute(graph, str(node.target)).detach()
    name = str(node.target).replace(".", "_")
    named = (("real", value.real.float().contiguous()), ("imaginary", value.imag.float().contiguous()))
    first, second = (shared_constant(graph, emit, f"{name}_{part}", each, node) for part, each in named)
    return first, second


_MAKERS: Mapping[Any, Callable[[GraphModule, Emitter, Node], Node | ComplexParts | None]] = {
    _STFT: _stft,
    _RFFT: _rfft,
    aten.view_as_complex.default: _side_by_side,
    aten.complex.default: _given_parts,
    _constant_of_parts: _constant_of_parts,
}


def _cosines_and_sines(size: int, bins: int) -> Tensor:
    """The real parts' factors, and below them the imaginary parts', float64 [2 bins, size]."""
    turns = torch.outer(torch.arange(bins), torch.arange(size)) % size
    angles = 2 * math.pi * turns.double() / size
    return torch.cat([angles.cos(), -angles.sin()])


def _convolved(graph: GraphModule, emit: Emitter, rows: Node, table: Tensor, step: int) -> Node:
    """Samples [B, 1, T] times a table at every step, [B, 2 bins, frames]."""
    weight = table.float()[:, None].contiguous()
    name = f"{SPECTRUM}_{sha256(weight.numpy().tobytes()).hexdigest()[:8]}"
    return emit(aten.conv1d.default, rows, shared_constant(graph, emit, name, weight, rows), None, [step])


def _halves(emit: Emitter, mixed: Node, dim: int, bins: int) -> ComplexParts:
    first, second = (emit(aten.slice.Tensor, mixed, dim, start, start + bins) for start in (0, bins))
    return first, second


def _arguments(node: Node) -> dict[str, Any]:
    """The arguments of a call by name, with those that were left out."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    given = dict(zip((each.name for each in schema), node.args, strict=False))
    return {each.name: each.default_value for each in schema} | given | dict(node.kwargs)


def _is_other_transform(node: Node) -> bool:
    """Whether a node is a Fourier transform that is not written out."""
    name = str(getattr(getattr(node.target, "_schema", None), "name", ""))
    return name.startswith(("aten::fft_", "aten::_fft_")) or name == "aten::istft"


def _refused(where: str, node: Node) -> InputError:
    named = str(node.target).removeprefix("aten.").partition(".")[0]
    return InputError(
        what="the module computes with complex numbers in a way that no target does",
        where=where,
        why=f"{named} makes a spectrum, or reads one; written in real numbers are torch.stft, torch.fft.rfft over the "
        "last dimension, view_as_complex, abs, real, imag, view_as_real, indexing, sums, products and real factors",
        fix="return or process view_as_real(spectrum), or give the module features that are computed before it",
        code="E945",
    )
