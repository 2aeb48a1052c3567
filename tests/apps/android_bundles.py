"""Bundles for Android whose two methods have fixed shapes, with caches that the app holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgec.bundle.entry_points import MethodInfo, StateInfo, TensorInfo
from edgec.bundle.folder import Bundle
from edgec.bundle.manifest import Manifest, Runtime
from tests.apps.ios_bundles import bundle_of, decoder_manifest

CONTEXT, CHUNK, VOCABULARY, HEADS, WIDTH = 512, 128, 512, 2, 4
TOOLS = {"onnx": "1.23.2", "onnxruntime": "1.31.1", "onnxruntime-qnn": "2.7.0"}
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-stories"
# The example's own template names no roles; this one writes them, as plays do.
PLAY = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ 'MENENIUS:\n' }}{% else %}{{ 'CITIZEN:\n' }}{% endif %}"
    "{{ message['content'] | trim }}{{ '\n\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'MENENIUS:\n' }}{% endif %}"
)
_STATES = ("key_cache_0", "value_cache_0")
_BYTES = {"float32": 4, "uint8": 1}


def _method(name: str, rows: int, held: str) -> MethodInfo:
    call = [TensorInfo(name="tokens", dtype="int32", shape=[1, rows])]
    call += [TensorInfo(name=each, dtype="int32", shape=[1]) for each in ("start", "last")]
    states = [TensorInfo(name=each, dtype=held, shape=[1, HEADS, CONTEXT, WIDTH]) for each in _STATES]
    new = [TensorInfo(name=f"new_{each}", dtype=held, shape=[1, HEADS, rows, WIDTH]) for each in _STATES]
    logits = TensorInfo(name="logits", dtype="float32", shape=[1, 1, VOCABULARY])
    return MethodInfo(name=name, inputs=[*call, *states], outputs=[logits, *new])


def _state(name: str, held: str) -> StateInfo:
    shape, role = [1, HEADS, CONTEXT, WIDTH], name.partition("_")[0]
    size = HEADS * CONTEXT * WIDTH * _BYTES[held]
    known = {"layout": "full", "slots": CONTEXT, "bytes": size, "dtype": held, "shape": shape}
    return StateInfo.model_validate({"name": name, "layer": 0, "role": role, **known})


def static_manifest(target: str, backend: str, form: str = "pte", held: str = "float32", **fields: Any) -> Manifest:
    """The manifest of a decoder with two methods, for a phone's GPU or NPU, or for ONNX Runtime."""
    name, version = ("executorch", "1.5.1") if form == "pte" else ("onnxruntime", TOOLS["onnxruntime"])
    known = {
        "target": target,
        "format": form,
        "artifact": f"model.{form}",
        "runtime": Runtime(name=name, version=version, backends=[backend], operators=[]),
        "tools": TOOLS if form != "pte" else {},
        "methods": [_method("prefill", CHUNK, held), _method("decode", 1, held)],
        "states": [_state(name, held) for name in _STATES],
    }
    return decoder_manifest("pte-cpu", **{**known, **fields})


CPU = decoder_manifest("pte-cpu", target="android-cpu")
GPU = static_manifest("android-gpu", "VulkanBackend")
DELEGATED = static_manifest("snapdragon-8-elite", "QnnBackend")
ONNX = static_manifest("android-cpu", "ONNXRuntime", "onnx")
LITERT_LM = static_manifest("android-litert", "LiteRTLM", "litertlm")
LITERT_LM_GPU = static_manifest("android-litert-gpu", "LiteRTLMGPU", "litertlm")
HEXAGON = static_manifest("snapdragon-8-elite", "QNNExecutionProvider", "qnn", "uint8")


def artifact_files(manifest: Manifest) -> dict[str, bytes]:
    """The files of an artifact, with arbitrary contents."""
    names = {
        "onnx": ("prefill.onnx", "decode.onnx", "weights.bin"),
        "qnn": tuple(f"part_0/{host}{name}.onnx" for host in ("host_", "") for name in ("prefill", "decode")),
    }
    if manifest.format not in names:
        return {manifest.artifact: b"weights"}
    return {f"{manifest.artifact}/{name}": b"weights" for name in names[str(manifest.format)]}


def tokenizer_config(template: str = PLAY) -> bytes:
    """The example's tokenizer_config.json with a play's chat template, or another one."""
    return json.dumps(
        {**json.loads((EXAMPLE / "tokenizer_config.json").read_text()), "chat_template": template}
    ).encode()


def android_bundle(folder: Path, manifest: Manifest, **fields: Any) -> Bundle:
    """A bundle with the example's tokenizer; ``fields`` replace the manifest's."""
    tokenizer = (EXAMPLE / "tokenizer.json").read_bytes()
    files = {"tokenizer/tokenizer.json": tokenizer, "tokenizer/tokenizer_config.json": tokenizer_config()}
    return bundle_of(manifest.model_copy(update=fields), folder, files)
