"""Refuse layers of integers whose inputs are in float or rounded in groups, where no CPU kernel multiplies them right.

edgec's kernels take such a layer where its input is float32 [1, S, width]. XNNPACK's partitioner takes any other, and
runs it without the scales of its weights.
"""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from edgec.backends.cpu.linear.weights import LINEAR
from edgec.errors import InputError
from edgec.ir.experts import EXPERTS, ExpertsCall
from edgec.ir.quantized_form import DEQUANTIZE, rounded_input
from edgec.passes.contract import nodes_of

_SHOWN = 3


def refuse_float_inputs(graph: GraphModule) -> None:
    """Refuse what is left of such layers in a graph whose other linear layers are delegates of edgec's kernels.

    Raises:
        InputError: E579.
    """
    names = [_parameter(weight) for x, weight in _products(graph) if _is_dequantised(weight) and not _by_token(x)]
    if not names:
        return
    others = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    raise InputError(
        what="edgec's kernels cannot multiply these integer weights by activations in float or in groups",
        where=", ".join(names[:_SHOWN]) + others,
        why="they read float inputs of the form float32 [1, tokens, width], and scales of groups that bfloat16 holds; "
        "XNNPACK would run the layer without its scales",
        fix=f'add [[rules]] with parameters = "{names[0]}" and activation_bits = 8 (or float = true) to the recipe; '
        "scale_bits = 16 where weights have groups",
        code="E579",
    )


def _products(graph: GraphModule) -> list[tuple[Any, Any]]:
    """The input and the weight of every linear layer and of experts."""
    linears = [(node.args[0], node.args[1]) for node in nodes_of(graph, LINEAR)]
    calls = map(ExpertsCall.of, nodes_of(graph, EXPERTS))
    return [*linears, *((call.x, call.weight.args[0]) for call in calls if call.weight.args)]


def _is_dequantised(node: Any) -> bool:
    return isinstance(node, Node) and node.target is DEQUANTIZE


def _by_token(node: Any) -> bool:
    """Whether an input is rounded with a scale for each token, or in a way of its own."""
    rounded = rounded_input(node)
    return _is_dequantised(node) if rounded is None else rounded[1] == 0


def _parameter(weight: Node) -> str:
    """The name of the parameter that a weight's integers were made from."""
    return str(weight.all_input_nodes[0].target).removeprefix("decoder.").removesuffix("_int")
