"""The subjects of the comparison, as data: edgec's recipes, and the forms of its peers.

A subject is a model in one runtime's form. ``worker`` is the module that measures it, ``maker`` makes its artifact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.harness.models import (
    GPT_OSS,
    LFM2,
    LONG,
    Q4L,
    Q8L,
    Q8L_AVX2,
    Q17L,
    Q35L,
    QWEN3,
    QWEN3_MOE,
    SMOL,
    TINY,
    WINDOW,
    Model,
    head_dim,
)

_RECIPES = Path(__file__).resolve().parents[1] / "recipes"
EQUAL = str(_RECIPES / "equal.toml")
EDGEC, LLAMA, STOCK = "benchmarks.harness.edgec_engine", "benchmarks.peers.llama_cpp", "benchmarks.peers.executorch"
OPENVINO, ONNXRUNTIME = "benchmarks.peers.openvino", "benchmarks.peers.onnxruntime"
MNN = "benchmarks.peers.mnn"
OWN = "edgec"
COPIED_STATE = "positions are dropped by copying the KV states, before the clock runs"
FLOAT_SCALES = "float32 scales (5 bits per weight); the KV cache has the type that MNN chooses"
FLOAT_CACHE = "float32 scales (5 bits per weight) and a float32 KV cache, which its CPU kernels ask for"
ONE_ROW = "gives the logits of the last token only"


@dataclass(frozen=True)
class Subject:
    """A model in one runtime's form.

    Attributes:
        name: the name in the tables.
        maker: ``edgec``, ``gguf``, ``executorch`` and so on; a key of ``artifacts.MAKERS``.
        options: the maker's options: ``recipe`` and ``context``, or ``preset``.
        job: extra fields of its measuring jobs, e.g. ``kv``.
        context: positions that it must serve.
        matrix_bits: bits per weight with scales, also in the lm_head; None where the maker counts the bytes.
        note: how it differs from an exact counterpart of the others.
        optional: compared where it can be installed and run; elsewhere the tables say why not, and nothing has failed.
        isa: the instruction set that its runtime is held to; empty: the processor's best.
    """

    name: str
    model: Model
    worker: str
    maker: str
    options: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    context: int = 1024
    matrix_bits: float | None = None
    note: str = ""
    optional: bool = False
    isa: str = ""

    @property
    def peer(self) -> bool:
        """Whether edgec is compared with it, rather than its maker."""
        return self.maker != "edgec"


def edgec(
    model: Model, name: str, changes: Mapping[str, Any] | None = None, *, recipe: str = EQUAL, context: int = 1024
) -> Subject:
    """Edgec with a recipe whose linear layers have 4 bits in groups of 32; ``changes`` are fields of the recipe."""
    options = {"recipe": recipe, "changes": dict(changes or {})}
    return Subject(name, model, EDGEC, "edgec", options, {}, context)


def llama(model: Model, name: str, preset: str, context: int = 1024, kv: str = "float16") -> Subject:
    """llama.cpp with Q4_0: 4 bits in groups of 32 with a float16 scale."""
    return Subject(name, model, LLAMA, "gguf", {"preset": preset}, {"kv": kv}, context)


def stock(model: Model) -> Subject:
    """ExecuTorch's own export: 8da4w, groups of 32, embedding in 8 bits."""
    job = {"vocab_size": model.config["vocab_size"], "most_rows": 1}
    return Subject("ExecuTorch 8da4w", model, STOCK, "executorch", {}, job, 1024, 4.5, ONE_ROW)


def openvino(model: Model) -> Subject:
    """OpenVINO with NNCF's symmetric 4 bits in groups of 32 with a float16 scale, in embedding and lm_head too."""
    return _of_pypi("OpenVINO 4 bit", model, OPENVINO, "openvino", 4.5, COPIED_STATE)


def onnxruntime(model: Model) -> Subject:
    """ONNX Runtime with GenAI's symmetric 4 bits in blocks of 32 with a float32 scale, in embedding and lm_head too."""
    return _of_pypi("ONNX Runtime GenAI 4 bit", model, ONNXRUNTIME, "onnxruntime", 5.0, FLOAT_CACHE)


def mnn(model: Model) -> Subject:
    """MNN with llmexport's symmetric 4 bits in blocks of 32 with a float32 scale, in embedding and lm_head too."""
    return _of_pypi("MNN 4 bit", model, MNN, "mnn", 5.0, FLOAT_SCALES)


def _of_pypi(name: str, model: Model, worker: str, maker: str, bits: float, note: str) -> Subject:
    job = {"vocab_size": model.config["vocab_size"], "head_dim": head_dim(model.config)}
    return Subject(name, model, worker, maker, {}, job, 1024, bits, note, optional=True)


