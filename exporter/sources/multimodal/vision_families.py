"""The families of vision-language models: how the image encoder of each is reached, and how its decoder is asked.

A family's image encoder and projector are its own code; what differs between families is under which names they are
reached, and in which shape images are handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from edgec.bundle.entry_points import Ahead, PatchesInfo, PatchOrder
from edgec.exporter.sources.multimodal.image_patches import (
    Computed,
    attended,
    cut_lines,
    cut_patches,
    cut_whole,
    in_lines,
    in_windows,
    stretched,
)


@dataclass(frozen=True)
class DecoderCall:
    """What the decoder of a vision-language model reads in a call.

    Attributes:
        tokens: ids, int64 [1, S].
        seen: which of them are rows, bool [1, S, 1].
        embedded: embeddings and rows, float32 [1, S, hidden].
        places: positions as the model takes them.
        deeper: further rows for the first layers, each as ``embedded``, 0 where there is no image.
    """

    tokens: Tensor
    seen: Tensor
    embedded: Tensor
    places: Tensor
    deeper: Sequence[Tensor] = ()


def _logits(model: Any, call: DecoderCall, **more: Any) -> Tensor:
    output = model(inputs_embeds=call.embedded, position_ids=call.places, use_cache=False, **more)
    logits: Tensor = output.logits
    return logits


@dataclass(frozen=True)
class Family:
    """How a family of vision-language models is asked.

    Attributes:
        see: a model, and what its own ``get_image_features`` is given for one tile -> the tile's rows, float32
            [T, width]; free of control flow that depends on values.
        given: how a tile is cut, and the tile, float32 [1, C, H, W] -> the arguments of the model's own functions.
        read: a model and what it reads in a call -> logits.
        ahead: what sees tokens after itself.
        kinds: which tokens are rows, bool [1, L], and the prompt's length -> what the model's own function takes as
            ``token_type_ids`` or ``mm_token_type_ids``, where it wants to be told.
        first_place: the position that the model gives to the first token.
        computed: what an encoder of images of any size computes of that size; none: its tiles have one size.
        order: how the processor of such a family hands over patches.
        merged_by: the field of the config that says how many patches a row covers, along each side.
        mrope: whether positions have three parts.
        lacking: a config -> why a model of the family cannot be exported with its vision; empty where it can.
    """

    see: Callable[[Any, Mapping[str, Any]], Tensor]
    given: Callable[[PatchesInfo | None, Tensor], Mapping[str, Tensor]] = lambda _, pixels: {"pixel_values": pixels}
    read: Callable[[Any, DecoderCall], Tensor] = _logits
    ahead: Ahead = "none"
    kinds: Callable[[Tensor, int], Mapping[str, Tensor]] = lambda seen, prompt: {}
    first_place: int = 0
    computed: tuple[Computed, ...] = ()
    order: PatchOrder = "blocks"
    merged_by: str = "spatial_merge_size"
    mrope: bool = False
    lacking: Callable[[Any], str] = lambda _: ""


def rows_of(output: Any) -> Tensor:
    """The rows that a model's own function made of one tile, [T, hidden].

    Where rows for the decoder's first layers come with them (DeepStack, arXiv 2406.04334), these lie behind each row:
    [T, (1 + levels) * hidden].
    """
    levels = (output.pooler_output, *(getattr(output, "deepstack_features", None) or ()))
    rows = [torch.cat([each.flatten(0, -2) for each in level]) for level in levels]
    return rows[0] if len(rows) == 1 else torch.cat(rows, -1)


def _own_features(model: Any, given: Mapping[str, Any]) -> Tensor:
    return rows_of(model.get_image_features(**given, return_dict=True))


def _connected(model: Any, given: Mapping[str, Any]) -> Tensor:
    """The rows without the search for padding among the tiles, which depends on their values."""
    seen = model.model.vision_model(pixel_values=given["pixel_values"][0], return_dict=True).last_hidden_state
    rows: Tensor = model.model.connector(seen)
    return rows.flatten(0, 1)


def _several_tiles(_: PatchesInfo | None, pixels: Tensor) -> Mapping[str, Tensor]:
    return {"pixel_values": pixels[None]}


def _pooled(model: Any, given: Mapping[str, Any]) -> Tensor:
    """The rows of Gemma 4, whose own function looks for padding: blocks of patches are averaged."""
    tower, places, (high, wide) = model.model.vision_tower, given["image_position_ids"], given["grid"]
    embedded = tower.patch_embedder(given["pixel_values"], places, torch.zeros(places.shape[:2], dtype=torch.bool))
    seen = tower.encoder(inputs_embeds=embedded, attention_mask=None, pixel_position_ids=places).last_hidden_state
    block = tower.config.pooling_kernel_size
    blocks = seen.reshape(high // block, block, wide // block, block, -1).mean((1, 3)).flatten(0, 1)
    rows = blocks * tower.pooler.root_hidden_size
    if tower.config.standardize:
        rows = (rows - tower.std_bias) * tower.std_scale
    made: Tensor = model.model.embed_vision(inputs_embeds=rows)
    return made


def _unshuffled(model: Any, given: Mapping[str, Any]) -> Tensor:
    """The rows of LFM2-VL, whose own function cuts padding off: learned positions are stretched to one size."""
    tower, (high, wide) = model.model.vision_tower, given["grid"]
    learned = tower.embeddings.position_embedding.weight.float()
    square = learned.reshape(1, *[tower.embeddings.position_embedding_size] * 2, -1).permute(0, 3, 1, 2)
    places = F.interpolate(square, size=(high, wide), mode="bilinear", align_corners=False, antialias=True)
    embedded = tower.embeddings.patch_embedding(given["pixel_values"]) + places.flatten(2).transpose(1, 2)
    seen = tower.post_layernorm(tower.encoder(inputs_embeds=embedded, attention_mask=None).last_hidden_state)
    made: Tensor = model.model.multi_modal_projector(seen.reshape(1, high, wide, -1))
    return made.flatten(0, 2)


def _with_layer_embeddings(model: Any, call: DecoderCall) -> Tensor:
    """The logits of Gemma 4, where each layer has embeddings of its own: a row has those of padding.

    A placeholder that the model writes itself has the embedding of padding too.
    """
    text, blank = model.config.text_config, call.seen[..., 0]
    for mark in ("image_token_id", "video_token_id", "audio_token_id"):
        if (number := getattr(model.config, mark)) is not None:
            blank = blank | (call.tokens == number)
    tokens = torch.where(blank, text.pad_token_id, call.tokens)
    call = replace(call, embedded=torch.where(call.seen, call.embedded, model.get_input_embeddings()(tokens)))
    if not text.hidden_size_per_layer_input:
        return _logits(model, call)
    return _logits(model, call, per_layer_inputs=model.model.language_model.get_per_layer_inputs(tokens))


def _deepened(model: Any, call: DecoderCall) -> Tensor:
    """The logits where the first layers get more rows: added everywhere, as they are 0 where there is no image."""
    text = model.model.language_model
    text._deepstack_process = lambda hidden, _, rows: hidden + rows
    given = {"inputs_embeds": call.embedded, "position_ids": call.places, "deepstack_visual_embeds": call.deeper}
    logits: Tensor = model.lm_head(text(**given, use_cache=False).last_hidden_state)
    return logits


def _after_prompt(seen: Tensor, prompt: int) -> Mapping[str, Tensor]:
    return {"token_type_ids": (torch.arange(seen.shape[1]) >= prompt).long().unsqueeze(0)}


def _qwen(*computed: Computed, **more: Any) -> Family:
    """A family whose encoder reads patches of images of any size, and whose positions have three parts."""
    kinds = lambda seen, _: {"mm_token_type_ids": seen.long()}  # noqa: E731
    return Family(_own_features, cut_patches, computed=(attended, *computed), kinds=kinds, mrope=True, **more)


def _gemma4_lacks(config: Any) -> str:
    if config.vision_config is None:
        return "its config has no vision_config"
    ahead = config.text_config.use_bidirectional_attention
    return f"its use_bidirectional_attention is {ahead!r}: tokens see further than its windows reach" if ahead else ""


FAMILIES: Mapping[str, Family] = {
    "gemma3": Family(_own_features, ahead="image", kinds=lambda seen, _: {"token_type_ids": seen.long()}),
    "paligemma": Family(_own_features, ahead="prompt", kinds=_after_prompt, first_place=1),
    "llava": Family(_own_features),
    "internvl": Family(_own_features),
    "idefics3": Family(_connected, _several_tiles),
    "smolvlm": Family(_connected, _several_tiles),
    "qwen2_vl": _qwen(),
    "qwen2_5_vl": _qwen(in_windows),
    "qwen3_vl": _qwen(stretched, read=_deepened),
    "qwen3_5": _qwen(stretched),
    "gemma4": Family(
        _pooled,
        cut_lines,
        _with_layer_embeddings,
        computed=(in_lines,),
        order="lines",
        merged_by="pooling_kernel_size",
        lacking=_gemma4_lacks,
    ),
    "lfm2_vl": Family(_unshuffled, cut_whole, computed=(in_lines,), order="tiles", merged_by="downsample_factor"),
}
"""By the config's ``model_type``; other families export without their vision."""
