"""A region's steps as the text of a delegate, and the data that it names (kernels/region/region_text.h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod

from executorch.exir._serialize._named_data_store import NamedDataStore
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.linear.steps import (
    BinaryStep,
    ConstantStep,
    FunctionStep,
    MatrixGroup,
    MatrixProduct,
    NormStep,
    Step,
)
from edgec.backends.cpu.linear.weights import keep_matrix
from edgec.backends.cpu.regions.delegate import DelegateConstant, keep, raw_bytes
from edgec.ir.attributes import attribute

_FORMAT = 3
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
    def _(self, step: NormStep) -> list[str]:
        weight = _NONE if step.weight is None else self._parameter(step.weight)
        return [f"norm {self.values[step.out]} {self.values[step.x]} {step.eps!r} {weight}"]

    @lines.register
    def _(self, step: MatrixGroup) -> list[str]:
        epilogue = "gate" if step.gate else "none" if step.add is None else "add"
        other = 0 if step.add is None else self.values[step.add]
        line = f"group {self.values[step.x]} {len(step.products)} {epilogue} {other} {step.gate or 'none'}"
        return [f"{line} {step.inputs}", *map(self._matrix, step.products)]

    @lines.register
    def _(self, step: BinaryStep) -> list[str]:
        a, b = (self.values[node] for node in step.x)
        return [f"binary {step.kind} {self.values[step.out]} {a} {b}"]

    @lines.register
    def _(self, step: ConstantStep) -> list[str]:
        key = self._float(step.out.name, step.values)
        return [f"constant {step.kind} {self.values[step.out]} {self.values[step.x]} {step.values.numel()} {key}"]

    @lines.register
    def _(self, step: FunctionStep) -> list[str]:
        return [f"function {step.kind} {self.values[step.out]} {self.values[step.x]}"]

    def _matrix(self, product: MatrixProduct) -> str:
        shape, constant = keep_matrix(self.graph, product.matrix, self.block_rows, self.store)
        self.stored.append(replace(constant, matrix=(shape.rows, shape.width)))
        grid = shape.grid
        bias = _NONE if product.bias is None else self._parameter(product.bias)
        numbers = (self.values[product.out], shape.rows, shape.group, grid.bits, grid.step, grid.offset)
        return f"matrix {' '.join(map(str, numbers))} {shape.scale_form} {constant.key} {bias}"

    def _parameter(self, name: str) -> str:
        return self._float(name, attribute(self.graph, name).detach().float())

    def _float(self, name: str, value: Tensor) -> str:
        self.stored.append(keep(self.store, name, "float32", raw_bytes(value), value.numel()))
        return self.stored[-1].key
