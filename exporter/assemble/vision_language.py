"""What a vision-language model adds to its bundle: a part of the manifest, the image processor's files, a vector."""

from __future__ import annotations

import numpy as np
import torch

from edgec.bundle.entry_points import VISION_ENCODER, VISION_LANGUAGE_METHODS, VisionLanguageInfo
from edgec.bundle.golden import Golden, output_vector, probe_values
from edgec.bundle.golden_function import function_vector
from edgec.bundle.image_preparation import IMAGE_FOLDER, PREPARATION, PreparationFile, preparation_bytes
from edgec.bundle.prefix import Files
from edgec.exporter.assemble.image_preparation import described_preparation
from edgec.exporter.assemble.tolerances import golden_tolerances
from edgec.exporter.pipeline import CompiledModel
from edgec.exporter.request import ExportRequest
from edgec.ir.row_inputs import INPUT_EMBEDS
from edgec.runtime_py.media.image_file import read_image
from edgec.runtime_py.vision_language.processor import PromptProcessor


def vision_language_info(request: ExportRequest, compiled: CompiledModel) -> VisionLanguageInfo | None:
    """The limits and the tile of a vision-language model; None for other kinds."""
    vision = request.source.vision
    if vision is None:
        return None
    encoder = next(method for method in compiled.facts.methods if method.name == VISION_ENCODER)
    rows, (channels, height, width) = int(encoder.outputs[0].shape[1]), vision.shape
    return VisionLanguageInfo(
        limits=request.limits,
        channels=channels,
        height=height,
        width=width,
        rows=rows,
        image_token=vision.image_token,
        ahead=vision.asked.ahead,
        patches=vision.patches,
        grid=vision.grid,
    )


def image_files(request: ExportRequest, info: VisionLanguageInfo | None) -> Files:
    """The descriptions of transformers' image processor, and the preparation read off it, by their path in the bundle.

    Raises:
        InputError: E656 or E657, the image processor cannot be used with the model.
        ToolError: E670, Pillow is not installed.
    """
    vision = request.source.vision
    if vision is None or info is None:
        return {}
    files: Files = {f"{IMAGE_FOLDER}/{file.name}": file for file in vision.processor_files}
    if request.tokenizer is None or request.source.path is None:
        return {**files, PREPARATION: preparation_bytes(PreparationFile(lacking="the model has no tokenizer"))}
    prompts, grey = PromptProcessor(request.source.path, info, request.tokenizer), np.full((48, 64, 3), 128, np.uint8)
    prompts.prompt("", [read_image(grey)], rendered=False)
    return {**files, PREPARATION: preparation_bytes(described_preparation(prompts, request.tokenizer))}


def seen_golden(request: ExportRequest, compiled: CompiledModel, count: int) -> Golden:
    """The artifact's greedy text after a tile that is easy to generate again in any language.

    Where shapes are fixed, values of the image encoder as well: an interpreter repeats them within a fifth of what a
    phone may differ by, so that a fault in it shows even where it moves no token.
    """
    from edgec.exporter.parity.rows_and_text import ExecutedRows
    from edgec.exporter.parity.vision_language import image_probe

    vision, form = request.source.vision, request.form
    methods = ExecutedRows.of_form(compiled.artifact, VISION_LANGUAGE_METHODS, form)
    assert vision is not None
    features = methods.rows([torch.from_numpy(probe_values([1, *vision.shape], "float32", 0))])
    probe = image_probe(vision, len(features), request.probe, request.limits)
    prompt, placed = list(probe.tokens[: probe.prompt]), probe.placed(features)
    rows, tokens = methods.text.greedy(prompt, placed, request.limits, count)
    text = output_vector(prompt, tokens, np.stack(rows), **golden_tolerances(form))
    seen = function_vector({}, {INPUT_EMBEDS: features[None].numpy()}, **golden_tolerances(form), method=VISION_ENCODER)
    return Golden(outputs=(text,), functions=(seen,) if form.static else ())
