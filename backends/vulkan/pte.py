"""Static methods to a .pte with Vulkan delegates; what the partitioner leaves outside runs on the phone's CPU.

graph -> norms written out -> torch.export -> ExecuTorch's Vulkan partitioner -> .pte of two methods

Machines that export have no Vulkan driver, so nothing here executes the result: the graphs are compared up to
the last pass, the lowering is reported on, and the manifest says that the artifact itself was never run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgec.backends.delegated_pte import delegated_export, delegated_operators
from edgec.backends.delegated_pte import delegated_layout as layout
from edgec.backends.static_artifact import LoweringProgress, StaticArtifact
from edgec.errors import InputError, ToolError
from edgec.ir.program import Program
from edgec.ir.static_methods import Methods

__all__ = ["EXECUTED_BY", "execute", "layout", "lower"]

EXECUTED_BY = "not executed: a Vulkan delegate runs on the phone only"
_OUTSIDE = "Vulkan's partitioner does not support it; ExecuTorch's CPU kernel runs it, and its values are copied across"


def lower(methods: Mapping[str, Program], path: Path, progress: LoweringProgress) -> StaticArtifact:
    """Write a program of all methods.

    Raises:
        InputError: E596, ExecuTorch's Vulkan backend cannot express the model.
    """
    exported = {}
    for index, (name, program) in enumerate(methods.items()):
        progress("convert", index, len(methods) + 1)
        exported[name] = delegated_export(program)
    progress("delegate", len(methods), len(methods) + 1)
    try:
        lowered = _delegated(exported)
        with path.open("wb") as stream:
            lowered.to_executorch().write_to_file(stream)
    except (NotImplementedError, RuntimeError, ValueError, AssertionError, KeyError) as error:
        raise _refused(error) from error
    delegation, operators = delegated_operators(lowered, "vulkan", _OUTSIDE)
    return StaticArtifact({name: program.interface for name, program in methods.items()}, delegation, operators)


def _delegated(exported: Mapping[str, Any]) -> Any:
    # Registers the operators that the partitioner fuses patterns into.
    import executorch.backends.vulkan.custom_ops_lib  # noqa: F401
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    partitioner = {name: [VulkanPartitioner()] for name in exported}
    return to_edge_transform_and_lower(dict(exported), partitioner=partitioner, compile_config=config)


def execute(path: Path) -> Methods:
    """Refuse: there is no Vulkan driver here.

    Raises:
        ToolError: E597.
    """
    raise ToolError(
        "A Vulkan artifact cannot be executed on this machine.",
        where=str(path),
        why="its delegates run on a phone's GPU only",
        fix="edgec embed --platform android makes an app that runs it; export with --target android-cpu to run here",
        code="E597",
    )


def _refused(error: Exception) -> InputError:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return InputError(
        what="ExecuTorch's Vulkan backend could not lower the model",
        where="vulkan",
        why=(lines[0] if lines else type(error).__name__)[:300],
        fix="export for the CPU (--target android-cpu), or report the model",
        code="E596",
    )
