"""LSTM and GRU layers as loops of ExecuTorch's own: any app's runtime has what they call.

    edgec::lstm(given [B, T, 4 H], h, c, W)
    ==>
    scan(step, [h, c], permute(given) [T, B, 4 H]) -> h, c, rows [T, B, H] -> permute, cat the last c
    step: h, c, given -> XNNPACK's delegate, which holds W -> h, c

A loop is torch's ``scan``, which ExecuTorch emits as jumps (``exir/emit/_emitter.py``, version 1.5). The step is
lowered on its own, so that its matrix is a constant of the delegate, and joined after the program around it has been
partitioned: as an argument of a traced scan it would be multiplied by portable kernels. Legality: float weights, sizes
that do not vary. Exact. Measured on an LSTM of 256 over 160 steps of 40 values: lowered in 8 CPU s and run in 22 ms,
written out step by step 129 s and 15 ms.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from edgec.ir.recurrent_layers import GRU, LSTM, WEIGHT
from edgec.passes.graph.emit import Emitter

_BIAS = 3
"""The place of a GRU's bias among its arguments."""


RECURRENT: Final = frozenset(str(each._schema.name) for each in WEIGHT)
"""The names of the operators that become loops."""


_EMITTED: Final = ("aten::copy_", "aten::select_copy", "aten::sym_size")
"""What ExecuTorch calls around each step, beside what is part of every runtime."""


@dataclass(frozen=True)
class LoopedLayer:
    """A loop: the lowered graph of its step, how many steps a call takes, and the operators around them, by name."""

    step: GraphModule
    steps: int
    operators: tuple[str, ...]


def loop_recurrent_layers(edge: Any) -> list[LoopedLayer]:
    """Replace each recurrent operator of an edge program that is partitioned already.

    Args:
        edge: an ``EdgeProgramManager`` of one method.
    """
    program = edge.exported_program()
    nodes = [node for node in program.graph.nodes if _name(node) in RECURRENT]
    made = [_Loop(edge, program, node, f"loop_{index}").replace() for index, node in enumerate(nodes)]
    program.graph_module.recompile()
    return made


def _name(node: Node) -> str:
    return str(getattr(getattr(node.target, "_schema", None), "name", ""))


class _LstmStep(nn.Module):
    """One step of ``edgec::lstm``."""

    weight: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, hidden: Tensor, cell: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        enter, keep, new, show = _gates(given + nn.functional.linear(hidden, self.weight), 4)
        cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(new)
        return torch.sigmoid(show) * torch.tanh(cell), cell


