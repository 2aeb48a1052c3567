"""Capture a vision-language model as two Programs.

    see      pixels [1, C, H, W], one tile                               -> features [T, width]
    forward  tokens, positions, features [1, S, width], seen [1, S, 1], reach? [S], mrope_positions? [3, S]  -> logits

Where ``seen`` is true, a row of ``features`` takes the place of the token's embedding, as transformers' own classes
scatter them; everything after that is a decoder like every other. A text without images passes ``seen`` all false.
Where rows see rows after them, ``reach`` says how far each token sees; attention asks by it, not by the position.
Where positions have three parts, queries and keys are rotated by ``mrope_positions``, and all else asks by the
position. A width of several hidden sizes has rows for the first layers behind those that replace embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from edgec.exporter.capture import attention
from edgec.exporter.capture.decoder import Skeleton, TensorSource, bind, trace_module
from edgec.exporter.capture.layer_numbers import number_layers
from edgec.exporter.capture.own_attention import use_operator
from edgec.exporter.capture.positions import follow_positions
from edgec.exporter.capture.recurrences import recognise_convolutions
from edgec.exporter.capture.reshaped_views import reshape_views
from edgec.exporter.sources.vision_families import DecoderCall, Family
from edgec.exporter.sources.vision_language import Eyes
from edgec.ir.attention import REACH
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.spec import ModelSpec

FEATURES, SEEN, MROPE = "features", "seen", "mrope_positions"


@dataclass(frozen=True)
class CapturedVisionLanguage:
    """The programs of a vision-language model."""

    see: Program
    forward: Program


def capture_vision_language(
    build: Callable[[], Skeleton], eyes: Eyes, spec: ModelSpec, weights: TensorSource, max_tokens: int
) -> CapturedVisionLanguage:
    """Trace a vision-language model and bind its weights.

    Args:
        build: makes the model without weights; called for each program.
        eyes: what its image encoder reads.
        spec: the decoder's shape.
        weights: by the model's own parameter names.
        max_tokens: the longest sequence of one call of the decoder.

    Raises:
        InputError: E109, the architecture cannot be traced.
    """
    see = _capture_see(build(), eyes, weights)
    width = see.interface.outputs[0].shape[-1]
    assert isinstance(width, int)
    return CapturedVisionLanguage(see, _capture_forward(build(), eyes, spec, weights, width, max_tokens))


class _See(nn.Module):
    def __init__(self, model: nn.Module, eyes: Eyes) -> None:
        super().__init__()
        self.decoder, self.eyes = model, eyes
        self.sizes: dict[str, Any] = {}
        for name, value in eyes.constants(model).items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value, persistent=False)
            else:
                self.sizes[name] = value

    def forward(self, pixels: Tensor) -> Tensor:
        asked, constants = self.eyes.asked, dict(self.named_buffers(recurse=False))
        return asked.see(self.decoder, {**asked.given(self.eyes.patches, pixels), **self.sizes, **constants})


class _Forward(nn.Module):
    def __init__(self, model: Any, family: Family) -> None:
        super().__init__()
        self.decoder, self.family = model, family

    def forward(self, tokens: Tensor, positions: Tensor, features: Tensor, seen: Tensor) -> Tensor:
        return self._logits(tokens, self._places(positions), features, seen, positions)

    def _places(self, positions: Tensor) -> Tensor:
        first = self.family.first_place
        return (positions + first if first else positions).unsqueeze(0)

    def _logits(self, tokens: Tensor, places: Tensor, features: Tensor, seen: Tensor, asking: Tensor) -> Tensor:
        table = self.decoder.get_input_embeddings()
        width = table.embedding_dim
        rows, *deeper = features.split(width, -1) if features.shape[-1] > width else [features]
        embedded = torch.where(seen, rows, table(tokens))
        with attention.query_positions(asking):
            return self.family.read(self.decoder, DecoderCall(tokens, seen, embedded, places, deeper))


class _ReachingForward(_Forward):
    def forward(  # type: ignore[override]
        self, tokens: Tensor, positions: Tensor, features: Tensor, seen: Tensor, reach: Tensor
    ) -> Tensor:
        return self._logits(tokens, self._places(positions), features, seen, reach)


class _MropeForward(_Forward):
    def forward(  # type: ignore[override]
        self, tokens: Tensor, positions: Tensor, features: Tensor, seen: Tensor, mrope_positions: Tensor
    ) -> Tensor:
        return self._logits(tokens, mrope_positions.unsqueeze(1), features, seen, positions)


def _capture_see(skeleton: Skeleton, eyes: Eyes, weights: TensorSource) -> Program:
    shape = (1, *eyes.shape)
    graph = trace_module(_See(skeleton.model, eyes), skeleton.model, (torch.zeros(shape),), {"pixels": {}})
    graph.graph.eliminate_dead_code()
    number_layers(graph)
    bind(graph, skeleton.aliases, weights)
    reshape_views(graph)
    _store_constants(graph)
    output = next(node for node in reversed(graph.graph.nodes) if node.op == "output")
    rows = tuple(int(size) for size in output.all_input_nodes[0].meta["val"].shape)
    pixels = TensorType("pixels", torch.float32, shape)
    return Program(graph, Interface((pixels,), (TensorType(FEATURES, torch.float32, rows),)))


def _capture_forward(
    skeleton: Skeleton, eyes: Eyes, spec: ModelSpec, weights: TensorSource, width: int, max_tokens: int
) -> Program:
    size, family = Dynamic("S", 1, max_tokens), eyes.asked
    length, example = torch.export.Dim("S", min=2, max=max_tokens), min(8, max_tokens)
    inputs = (
        TensorType("tokens", torch.int64, (1, size)),
        TensorType("positions", torch.int64, (size,)),
        TensorType(FEATURES, torch.float32, (1, size, width)),
        TensorType(SEEN, torch.bool, (1, size, 1)),
        *([] if family.ahead == "none" else [TensorType(REACH, torch.int64, (size,))]),
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
    recognise_convolutions(graph)
    logits = TensorType("logits", torch.float32, (1, size, spec.vocab_size))
    return Program(graph, Interface(inputs, (logits,)), spec)


def _store_constants(graph: GraphModule) -> None:
    """Store what is made from nothing (ranges, masks of ones), so that all that follows from it can be folded."""
    made = [node for node in graph.graph.nodes if node.op == "call_function" and not node.all_input_nodes]
    for index, node in enumerate(node for node in made if isinstance(node.meta.get("val"), Tensor)):
        graph.register_buffer(f"made_{index}", node.target(*node.args, **node.kwargs))
        with graph.graph.inserting_before(node):
            stored = graph.graph.get_attr(f"made_{index}")
        stored.meta = dict(node.meta)
        node.replace_all_uses_with(stored)
        graph.graph.erase_node(node)
    graph.recompile()
