"""Bundles for iOS as input for app packages; their artifacts cannot run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.bundle.checked_files import list_files
from edgec.bundle.entry_points import MethodInfo, StateInfo, TensorInfo
from edgec.bundle.folder import Bundle
from edgec.bundle.golden import Golden, OutputVector, golden_bytes
from edgec.bundle.golden_texts import TextVector
from edgec.bundle.manifest import Manifest, Runtime
from edgec.devices.targets import Target, load_target
from tests.bundle.bundle_samples import sample_manifest

CONTEXT, CHUNK, VOCABULARY = 128, 64, 512
FORMATS = {
    "pte-cpu": ("iphone-16-pro-cpu", "pte", "XnnpackBackend"),
    "pte": ("iphone-16-pro-npu-pte", "pte", "CoreMLBackend"),
    "mlpackage": ("iphone-16-pro-npu-mlpackage", "mlpackage", "CoreML"),
    "aimodel": ("iphone-16-pro-npu-aimodel", "aimodel", "CoreAI"),
}


def target(name: str) -> Target:
    """ExecuTorch with the Core ML delegate is a target here, whatever units.toml calls its default."""
    if name == FORMATS["pte"][0]:
        return replace(load_target("iphone-16-pro"), name=name, format="pte", backend="coreml")
    return load_target(name)


def _method(name: str, width: int) -> MethodInfo:
    shapes: dict[str, list[int | str]] = {"tokens": [1, width], "start": [1], "last": [1]}
    inputs = [TensorInfo(name=key, dtype="int32", shape=shape) for key, shape in shapes.items()]
    halves: list[int | str] = [1, 1, VOCABULARY // 2]
    outputs = [TensorInfo(name=f"logits_{i}", dtype="float32", shape=halves) for i in range(2)]
    return MethodInfo(name=name, inputs=inputs, outputs=outputs)


STATIC = [_method("prefill", CHUNK), _method("decode", 1)]
STATIC_STATES = [
    StateInfo(
        name=f"{role}_cache_{layer}",
        layer=layer,
        role=role,
        dtype="float16",
        shape=[1, 2, CONTEXT, 32],
        layout="full",
        slots=CONTEXT,
        bytes=2 * CONTEXT * 32 * 2,
    )
    for layer in range(2)
    for role in ("key", "value")
]


def caller_methods() -> list[MethodInfo]:
    """The same methods with the caches as inputs, and the new values as outputs."""
    return [
        method.model_copy(
            update={
                "inputs": [
                    *method.inputs,
                    *(TensorInfo(name=s.name, dtype="float16", shape=list(s.shape)) for s in STATIC_STATES),
                ],
                "outputs": [
                    *method.outputs,
                    *(
                        TensorInfo(name=f"new_{s.name}", dtype="float16", shape=[1, 2, width, 32])
                        for s in STATIC_STATES
                    ),
                ],
            }
        )
        for method, width in zip(STATIC, (CHUNK, 1), strict=True)
    ]


GOLDEN = Golden(
    texts=(TextVector(label="english", text="once", ids=[1, 2], round_trip=True),),
    outputs=(OutputVector(prompt_ids=[1], continuation_ids=[2], margins=[1.0], probes=[], tolerance=0.1),),
)


MODULE = [
    MethodInfo(
        name="forward",
        inputs=[TensorInfo(name="pixel values", dtype="float32", shape=[1, 3, 8, 8])],
        outputs=[TensorInfo(name="class", dtype="float32", shape=[1, 4])],
    )
]


def decoder_manifest(kind: str, **fields: Any) -> Manifest:
    """The manifest of a decoder in one of FORMATS."""
    target, form, backend = FORMATS[kind]
    artifact = f"model.{form}"
    manifest = sample_manifest().model_copy(
        update={
            "target": target,
            "format": form,
            "artifact": artifact,
            "runtime": Runtime(name="executorch", version="1.5.1", backends=[backend], operators=["aten::add.out"]),
            **({} if kind == "pte-cpu" else {"methods": STATIC, "states": STATIC_STATES}),
        }
    )
    return manifest.model_copy(update=fields)


def module_manifest(kind: str, methods: list[MethodInfo], **fields: Any) -> Manifest:
    """The manifest of a non-decoder model."""
    return decoder_manifest(kind, methods=methods, states=[], limits=None, **fields)


def with_method(manifest: Manifest, name: str, **fields: Any) -> Manifest:
    """The manifest with another method of this name."""
    methods = [each.model_copy(update=fields) if each.name == name else each for each in manifest.methods]
    return manifest.model_copy(update={"methods": methods})


_FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
# Seven words, and the end of a text with id 7.
_TOKENIZER = {
    "added_tokens": [{"id": 7, "content": "</s>", "special": True, **_FLAGS}],
    "model": {
        "type": "WordLevel",
        "vocab": dict(zip("abcdefg", range(7), strict=True)),
        "unk_token": "a",
    },
}


def bundle_of(manifest: Manifest, folder: Path, extra: dict[str, bytes] | None = None) -> Bundle:
    """A bundle on disk with this manifest; its files are hashed like those of a real one."""
    files = {
        "golden.json": golden_bytes(GOLDEN),
        "generation_config.json": b'{"eos_token_id": [2, 3], "repetition_penalty": 1.1}',
        "tokenizer/tokenizer.json": json.dumps(_TOKENIZER).encode(),
        "tokenizer/tokenizer_config.json": b'{"eos_token": "</s>"}',
        **(
            {manifest.artifact: b"weights"}
            if manifest.format == "pte"
            else {f"{manifest.artifact}/Manifest.json": b"{}", f"{manifest.artifact}/weights": b"weights"}
        ),
        **(extra or {}),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "manifest.json").unlink(missing_ok=True)
    listed = manifest.model_copy(update={"files": list_files(folder)})
    (folder / "manifest.json").write_text("{}")
    return Bundle(folder, listed, files_checked=True)
