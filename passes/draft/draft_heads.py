"""Add draft heads, which guess the tokens after the next one from the hidden state that the lm_head reads.

    hidden [1,K,H] -> linear(lm_head) -> logits [1,K,V]
    ==>
    hidden -> linear [n*H,H] -> silu -> + hidden -> [1,K,n,H] --,
    hidden ------------------------------------------ cat -> [1,K*(1+n),H] -> linear(lm_head) -> logits [1,K,V],
                                                                                                 draft_logits [1,K,n,V]

(Medusa, Cai et al. 2024, arXiv 2401.10774: one residual block per head; here the heads share the model's own
lm_head, which is read once for all of them.) Exact: the model's logits are those of the same rows of the same matrix.

Legality: ``last_logits`` has run, and what stands between the lm_head and the output works row by row.
Measured on a tiny random Llama (2 layers, hidden size 32, 96 tokens) with three heads: 123,552 bytes before, 135,840
after; 112 operators before, 122 after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.program import Effect, Interface, Program, TensorType
from edgec.passes.contract import output_node
from edgec.passes.graph.emit import Emitter
from edgec.passes.prefill.last_logits import lm_head_linear

aten = torch.ops.aten
WEIGHT = "draft_heads"
OUTPUT = "draft_logits"


@dataclass(frozen=True)
class DraftHeads:
    """Add a second output with the draft heads' logits; exact.

    Attributes:
        file: safetensors with ``draft_heads`` [heads, hidden, hidden], as ``examples/train_heads.py`` writes it.
    """

    file: Path
    name: str = "draft_heads"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """The file holds heads of this model's width, and ``last_logits`` has run."""
        rows = any(tensor.name == "logit_index" for tensor in program.interface.inputs)
        if not rows or lm_head_linear(program.graph) is None:
            raise _misfit(self.file, "the graph has no lm_head that reads a selection of rows")
        shape, width = tuple(read_heads(self.file).shape), program.spec.hidden_size if program.spec else 0
        if len(shape) != 3 or shape[0] < 1 or shape[1:] != (width, width):
            raise _misfit(self.file, f"its {WEIGHT} has shape {list(shape)}, not [heads, {width}, {width}]")

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Insert the heads in front of the lm_head, and split its result in two outputs."""
        weight, linear = read_heads(self.file), lm_head_linear(graph)
        assert linear is not None
        heads, width = weight.shape[:2]
        graph.register_parameter(WEIGHT, nn.Parameter(weight.reshape(-1, width), requires_grad=False))
        hidden = _hidden(linear, width)
        with graph.graph.inserting_before(linear):
            weights = graph.graph.get_attr(WEIGHT)
            weights.meta["val"] = hidden.meta["val"].new_empty(heads * width, width)
            linear.update_arg(0, _guesses(Emitter(graph.graph), hidden, weights, heads))
        output = output_node(graph)
        result = output.all_input_nodes[0]
        _refresh(linear, result)
        with graph.graph.inserting_before(output):
            output.args = (_split(Emitter(graph.graph), result, heads),)
        logits = program.interface.outputs[0]
        (_, rows, vocabulary) = logits.shape
        drafts = TensorType(OUTPUT, torch.float32, (1, rows, heads, vocabulary))
        return Interface(program.interface.inputs, (logits, drafts), program.interface.states)

    def ensures(self, program: Program) -> None:
        """The outputs are ``logits`` and ``draft_logits``."""
        assert [output.name for output in program.interface.outputs] == ["logits", OUTPUT]


def read_heads(file: Path) -> Tensor:
    """The heads' weights, float32 [heads, hidden, hidden].

    Raises:
        InputError: E197, the file cannot be read or holds something else.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, "pt") as content:
            weight: Tensor = content.get_tensor(WEIGHT)
    except (OSError, SafetensorError) as cause:
        raise _misfit(file, str(cause)) from cause
    return weight.float()


def _misfit(file: Path, why: str) -> InputError:
    return InputError(
        what="the draft heads do not fit the model",
        where=str(file),
        why=why,
        fix="train them on this very model: python -m examples.train_heads --help",
        code="E197",
    )


def _hidden(linear: Node, width: int) -> Node:
    """The hidden state that the lm_head reads, with the fake value that ``last_logits`` left out."""
    hidden = linear.args[0]
    assert isinstance(hidden, Node)
    hidden.meta.setdefault("val", linear.meta["val"].new_empty(*linear.meta["val"].shape[:-1], width))
    return hidden


def _guesses(emit: Emitter, hidden: Node, weight: Node, heads: int) -> Node:
    """The rows that the lm_head reads: each hidden state, followed by what the heads make of it."""
    width = weight.meta["val"].shape[1]
    bend = emit(
        aten.view.default, emit(aten.silu.default, emit(aten.linear.default, hidden, weight)), [1, -1, heads, width]
    )
    own = emit(aten.unsqueeze.default, hidden, 2)
    rows = emit(aten.cat.default, [own, emit(aten.add.Tensor, bend, own)], 2)
    return emit(aten.view.default, rows, [1, -1, width])


def _between(first: Node, last: Node) -> Iterator[Node]:
    """The nodes from one to the other, both included, in the graph's order."""
    node = first
    while node is not last:
        yield node
        node = node.next
    yield last


def _refresh(linear: Node, result: Node) -> None:
    """Recompute the fake values from the lm_head to the output, which have more rows now."""
    for node in _between(linear, result):
        if node.op == "call_function":
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
            node.meta["val"] = node.target(*args, **kwargs)  # type: ignore[operator]


def _split(emit: Emitter, result: Node, heads: int) -> tuple[Node, Node]:
    """The model's own logits [1,K,V] and the heads' [1,K,heads,V]."""
    vocabulary = result.meta["val"].shape[-1]
    rows = emit(aten.view.default, result, [1, -1, 1 + heads, vocabulary])
    return emit(aten.select.int, rows, 2, 0), emit(aten.slice.Tensor, rows, 2, 1, 1 + heads)
