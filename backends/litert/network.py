"""A network that writes no text as a ``.tflite`` of one signature, ``main``, and that signature as a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule

from edgec.backends.litert.matrix_inputs import empty_matrices
from edgec.backends.litert.toolkit import runtime_module
from edgec.backends.litert.weights import read_model, written_model
from edgec.errors import InputError
from edgec.ir.program import Program

MAIN: Final = "main"


class NetworkSignature(torch.nn.Module):
    """The graph of a network under the names of its inputs and outputs."""

    name = MAIN

    def __init__(self, program: Program, graph: GraphModule) -> None:
        """``graph``: that of the program, in LiteRT's operators."""
        super().__init__()
        self.network, self.matrices = graph, empty_matrices(graph)
        self.order = [tensor.name for tensor in program.interface.inputs]
        self.results = [tensor.name for tensor in program.interface.outputs]

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """Call the network; its outputs by their names."""
        made: Sequence[Tensor] = self.network(*(inputs[name] for name in (*self.order, *self.matrices)))
        return dict(zip(self.results, made, strict=True))

    def example(self, program: Program) -> dict[str, Tensor]:
        """Inputs of the right types and shapes."""
        return {
            tensor.name: torch.zeros(tensor.shape, dtype=tensor.dtype)  # type: ignore[arg-type]
            for tensor in program.interface.inputs
        } | dict(self.matrices)


def in_order(content: bytes, program: Program) -> bytes:
    """The model with the names of its signature in the order of the network's inputs and outputs."""
    _, model = read_model(content)
    (signature,) = model.signatureDefs
    for held, tensors in ((signature.inputs, program.interface.inputs), (signature.outputs, program.interface.outputs)):
        names = [tensor.name.encode() for tensor in tensors]
        held.sort(key=lambda each, names=names: names.index(each.name))
    return written_model(model, len(content))


def open_function(path: Path) -> Callable[[Sequence[Tensor]], Sequence[Tensor]]:
    """The signature as a function of its inputs in order, by ai-edge-litert's interpreter with XNNPACK.

    Raises:
        InputError: E903, it refuses the model, or a call gives it other inputs than it takes.
        ToolError: E900, there is no interpreter.
    """
    content = path.read_bytes()
    litert = runtime_module("ai_edge_litert.interpreter")
    try:
        interpreter = litert.Interpreter(model_content=content, num_threads=torch.get_num_threads())
        runner, (inputs, outputs) = interpreter.get_signature_runner(MAIN), _names(content)
        takes: Mapping[str, Any] = runner.get_input_details()
    except (RuntimeError, ValueError, KeyError, IndexError) as error:
        raise refused(str(error)) from error

    def call(given: Sequence[Tensor]) -> Sequence[Tensor]:
        try:
            pairs = zip(inputs, given, strict=True)
            results = runner(**{name: value.numpy().astype(takes[name]["dtype"]) for name, value in pairs})
        except (RuntimeError, ValueError) as error:
            raise refused(str(error)) from error
        # The interpreter lends its own memory.
        return [torch.from_numpy(results[name].copy()) for name in outputs]

    return call


def _names(content: bytes) -> tuple[list[str], list[str]]:
    """The names of the signature's inputs and outputs, in order."""
    _, model = read_model(content)
    signature = next(each for each in model.signatureDefs if each.signatureKey == MAIN.encode())
    return [each.name.decode() for each in signature.inputs], [each.name.decode() for each in signature.outputs]


def refused(why: str) -> InputError:
    """E903."""
    return InputError(
        "LiteRT's interpreter does not run this artifact.",
        where="litert",
        why=why[:300],
        fix="export the model again; where it stays, report it with the version of ai-edge-litert",
        code="E903",
    )
