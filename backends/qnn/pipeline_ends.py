"""What lies between onnxruntime-genai and an artifact of the format ``qnn``: two small ONNX models for each method.

    begin_METHOD  input_ids [1,S], past_sequence_length          -> tokens, start, last   what host_METHOD.onnx takes
    end_METHOD    key_cache_N [1,G,C,D], new_key_cache_N [1,G,S,D], ...
                  start, last                                    -> present.N.key, ...    rows written in place
                  logits_0, logits_1, ...                        -> next_logits [1,1,V+1]

Its caches are those that a context binary takes, since it allocates the sizes that it finds in the models, and gives
one buffer as input and output. Its lengths count so: in a prompt's window they end at the window's last place, whether
a token stands there or padding; afterwards at the one token of the call.

It also counts a prompt up to the first id of padding, so that no prompt may hold that id. Padding is therefore id V,
one more than the model has: the model reads another token there, and its logit is so low that it is never chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from edgec.bundle.entry_points import StateInfo
from edgec.ir.growing_cache import INPUT_IDS, PRESENT
from edgec.ir.static_methods import NEW_ROWS

PAST_LENGTH, TOTAL_LENGTH = "past_sequence_length", "total_sequence_length"
NEXT_LOGITS: Final = "next_logits"
_OPSET, _IR = 21, 10
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_FLOAT, _BYTES = np.dtype(np.float32), np.dtype(np.uint8)
_SLOTS = 2
_NEVER = -1e30


@dataclass(frozen=True)
class PipelineForm:
    """What the two models must know of an artifact.

    Attributes:
        caches: keys and values in turn, layer by layer.
        logits: the widths of the last part's outputs, by name.
    """

    caches: Sequence[StateInfo]
    logits: Mapping[str, int]

    @property
    def padding(self) -> int:
        """The id that fills a prompt's last window up: the first that the model does not have."""
        return sum(self.logits.values())


def begin_model(form: PipelineForm, tokens: int) -> bytes:
    """The model before a method that takes so many tokens."""
    graph = _EndGraph()
    ids = graph.given(INPUT_IDS, _INT32, [1, tokens])
    past = graph.given(PAST_LENGTH, _INT32, [1, 1])
    # onnxruntime-genai counts where a session has both lengths.
    graph.given(TOTAL_LENGTH, _INT32, [1])
    _counted(graph, ids, past, form.padding, tokens)
    return graph.model("begin")


def _counted(graph: _EndGraph, ids: str, past: str, padding: int, tokens: int) -> None:
    """The method's own inputs: tokens, where they begin, and the last that is none of padding."""
    known = graph.constant(padding - 1, kind=_INT32)
    graph.node("Min", [ids, known], graph.gives("tokens", _INT32, [1, tokens]))
    first = graph.node("Sub", [past, graph.constant(tokens - 1, kind=_INT32)])
    graph.node("Reshape", [first, graph.constant(1)], graph.gives("start", _INT32, [1]))
    last = graph.gives("last", _INT32, [1])
    none = graph.constant(0, kind=_INT32)
    if tokens == 1:
        graph.node("Identity", [none], last)
        return
    other = graph.node("Not", [graph.node("Equal", [ids, graph.constant(padding, kind=_INT32)])])
    count = graph.node(
        "ReduceSum", [graph.node("Cast", [other], to=graph.type_of(_INT32)), graph.constant(1)], keepdims=0
    )
    graph.node("Max", [graph.node("Sub", [count, graph.constant(1, kind=_INT32)]), none], last)


def end_model(form: PipelineForm, tokens: int) -> bytes:
    """The model after a method that takes so many tokens."""
    graph = _EndGraph()
    slots = form.caches[0].shape[_SLOTS]
    places = graph.node("Reshape", [_places(graph, slots, tokens), graph.constant(1, 1, tokens, 1)])
    for cache in form.caches:
        _write(graph, cache, places, tokens)
    parts = [graph.given(name, _FLOAT, [1, 1, width]) for name, width in form.logits.items()]
    never = graph.constant(_NEVER, kind=_FLOAT, shape=[1, 1, 1])
    graph.node("Concat", [*parts, never], graph.gives(NEXT_LOGITS, _FLOAT, [1, 1, form.padding + 1]), axis=2)
    return graph.model("end")


