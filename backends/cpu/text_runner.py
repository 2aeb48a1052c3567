"""What ExecuTorch's TextLLMRunner asks of a decoder's artifact: a method of two inputs, and constants by its names.

    tokens [1, S], positions [S], logit_index [K] -> forward_rows -> logits [1, K, V]
        ==>
    tokens [1, S], positions [S] -> forward_rows with slice(-1) in the place of index_select -> logits [1, 1, V]

Apps with that runner, which Android's and Apple's packages of ExecuTorch bring, call ``forward``; edgec's own runtimes
call ``forward_rows``, since they also ask for rows of several positions: to verify drafts, and to score texts. Both
methods refer to one copy of all delegates and constants; each has states of its own, and an app opens one of them.
Legality: an input ``logit_index`` that only selects rows. The names are those of ExecuTorch 1.5.1's
extension/llm/runner/constants.h. Measured on tiny-stories with standard kernels: 1.0 % more bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from edgec.bundle.entry_points import FORWARD, FORWARD_ROWS
from edgec.ir.program import Interface
from edgec.passes.contract import output_node, placeholder

aten = torch.ops.aten
_ROWS, _TO_THE_END = "logit_index", (1 << 63) - 1

Method = tuple[GraphModule, Interface]


@dataclass(frozen=True)
class RunnerFacts:
    """What the runner learns about a model from its artifact alone.

    Attributes:
        chunk: most tokens of one call.
        context: positions that the states have room for.
        vocabulary: logits per position.
        begin: the id that texts begin with, or None.
        ends: the ids that end a text; empty: those of the tokenizer.
    """

    chunk: int
    context: int
    vocabulary: int
    begin: int | None
    ends: tuple[int, ...]

    @property
    def constants(self) -> dict[str, int | bool | list[int]]:
        """The values of constant methods by their names."""
        known: dict[str, int | bool | list[int]] = {
            "get_max_seq_len": self.chunk,
            "get_max_context_len": self.context,
            "get_vocab_size": self.vocabulary,
            "use_kv_cache": True,
            # Positions are a tensor of all tokens, not the first one's alone.
            "use_sdpa_with_kv_cache": False,
            "enable_dynamic_shape": True,
        }
        begin = {} if self.begin is None else {"get_bos_id": self.begin}
        return {**known, **begin, **({"get_eos_ids": list(self.ends)} if self.ends else {})}


def with_last_logits(methods: Mapping[str, Method]) -> dict[str, Method]:
    """Methods with delegates in them, and ``forward`` beside the one that has rows, where there is one."""
    if FORWARD_ROWS not in methods or not _selects_rows(methods[FORWARD_ROWS][0]):
        return dict(methods)
    return {**methods, FORWARD: last_logits(*methods[FORWARD_ROWS])}


def _selects_rows(graph: GraphModule) -> bool:
    users = placeholder(graph, _ROWS).users
    return all(user.target in (aten.sym_size.int, aten.index_select.default) for user in users)


def last_logits(graph: GraphModule, interface: Interface) -> Method:
    """A copy of a method that is told which rows are wanted, which says the last position's logits alone."""
    copied = Graph()
    copied.output(copied.graph_copy(graph.graph, {}))
    made = GraphModule(graph, copied)
    rows = placeholder(made, _ROWS)
    for user in tuple(rows.users):
        _take_last(copied, user)
    copied.erase_node(rows)
    _only_logits(made)
    made.recompile()
    logits = interface.outputs[0]
    last = replace(logits, shape=(1, 1, logits.shape[-1]))
    return made, Interface(tuple(each for each in interface.inputs if each.name != _ROWS), (last,), interface.states)


def _take_last(graph: Graph, user: Node) -> None:
    """Let what the wanted rows were asked for ask for the last one."""
    if user.target is aten.sym_size.int:
        for each in tuple(user.users):
            each.args = map_arg(each.args, lambda node: 1 if node is user else node)
            each.kwargs = map_arg(each.kwargs, lambda node: 1 if node is user else node)
    else:
        with graph.inserting_before(user):
            last = graph.call_function(aten.slice.Tensor, (user.args[0], user.args[1], -1, _TO_THE_END))
        user.replace_all_uses_with(last)
    graph.erase_node(user)


def _only_logits(graph: GraphModule) -> None:
    """Leave out what a method says beside logits: hidden states, guesses at further tokens."""
    output = output_node(graph)
    outputs = output.args[0]
    assert isinstance(outputs, (tuple, list))
    output.args = ((outputs[0],),)
    graph.graph.eliminate_dead_code()
