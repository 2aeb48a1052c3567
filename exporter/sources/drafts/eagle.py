"""EAGLE-3 folders: a predictor of one layer that goes on from the hidden states before three of its model's layers.

    hidden states before layers 2, L // 2 and L - 3 -> fc [H,3H] --,
    embedding of the next token -> norm --,                        |
    that, or the predictor's own --- norm -- cat [1,S,2H] -> attention -> + -> MLP -> + -> its hidden state
                                                                                           -> norm -> lm_head [Vd,H]

Tensors: ``fc.weight``, ``midlayer.*``, ``norm.weight``, ``lm_head.weight`` over a reduced vocabulary, ``d2t`` [Vd]
(what is added to a reduced id) and ``t2d`` [V]; the embedding is the model's (github.com/SafeAILab/EAGLE,
model/cnets.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from edgec.bundle.limited_json import JsonKind, read_object
from edgec.bundle.predictor import EAGLE3
from edgec.errors import InputError
from edgec.exporter.sources.drafts.predictor import Predictor
from edgec.exporter.sources.drafts.renamed import Renamed
from edgec.exporter.sources.files.model_folder import CONFIG
from edgec.exporter.sources.files.pickle_weights import open_pickles
from edgec.exporter.sources.files.plain_files import is_plain
from edgec.exporter.sources.model_build import expected_shapes
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.weights.names import check_weights
from edgec.exporter.sources.weights.streamed import SINGLE, Weights, open_files
from edgec.ir.spec import LayerSpec, ModelSpec

PICKLE = "pytorch_model.bin"
_CONFIG = JsonKind("The config of the predictor is unusable.", "use it as published", "E843")
# Where the folder's tensors go in the model of one layer; those that are read beside it.
_PREFIXES = (("midlayer.", "model.layers.0."), ("norm.", "lm_head.norm."), ("lm_head.", "lm_head.linear."))
_BESIDE = ("fc.weight", "d2t", "t2d")
_EMBEDDING = "model.embed_tokens.weight"
# Tokens that a reduced vocabulary lacks: far below every logit, and finite.
_ABSENT = -1e4


class EagleLayer(nn.Module):
    """Llama's layer whose attention reads the embedding beside the hidden state, [1, S, 2H] in, [1, S, H] out."""

    def __init__(self, config: Any) -> None:
        from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm

        super().__init__()
        layer, width = LlamaDecoderLayer(config, 0), config.hidden_size
        self.self_attn, self.mlp = layer.self_attn, layer.mlp
        self.input_layernorm, self.post_attention_layernorm = layer.input_layernorm, layer.post_attention_layernorm
        self.hidden_norm = LlamaRMSNorm(width, eps=config.rms_norm_eps)
        for name in ("q_proj", "k_proj", "v_proj"):
            old = getattr(self.self_attn, name)
            setattr(self.self_attn, name, nn.Linear(2 * width, old.out_features, bias=old.bias is not None))

    def forward(self, hidden_states: Tensor, **others: Any) -> Tensor:
        """One layer, as EAGLE's LlamaDecoderLayeremb computes it."""
        embedded, hidden = hidden_states.chunk(2, -1)
        both = torch.cat([self.input_layernorm(embedded), self.hidden_norm(hidden)], -1)
        attended, _ = self.self_attn(hidden_states=both, **others)
        value = hidden + attended
        result: Tensor = value + self.mlp(self.post_attention_layernorm(value))
        return result


