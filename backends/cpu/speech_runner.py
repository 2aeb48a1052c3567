"""What ExecuTorch's Seq2SeqRunner asks of a speech model's artifact: a method for sounds, one for tokens after them.

    features -> encode -> states -> cross -> keys, values;  tokens, positions, keys, values, logit_index -> forward
        ==>
    features [1, M, T]                                          -> encode           -> encoder      -> states [1, R, C]
    tokens [1, S], states [1, R, C], positions [S] -> cross -> forward of the last -> text_decoder -> logits [1, 1, V]

That runner hands the states themselves to the decoder with each token, S = 1, so ``text_decoder`` makes keys and values
of them in every call; edgec's own runtimes call ``cross`` once for a sound. All methods refer to one copy of all
delegates and constants; ``text_decoder`` has a KV cache of its own. Legality: ``encode`` takes features alone, and
``forward`` reads nothing of the sound but what ``cross`` makes: not where lengths or masks go along, nor where texts or
samples are read. The names are those of ExecuTorch's extension/asr/runner/seq2seq_runner.cpp, commit cff6f4d.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from edgec.backends.cpu.text_runner import Method, last_logits
from edgec.bundle.entry_points import ENCODER, ENCODER_DECODER_METHODS, TEXT_DECODER
from edgec.ir.attributes import attribute
from edgec.ir.program import Interface
from edgec.passes.contract import clone, output_node, placeholder

_TOKENS, _POSITIONS, _ROWS = "tokens", "positions", "logit_index"
_ENCODE, _CROSS, _FORWARD = ENCODER_DECODER_METHODS
# Where the names of what ``cross`` holds begin among those of ``forward``.
_OF_CROSS = "cross_method"


def with_speech_decoder(methods: Mapping[str, Method]) -> dict[str, Method]:
    """Methods with delegates in them, and the runner's two where a model hears and can have them."""
    if not _fits({name: interface for name, (_, interface) in methods.items()}):
        return dict(methods)
    decoder = _text_decoder(methods[_CROSS], last_logits(*methods[_FORWARD]))
    return {**methods, ENCODER: _encoder(methods[_ENCODE]), TEXT_DECODER: decoder}


def _fits(interfaces: Mapping[str, Interface]) -> bool:
    """Whether the methods hand on nothing but what the runner hands on, of one tensor of features."""
    if set(interfaces) != set(ENCODER_DECODER_METHODS):
        return False
    encode, cross, forward = (interfaces[name] for name in ENCODER_DECODER_METHODS)
    features = len(encode.inputs) == 1 and encode.inputs[0].dtype == torch.float32 and len(encode.inputs[0].shape) == 3
    read = {each.name for each in forward.inputs}
    made = {each.name for each in cross.outputs}
    return features and len(cross.inputs) == 1 and read == made | {_TOKENS, _POSITIONS, _ROWS}


def _encoder(encode: Method) -> Method:
    """A copy, since a graph is one method's."""
    graph, interface = encode
    return clone(graph), interface


def _text_decoder(cross: Method, forward: Method) -> Method:
    """One method of two: what the first makes of the states, the second reads."""
    (maker, made), (reader, read) = cross, forward
    states = made.inputs[0].name
    graph = Graph()
    tokens, given, positions = (graph.placeholder(name) for name in (_TOKENS, states, _POSITIONS))
    kept = _copied(graph, maker, {placeholder(maker, states): given}, f"{_OF_CROSS}.")
    known = {placeholder(reader, each.name): value for each, value in zip(made.outputs, kept, strict=True)}
    own = {placeholder(reader, _TOKENS): tokens, placeholder(reader, _POSITIONS): positions}
    graph.output(_copied(graph, reader, {**known, **own}, ""))
    held = {**_held(maker, f"{_OF_CROSS}."), **_held(reader, "")}
    types = {each.name: each for each in (*read.inputs, *made.inputs)}
    inputs = tuple(types[name] for name in (_TOKENS, states, _POSITIONS))
    return GraphModule(held, graph), replace(read, inputs=inputs)


def _copied(graph: Graph, part: GraphModule, known: dict[Node, Node], prefix: str) -> tuple[Node, ...]:
    """Copy a part's nodes behind those that are there; ``known``: what its inputs are. Returns its outputs."""
    for node in part.graph.nodes:
        if node in known or node.op == "output":
            continue
        copy = known[node] = graph.node_copy(node, known.__getitem__)
        if node.op in ("get_attr", "call_module"):
            copy.target = f"{prefix}{node.target}"
    returned: Any = output_node(part).args[0]
    return tuple(known[each] for each in (returned if isinstance(returned, (tuple, list)) else (returned,)))


def _held(part: GraphModule, prefix: str) -> dict[str, Any]:
    """What a part's nodes name: tensors and delegates, by their names in the method of both."""
    named = [str(node.target) for node in part.graph.nodes if node.op in ("get_attr", "call_module")]
    return {f"{prefix}{name}": attribute(part, name) for name in named}
