"""The form of each backend's and format's artifact, and of the decoder's methods for it: data, read by the stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from edgec.devices.targets import Target


@dataclass(frozen=True)
class Form:
    """The form of one kind of artifact.

    Attributes:
        artifact: its name in the bundle; a file or a folder.
        module: under ``backends``, where static methods are lowered to it.
        static: decoders get methods of fixed shape, ``prefill`` and ``decode``, instead of one of varying shape.
        runtime: the package whose version the artifact is pinned to.
        backends: what the runtime must have, by the runtime's own names.
        tools: further packages that shape the artifact.
        chunk: the most tokens of a static ``prefill``.
        context: positions unless the user or the recipe gives another number; a static cache is allocated whole.
        linear_width: linear layers with more outputs are split; 0 leaves them.
        logits_width: the most logits of one output.
        state_multiple: a state's last dimension is a multiple of it.
        convolutions: linear layers are 1x1 convolutions.
        updates: who writes the states: the methods ``in_place``, or the ``caller``; ``whole``: they go in and come out.
        calibrated: lowered to fixed point, with ranges measured on a text.
        executed: something here can execute the artifact; without it the ladder ends with its graphs.
        half: static methods compute and hold floats in float16; without it in float32.
        plain_weights: integers and tables lie in its files as the graph has them, or turned.
        half_runtime: the artifact holds floats in float32, and what executes it on phones computes them in float16.
        half_sums: what executes it here sums products in float16, too.
        caches: what a recipe may ask of static states.
        apple_unit: which of Apple's units the artifact is for, whose rules are checked before lowering: ``npu`` (Neural
            Engine) or ``gpu``; empty off Apple's formats.
        fused_attention: static methods keep attention as one operator, where the model's has that form.
        one_chip: lowered for one chip; another chip needs another artifact.
        laid_out: matrices lie as one processor family reads them; another lays them out anew when it loads them.
        folds: its converter computes what depends on no input, whatever its size, and stores the result.
        index_bits: of each index in a stored table, where the converter narrows those that fit; 0 where it does not.
        unheld: why static methods hold no states of recurrences; empty where they do.
        unadapted: why the artifact has no functions under adapters; empty where it has.
        unrolls: its converter knows no recurrent layers (LSTM, GRU), so that they are written out step by step.
        slopes: its converter has an operator for a slope for each channel of an image (PReLU).
        written: a file of the weights under another program's names, which computes all; no methods are lowered.
        single: decoders get one method of varying length, ``forward``, in place of ``prefill`` and ``decode``; nothing
            else can be lowered.
        growing: one method of varying length, whose caller hands over all earlier keys and values.
        signatures: decoders get LiteRT-LM's signatures, whose caches go in and come out whole.
        longest: positions that it tells apart; 0: any.
        packed: the artifact is one file with the model's tokenizer and chat template inside.
        encoders: models with vision and encoder-decoders have functions for their encoders beside the static methods.
        described: its files say author, licence and the like (``backends/coreml/metadata.py``).
        piped: beside it lie the first and last stages of onnxruntime-genai's decoder pipeline.
        stateful: by whose names a decoder has one method of any length (``ir/stateful_call.py``); empty: none has.
    """

    artifact: str
    static: bool
    runtime: str
    module: str = ""
    backends: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    chunk: int = 64
    context: int = 4096
    linear_width: int = 1024
    logits_width: int = 16384
    state_multiple: int = 32
    convolutions: bool = True
    updates: str = "in_place"
    calibrated: bool = False
    executed: bool = True
    half: bool = True
    plain_weights: bool = False
    half_runtime: bool = False
    half_sums: bool = False
    caches: tuple[str, ...] = ("float16", "float32")
    apple_unit: str = "npu"
    fused_attention: bool = False
    one_chip: bool = False
    laid_out: bool = False
    folds: bool = False
    index_bits: int = 0
    unheld: str = ""
    unadapted: str = ""
    unrolls: bool = False
    slopes: bool = False
    written: bool = False
    single: bool = False
    growing: bool = False
    signatures: bool = False
    longest: int = 0
    packed: bool = False
    encoders: bool = False
    described: bool = False
    piped: bool = False
    stateful: str = ""

    @property
    def computed_in_half(self) -> bool:
        """Whether float16 must hold every value."""
        return self.half or self.half_runtime

    @property
    def route(self) -> str:
        """Which stages a decoder goes through where not the usual ones: by what sets its form apart."""
        ways = {
            "calibrated": self.calibrated,
            "written": self.written,
            "single": self.single,
            "growing": self.growing,
            "signatures": self.signatures,
            "stateful": bool(self.stateful),
        }
        return next((way for way, taken in ways.items() if taken), "")


# Off Apple's chips: plain linear layers in float32, caches that the app holds.
_caller_form = partial(Form, chunk=128, linear_width=0, convolutions=False, updates="caller", half=False, apple_unit="")
_COREML, _BACKENDS = ("coremltools",), "edgec.backends"
_INTEGERS = "its states are 8-bit integers of a fixed range, and a recurrence sums over the whole sequence"
_ADDED = (
    "here adapters are files, added to the bundle while it runs: edgec adapter BUNDLE PEFT_FOLDER, then "
    "edgec run BUNDLE --adapter FILE"
)
_UNTRIED_ADAPTERS = (
    "nothing here can execute what is made for it, so that its functions under adapters were never tried"
)
_UNTRIED = "nothing here can execute what is made for it, so that states of recurrences were never tried"
# On Apple's GPUs: linear layers as they are and one operator of attention (apple/coreai-models' rules for GPUs).
_gpu_form = partial(
    Form,
    chunk=128,
    linear_width=0,
    state_multiple=1,
    convolutions=False,
    apple_unit="gpu",
    fused_attention=True,
    encoders=True,
    plain_weights=True,
)
_litert_form = partial(
    _caller_form,
    static=True,
    runtime="ai-edge-litert",
    module=f"{_BACKENDS}.litert.model",
    tools=("litert-torch", "litert-converter", "ai-edge-litert", "litert-lm-builder"),
    updates="whole",
    logits_width=1 << 31,
    state_multiple=1,
    caches=("float32",),
    signatures=True,
    unheld="LiteRT-LM's caches are keys and values of each token",
    unadapted="LiteRT-LM reads adapters from files of its own kind",
    plain_weights=True,
)
_litert_gpu_form = partial(
    _litert_form, module=f"{_BACKENDS}.litert.gpu_model", half_runtime=True, longest=2048, context=2048
)
# ExecuTorch gives each method's delegate its own state, so prefill and decode cannot share one inside it.
FORMS: Mapping[tuple[str, str], Form] = {
    ("xnnpack", "pte"): Form(
        "model.pte", False, "executorch", backends=("XnnpackBackend",), laid_out=True, unadapted=_ADDED
    ),
    ("coreml", "pte"): Form(
        *("model.pte", True, "executorch", f"{_BACKENDS}.coreml.pte", ("CoreMLBackend",), _COREML),
        updates="caller",
        folds=True,
        index_bits=16,
        unrolls=True,
        slopes=True,
        encoders=True,
    ),
    ("coreml", "mlpackage"): Form(
        *("model.mlpackage", True, "coremltools", f"{_BACKENDS}.coreml.mlpackage", ("CoreML",), _COREML),
        described=True,
        folds=True,
        index_bits=16,
        unrolls=True,
        slopes=True,
        encoders=True,
        plain_weights=True,
    ),
    ("coreml_gpu", "mlpackage"): _gpu_form(
        *("model.mlpackage", True, "coremltools", f"{_BACKENDS}.coreml.whole_package", ("CoreML",), _COREML),
        folds=True,
        index_bits=16,
        unrolls=True,
        slopes=True,
    ),
    ("qnn", "qnn"): _caller_form(
        *("model.qnn", True, "onnxruntime-qnn", f"{_BACKENDS}.qnn.context", ("QNNExecutionProvider",)),
        ("onnx", "onnxscript", "onnxruntime", "onnxruntime-qnn"),
        context=2048,
        state_multiple=1,
        caches=("int8",),
        calibrated=True,
        one_chip=True,
        unheld=_INTEGERS,
        unadapted="its ranges are calibrated for one set of matrices, and a context holds prefill and decode alone",
    ),
    ("qnn_delegate", "pte"): _caller_form(
        *("model.pte", True, "executorch", f"{_BACKENDS}.qnn_delegate.pte", ("QnnBackend",)),
        context=2048,
        state_multiple=1,
        executed=False,
        one_chip=True,
        unheld=_UNTRIED,
        unadapted=_UNTRIED_ADAPTERS,
    ),
    ("vulkan", "pte"): _caller_form(
        *("model.pte", True, "executorch", f"{_BACKENDS}.vulkan.pte", ("VulkanBackend",)),
        state_multiple=4,
        executed=False,
        unheld=_UNTRIED,
        unadapted=_UNTRIED_ADAPTERS,
    ),
    ("coreai", "aimodel"): Form(
        *("model.aimodel", True, "coreai-core", f"{_BACKENDS}.coreai.aimodel", ("CoreAI",)),
        ("coreai-torch", "coreai-core"),
        encoders=True,
        plain_weights=True,
        half_sums=True,
    ),
    ("coreai_gpu", "aimodel"): _gpu_form(
        *("model.aimodel", True, "coreai-core", f"{_BACKENDS}.coreai.aimodel", ("CoreAI",)),
        ("coreai-torch", "coreai-core"),
        half_sums=True,
    ),
    ("onnx", "onnx"): _caller_form(
        *("model.onnx", True, "onnxruntime", f"{_BACKENDS}.onnx.folder", ("ONNXRuntime",)),
        ("onnx", "onnxscript", "onnxruntime"),
        logits_width=1 << 31,
        state_multiple=1,
        unadapted="its apps open prefill.onnx and decode.onnx, and no others",
        encoders=True,
        plain_weights=True,
    ),
    ("mlx", "pte"): Form(
        *("model.pte", True, "executorch", f"{_BACKENDS}.mlx.pte", ("MLXBackend",)),
        chunk=128,
        linear_width=0,
        state_multiple=1,
        convolutions=False,
        apple_unit="gpu",
        single=True,
        unheld="its delegate has no operators for them",
        unadapted="it has one method, over caches of its own",
    ),
    ("genai", "onnx"): _caller_form(
        *("model.onnx", True, "onnxruntime", f"{_BACKENDS}.genai.model", ("ONNXRuntimeGenAI",)),
        ("onnx", "onnxscript", "onnxruntime"),
        logits_width=1 << 31,
        state_multiple=1,
        growing=True,
        unheld="its layout has places for keys and values alone",
        unadapted="onnxruntime-genai reads adapters from files of its own kind",
        plain_weights=True,
    ),
    ("litert", "litertlm"): _litert_form("model.litertlm", backends=("LiteRTLM",), packed=True),
    ("litert_gpu", "litertlm"): _litert_gpu_form("model.litertlm", backends=("LiteRTLMGPU",), packed=True),
    ("litert_gpu", "tflite"): _litert_gpu_form("model.tflite", backends=("LiteRTGPU",)),
    ("litert", "tflite"): _litert_form("model.tflite", backends=("LiteRT",)),
    ("gguf", "gguf"): _caller_form(
        *("model.gguf", True, "gguf", f"{_BACKENDS}.gguf.file", ("llama.cpp",), ("gguf",)),
        # The program that reads the file has caches of its own.
        caches=("float32", "float16", "int8", "int4"),
        logits_width=1 << 31,
        executed=False,
        written=True,
        unadapted="its readers take adapters as files of their own",
    ),
}


# One method of any length for the GPU and the CPU: Apple's Neural Engine takes fixed shapes only.
_STATEFUL: Mapping[str, Any] = {
    "linear_width": 0,
    "logits_width": 1 << 31,
    "state_multiple": 1,
    "convolutions": False,
    "apple_unit": "",
    "encoders": False,
    "unheld": "it opens models with two states, of keys and of values",
    "unadapted": "it opens one function, and no others",
}
LAYOUT_FORMS: Mapping[tuple[str, str, str], Form] = {
    (f"{backend}{unit}", format, layout): replace(FORMS[backend, format], stateful=layout, **_STATEFUL)
    for backend, format, layout in (
        ("coreml", "mlpackage", "swift-transformers"),
        ("coreai", "aimodel", "coreai-models"),
    )
    for unit in ("", "_gpu")
} | {("qnn", "qnn", "genai"): replace(FORMS["qnn", "qnn"], piped=True)}


def form_of(target: Target) -> Form:
    """The form of a target's artifact, in its layout."""
    plain = FORMS[target.backend, target.format]
    return LAYOUT_FORMS.get((target.backend, target.format, target.layout), plain)
