"""torch's programs to a ``.tflite`` of several signatures over the same weights, by litert-torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from edgec.backends.litert.network import NetworkSignature
from edgec.backends.litert.operators import Integers, LitertOperators
from edgec.backends.litert.signature import LitertSignature
from edgec.backends.litert.toolkit import load_converter
from edgec.backends.onnx.onnx_form import WrittenNorms
from edgec.errors import InputError
from edgec.ir.program import Program
from edgec.passes.contract import clone, run_pass

Converted = tuple[bytes, Mapping[str, Integers]]


def converted(
    programs: Sequence[Program], by_products: bool, kind: type[LitertSignature | NetworkSignature] = LitertSignature
) -> Converted:
    """A ``.tflite`` whose rounded matrices are inputs, and the integers that belong in their places, by name.

    Args:
        programs: a decoder's methods, or one network.
        by_products: as of ``LitertOperators``.
        kind: under whose names they are called.

    Raises:
        InputError: E904, the converter has no form for something of the model.
        ToolError: E900, there is no converter.
    """
    converter, operators = load_converter().Converter(), LitertOperators(by_products)
    for program in programs:
        written = run_pass(program, WrittenNorms(rms=True))
        graph = clone(written.graph)
        operators.rewrite(graph)
        signature = kind(written, graph).eval()
        converter.add_signature(signature.name, signature, sample_kwargs=signature.example(written))
    try:
        with torch.no_grad():
            content: bytes = converter.convert(strict_export=False)._exporter.to_bytes()
    except Exception as error:  # its passes raise what they like
        raise _refused(str(error) or type(error).__name__) from error
    return content, operators.matrices


def _refused(why: str) -> InputError:
    lines = [line for line in why.strip().splitlines() if line.strip()]
    return InputError(
        "LiteRT's converter has no form for this model.",
        where="litert-torch",
        why=(lines[0] if lines else why)[:300],
        fix="export with --format pte for the same phone, or report the model",
        code="E904",
    )
