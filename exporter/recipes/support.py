"""What each backend stores and executes, as tables that recipes are checked against before any work is done."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgec.ir.kernel_grids import (
    COLUMNS_IN_PLACE,
    DYNAMIC_INT8_KERNELS,
    FILE_KERNELS,
    FILE_STORED,
    LINEAR_KERNELS,
    LOOKUP_BITS,
    STORED_KERNELS,
    KernelGrid,
    holding,
    holding_halves,
    holding_rows,
)

_GROUPS = (1024, 512, 256, 128, 64, 32, 16)


@dataclass(frozen=True)
class Support:
    """What one backend stores and executes.

    Attributes:
        kernels: the integer matrices that it reads.
        lookup_bits: bits of integers in embedding tables, with any group size.
        weight_only: whether float activations with integer weights are trusted.
        why_not: the reason for ``weight_only`` or its absence, for error messages.
        dynamic_activations: whether it quantises activations to 8 bits at run time; else they stay in its float.
        table_bits: widths of indices into look-up tables; empty where it has none.
        balanced: whether it stores the balanced 2-bit set, in whatever container.
        sparse: whether it stores sparse weights without their zeros.
        cache: dtypes of a KV cache; the first is its float.
        ranged: activations have fixed ranges, measured on a text.
        block_scales: whether integers with a scale per block of a row are computed correctly, as far as is known.
        exact_scale_bits: the scale bits of groups that it stores exactly; 0 for any. Others are refused where
            activations stay in float.
        stored: the forms of quantised checkpoints whose integers, scales and minimums it reads bit for bit.
        stored_half: scales and minimums of these are stored in float16, which not every form's fit into.
        stored_tables: whether it reads embedding tables in these forms, too.
        tables_alike: embedding tables are stored as matrices are, and in no other form.
        as_own: a recipe's table for edgec's own kernels is meant for it as well.
    """

    kernels: tuple[KernelGrid, ...]
    lookup_bits: tuple[int, ...]
    weight_only: bool
    why_not: str
    dynamic_activations: bool = True
    table_bits: tuple[int, ...] = ()
    balanced: bool = True
    sparse: bool = False
    cache: tuple[str, ...] = ("float32", "float16", "int8", "int4")
    ranged: bool = False
    block_scales: bool = True
    exact_scale_bits: int = 0
    stored: tuple[KernelGrid, ...] = ()
    stored_half: bool = False
    stored_tables: bool = True
    tables_alike: bool = False
    as_own: bool = False


_ONNX = KernelGrid(4, _GROUPS, 1), KernelGrid(8, (), 1)
_GENAI = (
    *(KernelGrid(bits, (32,), 0, coarsens=False, activation_group=32, scale_bits=16) for bits in (4, 8)),
    KernelGrid(8, (), 1, activation_group=32),
)
# Blocks of 32 take three times as long as those of 64; those of 16 are run by no delegate, in 70 times the time of 32.
_LITERT = KernelGrid(4, (128, 64, 32), 1, scale_bits=16), KernelGrid(4, (), 1), KernelGrid(8, (), 1)
_QNN = KernelGrid(4, (64, 32, 16), 1), KernelGrid(8, (), 1)
_APPLE = KernelGrid(4, _GROUPS, 1), KernelGrid(8, _GROUPS, 1)
_COREAI_INTEGERS = (KernelGrid(2, _GROUPS, 1), *_APPLE)

# Core ML and Core AI read the same forms on either unit, but only GPUs are known to multiply blocks of a row rightly.
_COREML = Support(
    kernels=_APPLE,
    lookup_bits=(4, 8),
    weight_only=True,
    why_not="Core ML computes in float16",
    dynamic_activations=False,
    table_bits=(1, 2, 3, 4, 6, 8),
    sparse=True,
    cache=("float16",),
    stored=holding_halves(COLUMNS_IN_PLACE),
    stored_half=True,
)
_COREAI = Support(
    kernels=_COREAI_INTEGERS,
    lookup_bits=LOOKUP_BITS,
    weight_only=True,
    why_not="edgec gives Core AI float activations",
    dynamic_activations=False,
    table_bits=(1, 2, 4, 6, 8),
    cache=("float16", "float32"),
    stored=holding(_COREAI_INTEGERS),
    stored_half=True,
)

# A GPU's kernels leave inputs in float; they are rounded here as on CPUs, where the artifact is executed.
_ON_LITERT = Support(
    kernels=_LITERT,
    lookup_bits=(4, 8),
    weight_only=False,
    why_not="LiteRT's kernels round the inputs of layers over integers to 8 bits",
    cache=("float32",),
    # Rows of 8 bits in blocks fail when they are looked up.
    tables_alike=True,
)

SUPPORT = {
    "xnnpack": Support(
        kernels=DYNAMIC_INT8_KERNELS,
        lookup_bits=LOOKUP_BITS,
        weight_only=False,
        why_not="XNNPACK's partitioner runs weight-only integers without their scales, and refuses layers with a bias; "
        "only edgec's kernels, which run decoders, read float activations",
        # ExecuTorch's attention reads float16 keys one by one: 10 times as slow as float32 for one token, 50 for 128.
        cache=("float32", "int8", "int4"),
    ),
    "coreml": replace(_COREML, block_scales=False, stored=holding_rows(_COREML.stored)),
    "coreml_gpu": _COREML,
    "onnx": Support(
        kernels=_ONNX,
        lookup_bits=(8,),
        weight_only=True,
        why_not="edgec gives ONNX Runtime float activations",
        dynamic_activations=False,
        balanced=False,
        stored=holding(_ONNX),
        cache=("float32", "float16"),
    ),
    "genai": Support(
        kernels=_GENAI,
        lookup_bits=(8,),
        weight_only=True,
        why_not="ONNX Runtime's MatMulNBits reads float inputs, too",
        balanced=False,
        cache=("float32",),
    ),
    "litert": _ON_LITERT,
    "litert_gpu": _ON_LITERT,
    "qnn": Support(
        kernels=_QNN,
        lookup_bits=(8,),
        weight_only=True,
        why_not="activations are 16-bit fixed point, with ranges measured on text",
        dynamic_activations=False,
        balanced=False,
        cache=("int8",),
        ranged=True,
        stored=holding(_QNN),
        stored_tables=False,
    ),
    "gguf": Support(
        kernels=FILE_KERNELS,
        lookup_bits=LOOKUP_BITS,
        weight_only=True,
        why_not="the file says nothing of activations; llama.cpp rounds them as its kernels do",
        dynamic_activations=False,
        balanced=False,
        stored=FILE_STORED,
        tables_alike=True,
        as_own=True,
    ),
    "vulkan": Support(
        kernels=(KernelGrid(4, (128, 64, 32), 1), KernelGrid(8, (), 1)),
        lookup_bits=(4, 8),
        weight_only=True,
        why_not="edgec gives Vulkan float activations",
        dynamic_activations=False,
        balanced=False,
        cache=("float32", "float16"),
    ),
    "mlx": Support(
        kernels=(KernelGrid(4, (128, 64, 32), 1), KernelGrid(8, (128, 64, 32), 1)),
        lookup_bits=(4, 8),
        weight_only=True,
        why_not="MLX computes in float16",
        dynamic_activations=False,
        balanced=False,
        cache=("float16",),
    ),
    "coreai": replace(_COREAI, block_scales=False, stored=holding_rows(_COREAI.stored)),
    "coreai_gpu": _COREAI,
}

_OWN_KERNELS = {
    "xnnpack": Support(
        kernels=LINEAR_KERNELS,
        lookup_bits=LOOKUP_BITS,
        weight_only=True,
        why_not="edgec's linear kernels read float inputs as well as int8",
        exact_scale_bits=16,
        stored=STORED_KERNELS,
    ),
}
"""Backends whose decoders edgec's own kernels run, unless the recipe asks for standard ones: what these read."""


OWN_KERNELS, STANDARD_KERNELS = "edgec", "standard"
"""What a recipe calls edgec's own kernels and ExecuTorch's."""


def has_own_kernels(backend: str) -> bool:
    """Whether edgec has kernels of its own for a backend."""
    return backend in _OWN_KERNELS


def support_of(backend: str, kernels: str = OWN_KERNELS) -> Support | None:
    """What a backend stores and executes; None for one without a table.

    Args:
        backend: a target's.
        kernels: a recipe's, ``edgec`` or ``standard``.
    """
    own = _OWN_KERNELS.get(backend) if kernels == OWN_KERNELS else None
    return own or SUPPORT.get(backend)
