"""Capture a speech-language model as two Programs.

    hear     features [1, mels, frames], frames [1], one window          -> features [1, T, width]
    forward  tokens, positions, features, seen                           -> logits        (rows_in_text.py)

``frames`` says how many of a window's frames are sound: an encoder whose attention leaves silence out asks by it, and
others do not read it. All rows of a window are an output; a runtime drops those of silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.overrides import TorchFunctionMode

from edgec.bundle.audio_language import AUDIO_LANGUAGE_METHODS
from edgec.exporter.capture import attention
from edgec.exporter.capture.decoder import Skeleton, TensorSource, trace_module
from edgec.exporter.capture.encoder_program import encoder_program
from edgec.exporter.capture.rows_in_text import capture_forward
from edgec.exporter.sources.multimodal.audio_input import AudioInput
from edgec.exporter.sources.multimodal.audio_language import AUDIO
from edgec.ir.program import Program, TensorType
from edgec.ir.spec import ModelSpec
from edgec.passes.contract import nodes_of

HEARD, FRAMES = "features", "frames"


def capture_audio_language(
    build: Callable[[], Skeleton], audio: AudioInput, spec: ModelSpec, weights: TensorSource, max_tokens: int
) -> dict[str, Program]:
    """Trace a speech-language model and bind its weights; the programs by the names of their methods.

    Args:
        build: makes the model without weights; called for each program.
        audio: what its audio encoder reads.
        spec: the decoder's shape.
        weights: by the model's own parameter names.
        max_tokens: the longest sequence of one call of the decoder.

    Raises:
        InputError: E109, the architecture cannot be traced.
    """
    encoder = _capture_audio_encoder(build(), audio, weights)
    width = encoder.interface.outputs[0].shape[-1]
    assert isinstance(width, int)
    forward = capture_forward(build(), AUDIO, spec, weights, width, max_tokens)
    return dict(zip(AUDIO_LANGUAGE_METHODS, (encoder, forward), strict=True))


class _AudioEncoder(nn.Module):
    def __init__(self, model: nn.Module, audio: AudioInput) -> None:
        super().__init__()
        self.decoder, self.audio = model, audio

    def forward(self, features: Tensor, frames: Tensor) -> Tensor:
        stride, count = self.audio.stride, features.shape[-1]
        mask = (torch.arange(count) < frames).unsqueeze(0)
        keys = (torch.arange(-(-count // stride)) < (frames + stride - 1) // stride).unsqueeze(0)
        given = {HEARD: features, "mask": mask, "keys": attention.UsedKeys(keys)}
        with attention.padding_left_out(), _EveryRow():
            return AUDIO.see(self.decoder, given)


class _EveryRow(TorchFunctionMode):
    """Lets ``rows[mask]`` keep all rows: how many are sound is not known while a model is traced."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__ and isinstance(args[1], Tensor) and args[1].dtype == torch.bool:
            return args[0].flatten(0, args[1].dim() - 1)
        return func(*args, **(kwargs or {}))


def _capture_audio_encoder(skeleton: Skeleton, audio: AudioInput, weights: TensorSource) -> Program:
    shape = (1, audio.sound.mels, audio.sound.frames)
    examples = (torch.zeros(shape), torch.full((1,), audio.sound.frames))
    module = _AudioEncoder(skeleton.model, audio)
    graph = trace_module(module, skeleton.model, examples, {HEARD: {}, FRAMES: {}})
    graph.graph.eliminate_dead_code()
    _transpose(graph)
    inputs = (TensorType(HEARD, torch.float32, shape), TensorType(FRAMES, torch.int64, (1,)))
    return encoder_program(graph, skeleton, weights, inputs)


def _transpose(graph: GraphModule) -> None:
    """Write permutations of the last two of three dimensions as transpositions, which passes know."""
    aten = torch.ops.aten
    for node in nodes_of(graph, aten.permute.default):
        dims: Any = node.args[1]
        if [int(dim) % 3 for dim in dims] == [0, 2, 1] and len(dims) == 3:
            node.target, node.args = aten.transpose.int, (node.args[0], 1, 2)
