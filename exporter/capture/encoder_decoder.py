"""Capture an encoder-decoder as three Programs, without family-specific code.

    encode   what the model reads (tokens, log-mel, sound)  -> states [1, T, C]
    cross    states [1, T, C]                               -> each decoder layer's keys and values of the encoder
    forward  tokens, positions, those keys and values       -> logits

The seams are transformers' own: ``AttentionInterface`` for attention (``capture/attention.py``), and the protocol of
``EncoderDecoderCache``: a decoder hands the keys and values that it computes from the encoder's states to the cache,
once, and reads them from there afterwards. In ``cross`` a cache that only remembers collects them, and in ``forward``
one that has them already hands them out as inputs, so that no layer computes them.

Where shapes are fixed, keys and values come by head, and ``encode`` and ``forward`` also read which tokens of a text
are padding (``ir/memory_inputs.py``): a mask, which transformers passes on as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from edgec.bundle.entry_points import memory_names
from edgec.exporter.capture import attention
from edgec.exporter.capture.decoder import Skeleton, TensorSource, bind, trace_module
from edgec.exporter.capture.layer_numbers import number_layers
from edgec.exporter.capture.mixed_rotations import refuse_mixed_rotations
from edgec.exporter.sources.decoders.positions import follow_positions
from edgec.exporter.sources.encoders.encoder_decoder import Source
from edgec.ir.memory_inputs import STATES, USED
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.reexport import export_any_size
from edgec.ir.spec import ModelSpec
from edgec.passes.contract import output_node
from edgec.passes.graph.functional import make_functional
from edgec.passes.static.finite_mask import HIDDEN


@dataclass(frozen=True)
class CapturedEncoderDecoder:
    """The programs of an encoder-decoder."""

    encode: Program
    cross: Program
    forward: Program


def capture_encoder_decoder(
    build: Callable[[], Skeleton],
    source: Source,
    spec: ModelSpec,
    weights: TensorSource,
    max_tokens: int,
    *,
    fixed: bool = False,
) -> CapturedEncoderDecoder:
    """Trace an encoder-decoder and bind its weights.

    Args:
        build: makes the model without weights; called for each program.
        source: what its encoder reads; of one length where ``fixed``.
        spec: the decoder's shape.
        weights: by the model's own parameter names.
        max_tokens: the longest sequence of one call of the decoder.
        fixed: keys and values are [1, G, T, D], not [1, T, G, D], and a text says which of its tokens are padding.

    Raises:
        InputError: E109, the architecture cannot be traced; E743, the decoder's rotations mix positions.
    """
    padded = fixed and source.is_text
    encode = _capture_encode(build(), source, weights, padded)
    states = encode.interface.outputs[0]
    cross = _capture_cross(build(), states, weights, fixed)
    skeleton = build()
    decoder = _Forward(skeleton.model, _width(states), by_head=fixed, padded=padded)
    memory = (*cross.interface.outputs, *((_used(source),) if padded else ()))
    forward = _capture_forward(decoder, skeleton, memory, spec, weights, max_tokens)
    return CapturedEncoderDecoder(encode, cross, forward)


def _width(states: TensorType) -> int:
    width = states.shape[-1]
    assert isinstance(width, int)
    return width


def _used(source: Source) -> TensorType:
    """Which tokens of a text are not padding, as an input."""
    return TensorType(USED, torch.float32, source.shape)


def padding_mask(used: Tensor) -> Tensor:
    """What is added to the scores of keys [1, 1, 1, T], from which of them are used [1, T]: 1, or 0 for padding."""
    return ((1.0 - used) * HIDDEN)[:, None, None]


class _Encoder(nn.Module):
    def __init__(self, model: Any, name: str) -> None:
        super().__init__()
        self.decoder, self.name = model, name

    def forward(self, source: Tensor, *used: Tensor) -> Tensor:
        return encoded(self.decoder, self.name, source, *used)


def encoded(model: Any, name: str, source: Tensor, *used: Tensor) -> Tensor:
    """The states [1, T, C] of a model's encoder; ``used``: which tokens of the source are not padding, if some are."""
    masks = {"attention_mask": padding_mask(*used)} if used else {}
    states: Tensor = model.get_encoder()(**{name: source}, **masks).last_hidden_state
    return states


class _Cross(nn.Module):
    def __init__(self, model: nn.Module, by_head: bool) -> None:
        super().__init__()
        self.decoder, self.by_head = model, by_head

    def forward(self, states: Tensor) -> tuple[Tensor, ...]:
        return memory_of(self.decoder, torch.zeros(1, 2, dtype=torch.long), states, self.by_head)


