"""Bundles that see as input for app packages, whose artifacts cannot run, and tiny random ones, each exported once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import edgec
from edgec.bundle.entry_points import Limits, MethodInfo, TensorInfo, VisionLanguageInfo
from edgec.bundle.folder import Bundle
from edgec.bundle.image_preparation import (
    PREPARATION,
    ImageLevels,
    ImageTexts,
    Preparation,
    PreparationFile,
    WholeImage,
    preparation_bytes,
)
from edgec.bundle.manifest import Manifest
from tests.apps.android_bundles import EXAMPLE, tokenizer_config
from tests.apps.ios_bundles import (
    CHUNK,
    CONTEXT,
    STATIC,
    bundle_of,
    caller_methods,
    decoder_manifest,
    module_manifest,
)
from tests.vision_language import save_vision_language
from tests.vision_sized import SIZE, SIZED

INFO = VisionLanguageInfo(
    limits=Limits(context=64, prefill_chunk=16, logit_rows=4), channels=3, height=8, width=8, rows=4, image_token=3
)
LEVELS = ImageLevels(scale=1 / 255, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
TEXTS = ImageTexts(placeholder="<image>", row="<image>", before="", after="")
PREPARED = PreparationFile(
    preparation=Preparation(levels=LEVELS, whole=WholeImage(fit="stretch", resample="bicubic"), texts=TEXTS)
)
# Writes parts as the templates of vision-language models do; a play's header tells who speaks.
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'].upper() }}:\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}\n\n"
    "{% endfor %}{% if add_generation_prompt %}ASSISTANT:\n{% endif %}"
)


def _method(name: str) -> MethodInfo:
    tensor = TensorInfo(name=f"{name}_values", dtype="float32", shape=[1, 4])
    return MethodInfo(name=name, inputs=[tensor], outputs=[tensor])


def vision_manifest(target: str, **fields: Any) -> Manifest:
    """The manifest of a vision-language model for a phone's processor."""
    methods = [_method(name) for name in ("vision_encoder", "forward")]
    return module_manifest("pte-cpu", methods, target=target, vision_language=INFO, **fields)


def vision_placeholder(
    folder: Path,
    target: str,
    prepared: PreparationFile | None = PREPARED,
    *,
    template: str = TEMPLATE,
    artifact: bytes = b"EdgecLinear",
) -> Bundle:
    """A bundle with the example's tokenizer, whose artifact names edgec's kernels."""
    manifest = vision_manifest(target)
    extra = {
        "tokenizer/tokenizer.json": (EXAMPLE / "tokenizer.json").read_bytes(),
        "tokenizer/tokenizer_config.json": tokenizer_config(template),
        **({} if prepared is None else {PREPARATION: preparation_bytes(prepared)}),
        manifest.artifact: artifact,
    }
    return bundle_of(manifest, folder, extra)


@lru_cache(maxsize=8)
def vision_bundle(family: str, target: str = "android-cpu", context: int = 160, **options: Any) -> Path:
    """A float bundle of a family's tiny random model; ``options``: of the export."""
    folder = save_vision_language(family, Path(mkdtemp(prefix="edgec-")) / family)
    size = "x".join(map(str, SIZE)) if family in SIZED else None
    out = folder.parent / "x.edgec"
    return edgec.export(folder, target=target, recipe="float", out=out, context=context, image_size=size, **options)


FIXED = VisionLanguageInfo(
    limits=Limits(context=CONTEXT, prefill_chunk=CHUNK, logit_rows=1),
    channels=3,
    height=8,
    width=8,
    rows=4,
    image_token=3,
)
_WIDTH = 16


def _vision_encoder(info: VisionLanguageInfo) -> MethodInfo:
    tile = TensorInfo(name="pixels", dtype="float32", shape=[1, info.channels, info.height, info.width])
    rows = TensorInfo(name="input_embeds", dtype="float32", shape=[1, info.rows, _WIDTH])
    return MethodInfo(name="vision_encoder", inputs=[tile], outputs=[rows])


def _reading(method: MethodInfo, info: VisionLanguageInfo) -> MethodInfo:
    """A static method that reads rows among its tokens."""
    tokens, start, last, *states = method.inputs
    width = tokens.shape[-1]
    shapes: dict[str, tuple[str, list[int | str]]] = {
        "input_embeds": ("float32", [1, width, _WIDTH]),
        "embeds_mask": ("float32", [1, width, 1]),
        **({} if info.ahead == "none" else {"span_end": ("int32", [width])}),
        **({} if info.grid is None else {"mrope_positions": ("int32", [3, width])}),
    }
    rows = [TensorInfo(name=name, dtype=dtype, shape=shape) for name, (dtype, shape) in shapes.items()]
    return method.model_copy(update={"inputs": [tokens, start, *rows, last, *states]})


def fixed_vision_manifest(kind: str = "mlpackage", info: VisionLanguageInfo = FIXED, **fields: Any) -> Manifest:
    """The manifest of a vision-language model with methods of fixed shapes."""
    methods = [
        _vision_encoder(info),
        *(_reading(method, info) for method in (caller_methods() if kind == "pte" else STATIC)),
    ]
    return decoder_manifest(kind, **{"methods": methods, "limits": None, "vision_language": info, **fields})


def fixed_vision_placeholder(
    folder: Path, manifest: Manifest | None = None, prepared: PreparationFile | None = PREPARED
) -> Bundle:
    """A bundle with such a manifest; its artifact cannot run."""
    extra = {
        "tokenizer/tokenizer.json": (EXAMPLE / "tokenizer.json").read_bytes(),
        "tokenizer/tokenizer_config.json": tokenizer_config(TEMPLATE),
        **({} if prepared is None else {PREPARATION: preparation_bytes(prepared)}),
    }
    return bundle_of(manifest or fixed_vision_manifest(), folder, extra)
