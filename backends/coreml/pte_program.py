"""An ExecuTorch program with Core ML inside, executed here: delegates by the interpreter, the rest by torch's kernels.

On a phone every delegate keeps its own state: ExecuTorch makes one MLState for each delegate it loads. The same holds
here; methods that share a package share its weights and no state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from edgec.backends.coreml.extract import BACKEND, DelegatePackage, extract_from, read_program
from edgec.backends.coreml.interpreter import Accumulate, MilFunction, Package, load_package
from edgec.errors import EdgecError, InputError

if TYPE_CHECKING:
    from executorch.exir import schema
    from executorch.exir._serialize._program import PTEFile


if TYPE_CHECKING:
    from executorch.exir import schema


@dataclass
class Delegate:
    """A loaded delegate with its state."""

    function: MilFunction
    order: DelegatePackage
    state: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Give the delegate an empty state."""
        self.state = self.function.fresh_state()

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Execute with arguments in the delegate's order."""
        outputs = self.function.run(dict(zip(self.order.inputs, inputs, strict=True)), self.state)
        return [outputs[name] for name in self.order.outputs]


@dataclass
class PteMethod:
    """One loaded method; it keeps its delegates' states and its own buffers between calls.

    Attributes:
        plan: its instructions.
        values: constants and buffers, and what the last call left.
        delegates: by index; Core ML's only.
    """

    plan: schema.ExecutionPlan
    values: list[Any]
    delegates: Mapping[int, Delegate]

    @property
    def kernels(self) -> tuple[str, ...]:
        """Operators outside Core ML, by name."""
        return tuple(_name(operator) for operator in self.plan.operators)

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Execute the method once.

        Raises:
            InputError: E422, wrong number or shape; E423, a delegate fails; E425, an instruction outside Core ML
                cannot be executed here.
        """
        self._give(inputs)
        with torch.no_grad():
            for instruction in self.plan.chains[0].instructions:
                self._execute(instruction.instr_args)
        return [self.values[index].clone() for index in self.plan.outputs]

    def _give(self, inputs: Sequence[Tensor]) -> None:
        wanted = [(index, tuple(self.plan.values[index].val.sizes)) for index in self.plan.inputs]
        if [tuple(tensor.shape) for tensor in inputs] != [shape for _, shape in wanted]:
            raise InputError(
                "The inputs do not match those of the method.",
                where=self.plan.name,
                why=f"given: {[list(t.shape) for t in inputs]}",
                fix=f"give {[list(shape) for _, shape in wanted]}",
                code="E422",
            )
        for (index, _), tensor in zip(wanted, inputs, strict=True):
            self.values[index] = tensor.to(self.values[index].dtype)

    def _execute(self, call: Any) -> None:
        kind = type(call).__name__
        if kind == "DelegateCall":
            self._call_delegate(call)
        elif kind == "KernelCall":
            self._call_kernel(call)
        elif kind == "MoveCall":
            self.values[call.move_to] = self.values[call.move_from]
        elif kind != "FreeCall":
            raise _outside(self.plan.name, kind, "control flow outside Core ML is not executed here")

    def _call_delegate(self, call: Any) -> None:
        delegate = self.delegates.get(call.delegate_index)
        if delegate is None:
            name = self.plan.delegates[call.delegate_index].id
            raise _outside(self.plan.name, name, "only Core ML's delegates are executed here")
        count = len(delegate.order.inputs)
        results = delegate([self.values[index] for index in call.args[:count]])
        for index, result in zip(call.args[count:], results, strict=True):
            self.values[index] = result.to(self.values[index].dtype).reshape(self.values[index].shape)

    def _call_kernel(self, call: Any) -> None:
        """Call torch's kernel of the same name; outputs are arguments in ExecuTorch, and it writes into them."""
        operator = self.plan.operators[call.op_index]
        try:
            packet = torch.ops
            for part in operator.name.split("::"):
                packet = getattr(packet, part)
            kernel = getattr(packet, operator.overload or "default")
            names = [argument.name for argument in kernel._schema.arguments]
            given = [resolved(self.values, index) for index in call.args[: len(names)]]
            fixed = [argument.kwarg_only for argument in kernel._schema.arguments]
            kernel(
                *(value for value, keyword in zip(given, fixed, strict=True) if not keyword),
                **{name: value for name, value, keyword in zip(names, given, fixed, strict=True) if keyword},
            )
        except EdgecError:
            raise
        except Exception as cause:
            raise _outside(self.plan.name, _name(operator), str(cause)) from cause


