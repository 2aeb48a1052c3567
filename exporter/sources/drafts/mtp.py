"""Multi-token predictors inside checkpoints: one further decoder layer, whose tensors transformers leaves out.

    embedding of token i+1 -> norm --,
    hidden state of token i -> norm -- cat -> linear [H,2H] -> decoder layer -> norm -> the model's lm_head

It is built as a model of the same class with one layer, whose last norm is the predictor's, and whose embedding and
lm_head are the model's. The names are those of two families of checkpoints:

    DeepSeek V3, GLM-4-MoE   model.layers.N.{enorm, hnorm, eh_proj, shared_head.norm}, the layer beside them; N: the
                             number of layers; copies of the embedding and the lm_head, which transformers ignores, too
    Qwen3-Next, Qwen3.5      mtp.{pre_fc_norm_embedding, pre_fc_norm_hidden, fc, norm}, mtp.layers.0

(transformers 5.23, modeling_layers.MtpModel and conversion_mapping; vLLM's Qwen3NextMultiTokenPredictor has the same
order: the embedding first, and the hidden state after the model's last norm.)
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from edgec.bundle.predictor import MTP
from edgec.errors import InputError
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.drafts.predictor import Predictor
from edgec.exporter.sources.drafts.renamed import Renamed
from edgec.exporter.sources.files.pickle_weights import PickledWeights
from edgec.exporter.sources.model_build import untie
from edgec.exporter.sources.model_source import ModelSource, build_generating
from edgec.exporter.sources.packed.weights import PackedWeights
from edgec.exporter.sources.source_weights import bind_weights
from edgec.exporter.sources.weights.conversion import ConvertedWeights
from edgec.exporter.sources.weights.names import BoundWeights
from edgec.exporter.sources.weights.streamed import WeightFiles, Weights
from edgec.ir.spec import ModelSpec

# Where a predictor's tensors go in the model of one layer; the first that matches, None: it is left out.
_PLACES: tuple[tuple[str, str | None], ...] = (
    (r"(?:pre_fc_norm_embedding|enorm)\.(.*)", r"join.enorm.\1"),
    (r"(?:pre_fc_norm_hidden|hnorm)\.(.*)", r"join.hnorm.\1"),
    (r"(?:fc|eh_proj)\.(.*)", r"join.eh_proj.\1"),
    (r"(?:shared_head\.)?norm\.(.*)", r"model.norm.\1"),
    (r"(?:shared_head\.head|embed_tokens)\..*", None),
    (r"layers\.0\.(.*)", r"model.layers.0.\1"),
    (r"(.*)", r"model.layers.0.\1"),
)
_SHARED = re.compile(r"(?:.*\.)?(?:embed_tokens|lm_head)\.weight")
_COUNTS = ("mtp_num_hidden_layers", "num_mtp_layers", "num_nextn_predict_layers")
_ANY_LAYER = re.compile(r"(?:.*\.)?layers\.(\d+)\..*")


class Projected(nn.Module):
    """The embedding of the next token and the hidden state, each normed, joined and projected: [1, S, H] of both."""

    def __init__(self, norm: Any, width: int, eps: float) -> None:
        super().__init__()
        self.enorm, self.hnorm = norm(width, eps=eps), norm(width, eps=eps)
        self.eh_proj = nn.Linear(2 * width, width, bias=False)

    def forward(self, embedded: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """The input of the layer."""
        result: torch.Tensor = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], -1))
        return result


@dataclass(frozen=True)
class MtpPredictor(Predictor):
    """A checkpoint's own predictor."""

    def build_on(self, device: str | None, attn_implementation: str) -> Any:
        """The model of one layer, with uninitialised parameters; as ``ModelSource.build_on``."""
        return untie(_built(self.config, device, attn_implementation), self.weights.untied)


