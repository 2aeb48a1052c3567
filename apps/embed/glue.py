"""The Swift glue that fits an artifact: system version, runtime, and the ExecuTorch products to link."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from edgec.apps.embed.app_facts import AppFacts
from edgec.apps.embed.engine_sources import executorch_operators, takes_quantized
from edgec.bundle.delegates import XNNPACK
from edgec.bundle.entry_points import (
    STATIC_ENCODER_DECODER_METHODS,
    VISION_ENCODER,
    MethodInfo,
    VisionLanguageInfo,
    source_memory,
)
from edgec.bundle.manifest import Manifest
from edgec.devices.prediction.oldest_fit import minimum_os
from edgec.errors import InputError

STATIC_INPUTS = {"tokens", "start", "last"}
ROW_INPUTS = ("input_embeds", "embeds_mask", "span_end", "mrope_positions")
"""What a decoder of images reads beside them; the last two where rows see ahead, or positions have three parts."""
_BACKEND_PRODUCTS = {"XnnpackBackend": "backend_xnnpack", "CoreMLBackend": "backend_coreml"}
_KERNEL_PRODUCTS = {
    "llama::": "kernels_llm",
    "quantized_decomposed::": "kernels_quantized",
    "torchao::": "kernels_torchao",
}


@dataclass(frozen=True)
class Glue:
    """The choice of Swift sources and libraries for one format.

    Attributes:
        minimum_os: the oldest iOS that can load the artifact.
        runtime: the folder of sources that executes it.
        decoder: the folder of sources that feeds tokens to it.
        methods_share_state: prefill and decode write one cache.
        products: of ExecuTorch's Swift package; empty where the system includes the runtime.
        engine: the package compiles edgec's engine and kernels.
    """

    minimum_os: tuple[int, int]
    runtime: str
    decoder: str
    methods_share_state: bool
    products: tuple[str, ...]
    engine: bool = False

    @property
    def static(self) -> bool:
        """Whether the decoder has the static methods prefill and decode."""
        return self.decoder == "DecoderStatic"


def glue_for(facts: AppFacts) -> Glue:
    """The glue for a bundle.

    Raises:
        InputError: E464, there is no glue for its format, its operators or its methods.
    """
    manifest, backend = facts.manifest, facts.target.backend
    row = _row(facts)
    _check_whole(facts)
    major, minor = map(int, minimum_os(str(manifest.format), backend).split("."))
    glue = Glue(
        minimum_os=(major, minor),
        runtime=row["runtime"],
        decoder=row["decoder"],
        methods_share_state=row["methods_share_state"] or caller_states(manifest) == {s.name for s in manifest.states},
        products=_PRODUCTS[row["runtime"]](facts) if row["runtime"] in _PRODUCTS else (),
        engine=row["runtime"] == _ENGINE,
    )
    if glue.static and facts.limits is not None:
        _check_static(manifest)
    if glue.static and facts.audio is not None:
        _check_audio(manifest)
    return glue


def _row(facts: AppFacts) -> Mapping[str, Any]:
    """The row of ``runtimes.toml``: edgec's engine where the artifact needs its kernels."""
    manifest, backend = facts.manifest, facts.target.backend
    rows = _table().get(str(manifest.format), {})
    if backend not in rows:
        raise _unfit(manifest, f"there is no Swift glue for {manifest.format} made by {backend}")
    if not facts.own_kernels:
        _check_senses(facts, rows[backend])
        return dict(rows[backend])
    if backend != "xnnpack" or "engine" not in rows:
        why = f"it needs {facts.own_kernels[0]} of edgec's kernels, which an app has for the CPU only"
        raise _unfit(manifest, why, "export it with --kernels standard")
    return dict(rows["engine" if facts.vision is None else "vision"])


def _check_senses(facts: AppFacts, row: Mapping[str, Any]) -> None:
    """Refuse vision or audio where no app has glue for this artifact."""
    senses = {"vision": ("take images", facts.vision), "audio": ("transcribe", facts.audio)}
    for name, (does, sense) in senses.items():
        if sense is not None and not row.get(name, False):
            why = f"apps {does} with edgec's engine, or through Core ML with one .mlpackage"
            fix = "export it with --format mlpackage, or for a CPU with edgec's own kernels"
            raise _unfit(facts.manifest, why, fix)


def _check_whole(facts: AppFacts) -> None:
    """Refuse a model above the file limit, which is a folder of packages to be called one after the other."""
    manifest = facts.manifest
    top = f"{manifest.artifact.rstrip('/')}/Manifest.json"
    if manifest.format == "mlpackage" and top not in {file.path for file in facts.files}:
        senses = facts.vision is not None or facts.audio is not None
        other = "for a CPU, with edgec's own kernels" if senses else "with --format pte"
        raise _unfit(
            manifest,
            f"{manifest.artifact} is not one package but a folder of several, and the glue runs only one",
            f"export it with fewer bits, so that it is one package, or {other}",
        )


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "runtimes.toml").read_text(encoding="utf-8"))


def executorch_branch(version: str) -> str:
    """The branch of ExecuTorch's Swift package that runs what a version of ExecuTorch exported."""
    return f"swiftpm-{_table()['executorch_package'].get(version, version)}"


def _products(facts: AppFacts) -> tuple[str, ...]:
    manifest, operators = facts.manifest, facts.manifest.runtime.operators
    backends = [_BACKEND_PRODUCTS[name] for name in manifest.runtime.backends if name in _BACKEND_PRODUCTS]
    kernels = [
        product for prefix, product in _KERNEL_PRODUCTS.items() if any(name.startswith(prefix) for name in operators)
    ]
    return ("executorch", *backends, "kernels_optimized", *kernels)


