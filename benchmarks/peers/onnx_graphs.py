"""The graphs that ONNX Runtime gets of a model of transformers: its own modules, with keys and values as inputs.

    speech     encoder: features -> states                     cross: states -> keys and values of every decoder layer
               decoder: tokens, past, cross -> logits of the last token, present
    seeing     see: pixels -> rows                             decoder: tokens, features, seen -> logits, present
    image      model: pixels -> logits
    sentence   model: tokens, mask -> vector

As optimum exports encoder-decoders, except that the prompt goes through the decoder that also reads single tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache

_HIDDEN = torch.finfo(torch.float32).min
_EXAMPLE, _PAST = 6, 5


@dataclass(frozen=True)
class OnnxGraph:
    """What is exported as one file.

    Attributes:
        module: what it computes.
        inputs: examples by name.
        outputs: names.
        varying: by input, the dimensions that vary, and their names.
    """

    module: nn.Module
    inputs: Mapping[str, Tensor | tuple[Tensor, ...]]
    outputs: tuple[str, ...]
    varying: Mapping[str, Mapping[int, str]]


class GrownCache(Cache):  # type: ignore[misc]
    """Keys and values of one call after those that were given, [1, G, P, D] each."""

    def __init__(self, past: tuple[Tensor, ...] = ()) -> None:
        self.layers: list[Any] = []
        self.past = past
        self.present: dict[int, tuple[Tensor, Tensor]] = {}

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append a layer's keys and values."""
        if self.past:
            key = torch.cat([self.past[2 * layer], key], 2)
            value = torch.cat([self.past[2 * layer + 1], value], 2)
        self.present[layer] = (key, value)
        return key, value

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Only asked where no positions are given."""
        return 0

    @property
    def flat(self) -> tuple[Tensor, ...]:
        """What was appended, layer by layer."""
        return tuple(value for layer in sorted(self.present) for value in self.present[layer])


@dataclass(frozen=True)
class CrossLayer:
    """A layer's keys and values of the encoder, as transformers' cache holds them."""

    keys: Tensor
    values: Tensor


def causal_mask(tokens: int, past: int) -> Tensor:
    """What is added to the scores of a call of some tokens after others, [1, 1, S, P + S]."""
    asking, asked = torch.arange(tokens)[:, None] + past, torch.arange(past + tokens)[None]
    return torch.where(asked <= asking, 0.0, _HIDDEN)[None, None]


class _Encoder(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, features: Tensor) -> Tensor:
        states: Tensor = self.encoder(features).last_hidden_state
        return states


class _Cross(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.layers: Any = nn.ModuleList(layer.encoder_attn for layer in model.model.decoder.layers)

    def forward(self, states: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            part(states).unflatten(-1, (layer.num_heads, -1)).transpose(1, 2)
            for layer in self.layers
            for part in (layer.k_proj, layer.v_proj)
        )


class _Decoder(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.decoder, self.head, self.width = model.model.decoder, model.proj_out, model.config.d_model

    def forward(self, tokens: Tensor, past: tuple[Tensor, ...], cross: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        grown, count, before = GrownCache(past), tokens.shape[1], past[0].shape[2]
        cache = EncoderDecoderCache(grown, GrownCache())
        pairs = zip(cross[::2], cross[1::2], strict=True)
        cache.cross_attention_cache.layers = [CrossLayer(key, value) for key, value in pairs]
        cache.is_updated = dict.fromkeys(range(len(cross) // 2), True)
        hidden = self.decoder(
            tokens,
            attention_mask=causal_mask(count, before),
            # Only asked for whether it is there: the layers have their keys and values.
            encoder_hidden_states=torch.zeros(1, 1, self.width),
            past_key_values=cache,
            position_ids=(torch.arange(count) + before)[None],
            use_cache=True,
        ).last_hidden_state
        return (self.head(hidden[:, -1:]), *grown.flat)


def _speech(folder: Path) -> dict[str, OnnxGraph]:
    from transformers import WhisperForConditionalGeneration

    model: Any = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    config = model.config
    count, heads = config.decoder_layers, config.decoder_attention_heads
    kept = [f"{role}_{layer}" for layer in range(count) for role in ("key", "value")]

    def memory(length: int) -> tuple[Tensor, ...]:
        # Tensors of their own: one that is given twice becomes one input.
        return tuple(torch.zeros(1, heads, length, config.d_model // heads) for _ in kept)

    given: dict[str, Any] = {"tokens": torch.zeros(1, _EXAMPLE, dtype=torch.long), "past": memory(_PAST)}
    states = torch.zeros(1, config.max_source_positions, config.d_model)
    features = torch.zeros(1, config.num_mel_bins, 2 * config.max_source_positions)
    crossed, present = tuple(f"cross_{name}" for name in kept), tuple(f"present_{name}" for name in kept)
    return {
        "encoder": OnnxGraph(_Encoder(model), {"features": features}, ("states",), {}),
        "cross": OnnxGraph(_Cross(model), {"states": states}, crossed, {}),
        "decoder": OnnxGraph(
            _Decoder(model),
            {**given, "cross": memory(config.max_source_positions)},
            ("logits", *present),
            {"tokens": {1: "S"}, "past": {2: "P"}},
        ),
    }


class _VisionEncoder(nn.Module):
    """The image encoder on one whole tile; the places of its patches are constants then."""

    places: Tensor

    def __init__(self, model: Any, size: int) -> None:
        super().__init__()
        self.tower, self.connector = model.model.vision_model, model.model.connector
        embeddings = self.tower.embeddings
        self.patches = embeddings.patch_embedding
        blank, side = torch.zeros(1, 3, size, size), size // embeddings.patch_size
        whole = torch.ones(1, side, side, dtype=torch.bool)
        with torch.no_grad():
            places = embeddings(blank, whole) - self.patches(blank).flatten(2).transpose(1, 2)
        self.register_buffer("places", places)

    def forward(self, pixels: Tensor) -> Tensor:
        embedded = self.patches(pixels).flatten(2).transpose(1, 2) + self.places
        seen = self.tower.encoder(inputs_embeds=embedded, attention_mask=None).last_hidden_state
        rows: Tensor = self.connector(self.tower.post_layernorm(seen))
        return rows[0]


class _VisionDecoder(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.decoder, self.head = model.model.text_model, model.lm_head

    def forward(self, tokens: Tensor, features: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
        count, grown = tokens.shape[1], GrownCache()
        hidden = self.decoder(
            inputs_embeds=torch.where(seen, features, self.decoder.get_input_embeddings()(tokens)),
            attention_mask=causal_mask(count, 0),
            past_key_values=grown,
            position_ids=torch.arange(count)[None],
            use_cache=True,
        ).last_hidden_state
        return (self.head(hidden[:, -1:]), *grown.flat)


def _with_vision(folder: Path) -> dict[str, OnnxGraph]:
    from transformers import AutoModelForImageTextToText

    model: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    text, size = model.config.text_config, model.config.vision_config.image_size
    tokens = torch.zeros(1, _EXAMPLE, dtype=torch.long)
    rows = {"features": torch.zeros(1, _EXAMPLE, text.hidden_size), "seen": torch.zeros(1, _EXAMPLE, 1) > 0}
    present = [f"present_{role}_{layer}" for layer in range(text.num_hidden_layers) for role in ("key", "value")]
    varying = {name: {1: "S"} for name in ("tokens", *rows)}
    return {
        "vision_encoder": OnnxGraph(
            _VisionEncoder(model, size), {"pixels": torch.zeros(1, 3, size, size)}, ("rows",), {}
        ),
        "decoder": OnnxGraph(_VisionDecoder(model), {"tokens": tokens, **rows}, ("logits", *present), varying),
    }


class _Image(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.model(pixels).logits
        return logits


def _image(folder: Path) -> dict[str, OnnxGraph]:
    from transformers import AutoModelForImageClassification

    model: Any = AutoModelForImageClassification.from_pretrained(folder, dtype=torch.float32).eval()
    size, channels = model.config.image_size, model.config.num_channels
    return {"model": OnnxGraph(_Image(model), {"pixels": torch.zeros(1, channels, size, size)}, ("logits",), {})}


class _Sentence(nn.Module):
    """Token vectors, their mean over the mask, and that at length 1, as sentence-transformers does for MiniLM."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        states, kept = self.model(tokens, mask).last_hidden_state, mask[..., None].float()
        return nn.functional.normalize((states * kept).sum(1) / kept.sum(1), dim=-1)


def _sentence(folder: Path) -> dict[str, OnnxGraph]:
    from transformers import AutoModel

    model: Any = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = torch.zeros(1, _EXAMPLE, dtype=torch.long)
    varying = {"tokens": {1: "S"}, "mask": {1: "S"}}
    given = {"tokens": tokens, "mask": torch.ones_like(tokens)}
    return {"model": OnnxGraph(_Sentence(model), given, ("vector",), varying)}


GRAPHS: Mapping[str, Callable[[Path], dict[str, OnnxGraph]]] = {
    "speech": _speech,
    "seeing": _with_vision,
    "image": _image,
    "sentence": _sentence,
}
