"""A MIL function as steps and constants: what the protobuf says, in the order it is executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgec.backends.coreml.interpreter.element_types import BY_NUMBER, STRING, ElementType

MilShape = tuple[int | None, ...]
# Core ML's own checks of indices and labels: they do not change a result.
_WITHOUT_MEANING = frozenset({"name", "validate_indices"})


@dataclass(frozen=True)
class ValueType:
    """Element type (None for text) and shape; None stands for a dimension known only when it runs."""

    element: ElementType | None
    shape: MilShape


@dataclass(frozen=True)
class StoredConstant:
    """A constant in a weight file: the record at ``offset`` of ``file``."""

    type: ValueType
    file: str
    offset: int


@dataclass(frozen=True)
class Immediate:
    """A constant in the program itself: a serialised ``Value`` message."""

    type: ValueType
    message: bytes


@dataclass(frozen=True)
class Expression:
    """Output ``index`` of a ``constexpr_`` operator over constants; ``place`` is where it stands."""

    operator: str
    inputs: tuple[tuple[str, Constant], ...]
    index: int
    type: ValueType
    place: str = field(compare=False)


Constant = StoredConstant | Immediate | Expression
Argument = str | Constant | tuple["str | Constant", ...]


@dataclass(frozen=True)
class MilStep:
    """An operation of a function; its named inputs are names of values, constants, or tuples of them."""

    operator: str
    name: str
    inputs: Mapping[str, Argument]
    outputs: tuple[tuple[str, ValueType], ...]

    def reads(self) -> list[str]:
        """Names of the values it takes."""
        flat = [part for value in self.inputs.values() for part in (value if isinstance(value, tuple) else (value,))]
        return [part for part in flat if isinstance(part, str)]


@dataclass(frozen=True)
class Graph:
    """The body of a MIL function.

    Attributes:
        inputs: name -> type, states excluded.
        states: name -> type.
        steps: in order; constants are inside their readers.
        outputs: name -> constant, or the name itself for a computed value.
        types: name -> type of every value.
    """

    inputs: Mapping[str, ValueType]
    states: Mapping[str, ValueType]
    steps: Sequence[MilStep]
    outputs: Mapping[str, str | Constant]
    types: Mapping[str, ValueType]


def read_graph(function: Any) -> Graph:
    """Read one ``Function`` message of an ML program."""
    block = function.block_specializations[function.opset]
    given = {entry.name: entry.type for entry in function.inputs}
    states = {name: value_type(t.stateType.wrappedType) for name, t in given.items() if t.HasField("stateType")}
    inputs = {name: value_type(t) for name, t in given.items() if name not in states}
    constants: dict[str, Constant] = {}
    steps: list[MilStep] = []
    for operation in block.operations:
        step = _step(operation, constants)
        if step.operator.startswith("const"):
            constants.update(_constants(operation, step))
        else:
            steps.append(step)
    types = {**inputs, **dict(pair for step in steps for pair in step.outputs)}
    types.update({name: constant.type for name, constant in constants.items()})
    return Graph(inputs, states, steps, {name: constants.get(name, name) for name in block.outputs}, types)


def value_type(message: Any) -> ValueType:
    """A ``ValueType`` message; text and lists of text have no element type."""
    if not message.HasField("tensorType"):
        return ValueType(None, ())
    tensor = message.tensorType
    sizes = tuple(d.constant.size if d.HasField("constant") else None for d in tensor.dimensions)
    return ValueType(None if tensor.dataType == STRING else BY_NUMBER[tensor.dataType], sizes)


def _step(operation: Any, constants: Mapping[str, Constant]) -> MilStep:
    given = {name: _argument(argument, constants) for name, argument in operation.inputs.items()}
    # Compressed weights of iOS 16 have their parameters as attributes.
    fixed = {name: _literal(value) for name, value in operation.attributes.items() if name not in given}
    inputs = {name: value for name, value in {**fixed, **given}.items() if name not in _WITHOUT_MEANING}
    label = operation.attributes["name"].immediateValue.tensor.strings.values if operation.attributes else []
    outputs = tuple((output.name, value_type(output.type)) for output in operation.outputs)
    name = label[0] if label else (outputs[0][0] if outputs else operation.type)
    return MilStep(operation.type, name, inputs, outputs)


def _argument(argument: Any, constants: Mapping[str, Constant]) -> Argument:
    values = [
        constants.get(binding.name, binding.name) if binding.HasField("name") else _literal(binding.value)
        for binding in argument.arguments
    ]
    return values[0] if len(values) == 1 else tuple(values)


def _literal(value: Any) -> Constant:
    kind = value_type(value.type)
    if value.WhichOneof("value") == "blobFileValue":
        return StoredConstant(kind, value.blobFileValue.fileName.rsplit("/", 1)[-1], value.blobFileValue.offset)
    return Immediate(kind, value.SerializeToString(deterministic=True))


def _constants(operation: Any, step: MilStep) -> dict[str, Constant]:
    if step.operator == "const":
        return {step.outputs[0][0]: _literal(operation.attributes["val"])}
    inputs = tuple(sorted(step.inputs.items()))
    place = f"{step.operator} {step.name!r}"
    return {
        name: Expression(step.operator, inputs, index, kind, place)  # type: ignore[arg-type]
        for index, (name, kind) in enumerate(step.outputs)
    }