@dataclass(frozen=True)
class PteProgram:
    """A loaded ExecuTorch program with Core ML inside.

    Attributes:
        methods: by name.
        packages: the Core ML packages inside, each once.
    """

    methods: Mapping[str, PteMethod]
    packages: Mapping[str, Package]


def open_pte(path: Path, accumulate: Accumulate = "float16") -> PteProgram:
    """Load a program with Core ML inside.

    Args:
        path: the .pte.
        accumulate: see ``load_package``.

    Raises:
        InputError: E424, it is not such a program; E420 and E421, a package inside cannot be executed.
        ToolError: E430, ExecuTorch's Core ML tools are absent.
    """
    program = read_program(path.read_bytes())
    with TemporaryDirectory() as folder:
        delegates = extract_from(program, Path(folder))
        packages = {str(each.package): load_package(each.package, accumulate) for each in delegates}
        for package in packages.values():
            package.hold_files()
    methods = {}
    for plan in program.program.execution_plan:
        own = [each for each in delegates if each.method == plan.name]
        loaded = {}
        for each in own:
            package = packages[str(each.package)]
            loaded[each.index] = Delegate(package.functions[each.function or package.default_function], each)
        methods[plan.name] = PteMethod(plan, initial_values(program, plan), loaded)
    return PteProgram(methods, packages)


def _name(operator: schema.Operator) -> str:
    return f"{operator.name}.{operator.overload}" if operator.overload else operator.name


def _outside(method: str, what: str, why: str) -> InputError:
    return InputError(
        "A part of the program outside Core ML cannot be executed here.",
        where=f"method {method}: {what}",
        why=why,
        fix="export with a recipe that leaves nothing outside Core ML; the delegation report names each operator",
        code="E425",
    )


__all__ = ["BACKEND", "Delegate", "PteMethod", "PteProgram", "open_pte"]


_DTYPES = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
}


def initial_values(program: PTEFile, plan: schema.ExecutionPlan) -> list[Any]:
    """The values of a method when it is loaded: constants, zeroed buffers, numbers, lists of indices."""
    return [_initial(program, value.val) for value in plan.values]


def _initial(program: PTEFile, value: Any) -> Any:
    kind = type(value).__name__
    if kind == "Tensor":
        return _tensor(program, value)
    if kind == "Null":
        return None
    if kind in ("Int", "Double", "Bool", "String"):
        return getattr(value, f"{kind.lower()}_val")
    return value


def _tensor(program: PTEFile, value: schema.Tensor) -> Tensor:
    dtype = _DTYPES[int(value.scalar_type)]
    if value.data_buffer_idx == 0:
        return torch.zeros(list(value.sizes), dtype=dtype)
    mutable: Any = None if value.allocation_info is None else program.mutable_data
    buffers = program.program.constant_buffer if mutable is None else mutable
    data = bytearray(buffers[value.data_buffer_idx].storage)
    return torch.frombuffer(data, dtype=dtype).reshape(list(value.sizes))


def resolved(values: list[Any], index: int) -> Any:
    """A kernel's argument; the items of a list of tensors or integers are indices of other values."""
    value = values[index]
    kind = type(value).__name__
    if kind in ("IntList", "TensorList", "OptionalTensorList"):
        return [None if item == -1 else values[item] for item in value.items]
    return list(value.items) if kind in ("DoubleList", "BoolList") else value
