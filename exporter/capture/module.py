"""Capture any nn.Module as a Program: encoders, vision models, and whatever a factory returns.

Shapes are fixed, but for the number of tokens of a text where the caller says that it varies.

Attention is captured as ``aten.scaled_dot_product_attention``, with its masks; the pass ``fuse_sdpa`` gives it edgec's
form.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from edgec.errors import EdgecError, InputError
from edgec.exporter.capture.kept_state import settle_writes
from edgec.exporter.capture.known_numbers import settle_known_numbers
from edgec.exporter.capture.named_convolutions import name_convolutions
from edgec.exporter.capture.reshaped_views import reshape_views
from edgec.exporter.capture.rolled_values import write_out_rolls
from edgec.exporter.capture.traceable_code import traceable_code
from edgec.exporter.capture.value_sizes import refuse_sizes_by_value
from edgec.exporter.capture.written_spectra import write_out_spectra
from edgec.exporter.sources.modules.input_names import Examples, bound_arguments, names_of_inputs
from edgec.exporter.sources.modules.returned import Returned, returned_of
from edgec.ir.attributes import attribute, owner_of
from edgec.ir.node_layers import name_layers
from edgec.ir.program import Dynamic, Interface, Program, TensorType


def capture_module(
    module: nn.Module,
    example_inputs: Examples,
    name: str = "",
    input_names: Sequence[str] = (),
    tokens: Dynamic | None = None,
) -> Program:
    """Trace a module over example inputs; its weights are shared with the program, not copied.

    Args:
        module: it is put into evaluation mode.
        example_inputs: tensors in the order of ``forward``'s parameters, or by their names; their shapes are fixed.
        name: for error messages; by default the class's name.
        input_names: names for inputs given by order; ``forward``'s parameter names by default.
        tokens: the second dimension of every input, where it varies; a dimension of an output may be the same number.

    Returns:
        A Program without a ModelSpec. Inputs are named after ``forward``'s parameters, outputs after the fields or
        keys of what it returns (``logits``, ``hidden_states_0``); a plain tensor is called ``output``.

    Raises:
        InputError: E109, the module cannot be traced, or takes something other than tensors; E790, it keeps state
            between calls; E792, what it returns cannot be the outputs of an artifact; E945, it computes with complex
            numbers in a way that is not written out; E946, how many results it returns depends on values.
    """
    name = name or type(module).__name__
    _check_inputs(module, example_inputs, name)
    names = list(input_names) or names_of_inputs(module, example_inputs)
    with _flat_outputs(module.eval(), name, names) as returned:
        exported = _export(module, example_inputs, name, tokens)
    return _program(exported, names, returned[-1].names, name, tokens)


@contextmanager
def _flat_outputs(module: nn.Module, name: str, taken: Sequence[str]) -> Iterator[list[Returned]]:
    """Let a module return the tensors of its outputs alone while it is traced; what they are stands in the list."""
    traced: list[Returned] = []

    def flatten(_module: nn.Module, _given: Any, value: Any) -> tuple[Tensor, ...]:
        traced.append(returned_of(value, name, taken))
        return traced[-1].tensors

    hook = module.register_forward_hook(flatten)
    try:
        yield traced
    finally:
        hook.remove()


def _export(module: nn.Module, examples: Examples, name: str, tokens: Dynamic | None) -> ExportedProgram:
    positional, keywords = ((), dict(examples)) if isinstance(examples, Mapping) else (tuple(examples), {})
    try:
        with torch.no_grad(), traceable_code():
            shapes = _dynamic_shapes(module, examples, tokens)
            return torch.export.export(module, positional, keywords, dynamic_shapes=shapes, strict=False)
    except EdgecError:
        raise
    except Exception as error:
        reason = str(error).strip()
        raise untraceable(name, reason.splitlines()[0][:300] if reason else type(error).__name__) from error


def _dynamic_shapes(module: nn.Module, examples: Examples, tokens: Dynamic | None) -> Any:
    """torch.export's description of the inputs: their second dimension varies, or nothing does."""
    if tokens is None:
        return None
    varying = {1: torch.export.Dim(tokens.name, min=2, max=tokens.high)}
    if isinstance(examples, Mapping):
        return dict.fromkeys(examples, varying)
    taken = inspect.signature(module.forward).parameters.values()
    each = (varying,) * len(examples)
    return (each,) if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in taken) else each


