"""Capture a decoder whose text has rows in the place of some tokens: those of images or of sound.

tokens, positions, input_embeds [1, S, width], embeds_mask [1, S, 1], span_end? [S], mrope_positions? [3, S] -> logits

Where ``embeds_mask`` is true, a row of ``input_embeds`` takes the place of the token's embedding, as transformers' own
classes scatter them; everything after that is a decoder like every other. A text alone passes ``embeds_mask`` all
false. Where rows see rows after them, ``span_end`` is the last position that each token sees; attention asks by it, not
by the position. Where positions have three parts, queries and keys are rotated by
``mrope_positions``, and all else asks by the position. A width of several hidden sizes has
rows for the first layers behind those that replace embeddings.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgec.exporter.capture import attention
from edgec.exporter.capture.chosen_keys import attend_to_every_key
from edgec.exporter.capture.decoder import Skeleton, TensorSource, bind, trace_module
from edgec.exporter.capture.mixed_rotations import refuse_mixed_rotations
from edgec.exporter.capture.own_attention import use_operator
from edgec.exporter.capture.recurrences import recognise_convolutions
from edgec.exporter.sources.decoders.positions import follow_positions
from edgec.exporter.sources.multimodal.vision_families import DecoderCall, Family
from edgec.ir.attention import SPAN_END
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.row_inputs import EMBEDS_MASK, INPUT_EMBEDS, MROPE
from edgec.ir.spec import ModelSpec


def capture_forward(
    skeleton: Skeleton, family: Family, spec: ModelSpec, weights: TensorSource, width: int, max_tokens: int
) -> Program:
    """Trace the decoder and bind its weights.

    Args:
        skeleton: the model without weights, used up by this.
        family: how the model is asked.
        spec: the decoder's shape.
        weights: by the model's own parameter names.
        width: of a row, with those for the first layers.
        max_tokens: the longest sequence of one call.

    Raises:
        InputError: E109, the architecture cannot be traced; E740, its layers choose among the keys of such a text;
            E743, its rotations mix positions.
    """
    attend_to_every_key(skeleton.model, max_tokens)
    size = Dynamic("S", 1, max_tokens)
    length, example = torch.export.Dim("S", min=2, max=max_tokens), min(8, max_tokens)
    inputs = (
        TensorType("tokens", torch.int64, (1, size)),
        TensorType("positions", torch.int64, (size,)),
        TensorType(INPUT_EMBEDS, torch.float32, (1, size, width)),
        TensorType(EMBEDS_MASK, torch.bool, (1, size, 1)),
        *([] if family.ahead == "none" else [TensorType(SPAN_END, torch.int64, (size,))]),
        *([TensorType(MROPE, torch.int64, (3, size))] if family.mrope else []),
    )
    shapes = {each.name: {each.shape.index(size): length} for each in inputs}
    examples = tuple(
        torch.zeros([example if isinstance(d, Dynamic) else d for d in each.shape], dtype=each.dtype) for each in inputs
    )
    module = _MropeForward if family.mrope else _Forward if family.ahead == "none" else _ReachingForward
    graph = trace_module(module(skeleton.model, family), skeleton.model, examples, shapes)
    graph.graph.eliminate_dead_code()
    follow_positions(graph)
    use_operator(graph)
    bind(graph, skeleton.aliases, weights)
    refuse_mixed_rotations(graph, max_tokens, type(skeleton.model).__name__)
    recognise_convolutions(graph)
    logits = TensorType("logits", torch.float32, (1, size, spec.vocab_size))
    return Program(graph, Interface(inputs, (logits,)), spec)


class _Forward(nn.Module):
    def __init__(self, model: Any, family: Family) -> None:
        super().__init__()
        self.decoder, self.family = model, family

    def forward(self, tokens: Tensor, positions: Tensor, input_embeds: Tensor, embeds_mask: Tensor) -> Tensor:
        return self._logits(tokens, self._places(positions), input_embeds, embeds_mask, positions)

    def _places(self, positions: Tensor) -> Tensor:
        first = self.family.first_place
        return (positions + first if first else positions).unsqueeze(0)

    def _logits(
        self, tokens: Tensor, places: Tensor, input_embeds: Tensor, embeds_mask: Tensor, asking: Tensor
    ) -> Tensor:
        table = self.decoder.get_input_embeddings()
        width = table.embedding_dim
        rows, *deeper = input_embeds.split(width, -1) if input_embeds.shape[-1] > width else [input_embeds]
        embedded = torch.where(embeds_mask, rows, table(tokens))
        with attention.query_positions(asking):
            return self.family.read(self.decoder, DecoderCall(tokens, embeds_mask, embedded, places, deeper))


class _ReachingForward(_Forward):
    def forward(  # type: ignore[override]
        self, tokens: Tensor, positions: Tensor, input_embeds: Tensor, embeds_mask: Tensor, span_end: Tensor
    ) -> Tensor:
        return self._logits(tokens, self._places(positions), input_embeds, embeds_mask, span_end)


class _MropeForward(_Forward):
    def forward(  # type: ignore[override]
        self, tokens: Tensor, positions: Tensor, input_embeds: Tensor, embeds_mask: Tensor, mrope_positions: Tensor
    ) -> Tensor:
        return self._logits(tokens, mrope_positions.unsqueeze(1), input_embeds, embeds_mask, positions)