def memory_of(model: Any, tokens: Tensor, states: Tensor, by_head: bool) -> tuple[Tensor, ...]:
    """A decoder's keys and values of its encoder's states, layer by layer: [1, T, G, D], or [1, G, T, D] by head."""
    cache = remembering_cache()
    decode(model, tokens, states, cache)
    kept: Mapping[int, tuple[Tensor, Tensor]] = cache.cross_attention_cache.kept
    every = (value for layer in sorted(kept) for value in kept[layer])
    return tuple(value if by_head else value.transpose(1, 2) for value in every)


class _Forward(nn.Module):
    def __init__(self, model: nn.Module, width: int, *, by_head: bool, padded: bool) -> None:
        super().__init__()
        self.decoder, self.width, self.by_head, self.padded = model, width, by_head, padded

    def forward(self, tokens: Tensor, positions: Tensor, *memory: Tensor) -> Tensor:
        kept, used = (memory[:-1], memory[-1:]) if self.padded else (memory, ())
        cache = remembering_cache(kept if self.by_head else tuple(value.transpose(1, 2) for value in kept))
        # Only its length is read: the layers have their keys and values.
        states = torch.zeros(1, kept[0].shape[2 if self.by_head else 1], self.width)
        with attention.query_positions(positions):
            return decode(self.decoder, tokens, states, cache, *used)


def decode(model: Any, tokens: Tensor, states: Tensor, cache: Any = None, *used: Tensor) -> Tensor:
    """The logits [1, S, V] of a decoder after an encoder's states [1, T, C]; ``used`` as in ``encoded``."""
    from transformers.modeling_outputs import BaseModelOutput

    read = BaseModelOutput(last_hidden_state=states)
    read.attention_mask = None  # Moonshine's decoder asks for it: nothing was padded.
    options = {"use_cache": False} if cache is None else {"use_cache": True, "past_key_values": cache}
    masks = {"attention_mask": padding_mask(*used)} if used else {}
    logits: Tensor = model(decoder_input_ids=tokens, encoder_outputs=read, **options, **masks).logits
    return logits


def remembering_cache(memory: tuple[Tensor, ...] = ()) -> Any:
    """A cache that forgets nothing because it holds one call only, with the encoder's keys and values if given."""
    from transformers.cache_utils import Cache, EncoderDecoderCache

    class OneCall(Cache):  # type: ignore[misc]
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


def _capture_encode(skeleton: Skeleton, source: Source, weights: TensorSource, padded: bool) -> Program:
    inputs = (source.tensor_type(), *((_used(source),) if padded else ()))
    examples = tuple(torch.zeros([_example(d) for d in each.shape], dtype=each.dtype) for each in inputs)
    shapes: dict[str, Any] = {"source": _dims(source.shape), **({"used": ({},)} if padded else {})}
    graph = trace_module(_Encoder(skeleton.model, source.name), skeleton.model, examples, shapes, export_any_size)
    number_layers(graph)
    # What is folded must not be written into: T5 adds to its buckets in place.
    make_functional(graph)
    return _program(graph, skeleton, weights, inputs, (STATES,), source.positions)


def _capture_cross(skeleton: Skeleton, states: TensorType, weights: TensorSource, by_head: bool) -> Program:
    example = torch.zeros([_example(d) for d in states.shape])
    graph = trace_module(_Cross(skeleton.model, by_head), skeleton.model, (example,), {"states": _dims(states.shape)})
    names = memory_names(len(output_node(graph).all_input_nodes) // 2)
    return _program(graph, skeleton, weights, (states,), names, _varying(states))


def _capture_forward(
    decoder: _Forward,
    skeleton: Skeleton,
    memory: tuple[TensorType, ...],
    spec: ModelSpec,
    weights: TensorSource,
    max_tokens: int,
) -> Program:
    size = Dynamic("S", 1, max_tokens)
    tokens, places = TensorType("tokens", torch.int64, (1, size)), TensorType("positions", torch.int64, (size,))
    length = torch.export.Dim("S", min=2, max=max_tokens)
    example = (torch.zeros(1, 8, dtype=torch.long), torch.arange(8))
    read = tuple(torch.zeros([_example(d) for d in value.shape]) for value in memory)
    shapes = {"tokens": {1: length}, "positions": {0: length}, "memory": tuple(_dims(v.shape) for v in memory)}
    graph = trace_module(decoder, skeleton.model, (*example, *read), shapes)
    follow_positions(graph)
    program = _program(graph, skeleton, weights, (tokens, places, *memory), ("logits",))
    refuse_mixed_rotations(program.graph, max_tokens, type(skeleton.model).__name__)
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
