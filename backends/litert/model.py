"""The formats ``tflite`` and ``litertlm``: a decoder's signatures over one set of weights, or a network, for LiteRT.

    static methods -> LiteRT's operators (operators.py) -> litert-torch -> edgec's integers (weights.py) -> .tflite

The stages pack it into a ``.litertlm`` with tokenizer, template and ends of texts (container.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgec.backends.litert.container import model_bytes, model_layout
from edgec.backends.litert.converter import converted
from edgec.backends.litert.methods import LitertMethods
from edgec.backends.litert.names import signature_name
from edgec.backends.litert.network import MAIN, NetworkSignature, in_order
from edgec.backends.litert.signature import LitertSignature, signature_interface, tokens_of
from edgec.backends.litert.weights import operator_count, write_integers
from edgec.backends.static_artifact import LoweringProgress, StaticArtifact
from edgec.bundle.findings import Delegation
from edgec.bundle.pte_layout import ArtifactLayout
from edgec.ir.program import Interface, Program

EXECUTED_BY = "executed by ai-edge-litert's interpreter with XNNPACK on this machine's CPU"


def lower(
    methods: Mapping[str, Program], path: Path, progress: LoweringProgress, *, by_products: bool = False
) -> StaticArtifact:
    """Write a ``.tflite`` with a signature for each method of a decoder, or with that of a network.

    ``by_products``: as of ``LitertOperators``.

    Raises:
        BudgetError: E902, a rounded matrix was lost.
        InputError: E904, the converter has no form for something of the model.
        ToolError: E900, the converter is not there.
    """
    progress("convert", 0, 2)
    network = methods.get(MAIN)
    kind = LitertSignature if network is None else NetworkSignature
    content, matrices = converted(list(methods.values()), by_products, kind)
    progress("write", 1, 2)
    content = write_integers(content, matrices)
    path.write_bytes(content if network is None else in_order(content, network))
    count = operator_count(content)
    delegation = Delegation(
        backend="litert", delegates=len(methods), delegated_operators=count, delegated_share=1.0, fallbacks=[]
    )
    interfaces = {MAIN: network.interface} if network else _interfaces(methods)
    return StaticArtifact(interfaces, delegation)


def _interfaces(methods: Mapping[str, Program]) -> dict[str, Interface]:
    return {signature_name(tokens_of(each)): signature_interface(each) for each in methods.values()}


def execute(path: Path) -> LitertMethods:
    """Load the artifact's signatures.

    Raises:
        InputError: E903, LiteRT refuses them; E905, the file is damaged.
        ToolError: E900, there is no interpreter.
    """
    return LitertMethods(model_bytes(path))


def layout(path: Path) -> ArtifactLayout:
    """Where the artifact's bytes lie."""
    return model_layout(path)
