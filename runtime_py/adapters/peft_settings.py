"""PEFT's adapter_config.json: the settings of a LoRA that edgec computes exactly; all others are refused by name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgec.bundle.limited_json import JsonKind, first_fault, read_object
from edgec.errors import InputError

ADAPTER_CONFIG = "adapter_config.json"
_MAX_CONFIG_BYTES = 4 << 20
# Ways to initialise that leave the base model as it was; PiSSA and its like train against changed weights.
_INITIAL = (True, False, None, "gaussian", "eva", "orthogonal")
# Settings of training, or of what the tensors' names say already.
_WITHOUT_EFFECT = frozenset(
    {
        *("auto_mapping", "base_model_name_or_path", "corda_config", "eva_config", "exclude_modules", "fan_in_fan_out"),
        *("inference_mode", "layers_pattern", "layers_to_transform", "loftq_config", "lora_dropout", "lora_ga_config"),
        *("megatron_core", "peft_version", "qalora_group_size", "revision", "runtime_config", "target_modules"),
    }
)
_WITH_VALUES: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "task_type": (None, "CAUSAL_LM"),
    "bias": (None, "none"),
    "init_lora_weights": _INITIAL,
}
# A pattern is matched against the end of a module's name; these have no repetition, and so no slow matches.
_PLAIN_PATTERN = re.compile(r"\^?[\w.-]+")


_Rank = Annotated[int, Field(ge=1)]


class _PeftConfig(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    r: _Rank
    lora_alpha: float = Field(allow_inf_nan=False)
    use_rslora: bool = False
    rank_pattern: dict[str, _Rank] | None = None
    alpha_pattern: dict[str, float] | None = None
    base_model_name_or_path: str | None = None


@dataclass(frozen=True)
class PeftSettings:
    """What a LoRA's settings say of its modules.

    Attributes:
        trained_on: the base model's name or path; empty where there is none.
        rank, alpha: of all modules that no pattern names.
        ranks, alphas: (pattern, value) of others.
        by_root: the scale is alpha / sqrt(rank) (rsLoRA) instead of alpha / rank.
    """

    trained_on: str
    rank: int
    alpha: float
    ranks: tuple[tuple[str, int], ...]
    alphas: tuple[tuple[str, float], ...]
    by_root: bool

    def rank_of(self, module: str) -> int:
        """The rank of a module."""
        return next((rank for pattern, rank in self.ranks if _matches(pattern, module)), self.rank)

    def alpha_of(self, module: str) -> float:
        """The alpha of a module."""
        return next((alpha for pattern, alpha in self.alphas if _matches(pattern, module)), self.alpha)

    def scale_of(self, module: str) -> float:
        """The factor of a module's change."""
        rank = self.rank_of(module)
        return self.alpha_of(module) / (math.sqrt(rank) if self.by_root else rank)


def _matches(pattern: str, module: str) -> bool:
    """As PEFT's ``get_pattern_key``."""
    return re.match(rf"(.*\.)?({pattern})$", module) is not None


def read_settings(folder: Path) -> PeftSettings:
    """Read a folder's adapter_config.json.

    Raises:
        InputError: E691, it cannot be read; E692, it asks for something that edgec does not compute.
    """
    path = folder / ADAPTER_CONFIG
    kind = JsonKind(
        "PEFT's folder cannot be read.", "give the folder that save_pretrained wrote", "E691", _MAX_CONFIG_BYTES
    )
    config = read_object(path, kind)
    _refuse_features(path, config)
    try:
        known = _PeftConfig.model_validate({k: v for k, v in config.items() if k in _PeftConfig.model_fields})
    except ValidationError as error:
        raise kind.refusal(path, first_fault(error)) from error
    ranks, alphas = known.rank_pattern or {}, known.alpha_pattern or {}
    _refuse_patterns(path, (*ranks, *alphas))
    trained_on = known.base_model_name_or_path or ""
    patterns = tuple(ranks.items()), tuple(alphas.items())
    return PeftSettings(trained_on, known.r, known.lora_alpha, *patterns, known.use_rslora)


def _refuse_features(path: Path, config: Mapping[str, Any]) -> None:
    for name, value in config.items():
        if name in _WITHOUT_EFFECT or name in _PeftConfig.model_fields:
            continue
        allowed = _WITH_VALUES.get(name)
        if value not in allowed if allowed else bool(value):
            raise unsupported(path, f"{name} = {value!r}"[:120])
    if "peft_type" not in config:
        raise unsupported(path, "a config without peft_type")


def _refuse_patterns(path: Path, patterns: Iterable[str]) -> None:
    for pattern in patterns:
        if not _PLAIN_PATTERN.fullmatch(pattern):
            raise unsupported(path, f"the pattern {pattern[:80]!r}, a regular expression instead of a module's name")


def unsupported(where: Path, feature: str) -> InputError:
    """The refusal of one of PEFT's features."""
    return InputError(
        f"The adapter uses what edgec does not support: {feature}.",
        where=str(where),
        why="edgec adds plain LoRA (also rsLoRA, ranks and alphas by module) to linear layers, exactly or not at all",
        fix="train without it, or merge the adapter into the model (merge_and_unload) and export that",
        code="E692",
    )
