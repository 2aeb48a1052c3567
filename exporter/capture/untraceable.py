"""Refuse models that cannot be traced, with the reason: layers that no cache serves, sizes that values decide.

What torch.export assumes about sizes and cannot prove stands in the graph as assertions (``ir/reexport.py``): they are
tried here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import nn
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from edgec.errors import InputError
from edgec.exporter.capture.key_bias import value_for
from edgec.ir.reexport import UNPROVED
from edgec.passes.contract import nodes_of

_BY_VALUE = "data-dependent"

# What layers do that attention over a cache of keys and values cannot, by the names of their classes.
_UNHELD: Mapping[str, str] = {
    r"Indexer$": "chooses which keys are attended to, and keeps its own keys: edgec cannot do that",
    # Reformer
    r"^(LSH|Local)SelfAttention$": "cuts the text into chunks, which it pads, and attends within them: edgec cannot",
    # ProphetNet
    r"NgramSelfAttention$": "computes streams of coming tokens beside the text, in code that edgec cannot replace",
    r"^CpmAntModel$": "places prompt tokens before the text, and lets its tokens see those after them",
}


def refuse_unheld_layers(model: nn.Module) -> None:
    """Refuse a model with a layer whose attention no cache of keys and values serves (DeepSeek V4 and others).

    Raises:
        InputError: E109.
    """
    for name, module in model.named_modules():
        kind = type(module).__name__
        for pattern, why in _UNHELD.items():
            if re.search(pattern, kind):
                raise _refused(type(model).__name__, f"{name} ({kind}) {why}")


def refuse_unknown_sizes(graph: GraphModule, where: str) -> None:
    """Refuse sizes that depend on the values of a graph's inputs.

    Raises:
        InputError: E109.
    """
    if any(_is_unknown(node.meta.get("val")) for node in graph.graph.nodes):
        raise _refused(where, "a size inside the model depends on the tokens, as when experts sort them")


def refuse_special_sizes(graph: GraphModule, max_tokens: int, where: str) -> None:
    """Try a decoder's assertions about sizes for several numbers of tokens.

    Raises:
        InputError: E109.
    """
    for node in nodes_of(graph, torch.ops.aten._assert_scalar.default):
        for tokens in sorted({2, 3, min(8, max_tokens), max_tokens - 1, max_tokens}):
            if value_for(graph, node.args[0], tokens) is False:
                raise _refused(where, f"sizes inside the model allow only some numbers of tokens: {node.args[1]}")


def _is_unknown(value: object) -> bool:
    return isinstance(value, torch.Tensor) and bool(free_unbacked_symbols(value))


def untraceable(model: nn.Module, error: Exception) -> InputError:
    """The error for a model that torch.export gave up on, with the line of its message that says why."""
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip() and UNPROVED not in line]
    why = lines[0] if lines else type(error).__name__
    return _refused(type(model).__name__, _own_loop(model) or why if _BY_VALUE in why else why)


def _own_loop(model: nn.Module) -> str:
    """The first experts of a model that transformers offers no other code for; "" where it has none."""
    for name, module in model.named_modules():
        kind = type(module).__name__
        if kind.endswith("Experts") and not hasattr(module, "has_gate"):
            return f"{name} ({kind}) goes through the experts that the tokens chose in a loop that edgec cannot replace"
    return ""


def _refused(where: str, why: str) -> InputError:
    return InputError(
        what="the model could not be traced by torch.export",
        where=where,
        why=re.sub(r"L\['(\w+)'\]\.size\(\)\[1\]", r"S", why)[:300],
        fix="report the architecture; your own modules must avoid data-dependent Python control flow",
        code="E109",
    )
