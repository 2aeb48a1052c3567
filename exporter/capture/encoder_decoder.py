"""Capture an encoder-decoder as three Programs, without family-specific code.

    encode   what the model reads (tokens, log-mel, sound)  -> states [1, T, C]
    cross    states [1, T, C]                               -> each decoder layer's keys and values of the encoder
    forward  tokens, positions, those keys and values       -> logits

The seams are transformers' own: ``AttentionInterface`` for attention (``capture/attention.py``), and the protocol of
``EncoderDecoderCache``: a decoder hands the keys and values that it computes from the encoder's states to the cache,
once, and reads them from there afterwards. In ``cross`` a cache that only remembers collects them, and in ``forward``
one that has them already hands them out as inputs, so that no layer computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from edgec.exporter.capture import attention
from edgec.exporter.capture.decoder import Skeleton, TensorSource, bind, trace_module
from edgec.exporter.capture.layer_numbers import number_layers
from edgec.exporter.capture.positions import follow_positions
from edgec.exporter.sources.encoder_decoder import Source
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.reexport import export_any_size
from edgec.ir.spec import ModelSpec
from edgec.passes.contract import output_node

STATES = "states"


@dataclass(frozen=True)
class CapturedEncoderDecoder:
    """The programs of an encoder-decoder."""

    encode: Program
    cross: Program
    forward: Program


def capture_encoder_decoder(
    build: Callable[[], Skeleton], source: Source, spec: ModelSpec, weights: TensorSource, max_tokens: int
) -> CapturedEncoderDecoder:
    """Trace an encoder-decoder and bind its weights.

    Args:
        build: makes the model without weights; called for each program.
        source: what its encoder reads.
        spec: the decoder's shape.
        weights: by the model's own parameter names.
        max_tokens: the longest sequence of one call of the decoder.

    Raises:
        InputError: E109, the architecture cannot be traced.
    """
    encode = _capture_encode(build(), source, weights)
    states = encode.interface.outputs[0]
    cross = _capture_cross(build(), states, weights)
    forward = _capture_forward(build(), cross.interface.outputs, states, spec, weights, max_tokens)
    return CapturedEncoderDecoder(encode, cross, forward)


class _Encoder(nn.Module):
    def __init__(self, model: Any, name: str) -> None:
        super().__init__()
        self.decoder, self.name = model, name

    def forward(self, source: Tensor) -> Tensor:
        states: Tensor = self.decoder.get_encoder()(**{self.name: source}).last_hidden_state
        return states


class _Cross(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.decoder = model

    def forward(self, states: Tensor) -> tuple[Tensor, ...]:
        cache = remembering_cache()
        decode(self.decoder, torch.zeros(1, 2, dtype=torch.long), states, cache)
        kept: Mapping[int, tuple[Tensor, Tensor]] = cache.cross_attention_cache.kept
        return tuple(value.transpose(1, 2) for layer in sorted(kept) for value in kept[layer])


class _Forward(nn.Module):
    def __init__(self, model: nn.Module, width: int) -> None:
        super().__init__()
        self.decoder, self.width = model, width

    def forward(self, tokens: Tensor, positions: Tensor, *memory: Tensor) -> Tensor:
        cache = remembering_cache(tuple(value.transpose(1, 2) for value in memory))
        # Only its length is read: the layers have their keys and values.
        states = torch.zeros(1, memory[0].shape[1], self.width)
        with attention.query_positions(positions):
            return decode(self.decoder, tokens, states, cache)


def decode(model: Any, tokens: Tensor, states: Tensor, cache: Any = None) -> Tensor:
    """The logits [1, S, V] of a decoder after an encoder's states [1, T, C]."""
    from transformers.modeling_outputs import BaseModelOutput

    read = BaseModelOutput(last_hidden_state=states)
    read.attention_mask = None  # Moonshine's decoder asks for it: nothing was padded.
    options = {"use_cache": False} if cache is None else {"use_cache": True, "past_key_values": cache}
    logits: Tensor = model(decoder_input_ids=tokens, encoder_outputs=read, **options).logits
    return logits


