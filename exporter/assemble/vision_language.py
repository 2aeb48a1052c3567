"""What a vision-language model adds to its bundle: a part of the manifest, the image processor's files, a vector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from edgec.bundle.entry_points import VISION_LANGUAGE_METHODS, VisionLanguageInfo
from edgec.bundle.golden import OutputVector, output_vector, probe_values
from edgec.bundle.image_preparation import PREPARATION, PreparationFile, preparation_bytes
from edgec.bundle.prefix import Files
from edgec.bundle.tokenizer_folder import IMAGE_FOLDER
from edgec.exporter.assemble.image_preparation import described_preparation
from edgec.exporter.pipeline import CompiledModel
from edgec.exporter.request import ExportRequest
from edgec.runtime_py.vision_language.image_file import read_image
from edgec.runtime_py.vision_language.processor import PromptProcessor


def vision_language_info(request: ExportRequest, compiled: CompiledModel) -> VisionLanguageInfo | None:
    """The limits and the tile of a vision-language model; None for other kinds."""
    eyes = request.source.eyes
    if eyes is None:
        return None
    see = next(method for method in compiled.facts.methods if method.name == "see")
    rows, (channels, height, width) = int(see.outputs[0].shape[0]), eyes.shape
    return VisionLanguageInfo(
        limits=request.limits,
        channels=channels,
        height=height,
        width=width,
        rows=rows,
        image_token=eyes.image_token,
        ahead=eyes.asked.ahead,
        patches=eyes.patches,
        grid=eyes.grid,
    )


def image_files(request: ExportRequest, info: VisionLanguageInfo | None) -> Files:
    """The descriptions of transformers' image processor, and the preparation read off it, by their path in the bundle.

    Raises:
        InputError: E656 or E657, the image processor cannot be used with the model.
        ToolError: E670, Pillow is not installed.
    """
    eyes = request.source.eyes
    if eyes is None or info is None:
        return {}
    files: Files = {f"{IMAGE_FOLDER}/{file.name}": file for file in eyes.processor_files}
    if request.tokenizer is None or request.source.path is None:
        return {**files, PREPARATION: preparation_bytes(PreparationFile(lacking="the model has no tokenizer"))}
    prompts, grey = PromptProcessor(request.source.path, info, request.tokenizer), np.full((48, 64, 3), 128, np.uint8)
    prompts.prompt("", [read_image(grey)], rendered=False)
    return {**files, PREPARATION: preparation_bytes(described_preparation(prompts, request.tokenizer))}


def seen_vector(request: ExportRequest, artifact: Path, count: int) -> OutputVector:
    """The artifact's greedy text after a tile that is easy to generate again in any language."""
    from edgec.exporter.parity.rows_and_text import ExecutedRows
    from edgec.exporter.parity.vision_language import image_probe

    eyes, methods = request.source.eyes, ExecutedRows.of_form(artifact, VISION_LANGUAGE_METHODS, request.form)
    assert eyes is not None
    features = methods.rows([torch.from_numpy(probe_values([1, *eyes.shape], "float32", 0))])
    probe = image_probe(eyes, len(features), request.probe, request.limits)
    prompt, placed = list(probe.tokens[: probe.prompt]), probe.placed(features)
    rows, tokens = methods.text.greedy(prompt, placed, request.limits, count)
    return output_vector(prompt, tokens, np.stack(rows))