def _places(graph: _EndGraph, slots: int, tokens: int) -> str:
    """Where the rows of a call go.

    Padding that has no place goes to the last one. A token that has none, since the text is longer than the context,
    keeps its number, at which ONNX Runtime fails: otherwise the model would go on without having read it.
    """
    start, last = (
        graph.node("Cast", [graph.given(name, _INT32, [1])], to=graph.type_of(_INT64)) for name in ("start", "last")
    )
    most = graph.node("Max", [graph.constant(slots - 1), graph.node("Add", [start, last])])
    return graph.node("Min", [graph.node("Add", [start, graph.constant(*range(tokens))]), most])


def _write(graph: _EndGraph, cache: StateInfo, places: str, tokens: int) -> None:
    """Write a cache's new rows to their places."""
    rows = [*cache.shape[:_SLOTS], tokens, *cache.shape[_SLOTS + 1 :]]
    held = graph.given(cache.name, _BYTES, cache.shape)
    new = graph.given(f"{NEW_ROWS}{cache.name}", _BYTES, rows)
    spread = graph.node("Expand", [places, graph.constant(*rows)])
    written = graph.gives(written_name(cache), _BYTES, cache.shape)
    graph.node("ScatterElements", [held, spread, new], written, axis=_SLOTS)


def written_name(cache: StateInfo) -> str:
    """What a cache is called after a call."""
    return PRESENT % (cache.name.rpartition("_")[2], cache.role)


@dataclass
class _EndGraph:
    """An ONNX graph as it is written, node by node; the same constant or value is computed once."""

    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    constants: dict[tuple[str, tuple[int, ...], bytes], Any] = field(default_factory=dict)
    made: dict[tuple[object, ...], str] = field(default_factory=dict)

    def type_of(self, kind: np.dtype[Any]) -> int:
        """ONNX's number of a type."""
        import onnx

        return int(onnx.helper.np_dtype_to_tensor_dtype(kind))

    def given(self, name: str, kind: np.dtype[Any], shape: Sequence[int]) -> str:
        """An input."""
        return self._value(self.inputs, name, kind, shape)

    def gives(self, name: str, kind: np.dtype[Any], shape: Sequence[int]) -> str:
        """An output."""
        return self._value(self.outputs, name, kind, shape)

    def _value(self, values: list[Any], name: str, kind: np.dtype[Any], shape: Sequence[int]) -> str:
        import onnx

        values.append(onnx.helper.make_tensor_value_info(name, self.type_of(kind), list(shape)))
        return name

    def constant(self, *values: float, kind: np.dtype[Any] = _INT64, shape: Sequence[int] = (-1,)) -> str:
        """A constant, of one dimension unless ``shape`` says otherwise."""
        import onnx

        array = np.array(values, kind).reshape(shape)
        key = (kind.name, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = onnx.numpy_helper.from_array(array, f"constant_{len(self.constants)}")
        return str(self.constants[key].name)

    def node(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: int) -> str:
        """The value of an operator; ``output``: its name, where it is one of the graph's."""
        import onnx

        key = (operator, *inputs, *sorted(attributes.items()))
        if output or key not in self.made:
            name = output or f"value_{len(self.nodes)}"
            self.nodes.append(onnx.helper.make_node(operator, list(inputs), [name], **attributes))
            self.made[key] = name
        return self.made[key]

    def model(self, name: str) -> bytes:
        """The graph as a file's bytes."""
        import onnx

        graph = onnx.helper.make_graph(self.nodes, name, self.inputs, self.outputs, list(self.constants.values()))
        opset = onnx.helper.make_opsetid("", _OPSET)
        return bytes(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=_IR).SerializeToString())
