"""The program inside a .pte's MLX delegate, read into plain data: slots, instructions and constants.

The delegate's bytes are a header and a FlatBuffer of the schema that ExecuTorch's wheel has; constants are named data
of the .pte. What an instruction reads and writes are slots: of tensors, or of integers that are known when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from edgec.backends.mlx.toolkit import load_toolkit
from edgec.errors import InputError

BACKEND = "MLXBackend"


@dataclass(frozen=True)
class MlxTensor:
    """Where a tensor lies."""

    index: int


@dataclass(frozen=True)
class MlxInteger:
    """Where an integer lies that an earlier instruction computes."""

    index: int


@dataclass(frozen=True)
class MlxInstruction:
    """One instruction: the schema's name of its operator, and its fields by name, slots as such."""

    operator: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class TensorForm:
    """A tensor that the program does not compute: ExecuTorch's number of its dtype, and its sizes, -1 for any."""

    scalar_type: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class MlxProgram:
    """A delegate's program.

    Attributes:
        first: instructions that run once, when it is loaded.
        main: those of every call.
        inputs: slots of the arguments, in order.
        outputs: slots of the results.
        states: slots of what lives between calls.
        forms: of constants, inputs, outputs and states, by slot.
        constants: bytes of constants by slot.
        names: of constants and states by slot.
    """

    first: tuple[MlxInstruction, ...]
    main: tuple[MlxInstruction, ...]
    inputs: tuple[MlxTensor, ...]
    outputs: tuple[MlxTensor, ...]
    states: tuple[MlxTensor, ...]
    forms: Mapping[MlxTensor, TensorForm]
    constants: Mapping[MlxTensor, bytes]
    names: Mapping[MlxTensor, str]


def read_mlx_program(path: Path) -> MlxProgram:
    """Read the delegate of a .pte's ``forward``.

    Raises:
        InputError: E872, it is another file, or a damaged one.
        ToolError: E871, the delegate's reader is not there.
    """
    load_toolkit()
    from executorch.exir._serialize._program import deserialize_pte_binary

    try:
        file = deserialize_pte_binary(path.read_bytes())
        plan = next(each for each in file.program.execution_plan if each.name == "forward")
        (delegate,) = (each for each in plan.delegates if each.id == BACKEND)
        raw = bytes(file.program.backend_delegate_data[delegate.processed.index].data)
        named: Any = file.named_data
        data = (
            {} if named is None else {key: named.buffers[entry.buffer_index] for key, entry in named.pte_data.items()}
        )
        return _program(raw, data)
    except InputError:
        raise
    except Exception as cause:  # generated readers fail in any way they like on damaged bytes
        raise unreadable(path.name, f"{type(cause).__name__}: {cause}") from cause


def unreadable(where: str, why: str) -> InputError:
    """The error for a program that cannot be executed (E872)."""
    return InputError(
        "The MLX program cannot be executed.",
        where=where,
        why=why[:300],
        fix="export the model again with this edgec",
        code="E872",
    )


def _program(raw: bytes, data: Mapping[str, bytes]) -> MlxProgram:
    from executorch.backends.mlx.serialization import parse_header
    from executorch.backends.mlx.serialization._generated.mlx_delegate.MLXGraph import MLXGraph

    offset, size, *_ = parse_header(raw)
    graph = MLXGraph.GetRootAs(raw[offset : offset + size], 0)
    chains = [graph.InstructionChains(i) for i in range(graph.InstructionChainsLength())]
    names = {MlxTensor(each.Slot().Idx()): each.Name().decode() for each in _vector(graph, "NamedSlots")}
    forms = {MlxTensor(i): _form(each) for i, each in enumerate(_vector(graph, "TensorMeta")) if each is not None}
    constants = {slot: name for slot, name in names.items() if slot.index < graph.NumConstantTensors()}
    if absent := sorted(name for name in constants.values() if name not in data):
        raise unreadable("model.pte", f"constants are not in it: {', '.join(absent[:3])}")
    init = graph.InitChainIdx()
    return MlxProgram(
        first=_instructions(chains[init]) if init >= 0 else (),
        main=_instructions(chains[graph.MainChainIdx()]),
        inputs=_slots(graph, "InputMap"),
        outputs=_slots(graph, "OutputMap"),
        states=_slots(graph, "MutableBufferMap"),
        forms=forms,
        constants={slot: data[name] for slot, name in constants.items()},
        names=names,
    )


def _vector(table: Any, name: str) -> list[Any]:
    return [getattr(table, name)(i) for i in range(getattr(table, f"{name}Length")())]


def _slots(graph: Any, name: str) -> tuple[MlxTensor, ...]:
    return tuple(MlxTensor(each.Idx()) for each in _vector(graph, name))


def _form(meta: Any) -> TensorForm:
    return TensorForm(meta.ScalarType(), tuple(dim.Value() for dim in _vector(meta, "Shape")))


def _instructions(chain: Any) -> tuple[MlxInstruction, ...]:
    return tuple(_instruction(each) for each in _vector(chain, "Instructions"))


def _instruction(instruction: Any) -> MlxInstruction:
    """Read an instruction by the schema's dataclass of its operator, which names the fields."""
    from importlib import import_module

    from executorch.backends.mlx.serialization import mlx_graph_schema
    from executorch.backends.mlx.serialization._generated.mlx_delegate import OpNode

    kinds = {number: name for name, number in vars(OpNode.OpNode).items() if isinstance(number, int)}
    kind = kinds[instruction.OpType()]
    table: Any = getattr(import_module(f"{OpNode.__package__}.{kind}"), kind)()
    union = instruction.Op()
    table.Init(union.Bytes, union.Pos)
    described = getattr(mlx_graph_schema, kind)
    assert is_dataclass(described)
    return MlxInstruction(kind, {field.name: _field(table, field.name) for field in fields(described)})


def _field(table: Any, name: str) -> Any:
    accessor = "".join(part.capitalize() for part in name.split("_"))
    if hasattr(table, f"{accessor}Length"):
        return [_value(each) for each in _vector(table, accessor)]
    return _value(getattr(table, accessor)())


def _value(value: Any) -> Any:
    """A field's value: a slot, a number, a text, or None where it is left out."""
    kind = type(value).__name__
    if kind == "Tid":
        return MlxTensor(value.Idx())
    if kind in ("IntOrVid", "FloatOrVid"):
        return MlxInteger(value.Vid().Idx()) if value.IsVid() else value.Literal()
    if kind == "VidOrTid":
        return MlxInteger(value.Vid().Idx()) if value.IsVid() else MlxTensor(value.Tid().Idx())
    if kind == "IntOrVidOrTid":
        choices: Sequence[Any] = (
            value.Literal,
            lambda: MlxInteger(value.Vid().Idx()),
            lambda: MlxTensor(value.Tid().Idx()),
        )
        return choices[value.Kind()]()
    if kind == "Vid":
        return MlxInteger(value.Idx())
    return value.decode() if isinstance(value, bytes) else value
