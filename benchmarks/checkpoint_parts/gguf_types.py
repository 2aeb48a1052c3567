"""A decoder as GGUF, with the matrices of its layers in any types, quantised by ggml itself.

ggml is a library of llama-cpp-python's wheel, which benchmarks install in the peers' environment; without it there are
the types that the ``gguf`` package quantises.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgec.backends.gguf.file import FileTensor, type_bytes, write_file
from edgec.exporter.gguf_file.description import describe_model
from edgec.exporter.gguf_file.places import GgufPlace
from edgec.exporter.sources.model_source import ModelSource

TYPES = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4"),
)
OF_THE_PACKAGE = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")
"""Types that the ``gguf`` package itself can quantise to."""
_LIBRARY = "build/bench/peers/lib/python*/site-packages/llama_cpp/lib/libggml-base.so"
Quantise = Callable[[str, NDArray[np.float32]], NDArray[np.uint8]]
"""From a type and a matrix: its bytes [rows, bytes of a row]."""


def ggml(root: Path) -> Quantise | None:
    """Ggml's own quantiser, where the peers' environment is there."""
    found = next(iter(sorted(root.glob(_LIBRARY))), None)
    if found is None:
        return None
    library = ctypes.CDLL(str(found))
    count, pointer = ctypes.c_int64, ctypes.c_void_p
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, pointer, pointer, count, count, count, pointer]
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    return partial(_by_ggml, library)


def _by_ggml(library: ctypes.CDLL, kind: str, values: NDArray[np.float32]) -> NDArray[np.uint8]:
    from gguf.constants import GGMLQuantizationType

    rows, width = values.shape
    source, made = np.ascontiguousarray(values), np.empty((rows, type_bytes(kind, (1, width))), np.uint8)
    number = int(GGMLQuantizationType[kind])
    written = library.ggml_quantize_chunk(number, source.ctypes.data, made.ctypes.data, 0, rows, width, None)
    assert written == made.nbytes, kind
    return made


def by_package(kind: str, values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The ``gguf`` package's quantiser."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import quantize

    made: NDArray[np.uint8] = quantize(values, GGMLQuantizationType[kind])
    return made


def write_types(source: ModelSource, kind_of: Callable[[str], str], quantise: Quantise, out: Path) -> Path:
    """Write a decoder.

    Args:
        source: with float weights.
        kind_of: the type of each matrix of the layers, by the parameter's name; the others are F16, vectors F32.
        quantise: to that type.
        out: the file.
    """
    described = describe_model(source, None)
    tied = bool(source.config.get("tie_word_embeddings"))
    places = [place for place in described.places if not (tied and place.parameter == "lm_head.weight")]
    tensors = [_tensor(source, place, _kind(place, kind_of), quantise) for place in places]
    write_file(out, described.architecture, described.describe, tensors, lambda done, total: None)
    return out


def _kind(place: GgufPlace, kind_of: Callable[[str], str]) -> str:
    if len(place.shape) < 2:
        return "F32"
    return kind_of(place.parameter) if ".layers." in place.parameter else "F16"


def _tensor(source: ModelSource, place: GgufPlace, kind: str, quantise: Quantise) -> FileTensor:
    def data() -> NDArray[np.uint8]:
        assert source.weights is not None
        value = source.weights.tensor(place.parameter).float()
        order = place.order(len(value))
        values = (value if order is None else value[order]).numpy()
        if kind in ("F16", "F32"):
            return values.astype(np.float16 if kind == "F16" else np.float32).view(np.uint8)
        return quantise(kind, values)

    return FileTensor(place.name, kind, place.shape, data)
