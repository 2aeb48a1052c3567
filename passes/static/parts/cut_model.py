"""Cut a static method into several, each below a size: the Neural Engine's compiler fails above about 1 GB.

    tokens -> embedding -> layer 0 ... layer 27 -> logits
    ==>
    tokens -> embedding -> layer 0 ... 13 -> hidden        hidden -> layer 14 ... 27 -> logits

A cut is legal where a single computed value crosses it: after a layer that is the residual stream, but not within a
layer, and not between a layer and one that reads its cache. New rows of the caller's states cross nothing: the part
that computes them returns them. What follows from positions alone (masks, rotary rows) is computed again in every part.
Cuts are chosen automatically: each part takes as many legal steps as its limit allows. Exact: the parts hold the same
operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attributes import attribute
from edgec.ir.program import Interface, Program, TensorType
from edgec.ir.static_methods import NEW_ROWS, NEW_STATE
from edgec.passes.contract import output_node
from edgec.passes.graph.stored_bits import stored_bits

HIDDEN, NEXT = "hidden", "next_hidden"
_HALF_BITS = 16


def cut_model(program: Program, sizes: Mapping[str, int], limit: int) -> list[Program]:
    """Cut a static method into parts.

    Args:
        program: with an input ``tokens``.
        sizes: bytes of each tensor of the graph as the artifact stores it, by name.
        limit: the most bytes of a part.

    Returns:
        The parts in order; only the program itself where it is small enough.

    Raises:
        InputError: E408, a part between two legal cuts is larger than the limit.
    """
    steps = _steps(program)
    # Outputs that the caller writes to its states: the part that computes them returns them.
    returned = zip(_results(program), program.interface.outputs, strict=True)
    rows = {node: tensor for node, tensor in returned if tensor.name.startswith((NEW_ROWS, NEW_STATE))}
    crossing = _crossing(steps, rows)
    cuts = _cuts(steps, crossing, sizes, limit)
    if not cuts:
        return [program]
    bounds = [0, *(cut + 1 for cut in cuts), len(steps)]
    ends: list[Node | None] = [None, *(next(iter(crossing[cut])) for cut in cuts), None]
    return [
        _Part(program, set(steps[bounds[i] : bounds[i + 1]]), ends[i], ends[i + 1], rows).built()
        for i in range(len(bounds) - 1)
    ]


def _steps(program: Program) -> list[Node]:
    """The nodes that depend on the tokens, in order; they are computed in one part each."""
    steps: dict[Node, None] = {}
    for node in program.graph.graph.nodes:
        is_tokens = node.op == "placeholder" and node.target == "tokens"
        if is_tokens or any(source in steps for source in node.all_input_nodes):
            steps[node] = None
    return list(steps)


def _results(program: Program) -> list[Node]:
    output = output_node(program.graph)
    given: Any = output.args[0]
    return list(given) if isinstance(given, tuple | list) else [given]


def _crossing(steps: Sequence[Node], rows: Mapping[Node, TensorType]) -> list[set[Node]]:
    """For a cut after each step: the steps up to there whose values are read later."""
    place = {node: index for index, node in enumerate(steps)}
    readers = {node: [user for user in node.users if node not in rows or user.op != "output"] for node in steps}
    last = {node: max((place[user] for user in readers[node]), default=-1) for node in steps}
    alive: set[Node] = set()
    crossing = []
    for index, node in enumerate(steps):
        alive.add(node)
        alive = {each for each in alive if last[each] > index}
        crossing.append(set(alive))
    return crossing


def _cuts(steps: Sequence[Node], crossing: Sequence[set[Node]], sizes: Mapping[str, int], limit: int) -> list[int]:
    """The steps after which to cut: as late as the limit allows."""
    cuts: list[int] = []
    held: set[str] = set()
    legal: int | None = None
    index = begin = 0
    while index < len(steps):
        held |= set(_weights(steps[index], sizes))
        if sum(sizes[name] for name in held) > limit:
            if legal is None or legal < begin:
                raise _too_large(steps[index], limit)
            cuts.append(legal)
            index = begin = legal + 1
            held, legal = set(), None
            continue
        if _is_legal(crossing[index]):
            legal = index
        index += 1
    return cuts


def _is_legal(values: set[Node]) -> bool:
    """Whether a cut that these values cross is legal."""
    if len(values) != 1:
        return False
    value = next(iter(values)).meta.get("val")
    return isinstance(value, Tensor) and value.is_floating_point()


def _weights(node: Node, sizes: Mapping[str, int]) -> Iterator[str]:
    """The stored tensors that a step reads, also through nodes that do not depend on tokens."""
    for source in node.all_input_nodes:
        if source.op == "get_attr" and str(source.target) in sizes:
            yield str(source.target)
        elif source.op == "call_function" and all(each.op == "get_attr" for each in source.all_input_nodes):
            yield from _weights(source, sizes)


def _too_large(node: Node, limit: int) -> InputError:
    return InputError(
        what=f"a part of the model takes more than {limit:,} bytes and cannot be cut",
        where=node.name,
        why="there are too many weights between two places where a single value crosses",
        fix="use fewer bits",
        code="E408",
    )


@dataclass
class _Part:
    """One part of a cut program, under construction.

    Attributes:
        whole: the program that is cut.
        steps: what depends on tokens and belongs here.
        begin: the value that comes in, None in the first part.
        end: the value that goes out, None in the last part.
        rows: outputs that go to the caller's states.
    """

    whole: Program
    steps: set[Node]
    begin: Node | None
    end: Node | None
    rows: Mapping[Node, TensorType]
    graph: Graph = field(default_factory=Graph)
    made: dict[Node, Node] = field(default_factory=dict)

    def built(self) -> Program:
        """Build the part as a program over the same tensors."""
        needed = self._needed()
        if self.begin is not None:
            self._placeholder(self.begin, HIDDEN)
        for node in self.whole.graph.graph.nodes:
            if node in needed and node.op == "placeholder" and node is not self.begin:
                self._placeholder(node, str(node.target))
        for node in self.whole.graph.graph.nodes:
            if node in needed and node not in self.made and node.op != "output":
                self.made[node] = self.graph.node_copy(node, lambda source: self.made[source])
        self._output()
        module = GraphModule(self.whole.graph, self.graph)
        return replace(self.whole, graph=module, interface=self._interface(module))

    def _needed(self) -> set[Node]:
        """The steps, and everything they read that does not depend on tokens."""
        needed, waiting = set(self.steps), list(self.steps)
        while waiting:
            for source in waiting.pop().all_input_nodes:
                if source not in needed and source is not self.begin:
                    needed.add(source)
                    waiting.append(source)
        return needed

    def _placeholder(self, node: Node, name: str) -> None:
        self.made[node] = self.graph.placeholder(name)
        self.made[node].meta = dict(node.meta)

    def _output(self) -> None:
        rows = [node for node in self.rows if node in self.steps]
        if self.end is not None:
            values = [self.made[node] for node in (self.end, *rows)]
            self.graph.output(tuple(values) if rows else values[0])
            return
        results = [node for node in _results(self.whole) if node in self.steps or node not in self.rows]
        self.graph.output(tuple(self.made[node] for node in results))

    def _interface(self, module: GraphModule) -> Interface:
        before = self.whole.interface
        known = {tensor.name: tensor for tensor in before.inputs}
        names = [str(node.target) for node in module.graph.nodes if node.op == "placeholder"]
        read = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"} | set(names)
        return Interface(
            inputs=tuple(known.get(name) or _hidden(self.begin, HIDDEN) for name in names),
            outputs=self._outputs(),
            states=tuple(state for state in before.states if state.buffer in read),
        )

    def _outputs(self) -> tuple[TensorType, ...]:
        elsewhere = {tensor.name for node, tensor in self.rows.items() if node not in self.steps}
        if self.end is None:
            return tuple(tensor for tensor in self.whole.interface.outputs if tensor.name not in elsewhere)
        own = (tensor for node, tensor in self.rows.items() if node in self.steps)
        return (_hidden(self.end, NEXT), *own)


def _hidden(node: Any, name: str) -> TensorType:
    value = node.meta["val"]
    return TensorType(name, value.dtype, tuple(int(size) for size in value.shape))


def stored_sizes(program: Program, *, packed: bool = False) -> dict[str, int]:
    """Bytes of each tensor of a graph, floats at 16 bits, by name; states are not part of the artifact.

    ``packed``: integers and indices of fewer than 8 bits lie densely; otherwise each takes whole bytes.
    """
    states = {state.buffer for state in program.interface.states}
    leaves = {str(n.target): n for n in program.graph.graph.nodes if n.op == "get_attr" and str(n.target) not in states}
    return {name: _bytes(program, leaf, packed) for name, leaf in leaves.items()}


def _bytes(program: Program, leaf: Node, packed: bool) -> int:
    value: Tensor = attribute(program.graph, str(leaf.target))
    whole = value.dtype.itemsize * 8
    bits = _HALF_BITS if value.is_floating_point() else stored_bits(program, leaf, _HALF_BITS) if packed else whole
    return -(-value.numel() * bits // 8)


def held_names(part: Program) -> set[str]:
    """The tensors that a part reads, by name."""
    return {str(node.target) for node in part.graph.graph.nodes if node.op == "get_attr"}
