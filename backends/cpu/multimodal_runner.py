"""What ExecuTorch's MultimodalRunner asks of a vision-language model's artifact: embeddings apart from their decoder.

    tokens, positions, input_embeds, embeds_mask, logit_index
        -> where(embeds_mask, input_embeds, table[tokens]) -> layers -> forward -> logits [1, K, V]
        ==>
    tokens [1, S] -> table[tokens]                        -> token_embedding -> input_embeds [1, S, width]
    input_embeds [1, S, width], positions [S] -> layers   -> text_decoder    -> logits [1, 1, V]

That runner gives the decoder one piece of a prompt at a time: the embeddings of a text, or the rows [1, T, width] that
``vision_encoder`` makes of an image. edgec's own runtimes call ``forward``. All methods refer to one copy of all
delegates and constants. Legality: tokens are read as embeddings alone, a row replaces one embedding and no more, and
positions are numbers: not where rows see rows after them (span_end), positions have three parts, or rows go into deeper
layers. The names are those of ExecuTorch 1.5.1's extension/llm/runner/constants.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch.fx import Graph, GraphModule, Node

from edgec.backends.cpu.text_runner import Method, last_logits
from edgec.bundle.entry_points import FORWARD, TEXT_DECODER, TOKEN_EMBEDDING
from edgec.ir.attention import SPAN_END
from edgec.ir.program import Interface
from edgec.ir.row_inputs import EMBEDS_MASK, INPUT_EMBEDS, MROPE
from edgec.passes.contract import nodes_of, placeholder

aten = torch.ops.aten
_TOKENS, _POSITIONS = "tokens", "positions"


def with_text_decoder(methods: Mapping[str, Method]) -> dict[str, Method]:
    """Methods with delegates in them, and the runner's two beside a decoder that reads rows, where it can have them."""
    graph, interface = methods.get(FORWARD, (None, None))
    if graph is None or interface is None or _joined(graph, interface) is None:
        return dict(methods)
    parts = {TOKEN_EMBEDDING: _token_embedding(graph, interface), TEXT_DECODER: _text_decoder(graph, interface)}
    return {**methods, **parts}


def _joined(graph: GraphModule, interface: Interface) -> Node | None:
    """The one node that puts rows into the place of embeddings; None where the decoder is of another form."""
    names = {each.name for each in interface.inputs}
    if not {INPUT_EMBEDS, EMBEDS_MASK} <= names or names & {SPAN_END, MROPE}:
        return None
    rows, tokens = placeholder(graph, INPUT_EMBEDS), placeholder(graph, _TOKENS)
    joins = [node for node in nodes_of(graph, aten.where.self) if node.args[1] is rows]
    if len(joins) != 1 or any(user not in joins and not _is_size(user) for user in rows.users):
        return None
    embeddings = _before(joins[0].args[2])
    sizes = {user for user in tokens.users if _is_size(user)}
    read = {node for node in embeddings if node.op == "placeholder"}
    return joins[0] if read == {tokens} and set(tokens.users) <= embeddings | sizes else None


def _is_size(node: Node) -> bool:
    return node.target is aten.sym_size.int


def _before(last: object) -> set[Node]:
    """A node and all that it is computed from."""
    assert isinstance(last, Node)
    found, left = {last}, [last]
    while left:
        further = set(left.pop().all_input_nodes) - found
        found |= further
        left += further
    return found


def _token_embedding(graph: GraphModule, interface: Interface) -> Method:
    joined = _joined(graph, interface)
    assert joined is not None
    copied, known, needed = Graph(), dict[Node, Node](), _before(joined.args[2])
    for node in graph.graph.nodes:
        if node in needed:
            known[node] = copied.node_copy(node, known.__getitem__)
    embedded = joined.args[2]
    assert isinstance(embedded, Node)
    copied.output((known[embedded],))
    tokens, rows = (next(each for each in interface.inputs if each.name == name) for name in (_TOKENS, INPUT_EMBEDS))
    return GraphModule(graph, copied), Interface((tokens,), (rows,))


def _text_decoder(graph: GraphModule, interface: Interface) -> Method:
    made, last = last_logits(graph, interface)
    joined = _joined(made, last)
    assert joined is not None
    rows, tokens, positions = (placeholder(made, name) for name in (INPUT_EMBEDS, _TOKENS, _POSITIONS))
    joined.replace_all_uses_with(rows)
    for user in tuple(tokens.users):
        # What is left are sizes: of as many tokens as there are rows.
        user.replace_input_with(tokens, rows)
    made.graph.eliminate_dead_code()
    for name in (_TOKENS, EMBEDS_MASK):
        made.graph.erase_node(placeholder(made, name))
    positions.prepend(rows)
    made.recompile()
    inputs = tuple(next(each for each in last.inputs if each.name == name) for name in (INPUT_EMBEDS, _POSITIONS))
    return made, replace(last, inputs=inputs)
