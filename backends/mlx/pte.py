"""The format ``pte`` for Apple's GPUs: one method ``forward`` of varying length, delegated as a whole to MLX.

    graph -> MLX's operators -> float16 -> torch.export -> ExecuTorch's MLX partitioner -> .pte of one method

There is one method because ExecuTorch gives every method of MLX's delegate its own caches. It is the one that
ExecuTorch's TextLLMRunner calls: tokens [1, S], positions [S] -> logits of the last token [1, 1, V].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.backends.cpu.text_runner import RunnerFacts
from edgec.backends.delegated_pte import delegated_layout as layout
from edgec.backends.delegated_pte import delegated_operators
from edgec.backends.mlx.execute import EXECUTED_BY, execute
from edgec.backends.mlx.operators import MlxOperators, last_row
from edgec.backends.mlx.toolkit import load_toolkit
from edgec.backends.static_artifact import LoweringProgress, StaticArtifact
from edgec.bundle.entry_points import FORWARD
from edgec.bundle.findings import Delegation
from edgec.errors import InputError
from edgec.ir.program import Program
from edgec.ir.reexport import reexport
from edgec.passes.contract import clone, run_pass
from edgec.passes.static.half_precision import HalfPrecision

__all__ = ["EXECUTED_BY", "execute", "layout", "lower"]

_OUTSIDE = "MLX's partitioner does not take it"


def lower(methods: Mapping[str, Program], path: Path, progress: LoweringProgress) -> StaticArtifact:
    """Write a program of one method.

    Raises:
        InputError: E870, MLX has no operator for something of the model.
        ToolError: E871, the delegate's ahead-of-time part is not there.
    """
    (program,) = methods.values()
    load_toolkit()
    progress("convert", 0, 3)
    last = _in_mlx(program)
    exported = reexport(last.graph, last.interface)
    progress("delegate", 1, 3)
    try:
        lowered = _delegated(exported, _facts(program).constants)
        delegation, _ = delegated_operators(lowered, "mlx", _OUTSIDE)
        _require_whole(delegation)
        progress("emit", 2, 3)
        with path.open("wb") as stream:
            lowered.to_executorch().write_to_file(stream)
    except (NotImplementedError, RuntimeError, ValueError, AssertionError, KeyError) as error:
        raise _refused(str(error) or type(error).__name__) from error
    return StaticArtifact({FORWARD: last.interface}, delegation)


def _in_mlx(program: Program) -> Program:
    """The program for the last token's logits, in MLX's operators and float16."""
    graph = clone(program.graph)
    operators = MlxOperators(graph)
    interface = operators.rewrite(last_row(graph, program.interface))
    half = run_pass(replace(program, graph=graph, interface=interface), HalfPrecision())
    for name, rotation in operators.rotations.items():
        setattr(half.graph, name, rotation.periods)
    return half


def _facts(program: Program) -> RunnerFacts:
    """What ExecuTorch's runner asks of the artifact; the ids of its texts' ends are the tokenizer's."""
    tokens, *_ = program.interface.inputs
    slots = max(state.slots for state in program.interface.states)
    vocabulary: Any = program.interface.outputs[0].shape[-1]
    most: Any = tokens.shape[1]
    return RunnerFacts(most.high, slots, vocabulary, None, ())


def _delegated(exported: Any, constants: Mapping[str, Any]) -> Any:
    from executorch.backends.mlx.partitioner import MLXPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    return to_edge_transform_and_lower(
        {FORWARD: exported},
        partitioner={FORWARD: [MLXPartitioner()]},
        compile_config=config,
        constant_methods=dict(constants),
    )


def _require_whole(delegation: Delegation) -> None:
    """Refuse what would run outside MLX: nothing falls back to the CPU unsaid."""
    if delegation.fallbacks:
        names = ", ".join(f"{each.operator} ({each.count})" for each in delegation.fallbacks)
        raise _refused(f"its partitioner leaves out {names}")
    if delegation.delegates != 1:
        raise _refused(f"it would become {delegation.delegates} delegates")


def _refused(why: str) -> InputError:
    lines = [line for line in why.strip().splitlines() if line.strip()]
    return InputError(
        "ExecuTorch's MLX delegate cannot run the whole model.",
        where="mlx",
        why=(lines[0] if lines else why)[:300],
        fix="export with --format mlpackage for the same GPU, or report the model",
        code="E870",
    )