def remembering_cache(memory: tuple[Tensor, ...] = ()) -> Any:
    """A cache that forgets nothing because it holds one call only, with the encoder's keys and values if given."""
    from transformers.cache_utils import Cache, EncoderDecoderCache

    class OneCall(Cache):
        """Hands out what the call itself computed."""

        def __init__(self) -> None:
            self.layers: list[Any] = []
            self.kept: dict[int, tuple[Tensor, Tensor]] = {}

        def __bool__(self) -> bool:
            return True

        def update(self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
            self.kept[layer] = (key, value)
            return key, value

        def get_seq_length(self, layer_idx: int = 0) -> int:
            return 0

        def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
            return query_length, 0

    cache = EncoderDecoderCache(OneCall(), OneCall())
    pairs = zip(memory[::2], memory[1::2], strict=True)
    cache.cross_attention_cache.layers = [_Layer(key, value) for key, value in pairs]
    cache.is_updated = dict.fromkeys(range(len(memory) // 2), bool(memory))
    return cache


@dataclass(frozen=True)
class _Layer:
    """A layer's keys and values as ``EncoderDecoderCache`` holds them, [1, G, T, D]."""

    keys: Tensor
    values: Tensor
    is_sliding: bool = False


def _capture_encode(skeleton: Skeleton, source: Source, weights: TensorSource) -> Program:
    example = torch.zeros([_example(d) for d in source.shape], dtype=source.dtype)
    shapes, encoder = {"source": _dims(source.shape)}, _Encoder(skeleton.model, source.name)
    graph = trace_module(encoder, skeleton.model, (example,), shapes, export_any_size)
    number_layers(graph)
    return _program(graph, skeleton, weights, (source.tensor_type(),), (STATES,), source.positions)


def _capture_cross(skeleton: Skeleton, states: TensorType, weights: TensorSource) -> Program:
    example = torch.zeros([_example(d) for d in states.shape])
    graph = trace_module(_Cross(skeleton.model), skeleton.model, (example,), {"states": _dims(states.shape)})
    count = len(output_node(graph).all_input_nodes)
    names = tuple(f"cross_{role}_{layer}" for layer in range(count // 2) for role in ("key", "value"))
    return _program(graph, skeleton, weights, (states,), names, _varying(states))


def _capture_forward(
    skeleton: Skeleton,
    memory: tuple[TensorType, ...],
    states: TensorType,
    spec: ModelSpec,
    weights: TensorSource,
    max_tokens: int,
) -> Program:
    width: Any = states.shape[-1]
    size = Dynamic("S", 1, max_tokens)
    tokens, places = TensorType("tokens", torch.int64, (1, size)), TensorType("positions", torch.int64, (size,))
    length = torch.export.Dim("S", min=2, max=max_tokens)
    example = (torch.zeros(1, 8, dtype=torch.long), torch.arange(8))
    read = tuple(torch.zeros([_example(d) for d in value.shape]) for value in memory)
    shapes = {"tokens": {1: length}, "positions": {0: length}, "memory": tuple(_dims(v.shape) for v in memory)}
    graph = trace_module(_Forward(skeleton.model, width), skeleton.model, (*example, *read), shapes)
    follow_positions(graph)
    program = _program(graph, skeleton, weights, (tokens, places, *memory), ("logits",))
    logits = TensorType("logits", torch.float32, (1, size, spec.vocab_size))
    return Program(program.graph, Interface(program.interface.inputs, (logits,)), spec)


def _dims(shape: tuple[int | Dynamic, ...]) -> dict[int, Any]:
    """torch.export's description of a shape's varying dimensions."""
    varying = [(index, d) for index, d in enumerate(shape) if isinstance(d, Dynamic)]
    return {index: torch.export.Dim(d.name, min=max(2, d.low), max=d.high) for index, d in varying}


def _example(size: int | Dynamic) -> int:
    return size if isinstance(size, int) else size.example(8)


def _varying(tensor: TensorType) -> Dynamic | None:
    return next((size for size in tensor.shape if isinstance(size, Dynamic)), None)


def _program(
    graph: GraphModule,
    skeleton: Skeleton,
    weights: TensorSource,
    inputs: tuple[TensorType, ...],
    outputs: tuple[str, ...],
    length: Dynamic | None = None,
) -> Program:
    # What only other methods compute is left out before any weight is read.
    graph.graph.eliminate_dead_code()
    bind(graph, skeleton.aliases, weights)
    _name_inputs(graph, inputs)
    types = _output_types(graph, outputs, length)
    return Program(graph, Interface(inputs, types))


def _name_inputs(graph: GraphModule, inputs: tuple[TensorType, ...]) -> None:
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, tensor in zip(placeholders, inputs, strict=True):
        node.target = tensor.name
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    output = output_node(graph)
    values = output.all_input_nodes
    output.args = (tuple(values) if len(values) > 1 else values[0],)
    graph.recompile()


def _output_types(graph: GraphModule, names: tuple[str, ...], length: Dynamic | None) -> tuple[TensorType, ...]:
    """The outputs as they were traced; a dimension that varies is that of the source."""
    values = [node.meta["val"] for node in output_node(graph).all_input_nodes]
    shapes = [tuple(d if isinstance(d, int) else length for d in value.shape) for value in values]
    return tuple(
        TensorType(name, value.dtype, shape)  # type: ignore[arg-type]
        for name, value, shape in zip(names, values, shapes, strict=True)
    )
