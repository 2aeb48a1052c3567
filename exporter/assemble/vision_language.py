"""What a vision-language model adds to its bundle: a part of the manifest, the image processor's files, a vector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from edgec.bundle.entry_points import VISION_LANGUAGE_METHODS, VisionLanguageInfo
from edgec.bundle.golden import OutputVector, output_vector, probe_values
from edgec.bundle.prefix import Files
from edgec.bundle.tokenizer_folder import IMAGE_FOLDER
from edgec.exporter.pipeline import CompiledModel
from edgec.exporter.request import ExportRequest
from edgec.runtime_py.vision_language.image_file import read_image
from edgec.runtime_py.vision_language.processor import PromptProcessor


def vision_language_info(request: ExportRequest, compiled: CompiledModel) -> VisionLanguageInfo | None:
    """The limits and the tile of a vision-language model; None for other kinds.

    Raises:
        InputError: E656 or E657, its image processor cannot be used with it.
        ToolError: E670, Pillow is not installed.
    """
    eyes = request.source.eyes
    if eyes is None:
        return None
    see = next(method for method in compiled.facts.methods if method.name == "see")
    rows, (channels, height, width) = int(see.outputs[0].shape[0]), eyes.shape
    info = VisionLanguageInfo(
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
    if request.tokenizer is not None and request.source.path is not None:
        grey = np.full((48, 64, 3), 128, np.uint8)
        PromptProcessor(request.source.path, info, request.tokenizer).prompt("", [read_image(grey)], rendered=False)
    return info


def image_files(request: ExportRequest) -> Files:
    """The descriptions of transformers' image processor, by their path in the bundle."""
    eyes = request.source.eyes
    return {f"{IMAGE_FOLDER}/{file.name}": file for file in eyes.processor_files} if eyes else {}


def seen_vector(request: ExportRequest, artifact: Path, count: int) -> OutputVector:
    """The artifact's greedy text after a tile that is easy to generate again in any language."""
    from edgec.exporter.parity.rows_and_text import ExecutedRows
    from edgec.exporter.parity.vision_language import image_probe

    eyes, methods = request.source.eyes, ExecutedRows(artifact, VISION_LANGUAGE_METHODS)
    assert eyes is not None
    features = methods.rows([torch.from_numpy(probe_values([1, *eyes.shape], "float32", 0))])
    probe = image_probe(eyes, len(features), request.probe, request.limits)
    prompt, placed = list(probe.tokens[: probe.prompt]), probe.placed(features)
    rows, tokens = methods.text.greedy(prompt, placed, request.limits, count)
    return output_vector(prompt, tokens, np.stack(rows))