class _GruStep(nn.Module):
    """One step of ``edgec::gru``."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, hidden: Tensor, given: Tensor) -> tuple[Tensor]:
        reset, keep, new = _gates(given, 3)
        own_reset, own_keep, own_new = _gates(nn.functional.linear(hidden, self.weight, self.bias), 3)
        fresh = torch.tanh(new + torch.sigmoid(reset + own_reset) * own_new)
        return (fresh + torch.sigmoid(keep + own_keep) * (hidden - fresh),)


def _gates(x: Tensor, count: int) -> list[Tensor]:
    """Slices, which XNNPACK takes where it does not take ``chunk``."""
    size = x.shape[-1] // count
    return [x[:, index * size : (index + 1) * size] for index in range(count)]


class _Loop:
    """One operator to replace."""

    def __init__(self, edge: Any, program: ExportedProgram, node: Node, name: str) -> None:
        self.edge, self.program, self.node, self.name = edge, program, node, name
        self.is_lstm = _name(node) == LSTM._schema.name
        arguments: Any = node.args
        self.given, self.backwards = arguments[0], arguments[-1]
        self.states = list(arguments[1:3] if self.is_lstm else arguments[1:2])
        self.constants = [arguments[WEIGHT[LSTM if self.is_lstm else GRU]]]
        if not self.is_lstm and arguments[_BIAS] is not None:
            self.constants.append(arguments[_BIAS])

    def replace(self) -> LoopedLayer:
        """Write the loop in the operator's place."""
        graph, step = self.program.graph_module, self._step()
        setattr(graph, self.name, step)
        before = set(graph.graph.nodes)
        with graph.graph.inserting_before(self.node):
            made = self._around(Emitter(graph.graph))
        around = [_name(node) for node in graph.graph.nodes if node not in before and _name(node)]
        self.node.replace_all_uses_with(made)
        graph.graph.erase_node(self.node)
        for constant in self.constants:
            _drop(self.program, constant)
        return LoopedLayer(step, int(self.given.meta["val"].shape[1]), (*around, *_EMITTED))

    def _around(self, emit: Emitter) -> Node:
        """The loop, from the operator's arguments to its result."""
        aten = _edge_operators()
        rows = emit(aten.permute_copy.default, self.given, [1, 0, 2])
        if self.backwards:
            rows = emit(aten.flip.default, rows, [0])
        last, shown = self._scan(emit.graph, rows)
        if self.backwards:
            shown = emit(aten.flip.default, shown, [0])
        shown = emit(aten.permute_copy.default, shown, [1, 0, 2])
        if not self.is_lstm:
            return shown
        return emit(aten.cat.default, [shown, emit(aten.unsqueeze_copy.default, last[1], 1)], 1)

    def _scan(self, graph: Graph, rows: Node) -> tuple[list[Node], Node]:
        """The loop's last states, and the hidden state after each step [T, B, H]."""
        step = graph.get_attr(self.name)
        scan = graph.call_function(torch.ops.higher_order.scan, (step, self.states, [rows], ()))
        hidden = self.states[0].meta["val"]
        values = [*(state.meta["val"] for state in self.states)]
        scan.meta["val"] = [*values, hidden.new_empty((rows.meta["val"].shape[0], *hidden.shape))]
        picked = []
        for place, value in enumerate(scan.meta["val"]):
            picked.append(graph.call_function(operator.getitem, (scan, place)))
            picked[-1].meta["val"] = value
        return picked[:-1], picked[-1]

    def _step(self) -> GraphModule:
        """The lowered step: states and what the input adds -> states, and the hidden state once more."""
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

        values = [_value(self.program, each) for each in self.constants]
        module = _LstmStep(values[0]) if self.is_lstm else _GruStep(values[0], values[1] if values[1:] else None)
        given = self.given.meta["val"]
        example = [torch.randn(state.meta["val"].shape) for state in self.states]
        example.append(torch.randn(given.shape[0], given.shape[2]))
        lowered = to_edge_transform_and_lower(
            torch.export.export(module.eval(), tuple(example), strict=False),
            partitioner=[XnnpackPartitioner()],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
        # The delegate's weights lie beside it, and belong to the whole program from here on.
        self.edge._named_data_store.merge_named_data_store(lowered._named_data_store.get_named_data_store_output())
        return _with_shown(lowered.exported_program(), len(self.states))


def _with_shown(step: ExportedProgram, states: int) -> GraphModule:
    """A step's graph as ``scan`` calls it."""
    graph = step.graph_module
    (output,) = [node for node in graph.graph.nodes if node.op == "output"]
    made: Any = output.args[0]
    assert len(made) == states and len(step.graph_signature.user_inputs) == states + 1
    output.args = ([*made, made[0]],)
    return GraphModule(graph, graph.graph)


def _value(program: ExportedProgram, node: Node) -> Tensor:
    """The constant that a placeholder stands for."""
    signature = program.graph_signature
    target = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}.get(node.name)
    if target is not None and target in program.state_dict:
        value: Tensor = program.state_dict[target]
        return value.detach()
    named: Any = {**signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers}
    value = program.constants[named[node.name]]
    return value.detach()


def _drop(program: ExportedProgram, node: Node) -> None:
    """Take a constant that nobody reads any more out of a program."""
    if node.users:
        return
    (spec,) = [each for each in program.graph_signature.input_specs if each.arg.name == node.name]
    program.graph_signature.input_specs.remove(spec)
    for held in (program.state_dict, program.constants):
        held.pop(str(spec.target), None)
    program.graph_module.graph.erase_node(node)


def _edge_operators() -> Any:
    from executorch.exir.dialects._ops import ops

    return ops.edge.aten
