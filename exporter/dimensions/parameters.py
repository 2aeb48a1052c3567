"""A decoder's parameters from its config: built on the meta device, without allocation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.devices.prediction.parameters import DecoderShape, Kind, Parameter
from edgec.exporter.sources.adapter_base import base_of, is_adapter
from edgec.exporter.sources.decoders.expert_counts import chosen_share
from edgec.exporter.sources.decoders.spec import model_spec, text_config
from edgec.exporter.sources.files.model_folder import CONFIG, read_json
from edgec.exporter.sources.files.model_forms import carried_example, is_hub_id
from edgec.exporter.sources.gguf.config import gguf_config
from edgec.exporter.sources.gguf.file import gguf_of, read_gguf
from edgec.exporter.sources.hub import fetch_config
from edgec.exporter.sources.hub_gguf import fetch_gguf, hub_choice

if TYPE_CHECKING:
    from torch import nn


def read_config(model: str | Path) -> dict[str, Any]:
    """The config of a model: a folder's ``config.json``, the file itself, of a GGUF file, a hub id or edgec's example.

    Raises:
        InputError: E111, it is absent, unreadable or not a JSON object; E101 to E103, the hub; E800 to E810, GGUF;
            E878, a LoRA without a base.
    """
    path = carried_example(str(model)) or Path(model).expanduser()
    if not path.exists() and (asked := hub_choice(str(model))) is not None:
        path = fetch_gguf(*asked)
    if not path.exists() and is_hub_id(str(model)):
        return read_json(fetch_config(str(model)))
    if (file := gguf_of(path)) is not None:
        return gguf_config(read_gguf(file))
    if path.is_dir() and is_adapter(path):
        return read_config(base_of(path))
    return read_json(path / CONFIG if path.is_dir() else path)


def effective_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The text decoder's config with transformers' defaults filled in.

    Raises:
        InputError: E109 (transformers knows no such decoder) or E111 (a value is invalid).
    """
    from edgec.exporter.sources.hf_config import plain_config

    return plain_config(_decoder(config))


def decoder_shape(config: Mapping[str, Any]) -> DecoderShape:
    """The layers and parameters of the language model that a config describes; raises as ``parameters``."""
    from edgec.exporter.dimensions.module_states import module_states

    model = _meta_model(config)
    return DecoderShape(model_spec(effective_config(config)), listed_parameters(model, config), module_states(model))


def parameters(config: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """All parameters of the language model that a config describes, tied ones once.

    Raises:
        InputError: E109 (transformers knows no such decoder) or E111 (a value is invalid).
    """
    return listed_parameters(_meta_model(config), config)


def listed_parameters(model: Any, config: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """All parameters of a model on any device, tied ones once; ``config`` says how many experts a token uses."""
    from edgec.exporter.sources.model_build import tied_parameters

    twins = tied_parameters(model)
    owners = dict(model.named_modules())
    roles = _roles(model, twins, chosen_share(text_config(config)))
    named = {name: tuple(tensor.shape) for name, tensor in model.named_parameters() if name not in twins}
    return tuple(roles.parameter(name, shape, owners[name.rpartition(".")[0]]) for name, shape in named.items())


def _meta_model(raw: Mapping[str, Any]) -> Any:
    from transformers import AutoModelForCausalLM

    from edgec.exporter.capture.attention import NAME, register
    from edgec.exporter.capture.chosen_keys import attend_to_every_key
    from edgec.exporter.sources.model_build import build

    register()
    model = build(AutoModelForCausalLM, _decoder(raw), device="meta", attn_implementation=NAME)
    attend_to_every_key(model)  # a bundle holds no indexers; an export refuses contexts that need them
    return model


def whole_config(raw: Mapping[str, Any], where: Path = Path(CONFIG)) -> Any:
    """The transformers config of a model whatever form its checkpoint has; raises as ``parameters``."""
    from edgec.exporter.sources.hf_config import load_config

    return load_config(where, {key: value for key, value in raw.items() if key != "quantization_config"})


def _decoder(raw: Mapping[str, Any]) -> Any:
    from edgec.exporter.sources.hf_config import decoder_config

    return decoder_config(Path(CONFIG), whole_config(raw))


@dataclass(frozen=True)
class _Roles:
    """The facts about a model that decide the kind of each parameter.

    Attributes:
        lm_head: name of the matrix that makes the logits, of the embedding where they are tied, or None.
        tied: whether the two are one tensor.
        expert_fraction: share of the experts that one token uses.
    """

    lm_head: str | None
    tied: bool
    expert_fraction: float

    def parameter(self, name: str, shape: tuple[int, ...], owner: nn.Module) -> Parameter:
        """One parameter with its kind; ``owner``: the module that holds it."""
        from torch import nn

        if name == self.lm_head:
            return Parameter(name, shape, Kind.LM_HEAD, self.tied)
        if isinstance(owner, nn.Embedding):
            return Parameter(name, shape, Kind.EMBEDDING, active=1 / max(1, shape[0]))
        active = self.expert_fraction if ".experts." in name else 1.0
        if len(shape) > 2 and isinstance(owner, nn.modules.conv._ConvNd):
            shape = (shape[0], math.prod(shape[1:]))
        # Biases of experts are matrices; they and convolutions over tokens by channel or head stay in float.
        in_float = len(shape) < 2 or name.endswith("_bias") or (isinstance(owner, nn.Conv1d) and owner.groups > 1)
        kind = Kind.OTHER if in_float else Kind.LINEAR
        return Parameter(name, shape, kind, active=active)


def _roles(model: Any, twins: Mapping[str, str], expert_fraction: float) -> _Roles:
    output = model.get_output_embeddings()
    owners = (name for name, module in model.named_modules() if module is output)
    name = next((f"{owner}.weight" for owner in owners), "")
    return _Roles(twins.get(name, name) or None, name in twins, expert_fraction)
