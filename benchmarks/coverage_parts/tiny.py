"""Tiny random models of every type that transformers generates text with; ``tiny.toml`` holds their sizes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

SIZES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("tiny.toml").read_text())
_MOST_PARAMETERS = 60_000_000
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
# Time constants and decays keep the values that their family starts from.
_AS_BUILT = re.compile(r"A_log|dt_|time_|slstm")


def causal_types() -> list[str]:
    """Every model type of transformers with a class for text generation."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def tiny_config(kind: str, wider: bool = False) -> Any:
    """A tiny config of a model type; ``wider``: with the other widths of tiny.toml.

    Raises:
        Exception: whatever the config class raises; there is no tiny configuration of that type.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return tiny(CONFIG_MAPPING[kind], "text", wider=wider)


def tiny(maker: Any, part: str, own: Mapping[str, Any] = MappingProxyType({}), wider: bool = False) -> Any:
    """A config with the sizes of a part of tiny.toml, and those of its own.

    Args:
        maker: the config's class.
        part: ``text``, ``vision`` or ``audio``; nested configs have theirs by their names.
        own: sizes of this model, over the common ones; those of a nested config under its name.
        wider: with the other widths of tiny.toml.
    """
    fields = {name for each in maker.__mro__ for name in getattr(each, "__annotations__", {})}
    given = {name: value for name, value in SIZES[part].items() if name in fields}
    if part == "text":
        given = _text_sizes(str(getattr(maker, "model_type", "")), fields, given)
    parts = getattr(maker, "sub_configs", None) or {}
    given |= {name: value for name, value in own.items() if name not in parts}
    given = {name: _widened(name, value) for name, value in given.items()} if wider else given
    for name in parts:
        made = None if name in given else _nested(maker, name, part, own.get(name, {}), wider)
        given |= {} if made is None else {name: made}
    return maker(**given)


def _widened(name: str, value: Any) -> Any:
    """A width or a number of heads, or a list of them, times the factor; all else as it is, nested configs within."""
    if isinstance(value, dict):
        return {each: _widened(each, own) for each, own in value.items()}
    if isinstance(value, list):
        return [_widened(name, each) for each in value]
    return int(value * SIZES["wider"]["factor"]) if name in SIZES["wider"]["fields"] else value


def _text_sizes(kind: str, fields: set[str], given: dict[str, Any]) -> dict[str, Any]:
    own = SIZES["type"].get(kind, {})
    if fields & set(SIZES["depth"]["fields"]):
        given |= {name: SIZES["depth"]["layers"] for name in _LAYERS if name in given}
    if {"kv_lora_rank", "num_key_value_heads"} <= fields:  # latent attention has a key head for each query head
        given["num_key_value_heads"] = 4
        given.pop("head_dim", None)
    given |= {name: SIZES["text"][name] for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    given |= {"is_decoder": True} if kind in SIZES["decoders"]["types"] else {}
    return {name: v for name, v in {**given, **own}.items() if name not in SIZES["without"].get(kind, ())}


def _nested(maker: Any, name: str, part: str, own: Mapping[str, Any], wider: bool) -> Any:
    """A nested config as plain data; what is not named after another part belongs to the part that it lies in."""
    kinds = {"vision": "vision|image|vit|vq|encoder_config", "audio": "audio", "text": "text"}
    nested = maker.sub_configs[name]
    if nested is None or not (hasattr(nested, "model_type") or nested.__name__ == "AutoConfig"):
        return None
    if "model_type" in own:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        nested, own = CONFIG_MAPPING[own["model_type"]], {key: own[key] for key in own if key != "model_type"}
    elif nested.__name__ == "AutoConfig":
        usual = getattr(maker(), name, None)
        if usual is None or isinstance(usual, dict):
            return None
        nested = type(usual)
    if part == "audio":
        return tiny(nested, part, own, wider).to_dict()
    of = next((kind for kind, words in kinds.items() if re.search(words, name)), part)
    return tiny(nested, of, own, wider).to_dict()


def tiny_model(config: Any, seed: int = 0) -> Any:
    """A model with seeded random weights, spread enough for logits to differ between tokens.

    Its text part alone where the tests cannot make the others.

    Raises:
        ValueError: the config is not tiny; nothing was allocated.
    """
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    config = config.text_config if config.model_type in SIZES["text_alone"]["types"] else config
    with torch.device("meta"), no_init_weights():
        count = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    if count > _MOST_PARAMETERS:
        raise ValueError(f"the tiny config has {count} parameters")
    torch.manual_seed(seed)
    model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    _spread(model, torch.Generator().manual_seed(seed))
    return model.eval()


def save_tiny(model: Any, config: Any, folder: Path) -> None:
    """Save a model of ``tiny_model(config)``; where it is the text part alone, under the names of the whole."""
    if config.model_type not in SIZES["text_alone"]["types"]:
        model.save_pretrained(folder)
        return
    # The last matrix is that of the look-up.
    own = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    named = {name.replace("model.", "model.language_model.", 1): tensor for name, tensor in own.items()}
    save_file(named, folder / "model.safetensors")
    config.save_pretrained(folder)


def _spread(model: nn.Module, drawn: torch.Generator) -> None:
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            _draw(name, tensor, drawn)
        stored = model.state_dict()
        for name, buffer in model.named_buffers():
            if name in stored and name.endswith("bias") and buffer.is_floating_point():
                buffer.copy_(0.1 * torch.randn(buffer.shape, generator=drawn))


def _draw(name: str, tensor: Tensor, drawn: torch.Generator) -> None:
    if not tensor.is_floating_point():
        return
    noise = torch.randn(tensor.shape, generator=drawn)
    leaf = name.rpartition(".")[2]
    if tensor.dim() == 3 and "conv" in name:
        tensor.copy_(noise * (tensor.numel() / tensor.shape[0]) ** -0.5)
    elif tensor.dim() > 1 and not _AS_BUILT.search(name):
        tensor.copy_(noise * tensor.shape[-1] ** -0.5)
    elif tensor.dim() == 1 and leaf in ("weight", "scale"):
        tensor.add_(0.1 * noise)
    elif tensor.dim() == 1 and leaf in ("bias", "sinks"):
        tensor.copy_(0.1 * noise)
    if not torch.isfinite(tensor).all():
        tensor.copy_(0.1 * noise)
