"""The dependencies and source sets that an Android app needs to run an artifact, by its format and backend."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from edgec.apps.embed.app_facts import AppFacts
from edgec.bundle.manifest import Manifest
from edgec.errors import InputError

_NEVER_RUN = """
This artifact has never been executed: its graphs were compared up to the last pass, and golden.json holds token ids but
no outputs. On the first device, compare its answers with those of a bundle for `android-cpu`.
"""
_HEXAGON = """
The contexts are made for one chip (`model.qnn/soc_model.txt`). An app that links this module must unpack its native
libraries (`packaging { jniLibs { useLegacyPackaging = true } }` in its `android` block); it needs API level 27. Plug-in
and Qualcomm's runtime must be those versions or newer. The artifact was executed in Qualcomm's emulation only.
"""
_GPU_CONVERSATIONS = """
On the GPU every further conversation opens the engine again: over SwiftShader, a GPU in software, a second session of
an engine of LiteRT-LM 0.18.1 read what the first one had left. Whether phones' GPUs do so was not tried.
"""
_UNFIT = "no app glue fits this bundle"
_FIXES = {"tflite": "export it with --format litertlm, which the app's LiteRT-LM opens"}
_SENSES_FIX = "export it for a CPU, with edgec's own kernels"
_COMPILED = """
## Engine

The artifact needs edgec's kernels. The app compiles them and edgec's engine from `model/src/main/cpp`, with the NDK
and CMake that `model/build.gradle.kts` names, together with ExecuTorch's runtime and those of its operators that the
artifact uses. CMake fetches ExecuTorch from GitHub at the tag of the bundle's version, or takes a checkout with its
submodules, in a folder named `executorch`: `-PexecutorchRoot=FOLDER`. ExecuTorch's build needs a Python with torch:
activate edgec's environment, or give `-Ppython=FILE`.

`edgec runner build --aar FOLDER` compiles the engine once, with the NDK in `ANDROID_NDK_HOME`;
`-PengineArchive=FILE.aar` then takes it from there.

