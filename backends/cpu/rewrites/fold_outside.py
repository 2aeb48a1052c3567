"""Pack the tables of integers that no delegate took; every other constant is as ``fold_constants`` left it.

    embedding(dequantize(W_int), ids)      ->      embedding_4bit(W_packed, ids)
    embedding(W [73,16], ids [100,100])    ->      as it is: its 640,000 bytes would be stored for 4,672

ExecuTorch's own folding at ``to_executorch`` stores every constant, such as the rows that each pair of positions of
Wav2Vec2-BERT looks up, which the size ledger then refuses (E210).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

_PACKED = (torch.int8, torch.uint8)


def fold_outside(program: ExportedProgram) -> None:
    """Fuse quantised operators outside delegates and pack their integers, in place.

    Args:
        program: an edge program after delegation.
    """
    from executorch.exir.passes.constant_prop_pass import constant_prop_pass
    from executorch.exir.passes.quant_fusion_pass import QuantFusionPass, _get_node_value_dict

    QuantFusionPass(_fix_node_meta_val=True, node_value_dict=_get_node_value_dict(program))(program.graph_module)
    every = {node.target for node in program.graph.nodes if node.op == "call_function"}
    constant_prop_pass(program, custom_skip_targets=every - _packing(program))


def _packing(program: ExportedProgram) -> set[Any]:
    """The operators that are given constant integers of 8 bits, and nothing but constants."""
    given = set(program.graph_signature.user_inputs)
    integers: dict[Node, bool] = {}
    for node in program.graph.nodes:
        inputs = node.all_input_nodes
        if node.op == "placeholder" and node.name not in given:
            integers[node] = isinstance(value := node.meta["val"], Tensor) and value.dtype in _PACKED
        elif node.op == "call_function" and inputs and all(source in integers for source in inputs):
            integers[node] = any(integers[source] for source in inputs)
    return {node.target for node, packed in integers.items() if packed and node.op == "call_function"}