def _engine_products(facts: AppFacts) -> tuple[str, ...]:
    """What edgec's engine links: the thread pool comes with the kernels, ``llama::`` operators are edgec's own."""
    executorch_operators(facts.manifest)
    backends = ["backend_xnnpack"] if XNNPACK in facts.delegates else []
    quantized = ["kernels_quantized"] if takes_quantized(facts.manifest) else []
    return ("executorch", *backends, "kernels_optimized", *quantized)


_ENGINE = "RuntimeEngine"
_PRODUCTS: Mapping[str, Callable[[AppFacts], tuple[str, ...]]] = {
    "RuntimeExecuTorch": _products,
    _ENGINE: _engine_products,
}


def _check_static(manifest: Manifest) -> None:
    methods = {method.name: method for method in manifest.methods}
    wanted, images = STATIC_INPUTS | _row_inputs(manifest), manifest.vision_language
    for name in ("prefill", "decode"):
        if name not in methods:
            raise _unfit(manifest, f"it has no method {name}")
        _check_inputs(manifest, methods[name], wanted)
    if images is not None:
        if not _makes_rows(methods.get(VISION_ENCODER), images):
            raise _unfit(
                manifest, f"the method {VISION_ENCODER} does not make rows of one tile, in float32 and of fixed shapes"
            )
        for name, size in (("prefill", images.limits.prefill_chunk), ("decode", 1)):
            _check_row_sizes(manifest, methods[name], size, methods[VISION_ENCODER].outputs[0].shape[2])


def _check_audio(manifest: Manifest) -> None:
    """Refuse what takes a sound or tokens in another way than they are fed; the manifest's check did the rest."""
    names, info = tuple(method.name for method in manifest.methods), manifest.encoder_decoder
    if info is None or names != STATIC_ENCODER_DECODER_METHODS:
        raise _unfit(manifest, f"it has the methods {', '.join(names)}")
    if info.sound is None:
        raise _unfit(manifest, "apps feed input_embeds to an encoder of fixed shapes, and this one reads samples")
    if held := sorted(caller_states(manifest)):
        raise _unfit(manifest, f"its caller holds the states {', '.join(held)}, which the Swift glue does not")
    encode, cross, *decoder = manifest.methods
    if [tensor.dtype for tensor in encode.inputs] != ["float32"] or not (_is_fixed(encode) and _is_fixed(cross)):
        raise _unfit(manifest, "the method encode does not read input_embeds in float32, of fixed shapes")
    for method, size in zip(decoder, (info.limits.prefill_chunk, 1), strict=True):
        _check_inputs(manifest, method, STATIC_INPUTS | set(source_memory(manifest.methods)))
        _check_row_sizes(manifest, method, size, 0)


def _check_inputs(manifest: Manifest, method: MethodInfo, wanted: set[str]) -> None:
    names, states = {tensor.name for tensor in method.inputs}, {state.name for state in manifest.states}
    if odd := sorted(names - wanted - states):
        raise _unfit(manifest, f"the method {method.name} reads {', '.join(odd)}, which the Swift glue does not feed")
    if not wanted <= names or not _is_fixed(method):
        inputs = ", ".join(sorted(wanted))
        raise _unfit(manifest, f"the method {method.name} does not take {inputs} and states, of fixed shapes")


def _check_row_sizes(manifest: Manifest, method: MethodInfo, size: int, width: int | str) -> None:
    """Refuse a method that takes another number of tokens, or other rows, than the manifest says and see makes."""
    wanted = {
        **{"tokens": [1, size], "input_embeds": [1, size, width], "embeds_mask": [1, size, 1]},
        **{"span_end": [size], "mrope_positions": [3, size]},
    }
    for tensor in method.inputs:
        if wanted.get(tensor.name, tensor.shape) != tensor.shape:
            shapes = f"{tensor.name} {tensor.shape} where {wanted[tensor.name]} is fed"
            raise _unfit(manifest, f"the method {method.name} takes {shapes}")


def _is_fixed(method: MethodInfo) -> bool:
    return all(isinstance(size, int) for tensor in method.inputs for size in tensor.shape)


def _row_inputs(manifest: Manifest) -> set[str]:
    """What the methods of a decoder that takes images read in addition; nothing for others."""
    images = manifest.vision_language
    if images is None:
        return set()
    absent = {"span_end": images.ahead == "none", "mrope_positions": images.grid is None}
    return {name for name in ROW_INPUTS if not absent.get(name, False)}


def _makes_rows(method: MethodInfo | None, images: VisionLanguageInfo) -> bool:
    """Whether a method makes the manifest's rows of one of its tiles."""
    if method is None or (len(method.inputs), len(method.outputs)) != (1, 1) or not _is_fixed(method):
        return False
    tile, rows = method.inputs[0], method.outputs[0]
    whole = tile.shape == [1, images.channels, images.height, images.width] and tile.dtype == "float32"
    return whole and len(rows.shape) == 3 and rows.shape[:2] == [1, images.rows] and isinstance(rows.shape[2], int)


def caller_states(manifest: Manifest) -> set[str]:
    """The states that are inputs of the methods: the caller holds them and writes the new values."""
    names = {tensor.name for method in manifest.methods for tensor in method.inputs}
    return {state.name for state in manifest.states} & names


def _unfit(
    manifest: Manifest, why: str, fix: str = "export it for an iOS target with this version of edgec"
) -> InputError:
    return InputError(
        "no app glue fits this bundle",
        where=manifest.name,
        why=why,
        fix=fix,
        code="E464",
    )
