"""The format ``aimodel``: Core AI (iOS 27), one entry point for each method; states are passed to every call.

graph -> float16 -> torch.export -> coreai-torch -> .aimodel
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from edgec.backends.coreai.stateful_ops import call_positions, stacked_rows
from edgec.backends.static_artifact import LoweringProgress, StaticArtifact
from edgec.bundle.findings import Delegation
from edgec.bundle.pte_layout import ArtifactLayout
from edgec.errors import InputError, ToolError
from edgec.installation import install_command
from edgec.ir.program import Interface, Program
from edgec.ir.reexport import reexport, without_assertions
from edgec.ir.stateful_call import MAIN, StatefulMethods, stateful_names
from edgec.ir.static_methods import PREFILL, join_logits
from edgec.passes.contract import run_pass
from edgec.passes.static.half_precision import HalfPrecision, half_interface

if TYPE_CHECKING:
    from edgec.backends.coreai.execute import CoreAIFunction

EXECUTED_BY = "executed by Apple's Core AI runtime on this machine (simulated)"


def lower(methods: Mapping[str, Program], path: Path, progress: LoweringProgress) -> StaticArtifact:
    """Write the methods as one .aimodel.

    Raises:
        InputError: E405, coreai-torch cannot convert an operator.
        ToolError: E410, coreai-torch is not installed.
    """
    tools = _tools()
    converter, operators = tools.TorchConverter(), 0
    lowerings = {"update_slots": _update_slots, "call_positions": call_positions, "stacked_rows": stacked_rows}
    for name, lowering in lowerings.items():
        converter.register_torch_lowering(f"edgec::{name}.default")(lowering)
    for index, (name, program) in enumerate(methods.items()):
        progress("convert", index, len(methods) + 1)
        operators += _stage(tools, converter, name, run_pass(program, HalfPrecision()))
    progress("write", len(methods), len(methods) + 1)
    try:
        converter.to_coreai().save_asset(path)
    except (NotImplementedError, RuntimeError, ValueError, KeyError) as error:
        raise _refused(", ".join(methods), error) from error
    interfaces: dict[str, Interface] = {name: half_interface(p.interface) for name, p in methods.items()}
    delegation = Delegation(
        backend="coreai", delegates=1, delegated_operators=operators, delegated_share=1.0, fallbacks=[]
    )
    return StaticArtifact(interfaces, delegation)


def _tools() -> Any:
    try:
        import coreai_torch
    except ImportError as cause:
        raise ToolError(
            "Core AI's converter is not installed.",
            where="coreai-torch",
            why=str(cause),
            fix=f"{install_command('coreai')} (Linux x86-64 or macOS)",
            code="E410",
        ) from cause
    return coreai_torch


def _stage(tools: Any, converter: Any, name: str, program: Program) -> int:
    """Hand one method to the converter and return how many operators it has."""
    from edgec.backends.coreai.compressed_ops import use_coreai_forms

    use_coreai_forms(program.graph)
    traced = reexport(program.graph, program.interface)
    exported = without_assertions(traced.run_decompositions(tools.get_decomp_table()))
    interface, signature = program.interface, exported.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    names = {
        "input_names": [tensor.name for tensor in interface.inputs],
        "output_names": [tensor.name for tensor in interface.outputs],
        "state_names": [buffer for buffer in signature.inputs_to_buffers.values() if buffer in changed],
    }
    try:
        converter.add_exported_program(exported, entrypoint_name=name, **names)
    except (NotImplementedError, RuntimeError, ValueError, KeyError) as error:
        raise _refused(name, error) from error
    return sum(node.op == "call_function" for node in exported.graph.nodes)


def _update_slots(values: Any, node: Any, _: Any) -> Any:
    """Convert ``edgec::update_slots`` to Core AI's own ``slice_update``."""
    from coreai._compiler.dialects import coreai
    from coreai_torch._utils import get_operands

    cache, value, start = get_operands(values, node, [0, 1, 2])
    zero, whole = (coreai.constant([number], dtype=np.int32) for number in (0, np.iinfo(np.int32).max))
    end = coreai.broadcasting_add(start, coreai.constant([value.type.shape[2]], dtype=np.int32))
    bounds = (coreai.concat(0, [rest, rest, at, rest]) for rest, at in ((zero, start), (whole, end)))
    return coreai.slice_update(cache, *bounds, [1, 1, 1, 1], value)


def _refused(method: str, error: Exception) -> InputError:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return InputError(
        what="coreai-torch could not convert the model to Core AI",
        where=f"method {method}",
        why=(lines[0] if lines else type(error).__name__)[:300],
        fix="export with --format mlpackage, or report the model",
        code="E405",
    )


@dataclass
class ModelMethods:
    """The functions of one model over one set of states, which its caller holds.

    Attributes:
        functions: by method.
        states: their current values, by name.
    """

    functions: Mapping[str, CoreAIFunction]
    states: dict[str, Tensor] = field(default_factory=dict)

    @property
    def chunk(self) -> int:
        """Tokens that one call of ``prefill`` takes."""
        return next(f.fixed_shape[1] for f in self.functions[PREFILL].inputs if f.name == "tokens")

    def call(self, method: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """Execute a function; it leaves its writes in the states."""
        self.states = self.states or self.functions[method].fresh_state()
        return join_logits(self.functions[method].run(inputs, self.states))


def execute(path: Path) -> ModelMethods | StatefulMethods:
    """Load a model's functions; or the one function of a layout of another runtime.

    Raises:
        InputError: E426, the runtime refuses it.
        ToolError: E431, the runtime is not installed.
    """
    from edgec.backends.coreai.execute import load_model

    functions = load_model(path).functions
    names = stateful_names([each.name for each in functions[MAIN].inputs]) if MAIN in functions else None
    return ModelMethods(functions) if names is None else StatefulMethods(functions[MAIN], names)


def layout(path: Path) -> ArtifactLayout:
    """Where a model's bytes lie; Core AI's format names no tensors, so all weights count as one run."""
    from edgec.backends.coreai.stored import model_layout

    return model_layout(path)