def untraceable(where: str, why: str) -> InputError:
    """The error for a module that torch.export cannot trace."""
    return InputError(
        what="the model could not be traced by torch.export",
        where=where,
        why=why,
        fix="pass tensors of fixed shapes; forward must avoid Python control flow that depends on their values",
        code="E109",
    )


def _check_inputs(module: nn.Module, examples: Examples, name: str) -> None:
    values = examples.values() if isinstance(examples, Mapping) else examples
    if not all(isinstance(value, Tensor) for value in values):
        raise untraceable(name, "an example input is not a tensor")
    try:
        bound_arguments(module, examples)
    except TypeError as error:
        raise untraceable(name, f"forward does not take these inputs: {error}") from error


def _program(
    exported: ExportedProgram, names: Sequence[str], returned: Sequence[str], name: str, tokens: Dynamic | None
) -> Program:
    graph = exported.module(check_guards=False)
    assert isinstance(graph, GraphModule)
    for node, input_name in zip((n for n in graph.graph.nodes if n.op == "placeholder"), names, strict=True):
        node.target = input_name
    outputs = _output_types(graph, returned, name, tokens)
    name_layers(graph)
    graph = _plain(graph)
    settle_writes(graph, name)
    settle_known_numbers(graph)
    write_out_rolls(graph)
    write_out_spectra(graph, name)
    reshape_views(graph)
    name_convolutions(graph)
    _detach(graph)
    graph.graph.lint()
    graph.recompile()
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    inputs = tuple(_type(str(node.target), node.meta["val"], tokens) for node in placeholders)
    return Program(graph=graph, interface=Interface(inputs=inputs, outputs=outputs))


def refuse_inputs_of_other_types(program: Program, where: str) -> None:
    """Refuse a module for CPUs that reads floats of another width than their kernels do.

    Raises:
        InputError: E793.
    """
    others = [each for each in program.interface.inputs if each.dtype.is_floating_point and each.dtype != torch.float32]
    if others:
        named = ", ".join(f"{each.name} ({str(each.dtype).removeprefix('torch.')})" for each in others)
        raise InputError(
            what="the module reads floats of a type that kernels on CPUs do not read",
            where=where,
            why=f"its inputs: {named}; the kernels read float32",
            fix="call module.float() in the factory and give it float32 examples, or cast inside forward",
            code="E793",
        )


def _plain(graph: GraphModule) -> GraphModule:
    """The graph with positional inputs and a tuple of outputs, without hooks that check how calls were nested."""
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    return GraphModule(graph, graph.graph)


def _type(name: str, value: Tensor, tokens: Dynamic | None) -> TensorType:
    # int() of a varying size would fix it.
    shape = value.shape if tokens is None else (value.shape[0], tokens, *value.shape[2:])
    return TensorType(name, value.dtype, tuple(size if isinstance(size, Dynamic) else int(size) for size in shape))


def _output_types(
    graph: GraphModule, names: Sequence[str], where: str, tokens: Dynamic | None
) -> tuple[TensorType, ...]:
    """The types of a graph's outputs, in order."""
    output = next(node for node in reversed(graph.graph.nodes) if node.op == "output")
    first = next(node for node in graph.graph.nodes if node.op == "placeholder")
    length = str(first.meta["val"].shape[1]) if tokens else ""
    if any(free_unbacked_symbols(value.meta["val"]) for value in output.args[0]):
        refuse_sizes_by_value(graph, where)
    named = zip(names, output.args[0], strict=True)
    return tuple(_output_type(name, value.meta["val"], where, tokens, length) for name, value in named)


def _output_type(name: str, value: Tensor, where: str, tokens: Dynamic | None, length: str) -> TensorType:
    """The type of an output; a dimension that varies is the number of tokens."""
    varying = [str(size) for size in value.shape if not isinstance(size, int)]
    if varying and (tokens is None or set(varying) != {length}):
        raise untraceable(where, f"the shape of the output {name} depends on the input's length")
    shape = (size if isinstance(size, int) else tokens for size in value.shape)
    return TensorType(name, value.dtype, tuple(size for size in shape if size is not None))


def _detach(graph: GraphModule) -> None:
    """Replace parameters by ones without gradient over the same memory, since lowering refuses those with one."""
    frozen: dict[int, nn.Parameter] = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr" and isinstance(value := attribute(graph, str(node.target)), nn.Parameter):
            kept = frozen.setdefault(id(value), nn.Parameter(value.detach(), requires_grad=False))
            setattr(*owner_of(graph, str(node.target)), kept)
