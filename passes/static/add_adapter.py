"""Compute an adapter's low-rank changes beside the matrices that they change, which stay as they are.

    x -> linear(W) -> y
    ==>
    x -> linear(W) -> y -> + -> ...
    x -> linear(A [r,K]) -> linear(scale * B [N,r]) -> +

LoRA (Hu et al. 2021, arXiv 2106.09685), added where PEFT adds it: W keeps its integers or look-up indices, so that a
graph with the adapter and one without share them. Modules are found by the names of their weights in the model; a tied
lm_head's weight has the embedding's name. ``scale`` is multiplied into B before anything is rounded. Legality: each
module of the adapter is a linear layer of the graph, and no lm_head that ``split_linear`` will cut. Semantic.
Measured on a tiny random Llama (2 layers, hidden size 32) with rank 4 on the 14 matrices of its layers: 138 nodes and
123,552 bytes before, 208 and 143,008 after.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attributes import read_shared
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import WEIGHT_FORMS, decisions_of, parameter_name, parameter_of
from edgec.passes.contract import nodes_of
from edgec.passes.prefill.last_logits import lm_head_linear

aten = torch.ops.aten
LINEAR = aten.linear.default
_LM_HEAD = "lm_head"
_NAMED = 3
_ADDED = re.compile(r"_lora_[AB](_part\d+|_conv|_channels)*$")


@dataclass(frozen=True, eq=False)
class LowRankChange:
    """What is added to a module's output: ``scale * b (a x)``; ``a`` float32 [rank, width], ``b`` [rows, rank]."""

    a: Tensor
    b: Tensor
    scale: float


class LowRankChanges:
    """The changes of an adapter by the names of their modules, with a short text for a program's history."""

    def __init__(self, of: Mapping[str, LowRankChange]) -> None:
        self.of = of

    def __repr__(self) -> str:
        return f"{len(self.of)} matrices"


@dataclass(frozen=True)
class AddAdapter:
    """Add an adapter's changes; semantic: the model is another one on purpose.

    Attributes:
        adapter: its name, an identifier.
        changes: of its modules.
        most_logits: the most outputs of an lm_head, which is cut above that.
    """

    adapter: str
    changes: LowRankChanges
    most_logits: int
    name: str = "add_adapter"
    effect: Effect = Effect.SEMANTIC

    def requires(self, program: Program) -> None:
        """The graph has each of the adapter's modules as a linear layer, whole."""
        layers = _layers(program.graph)
        absent = [name for name in self.changes.of if name not in layers]
        if absent:
            raise self._refused(absent, "the exported graph has no such linear layers: a pass left them out")
        last = lm_head_linear(program.graph)
        changed = [name for name in self.changes.of if last in layers[name]]
        if changed and last is not None and int(last.meta["val"].shape[-1]) > self.most_logits:
            why = f"its {last.meta['val'].shape[-1]:,} logits are computed in parts of at most {self.most_logits:,}"
            raise self._refused(changed, why)

    def _refused(self, names: list[str], why: str) -> InputError:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return InputError(
            f"The adapter changes what this artifact cannot change: {', '.join(names[:_NAMED])}{more}.",
            where=f"--adapter {self.adapter}",
            why=why,
            fix="train it with other target_modules, or export without it",
            code="E693",
        )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Add the change of every layer that the adapter names."""
        layers = _layers(graph)
        for name, change in self.changes.of.items():
            for linear in layers[name]:
                self._add(graph, linear, change)
        return program.interface

    def _add(self, graph: GraphModule, linear: Node, change: LowRankChange) -> None:
        owner = str(_leaf(linear).target).rpartition(".")[0]  # type: ignore[union-attr]
        names = (f"{owner}.{self.adapter}_lora_{side}".lstrip(".") for side in "AB")
        values = (change.a, change.scale * change.b)
        with graph.graph.inserting_after(linear):
            total = graph.graph.call_function(aten.add.Tensor, (linear, linear))
        with graph.graph.inserting_before(total):
            a, b = (_held(graph, name, value) for name, value in zip(names, values, strict=True))
            narrow = graph.graph.call_function(LINEAR, (linear.args[0], a))
            wide = graph.graph.call_function(LINEAR, (narrow, b))
        linear.replace_all_uses_with(total, delete_user_cb=lambda user: user is not total)
        total.args = (linear, wide)
        narrow.meta["val"] = linear.meta["val"].new_empty((*linear.meta["val"].shape[:-1], len(change.a)))
        wide.meta["val"] = total.meta["val"] = linear.meta["val"]

    def ensures(self, program: Program) -> None:
        """Every change is in the graph."""
        held = {str(node.target) for node in program.graph.graph.nodes if node.op == "get_attr"}
        ends = [name for name in held if name.rpartition(".")[2] == f"{self.adapter}_lora_A"]
        assert len(ends) == len(self.changes.of)


def is_added(tensor: str) -> bool:
    """Whether a tensor of a graph, or a piece or view of one, is the A or B of an adapter."""
    return _ADDED.search(tensor) is not None


def _held(graph: GraphModule, name: str, value: Tensor) -> Node:
    node = read_shared(graph, name, lambda: nn.Parameter(value, requires_grad=False))
    node.meta["val"] = value
    return node


def _layers(graph: GraphModule) -> Mapping[str, list[Node]]:
    """The linear layers by the names of their modules; the one that makes the logits is also ``lm_head``."""
    owners = {buffer: decision.name for decision in decisions_of(graph) for buffer in decision.buffers}
    last, layers = lm_head_linear(graph), dict[str, list[Node]]()
    for linear in nodes_of(graph, LINEAR):
        for name in _names(linear, owners, linear is last):
            layers.setdefault(name, []).append(linear)
    return layers


def _names(linear: Node, owners: Mapping[str, str], makes_logits: bool) -> Iterator[str]:
    leaf = _leaf(linear)
    if leaf is None:
        return
    name = owners.get(str(leaf.target), parameter_name(leaf)).removesuffix(".weight")
    yield name
    if makes_logits and name != _LM_HEAD:
        yield _LM_HEAD


def _leaf(linear: Node) -> Node | None:
    """The tensor that holds the values, integers or indices of a layer's weight."""
    weight = linear.args[1]
    if isinstance(weight, Node) and weight.target in (*WEIGHT_FORMS, DEQUANTIZE_LUT):
        weight = weight.args[0]
    return parameter_of(weight)
