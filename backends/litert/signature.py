"""A static method as LiteRT-LM calls it.

    tokens int32 [1,S], start [1], last [1], K, V ..  ->  logits, next_K, next_V ..
    ==>
    tokens int32 [1,S], input_pos int32 [S], kv_cache_k_0 ..  ->  kv_cache_k_0 .., and of ``decode`` logits

LiteRT-LM fills a call up with token 0 at position 0, so that positions are counted from the first one. It asks for no
logits of a prompt: its last token goes through ``decode``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from edgec.backends.litert.matrix_inputs import empty_matrices
from edgec.backends.litert.names import LOGITS, POSITIONS, TOKENS, cache_names, signature_name
from edgec.ir.program import Interface, Program, TensorType
from edgec.ir.static_methods import NEW_STATE


class LitertSignature(torch.nn.Module):
    """The graph of a static method under LiteRT-LM's names."""

    last: Tensor

    def __init__(self, program: Program, graph: GraphModule) -> None:
        """``graph``: that of the program, in LiteRT's operators."""
        super().__init__()
        self.method, self.names = graph, cache_names(program.interface.states)
        self.matrices = empty_matrices(graph)
        self.tokens = tokens_of(program)
        self.name = signature_name(self.tokens)
        self.order = [tensor.name for tensor in program.interface.inputs]
        self.results = [tensor.name for tensor in program.interface.outputs]
        self.register_buffer("last", torch.tensor([self.tokens - 1], dtype=torch.int32))

    def forward(self, tokens: Tensor, input_pos: Tensor, **others: Tensor) -> dict[str, Tensor]:
        """Call the method with caches and matrices; its outputs by LiteRT-LM's names."""
        held = {own: others[name] for own, name in self.names.items()}
        given = {"tokens": tokens, "start": input_pos[:1], "last": self.last, **held}
        inputs = [*(given[name] for name in self.order), *(others[name] for name in self.matrices)]
        made: Mapping[str, Any] = dict(zip(self.results, self.method(*inputs), strict=True))
        outputs = {name: made[f"{NEW_STATE}{own}"] for own, name in self.names.items()}
        return {**outputs, LOGITS: made["logits"]} if self.tokens == 1 else outputs

    def example(self, program: Program) -> dict[str, Tensor]:
        """Inputs of the right types and shapes."""
        return {
            tensor.name: torch.zeros(tensor.shape, dtype=tensor.dtype)  # type: ignore[arg-type]
            for tensor in signature_interface(program).inputs
        } | dict(self.matrices)


def tokens_of(program: Program) -> int:
    """Tokens that a static method takes."""
    return int(next(each.shape[1] for each in program.interface.inputs if each.name == "tokens"))  # type: ignore[arg-type]


def signature_interface(program: Program) -> Interface:
    """The inputs and outputs of a static method's signature."""
    tokens, names = tokens_of(program), cache_names(program.interface.states)
    states = {state.buffer: state for state in program.interface.states}
    caches = tuple(TensorType(name, states[own].dtype, states[own].shape) for own, name in names.items())
    logits = tuple(each for each in program.interface.outputs if each.name == LOGITS and tokens == 1)
    inputs = (TensorType(TOKENS, torch.int32, (1, tokens)), TensorType(POSITIONS, torch.int32, (tokens,)))
    return Interface((*inputs, *caches), (*caches, *logits), program.interface.states)
