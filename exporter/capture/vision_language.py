"""Capture a vision-language model as two Programs.

see      pixels [1, C, H, W], one tile                               -> features [1, T, width]
forward  tokens, positions, features, seen, ...                      -> logits        (rows_in_text.py)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from edgec.bundle.entry_points import VISION_LANGUAGE_METHODS
from edgec.exporter.capture.decoder import Skeleton, TensorSource, trace_module
from edgec.exporter.capture.encoder_program import encoder_program
from edgec.exporter.capture.rows_in_text import capture_forward
from edgec.exporter.sources.multimodal.vision_language import VisionInput
from edgec.ir.program import Program, TensorType
from edgec.ir.spec import ModelSpec


def capture_vision_language(
    build: Callable[[], Skeleton], vision: VisionInput, spec: ModelSpec, weights: TensorSource, max_tokens: int
) -> dict[str, Program]:
    """Trace a vision-language model and bind its weights; the programs by the names of their methods.

    Args:
        build: makes the model without weights; called for each program.
        vision: what its image encoder reads.
        spec: the decoder's shape.
        weights: by the model's own parameter names.
        max_tokens: the longest sequence of one call of the decoder.

    Raises:
        InputError: E109, the architecture cannot be traced.
    """
    encoder = _capture_vision_encoder(build(), vision, weights)
    width = encoder.interface.outputs[0].shape[-1]
    assert isinstance(width, int)
    forward = capture_forward(build(), vision.asked, spec, weights, width, max_tokens)
    return dict(zip(VISION_LANGUAGE_METHODS, (encoder, forward), strict=True))


class _VisionEncoder(nn.Module):
    def __init__(self, model: nn.Module, vision: VisionInput) -> None:
        super().__init__()
        self.decoder, self.vision = model, vision
        self.sizes: dict[str, Any] = {}
        for name, value in vision.constants(model).items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value, persistent=False)
            else:
                self.sizes[name] = value

    def forward(self, pixels: Tensor) -> Tensor:
        asked, constants = self.vision.asked, dict(self.named_buffers(recurse=False))
        return asked.see(self.decoder, {**asked.given(self.vision.patches, pixels), **self.sizes, **constants})


def _capture_vision_encoder(skeleton: Skeleton, vision: VisionInput, weights: TensorSource) -> Program:
    shape = (1, *vision.shape)
    graph = trace_module(_VisionEncoder(skeleton.model, vision), skeleton.model, (torch.zeros(shape),), {"pixels": {}})
    return encoder_program(graph, skeleton, weights, (TensorType("pixels", torch.float32, shape),))
