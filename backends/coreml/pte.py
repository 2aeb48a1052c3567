"""The format ``pte``: an ExecuTorch program whose methods are delegated to Core ML, over one package of two functions.

The keys and values are inputs and outputs of the methods: ExecuTorch makes a Core ML state for every method that it
loads (``ETCoreMLModel.mm``: ``newState`` for each), so that ``decode`` would never see what ``prefill`` wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from edgec.backends.coreml.package import DEPLOYMENT_TARGET, equal_constants_once, refused, without_bars
from edgec.backends.coreml.stored import package_layout
from edgec.backends.delegated_pte import delegated_operators
from edgec.backends.static_artifact import LoweringProgress, StaticArtifact
from edgec.bundle.pte_layout import DELEGATE, ArtifactLayout, read_layout
from edgec.errors import InputError
from edgec.ir.memory_inputs import is_memory
from edgec.ir.program import Interface, Program
from edgec.ir.reexport import reexport
from edgec.ir.row_inputs import ROW_INPUTS
from edgec.ir.static_methods import DECODE, NEW_ROWS, NEW_STATE, PREFILL, join_logits, write_states
from edgec.passes.contract import run_pass
from edgec.passes.static.half_precision import HalfPrecision, half_interface
from edgec.passes.static.separate_bias import SeparateBias

if TYPE_CHECKING:
    from edgec.backends.coreml.pte_program import PteMethod

EXECUTED_BY = "Core ML delegates executed by edgec's interpreter (simulated)"
_OUTSIDE = "coremltools cannot convert it; ExecuTorch's CPU kernel runs it, between two Core ML delegates"
_GIVEN = ("tokens", "start", "last", *ROW_INPUTS)
_BLOB = "coreml_"


def lower(methods: Mapping[str, Program], path: Path, progress: LoweringProgress) -> StaticArtifact:
    """Write a program; weights are stored once for all methods.

    Raises:
        InputError: E404, coremltools cannot convert an operator.
    """
    interfaces: dict[str, Interface] = {name: half_interface(p.interface) for name, p in methods.items()}
    exported = {}
    for index, (name, program) in enumerate(methods.items()):
        progress("convert", index, len(methods) + 2)
        half = run_pass(run_pass(program, SeparateBias()), HalfPrecision())
        exported[name] = reexport(half.graph, half.interface)
    progress("delegate", len(methods), len(methods) + 2)
    with without_bars(), equal_constants_once():
        lowered = _delegated(exported)
        delegation, operators = delegated_operators(lowered, "coreml", _OUTSIDE)
        progress("emit", len(methods) + 1, len(methods) + 2)
        with path.open("wb") as stream:
            lowered.to_executorch().write_to_file(stream)
    return StaticArtifact(interfaces, delegation, operators)


def _delegated(exported: Mapping[str, ExportedProgram]) -> Any:
    """ExecuTorch's edge programs, delegated to Core ML where it takes the operators."""
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    from edgec.backends.coreml.converters import register
    from edgec.backends.coreml.float_islands import islands_in_delegates

    register()
    partitioner = {name: [CoreMLPartitioner(compile_specs=_compile_specs())] for name in exported}
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    try:
        with islands_in_delegates():
            return to_edge_transform_and_lower(dict(exported), partitioner=partitioner, compile_config=config)
    except (NotImplementedError, RuntimeError, ValueError, AssertionError) as error:
        raise refused(", ".join(exported), error) from error


def _compile_specs() -> Any:
    import coremltools as ct
    from executorch.backends.apple.coreml.compiler import CoreMLBackend

    return CoreMLBackend.generate_compile_specs(
        minimum_deployment_target=ct.target[DEPLOYMENT_TARGET],
        compute_precision=ct.precision.FLOAT16,
        compute_unit=ct.ComputeUnit.CPU_AND_NE,
    )