def _side_by_side(model: Model) -> tuple[Subject, ...]:
    return (
        edgec(model, OWN),
        llama(model, "llama.cpp Q4_0", "preset"),
        llama(model, "llama.cpp, all Q4_0", "equal"),
        openvino(model),
        onnxruntime(model),
        mnn(model),
    )


def _few_bits(model: Model) -> tuple[Subject, ...]:
    """Two bits in groups of 64 throughout, also in the lm_head, against four and llama.cpp's two (2.6 with scales)."""
    two, four = (str(_RECIPES / f"groups-of-64-{bits}-bits.toml") for bits in (2, 4))
    return (
        edgec(model, OWN, recipe=two),
        edgec(model, "edgec, 4 bits", recipe=four),
        llama(model, "llama.cpp, all Q2_K", "two bits"),
    )


def _held_to_avx2(model: Model) -> tuple[Subject, ...]:
    """By EDGEC_ISA, and llama.cpp by how it is compiled; the other runtimes choose by the processor."""
    presets = (llama(model, "llama.cpp Q4_0", "preset"), llama(model, "llama.cpp, all Q4_0", "equal"))
    return tuple(replace(subject, isa="avx2") for subject in (edgec(model, OWN), *presets))


# Peers that nothing here drives, and why; the tables say so.
NOT_RUN = {
    "LiteRT-LM": "a session (litert-lm-api 0.18.1) takes strings and gives no logits, and its own Benchmark reports "
    "tokens per second by its own clock, so that no case here is a call of it; benchmarks/litert.py times it by texts"
}
SHARED = {"shared_kv": "reuse"}
SPEED = {
    "q8L-avx2": _held_to_avx2(Q8L_AVX2),
    "q8L": (edgec(Q8L, "edgec, shared KV", SHARED), *_side_by_side(Q8L), stock(Q8L)),
    "smol": _side_by_side(SMOL),
    "qwen3": _side_by_side(QWEN3),
    "q17L": _few_bits(Q17L),
    "q4L": _few_bits(Q4L),
    "tiny": (edgec(TINY, OWN, context=64),),
}
USUAL = ("q8L", "smol", "qwen3")
"""Models that ``make bench`` compares."""
FEW_BITS = ("q17L", "q4L")
"""Models of which the first subject has two bits, compared by ``make bench-all``."""
HELD = ("q8L-avx2",)
"""Models compared on an older processor's instructions, by ``make bench-all``."""
LARGE = ("qwen3", *FEW_BITS)
"""Models whose prefill takes seconds; llama.cpp's conversion is the same as of smaller ones."""
# ``make bench-all``: the default recipe, and the stock export of SmolLM2.
MORE = {"q8L": (edgec(Q8L, "edgec, recipe 4bit", recipe="4bit"),), "smol": (stock(SMOL),)}

EQUAL_KV = "float16"
KV_TYPES = ("float32", "float16", "int8", "int4")
_LONG_CONTEXT = 8192


def _kv(model: Model, kv: str, context: int, form: str = "KV") -> Subject:
    changes = {} if kv == EQUAL_KV else {"kv_dtype": kv}
    return edgec(model, f"edgec, {kv} {form}", changes, context=context)


LONG_CONTEXT = (
    *(_kv(LONG, kv, _LONG_CONTEXT) for kv in KV_TYPES),
    _kv(WINDOW, "float16", _LONG_CONTEXT, "ring of 1024"),
    llama(LONG, "llama.cpp, float16 KV", "equal", _LONG_CONTEXT),
    llama(LONG, "llama.cpp, q8_0 KV", "equal", _LONG_CONTEXT, kv="q8_0"),
)
# Beyond the last measured position lie the tokens that are decoded there.
_HYBRID_CONTEXT = _LONG_CONTEXT + 128


def _with_llama(model: Model) -> tuple[Subject, ...]:
    return (
        edgec(model, OWN, context=_HYBRID_CONTEXT),
        llama(model, "llama.cpp Q4_0", "preset", _HYBRID_CONTEXT),
        llama(model, "llama.cpp, all Q4_0", "equal", _HYBRID_CONTEXT),
    )


HYBRID = {model.name: _with_llama(model) for model in (Q35L, LFM2, QWEN3_MOE, GPT_OSS)}
"""Models with recurrences, short convolutions or experts, compared by ``python -m benchmarks.hybrids``."""
QUICK_CONTEXT = tuple(_kv(TINY, kv, 64) for kv in ("float16", "int8"))
