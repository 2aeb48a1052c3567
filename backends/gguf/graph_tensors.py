"""The parameters of a rewritten decoder as its graph stores them: matrices of integers, or floats."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.backends.cpu.linear.scale_forms import Affine
from edgec.backends.gguf.block_types import GridMatrix
from edgec.ir.attributes import attribute
from edgec.ir.minimum_form import DEQUANTIZE_MINIMUM
from edgec.ir.quantized_form import WEIGHT_FORMS, decisions_of, parameter_name

aten = torch.ops.aten
EMBEDDING, LM_HEAD = "model.embed_tokens.weight", "lm_head.weight"
_ROLES = {"embedding": EMBEDDING, "vocabulary": LM_HEAD}


@dataclass(frozen=True)
class GraphTensor:
    """A parameter in a graph.

    Attributes:
        buffers: the attributes that hold it: integers, scales, and zero points or minimums; or floats alone.
        lifted: integers have minimums.
        reason: why it is not stored as it was asked for; empty where it is.
        asked_bits: of an integer, as it was asked for; 0 of floats.
    """

    buffers: tuple[str, ...]
    lifted: bool = False
    reason: str = ""
    asked_bits: float = 0.0

    @property
    def is_grid(self) -> bool:
        """Whether it is stored as integers."""
        return len(self.buffers) > 1

    def grid(self, graph: GraphModule) -> GridMatrix:
        """Its integers, scales and minimums."""
        integers, scale, beside = (attribute(graph, name) for name in self.buffers)
        scales = scale.float().reshape(len(integers), -1)
        return GridMatrix(integers, Affine(scales, beside.float() if self.lifted else None))

    def floats(self, graph: GraphModule) -> Tensor:
        """Its values, in the dtype that they are stored in."""
        value: Tensor = attribute(graph, self.buffers[0])
        return value.detach()


def graph_tensors(graph: GraphModule) -> dict[str, GraphTensor]:
    """Every parameter that a decoder's graph reads, by its own name; an embedding and an lm_head apart."""
    found = dict(_floats(graph))
    lifted = {str(node.args[0].target) for node in graph.graph.nodes if node.target is DEQUANTIZE_MINIMUM}
    for decision in decisions_of(graph):
        if decision.used is not None:
            name = _ROLES.get(decision.role, decision.name)
            asked = decision.requested.information_bits if decision.requested else 0.0
            found[name] = GraphTensor(decision.buffers, decision.buffers[0] in lifted, decision.reason, asked)
    return found


def _floats(graph: GraphModule) -> list[tuple[str, GraphTensor]]:
    reasons = {_ROLES.get(each.role, each.name): each.reason for each in decisions_of(graph) if each.used is None}
    leaves = [node for node in graph.graph.nodes if node.op == "get_attr" and node.users]
    plain = [node for node in leaves if not any(user.target in WEIGHT_FORMS for user in node.users)]
    named = [(name, str(node.target)) for node in plain for name in _names(node)]
    return [(name, GraphTensor((target,), reason=reasons.get(name, ""))) for name, target in named]


def _names(leaf: Node) -> list[str]:
    """The parameter's name, or those of the embedding and the lm_head that read it."""
    own = parameter_name(leaf)
    if own not in (EMBEDDING, LM_HEAD):
        return [own]
    readers = [reader for user in leaf.users for reader in (user.users if user.target is aten.to.dtype else (user,))]
    tables = [EMBEDDING for reader in readers if reader.target is aten.embedding.default]
    return list(dict.fromkeys([*tables, *(LM_HEAD for reader in readers if reader.target is aten.linear.default)]))
