"""The translation of a static method to an ONNX model in memory, by torch's own exporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgec.backends.onnx.onnx_form import DEQUANTIZE_BLOCKS, RMS_NORM, OnnxForm
from edgec.errors import InputError, ToolError
from edgec.installation import install_command
from edgec.ir.program import Interface, Program
from edgec.ir.reexport import reexport
from edgec.passes.contract import run_pass
from edgec.quiet import quiet

if TYPE_CHECKING:
    import onnx_ir as ir

OPSET, WHOLE_NORMS = 21, 23
"""ONNX's versions of operators: what runtimes in apps read, and the first with RMS norms."""
FOUR_BITS = 22  # ONNX's number of the type INT4.
FEW_VALUES, TABLES = 1 << 8, 1 << 18
"""What is folded: a table of positions is larger than its computation, which ONNX Runtime folds at load; NPUs have no
operators for that computation."""


Translations = dict[Callable[..., Any], Callable[..., Any]]
"""How operators of torch are written, as torch's exporter takes it."""


def translated(
    program: Program,
    name: str,
    folded_values: int = FEW_VALUES,
    opset: int = OPSET,
    further: Translations | None = None,
) -> ir.Model:
    """The method as ONNX; names of inputs and outputs are the program's.

    Args:
        program: the method.
        name: its name, for errors.
        folded_values: what is computed of constants alone is stored where it has at most so many values, or as few as
            those constants.
        opset: version of the operators; from 23 on, an RMS norm is one of them.
        further: translations of operators that edgec's others lack.

    Raises:
        InputError: E581, ONNX cannot express something.
        ToolError: E582, onnx or onnxscript is not installed.
    """
    import torch

    _check_tools()
    from onnxscript.optimizer import optimize

    written = run_pass(program, OnnxForm(whole_norms=opset >= WHOLE_NORMS))
    interface = written.interface
    with quiet():
        exported = reexport(written.graph, interface)
        try:
            made = torch.onnx.export(
                exported,
                dynamo=True,
                opset_version=opset,
                custom_translation_table={**_translations(), **(further or {})},
                optimize=False,
                verbose=False,
            )
            assert made is not None
            # torch's own ``optimize`` folds tables: 257 KB beside the 417 KB of a tiny MPNet's weights.
            optimize(made.model, output_size_limit=folded_values)
        except (torch.onnx.errors.OnnxExporterError, RuntimeError, NotImplementedError) as error:
            raise _refused(name, error) from error
    _give_names(made.model, interface)
    _forget_origin(made.model)
    return made.model


def _give_names(model: ir.Model, interface: Interface) -> None:
    """Name inputs and outputs as the program does: folding makes equal outputs one, and copies an input that is one."""
    from onnx_ir.passes.common import NameFixPass

    named = (*interface.inputs, *interface.outputs)
    for value, tensor in zip((*model.graph.inputs, *model.graph.outputs), named, strict=True):
        value.name = tensor.name
    NameFixPass()(model)


def _forget_origin(model: ir.Model) -> None:
    """Remove torch's notes on where each node comes from: stack traces name this machine's folders."""
    import onnx_ir as ir
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    ClearMetadataAndDocStringPass()(model)
    nodes = ir.traversal.RecursiveGraphIterator(model.graph)
    results = (value for node in nodes for value in node.outputs)
    for held in (model, model.graph, *model.graph.inputs, *model.graph.initializers.values(), *results):
        held.metadata_props.clear()


def _check_tools() -> None:
    try:
        import onnx_ir  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise missing("onnxscript", error) from error


def missing(package: str, error: ImportError) -> ToolError:
    """The error for an ONNX library that is not installed (E582)."""
    return ToolError(
        "The ONNX libraries are not installed.",
        where=package,
        why=str(error),
        fix=install_command("onnx"),
        code="E582",
    )


def _translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """The translations by which torch's exporter writes edgec's own operators."""
    import onnxscript

    opset21: Any = onnxscript.opset21

    def dequantize(integers: Any, scale: Any, bits: int) -> Any:
        rank, depth, rows = len(scale.shape), integers.shape[0], scale.shape[0]
        # The cast is folded into the constant (``packed``).
        held = opset21.Cast(integers, to=FOUR_BITS) if bits == 4 else integers
        if rank == 1:
            return opset21.DequantizeLinear(held, scale, axis=1)
        return opset21.DequantizeLinear(held, scale, axis=0, block_size=depth // rows)

    def rms_norm(x: Any, weight: Any, eps: float) -> Any:
        opset23: Any = onnxscript.opset23
        return opset23.RMSNormalization(x, weight, axis=-1, epsilon=eps)

    return {DEQUANTIZE_BLOCKS: dequantize, RMS_NORM: rms_norm}


def _refused(method: str, error: Exception) -> InputError:
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line for line in str(cause).splitlines() if line.strip()]
    return InputError(
        what="torch could not convert the model to ONNX",
        where=f"method {method}",
        why=(lines[0] if lines else type(cause).__name__)[:300],
        fix="export without --format onnx, or report the model",
        code="E581",
    )