def open_predictor(source: ModelSource, spec: ModelSpec) -> MtpPredictor:
    """The predictor inside a model's checkpoint.

    Args:
        source: of a decoder.
        spec: its shape.

    Raises:
        InputError: E846, the checkpoint has none, or one that edgec cannot put into an artifact; E106, its tensors
            are not those that the config promises.
    """
    stored = _stored(source)
    names = _names(stored, len(spec.layers))
    config = _one_layer(source)
    own = model_spec(config.to_dict()).layers[0]
    model = _built(config, "meta", "eager")
    weights = bind_weights(model, Renamed(stored, names), source.config)  # type: ignore[arg-type]
    layer = replace(own, index=len(spec.layers), window=None)
    return MtpPredictor(MTP, config, weights, replace(spec, layers=(*spec.layers, layer)))


def _stored(source: ModelSource) -> Weights:
    """The tensors as they are named in the checkpoint's files."""
    bound = source.weights
    converted = bound.base if isinstance(bound, BoundWeights) else None
    stored = converted.base if isinstance(converted, ConvertedWeights) else None
    if not isinstance(stored, WeightFiles | PickledWeights | PackedWeights):
        kind = "its weights are random" if bound is None or not isinstance(bound, BoundWeights) else "it is a GGUF file"
        raise no_predictor(source.source, f"{kind}, and predictors are read from the tensors of safetensors")
    return stored


def _names(stored: Weights, layers: int) -> dict[str, str]:
    """The stored name of each tensor of the model of one layer."""
    own: dict[str, str] = {}
    shared: dict[str, str] = {}
    prefixes = (MTP + ".", f"model.layers.{layers}.")
    for name in stored.names():
        prefix = next((each for each in prefixes if name.startswith(each)), None)
        place = _place(name.removeprefix(prefix)) if prefix else None
        if place is not None:
            own[place] = name
        elif prefix is None and _SHARED.fullmatch(name) and not _ANY_LAYER.fullmatch(name):
            shared[name] = name
    if "join.eh_proj.weight" not in own:
        raise no_predictor("the checkpoint", f"it has no tensors {' or '.join(f'{each}*' for each in prefixes)}")
    return {**shared, **own}


def _place(name: str) -> str | None:
    pattern, place = next((pattern, place) for pattern, place in _PLACES if re.fullmatch(pattern, name))
    return None if place is None else re.sub(f"^{pattern}$", place, name)


def _one_layer(source: ModelSource) -> Any:
    """The config of the model of one layer, which attends to everything (transformers' ``get_mtp_config``)."""
    config = deepcopy(source.hf_config)
    text = config.get_text_config(decoder=True)
    count = next((value for name in _COUNTS if isinstance(value := getattr(text, name, None), int)), 1)
    if count != 1:
        raise no_predictor(source.source, f"its predictor has {count} layers, and edgec takes one")
    if getattr(text, "mtp_use_dedicated_embeddings", False):
        raise no_predictor(source.source, "its predictor has an embedding of its own")
    text.num_hidden_layers = 1
    changes = {"layer_types": ["full_attention"], "mlp_layer_types": ["sparse"], "first_k_dense_replace": 0}
    for name, value in changes.items():
        if getattr(text, name, None) is not None:
            setattr(text, name, value)
    return config


def _built(config: Any, device: str | None, attn_implementation: str) -> Any:
    """The model of one layer and what joins its two inputs."""
    model = build_generating("decoder", config, device, attn_implementation, torch.float32, False)
    text = config.get_text_config(decoder=True)
    norm = type(model.get_decoder().norm)
    with torch.device(device) if device else nullcontext():
        model.join = Projected(norm, text.hidden_size, text.rms_norm_eps)
    return model


def no_predictor(where: str, why: str) -> InputError:
    """The error for a checkpoint without a predictor that edgec can use."""
    return InputError(
        what="This checkpoint has no multi-token predictor that edgec can put into an artifact.",
        where=where,
        why=why,
        fix="leave --draft-heads mtp out: edgec run drafts with n-grams, or with a smaller model's bundle",
        code="E846",
    )