@dataclass
class PteMethods:
    """The methods of a program with what the caller keeps for them.

    Attributes:
        methods: by name, callable with positional tensors.
        interfaces: what they take and give, in order.
        states: keys and values, by name.
    """

    methods: Mapping[str, Any]
    interfaces: Mapping[str, tuple[Sequence[str], Sequence[str]]]
    states: dict[str, Tensor]
    chunk: int

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a method and write the rows that it returns.

        Raises:
            InputError: E422, it has inputs that the bundle does not name.
        """
        names, results = self.interfaces[method]
        given = {**self.states, **inputs}
        if absent := [name for name in names if name not in given]:
            raise InputError(
                f"The function {method!r} reads what the bundle does not give it.",
                where=method,
                why=f"missing: {', '.join(absent)}",
                fix="export the model again",
                code="E422",
            )
        outputs = self.methods[method].run([given[name] for name in names])
        named = dict(zip(results, outputs, strict=True))
        write_states(self.states, named, int(inputs["start"]))
        return join_logits(named)


def execute(path: Path) -> PteMethods:
    """Load the methods of a program's decoder; names of inputs and outputs are those of the functions inside.

    Raises:
        InputError: E424, it is not such a program; E420 and E421, a package inside cannot be executed.
    """
    from edgec.backends.coreml.pte_program import open_pte

    program = open_pte(path)
    decoder = {name: each for name, each in program.methods.items() if name.startswith((PREFILL, DECODE))}
    interfaces = {name: _names(method) for name, method in decoder.items()}
    features = {f.name: f for d in program.methods[PREFILL].delegates.values() for f in d.function.inputs}
    held = {name: torch.zeros(f.fixed_shape, dtype=f.dtype) for name, f in features.items() if _is_state(name)}
    return PteMethods(decoder, interfaces, held, features["tokens"].fixed_shape[1])


def _is_state(name: str) -> bool:
    """Whether an input is a state, which a call gives back."""
    return name not in _GIVEN and not is_memory(name)


def _names(method: PteMethod) -> tuple[list[str], list[str]]:
    """Names of a method's inputs, from the delegates that read them, and of its outputs, which follow from those.

    ExecuTorch keeps no names of outputs; logits come first, then what states get, in the states' order: all of a state,
    or rows of it.
    """
    named: dict[int, str] = {}
    for instruction in method.plan.chains[0].instructions:
        call: Any = instruction.instr_args
        if type(call).__name__ == "DelegateCall":
            named.update(zip(call.args, method.delegates[call.delegate_index].order.inputs, strict=False))
    inputs = [named[index] for index in method.plan.inputs]
    held = [(name, index) for name, index in zip(inputs, method.plan.inputs, strict=True) if _is_state(name)]
    parts = len(method.plan.outputs) - len(held)
    sizes = [list(method.plan.values[index].val.sizes) for index in method.plan.outputs[parts:]]
    new = [
        f"{NEW_STATE if list(method.plan.values[index].val.sizes) == size else NEW_ROWS}{name}"
        for (name, index), size in zip(held, sizes, strict=True)
    ]
    return inputs, [*(f"logits_{i}" for i in range(parts)), *new]


def layout(path: Path) -> ArtifactLayout:
    """Where a program's bytes lie: those of the packages inside, and the rest."""
    from edgec.backends.coreml.extract import extract_packages

    whole = read_layout(path)
    with TemporaryDirectory() as folder:
        packages = {each.package for each in extract_packages(path.read_bytes(), Path(folder))}
        parts = [package_layout(package) for package in sorted(packages)]
    blobs = [run for run in whole.stored if run.place == DELEGATE or run.key.startswith(_BLOB)]
    inside = tuple(run for part in parts for run in part.stored)
    padding = sum(part.padding_bytes for part in parts)
    around = sum(run.bytes for run in blobs) - sum(run.bytes for run in inside) - padding
    return replace(
        whole,
        graph_bytes=whole.graph_bytes + around,
        padding_bytes=whole.padding_bytes + padding,
        stored=(*(run for run in whole.stored if run not in blobs), *inside),
    )