class ReducedHead(nn.Module):
    """The last norm and an lm_head over a reduced vocabulary, whose logits are put in the places of the whole one's."""

    def __init__(self, config: Any, reduced: int, places: Tensor) -> None:
        from transformers.models.llama.modeling_llama import LlamaRMSNorm

        super().__init__()
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.linear = nn.Linear(config.hidden_size, reduced, bias=False)
        self.register_buffer("places", places, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits [1, S, V] after hidden states [1, S, H]."""
        reduced = nn.functional.pad(self.linear(self.norm(hidden)), (0, 1), value=_ABSENT)
        assert isinstance(self.places, Tensor)
        return reduced.index_select(2, self.places)


class ConcatenatedInputs(nn.Module):
    """Both inputs side by side: the layer norms them itself."""

    def forward(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        """[1, S, 2H] of twice [1, S, H]."""
        return torch.cat([embedded, hidden], -1)


@dataclass(frozen=True)
class EaglePredictor(Predictor):
    """An EAGLE-3 predictor, checked against its model.

    Attributes:
        places: int64 [V], where each token's logit stands among the reduced ones; ``reduced``, one past them, where
            it has none.
        reduced: tokens that the predictor's lm_head knows.
    """

    places: Tensor | None = None
    reduced: int = 0

    def build_on(self, device: str | None, attn_implementation: str) -> Any:
        """The model of one layer, with uninitialised parameters."""
        assert self.places is not None
        return _built(self.config, self.reduced, self.places, device, attn_implementation)


def open_eagle(folder: Path, source: ModelSource, spec: ModelSpec, allow_pickle: bool = False) -> EaglePredictor:
    """The predictor of an EAGLE-3 folder.

    Args:
        folder: holds ``config.json`` and the tensors.
        source: of the model that it was trained for.
        spec: that model's shape.
        allow_pickle: read ``pytorch_model.bin`` where there are no safetensors.

    Raises:
        InputError: E105, E107, the file; E106, tensors that the config does not promise, or of other shapes; E843, it
            belongs to another model; E844, its tables of tokens make no sense; E846, it is of another form.
    """
    config, stored = _config(folder, spec), _stored(folder, allow_pickle)
    names, places, reduced = _names(stored), *_places(folder, stored, spec.vocab_size)
    model = _built(config, reduced, places, "meta", "eager")
    assert source.weights is not None
    weights = check_weights(expected_shapes(model), Renamed(stored, names, {_EMBEDDING: source.weights}))
    matrix = stored.tensor("fc.weight") if "fc.weight" in stored.names() else torch.empty(0)
    if tuple(matrix.shape) != (spec.hidden_size, 3 * spec.hidden_size):
        raise _other(folder, f"fc.weight has shape {list(matrix.shape)}, the hidden size is {spec.hidden_size}")
    count = len(spec.layers)
    own = LayerSpec(count, config.num_attention_heads, config.num_key_value_heads, config.head_dim)
    return EaglePredictor(
        name=EAGLE3,
        config=config,
        weights=weights,
        spec=replace(spec, layers=(*spec.layers, own)),
        files=(_file(folder), folder / CONFIG),
        taps=(2, count // 2, count - 3),
        matrix=matrix,
        places=places,
        reduced=reduced,
    )


def _config(folder: Path, spec: ModelSpec) -> Any:
    """Transformers' config of a Llama of one layer."""
    from transformers import LlamaConfig

    raw = read_object(
        folder / CONFIG, JsonKind("The config of the predictor is unusable.", "use it as published", "E843")
    )
    if raw.get("model_type", "llama") != "llama":
        raise _form(folder, f"its layer is that of {raw.get('model_type')}, and edgec builds Llama's")
    eagle = raw.get("eagle_config")
    if isinstance(eagle, Mapping) and eagle.get("eagle_aux_hidden_state_layer_ids"):
        raise _form(folder, "it names layers of its own, which edgec does not read")
    if len(spec.layers) < 5:
        raise _other(folder, f"the model has {len(spec.layers)} layers, and it reads before the second and third last")
    try:
        config = LlamaConfig.from_dict({**deepcopy(raw), "vocab_size": spec.vocab_size, "num_hidden_layers": 1})
        sizes = (config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.head_dim)
        good = all(isinstance(size, int) and size > 0 for size in sizes)
    except Exception as error:  # transformers checks configs in many ways.
        raise _form(folder, " ".join(str(error).split())[:200]) from error
    if not good or config.hidden_size != spec.hidden_size:
        raise _other(folder, f"its hidden size is {config.hidden_size}, the model's {spec.hidden_size}")
    config.tie_word_embeddings = False
    return config


def _file(folder: Path) -> Path:
    """The file of the tensors: safetensors, else a pickle."""
    return (folder / SINGLE) if is_plain(folder / SINGLE) else folder / PICKLE


def _stored(folder: Path, allow_pickle: bool) -> Weights:
    file = _file(folder)
    return open_files((file,)) if file.name == SINGLE else open_pickles((file,), allow_pickle)


def _names(stored: Weights) -> dict[str, str]:
    """The stored name of each tensor of the model of one layer."""
    found: dict[str, str] = {}
    for name in stored.names():
        if name not in _BESIDE and name != "embed_tokens.weight":
            place = next((new + name.removeprefix(old) for old, new in _PREFIXES if name.startswith(old)), name)
            found[place] = name
    return found


def _places(folder: Path, stored: Weights, vocabulary: int) -> tuple[Tensor, int]:
    """Where each of the model's tokens stands in the reduced vocabulary, and how many that one has."""
    entries = stored.names()
    head, table = entries.get("lm_head.weight"), entries.get("d2t")
    reduced = head.shape[0] if head is not None and len(head.shape) == 2 else 0
    if not reduced or table is None or table.shape != (reduced,) or table.dtype not in (torch.int64, torch.int32):
        raise _tables(folder, f"d2t is not a table of the {reduced} tokens of its lm_head")
    tokens = stored.tensor("d2t").long() + torch.arange(reduced)
    if int(tokens.min()) < 0 or int(tokens.max()) >= vocabulary or len(tokens.unique()) != reduced:
        raise _other(folder, f"d2t does not lead to {reduced} different ones of {vocabulary} tokens")
    places = torch.full((vocabulary,), reduced)
    places[tokens] = torch.arange(reduced)
    return places, reduced


def _built(config: Any, reduced: int, places: Tensor, device: str | None, attn_implementation: str) -> Any:
    from contextlib import nullcontext

    from transformers import LlamaForCausalLM

    config = deepcopy(config)
    config._attn_implementation = attn_implementation
    with torch.device(device) if device else nullcontext():
        model = LlamaForCausalLM(config)
        model.model.layers[0] = EagleLayer(config)
        model.model.norm, model.join, model.continues = nn.Identity(), ConcatenatedInputs(), True
        model.lm_head = ReducedHead(config, reduced, places)
    return model.float()


def _refusal(folder: Path, what: str, why: str, code: str) -> InputError:
    fix = "use it as it was published, with the model that it was trained for"
    return InputError(what, where=str(folder), why=why, fix=fix, code=code)


def _other(folder: Path, why: str) -> InputError:
    return _refusal(folder, "The EAGLE-3 predictor belongs to another model.", why, "E843")


def _tables(folder: Path, why: str) -> InputError:
    return _refusal(folder, "The tables of the EAGLE-3 predictor make no sense.", why, "E844")


def _form(folder: Path, why: str) -> InputError:
    return _refusal(folder, "edgec cannot put this EAGLE-3 predictor into an artifact.", why, "E846")
