"""ONNX Runtime's quantiser renames a value by looking at every node, for every value: this looks where it is read.

``ONNXModel.replace_input_of_all_nodes`` and its two siblings walk the whole graph at each call, and the quantiser calls
them for each tensor, so that its time grows with the square of the nodes: SmolLM2-135M (30 layers) took 15 minutes.
Inside the block they ask an index of readers and writers by name. Nodes that are added later are indexed when the
next question comes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary


class _Index:
    """The nodes of a graph by the names that they read, and by those that they write."""

    def __init__(self) -> None:
        self._known = 0
        self.readers: dict[str, list[Any]] = defaultdict(list)
        self.writers: dict[str, list[Any]] = defaultdict(list)

    def read_on(self, nodes: Any) -> None:
        """Take in the nodes that came since the last time; the quantiser removes nodes at its end alone."""
        for node in nodes[self._known :]:
            for name in set(node.input):
                self.readers[name].append(node)
            for name in set(node.output):
                self.writers[name].append(node)
        self._known = len(nodes)


def _replace(names: Any, old: str, new: str) -> None:
    for place, name in enumerate(names):
        if name == old:
            names[place] = new


@contextmanager
def indexed_nodes() -> Iterator[None]:
    """Let ONNX Runtime's quantiser find the readers of a value by an index, inside the block."""
    from onnxruntime.quantization.onnx_model import ONNXModel

    indexes: WeakKeyDictionary[Any, _Index] = WeakKeyDictionary()

    def index_of(model: Any) -> _Index:
        index = indexes.setdefault(model, _Index())
        index.read_on(model.model.graph.node)
        return index

    def replace_inputs(model: Any, old: str, new: str, names: set[str] | None = None) -> None:
        readers = index_of(model).readers
        for node in readers.pop(old, []):
            chosen = names is None or node.name in names
            if chosen:
                _replace(node.input, old, new)
            readers[new if chosen else old].append(node)

    def replace_outputs(model: Any, old: str, new: str) -> None:
        writers = index_of(model).writers
        for node in writers.pop(old, []):
            _replace(node.output, old, new)
            writers[new].append(node)

    with (
        patch.object(ONNXModel, "replace_input_of_all_nodes", replace_inputs),
        patch.object(ONNXModel, "replace_input_of_nodes", replace_inputs),
        patch.object(ONNXModel, "replace_output_of_all_nodes", replace_outputs),
    ):
        yield
