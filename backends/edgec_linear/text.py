"""A region's steps as the text of a delegate, and the data that it names (kernels/region/region_text.h)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod

from executorch.exir._serialize._named_data_store import NamedDataStore
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.backends.edgec_linear.layout import BlockRows
from edgec.backends.edgec_linear.steps import Binary, Constant, Function, Group, Norm, Product, Step
from edgec.backends.edgec_linear.weights import packed
from edgec.backends.xnnpack.delegate import ALIGNMENT, DelegateConstant, raw_bytes
from edgec.ir.attributes import attribute

_FORMAT = 1
_NONE = "-"


@dataclass
class DelegateText:
    """Writes the lines of one delegate, and collects what they name.

    Attributes:
        graph: the owner of the constants.
        block_rows: the layout of all matrices.
        values: the number of each value, the region's inputs first.
    """

    graph: GraphModule
    block_rows: BlockRows
    values: dict[Node, int]
    store: NamedDataStore = field(default_factory=NamedDataStore)
    stored: list[DelegateConstant] = field(default_factory=list)

    def blob(self, inputs: Sequence[Node], outputs: Sequence[Node], steps: Sequence[Step]) -> bytes:
        """The delegate's bytes."""
        body = [line for step in steps for line in self.lines(step)]
        widths = [str(int(node.meta["val"].shape[2])) for node in self.values]
        head = [
            f"edgec.linear {_FORMAT}",
            f"block_rows {int(self.block_rows)}",
            f"widths {' '.join(widths)}",
            f"inputs {len(inputs)}",
            f"outputs {' '.join(str(self.values[node]) for node in outputs)}",
        ]
        return "".join(f"{line}\n" for line in (*head, *body, "end")).encode()

    @singledispatchmethod
    def lines(self, step: Step) -> list[str]:
        """The lines of a step."""
        raise TypeError(step)

    @lines.register
    def _(self, step: Norm) -> list[str]:
        weight = _NONE if step.weight is None else self._float(step.weight)
        return [f"norm {self.values[step.out]} {self.values[step.x]} {step.eps!r} {weight}"]

    @lines.register
    def _(self, step: Group) -> list[str]:
        epilogue = "gate" if step.gate else "none" if step.add is None else "add"
        other = 0 if step.add is None else self.values[step.add]
        line = f"group {self.values[step.x]} {len(step.products)} {epilogue} {other} {step.gate or 'none'}"
        return [line, *map(self._matrix, step.products)]

    @lines.register
    def _(self, step: Binary) -> list[str]:
        a, b = (self.values[node] for node in step.x)
        return [f"binary {step.kind} {self.values[step.out]} {a} {b}"]

    @lines.register
    def _(self, step: Constant) -> list[str]:
        key = self._keep(step.out.name, "float32", raw_bytes(step.values), step.values.numel())
        return [f"constant {step.kind} {self.values[step.out]} {self.values[step.x]} {step.values.numel()} {key}"]

    @lines.register
    def _(self, step: Function) -> list[str]:
        return [f"function {step.kind} {self.values[step.out]} {self.values[step.x]}"]

    def _matrix(self, product: Product) -> str:
        shape, data = packed(self.graph, product.matrix, self.block_rows)
        grid = shape.grid
        count, scales = shape.rows * shape.width, product.matrix.scale_name
        key = self._keep(product.matrix.name, f"int{grid.bits}", raw_bytes(data), count, (scales,))
        bias = _NONE if product.bias is None else self._float(product.bias)
        numbers = (self.values[product.out], shape.rows, shape.group, grid.bits, grid.step, grid.offset)
        return f"matrix {' '.join(map(str, numbers))} {key} {bias}"

    def _float(self, name: str) -> str:
        value: Tensor = attribute(self.graph, name).detach().float()
        return self._keep(name, "float32", raw_bytes(value), value.numel())

    def _keep(self, name: str, encoding: str, data: bytes, values: int, inside: tuple[str, ...] = ()) -> str:
        key = hashlib.sha256(data).hexdigest()
        self.store.add_named_data(key, data, alignment=ALIGNMENT)
        self.stored.append(DelegateConstant(name, encoding, len(data), key, values, inside))
        return key