edgec's tests compile this project for 64-bit Arm Linux, against ExecuTorch's published libraries, and run it in
emulation. No NDK has compiled it.
"""
_JNI = ("com.facebook.soloader:soloader:0.12.1", "com.facebook.fbjni:fbjni:0.7.0")
_DYNAMIC = ("executorch", "dynamicDecoder")
_TORCH_STATIC = ("executorch", "staticDecoder", "executorchState")
_ONNX_STATIC = ("onnx", "staticDecoder", "onnxState")
_TORCH_ENCODER = ("executorch", "executorchEncoder")
_ONNX_ENCODER = ("onnx", "onnxEncoder")
_LITERT_LM = "com.google.ai.edge.litertlm:litertlm-android:0.18.0"
_ORT = "com.microsoft.onnxruntime:onnxruntime-android:{onnxruntime}"
# QNN version that each plug-in was built with (``onnxruntime_qnn.build_and_package_info``; its release notes).
_QNN_OF_PLUG_IN = {"2.4": "2.48.0", "2.5": "2.49.0", "2.6": "2.50.0", "2.7": "2.51.0"}


@dataclass(frozen=True)
class AndroidRuntime:
    """One way to run artifacts in an app.

    Attributes:
        dependencies: Maven coordinates; {NAME} is the version of one of the manifest's tools.
        decoder: the source sets (folders of ``apps/android/model/src``) that run a language model.
        note: a paragraph for the README.
        minimum_sdk: the oldest API level, where it is higher than that of every app.
        accelerated: models run on Hexagon through ONNX Runtime's plug-in.
        uncompressed: extensions of files that the runtime maps into memory.
        compiled: the app compiles edgec's engine and kernels (``engine_project``).
        encoder: likewise a sentence encoder; empty where apps cannot hold them.
        audio: likewise a model that transcribes speech.
        kotlin: the oldest Kotlin that reads the runtime's classes, where the project's own is older.
        reads_texts: the runtime has tokenizer, chat template and sampling of its own, so that a language model's module
            stands alone: no bench app, no sample, no golden vectors.
    """

    dependencies: tuple[str, ...]
    decoder: tuple[str, ...]
    note: str = ""
    minimum_sdk: int = 0
    accelerated: bool = False
    uncompressed: tuple[str, ...] = ("pte",)
    compiled: bool = False
    encoder: tuple[str, ...] = ()
    audio: tuple[str, ...] = ()
    kotlin: str = ""
    reads_texts: bool = False

    def source_sets(self, facts: AppFacts) -> tuple[str, ...]:
        """The source sets for a bundle: those of its kind of model, and those of the runtime."""
        if facts.audio is not None:
            return ("main", "texts", "speech", *self.audio)
        if self.reads_texts:
            return ("main", *self.decoder)
        hexagon = ("hexagon",) if self.accelerated else ()
        if facts.encoder is not None:
            return ("main", "encoder", *self.encoder, *hexagon)
        senses = "textSession" if facts.vision is None else "vision"
        return ("main", "texts", "decoder", senses, *self.decoder, *hexagon)


def _executorch(archive: str, decoder: tuple[str, ...], note: str = "") -> AndroidRuntime:
    return AndroidRuntime((f"org.pytorch:{archive}:{{executorch}}", *_JNI), decoder, note, encoder=_TORCH_ENCODER)


def _litert_lm(unit: str, note: str = "") -> AndroidRuntime:
    # 2.2 is the first Kotlin that reads the metadata of the archive's classes (2.3).
    return AndroidRuntime(
        (_LITERT_LM,),
        ("litertLm", unit),
        note,
        uncompressed=("litertlm",),
        kotlin="2.2.21",
        reads_texts=True,
    )


RUNTIMES: Mapping[tuple[str, str], AndroidRuntime] = {
    ("pte", "xnnpack"): _executorch("executorch-android", _DYNAMIC),
    ("pte", "vulkan"): _executorch("executorch-android-vulkan", _TORCH_STATIC, _NEVER_RUN),
    ("pte", "qnn_delegate"): _executorch("executorch-android-qnn", _TORCH_STATIC, _NEVER_RUN),
    ("onnx", "onnx"): AndroidRuntime(
        (_ORT,),
        _ONNX_STATIC,
        uncompressed=("onnx", "bin"),
        encoder=_ONNX_ENCODER,
    ),
    ("qnn", "qnn"): AndroidRuntime(
        (
            _ORT,
            "com.qualcomm.qti:onnxruntime-android-qnn:{onnxruntime-qnn}",
            "com.qualcomm.qti:qnn-runtime:{qnn}",
        ),
        _ONNX_STATIC,
        _HEXAGON,
        minimum_sdk=27,
        accelerated=True,
        uncompressed=("onnx", "bin"),
        encoder=_ONNX_ENCODER,
    ),
    ("litertlm", "litert"): _litert_lm("litertLmCpu"),
    ("litertlm", "litert_gpu"): _litert_lm("litertLmGpu", _GPU_CONVERSATIONS),
}
"""(format, backend) -> the runtime that runs its artifacts."""
_OWN = AndroidRuntime((), ("engine",), _COMPILED, compiled=True)


def runtime_of(facts: AppFacts) -> AndroidRuntime:
    """The runtime that runs a bundle's artifact: edgec's engine where the artifact needs its kernels.

    Raises:
        InputError: E464, there is none.
    """
    form, backend = place = str(facts.manifest.format), facts.target.backend
    if place not in RUNTIMES:
        why = f"there is no Kotlin glue for {form} made by {backend}"
        raise InputError(_UNFIT, facts.manifest.name, why, _FIXES.get(form, "use --target android-cpu"), "E464")
    if not facts.own_kernels and (facts.audio or facts.vision):
        why = f"only edgec's engine {'transcribes' if facts.audio else 'takes images'}"
        raise InputError(_UNFIT, facts.manifest.name, why, _SENSES_FIX, "E464")
    if not facts.own_kernels:
        return RUNTIMES[place]
    if place != ("pte", "xnnpack"):
        why = f"it needs {facts.own_kernels[0]} of edgec's kernels, which an app has for the CPU only"
        raise InputError(_UNFIT, facts.manifest.name, why, "export it with --kernels standard", "E464")
    if facts.encoder is not None:
        why = f"it needs {facts.own_kernels[0]} of edgec's kernels, which apps call for language models only"
        raise InputError(_UNFIT, facts.manifest.name, why, "export it with --kernels standard", "E464")
    return _OWN


def reads_texts(form: str) -> bool:
    """Whether the runtime of a format has tokenizer and chat template of its own."""
    return any(runtime.reads_texts for (each, _), runtime in RUNTIMES.items() if each == form)


def dependencies(runtime: AndroidRuntime, manifest: Manifest) -> list[str]:
    """The Maven coordinates for Gradle, in the versions that the artifact was made with; ``+`` means any."""
    known = defaultdict(lambda: "+", {**manifest.tools, manifest.runtime.name: manifest.runtime.version})
    plug_in = ".".join(known["onnxruntime-qnn"].split(".")[:2])
    known["qnn"] = _QNN_OF_PLUG_IN.get(plug_in, "+")
    return [_plain(each.format_map(known)) for each in runtime.dependencies]


def _plain(text: str) -> str:
    """Drop characters that no coordinate has: the manifest is untrusted, and this text becomes source code."""
    return "".join(
        character for character in text if character.isascii() and (character.isalnum() or character in ".-+:")
    )
