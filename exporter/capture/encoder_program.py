"""Finish the traced graph of an encoder of images or of sound: weights, constants, its rows as output.

Rows are [1, T, width], as ExecuTorch's runner of multimodal models reads them; a model's own function says [T, width].
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import GraphModule

from edgec.exporter.capture.decoder import Skeleton, TensorSource, bind
from edgec.exporter.capture.layer_numbers import number_layers
from edgec.exporter.capture.reshaped_views import reshape_views
from edgec.ir.program import Interface, Program, TensorType
from edgec.ir.row_inputs import INPUT_EMBEDS
from edgec.passes.contract import output_node
from edgec.passes.graph.emit import Emitter


def encoder_program(
    graph: GraphModule, skeleton: Skeleton, weights: TensorSource, inputs: tuple[TensorType, ...]
) -> Program:
    """A Program whose output are the rows [1, T, width] of an encoder.

    Args:
        graph: as traced, with the output [T, width]; used up.
        skeleton: the model that was traced.
        weights: by the model's own parameter names.
        inputs: of fixed sizes.
    """
    graph.graph.eliminate_dead_code()
    number_layers(graph)
    bind(graph, skeleton.aliases, weights)
    reshape_views(graph)
    _with_batch(graph)
    _store_constants(graph)
    rows = tuple(int(size) for size in output_node(graph).all_input_nodes[0].meta["val"].shape)
    return Program(graph, Interface(inputs, (TensorType(INPUT_EMBEDS, torch.float32, rows),)))


def _with_batch(graph: GraphModule) -> None:
    output = output_node(graph)
    (rows,) = output.all_input_nodes
    with graph.graph.inserting_before(output):
        output.replace_input_with(rows, Emitter(graph.graph)(torch.ops.aten.unsqueeze.default, rows, 0))


def _store_constants(graph: GraphModule) -> None:
    """Store what is made from nothing (ranges, masks of ones), so that all that follows from it can be folded."""
    made = [node for node in graph.graph.nodes if node.op == "call_function" and not node.all_input_nodes]
    for index, node in enumerate(node for node in made if isinstance(node.meta.get("val"), Tensor)):
        graph.register_buffer(f"made_{index}", node.target(*node.args, **node.kwargs))
        with graph.graph.inserting_before(node):
            stored = graph.graph.get_attr(f"made_{index}")
        stored.meta = dict(node.meta)
        node.replace_all_uses_with(stored)
        graph.graph.erase_node(node)
    graph.recompile()
