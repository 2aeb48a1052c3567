"""What ``edgec adapt`` did to a model, as its config records it under ``edgec``.

    "edgec": {"passes": ["shared_kv", "fake_quantize"], "boundary": 5, "mode": "reuse", "recipe": "balanced2.toml",
              "grids": {"model.layers.0.mlp.up_proj.weight_scale": {"parameter": ..., "bits": 4, ...}, ...}}

An export then shares keys and values as the model was trained to, expects K/V tensors to be missing where they are, and
puts weights on the learned grids, whose scales are in the safetensors under the names in ``grids``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, PositiveInt, ValidationError

from edgec.bundle.limited_json import first_fault, limited_bytes, parse_json
from edgec.bundle.replaceable import check_replaceable
from edgec.bundle.tokenizer_folder import EXTRA_TEMPLATES, TOKENIZER_NAMES
from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe, with_trained_grids
from edgec.exporter.sources.files.model_folder import CONFIG, read_json
from edgec.ir.kv_donors import AUTO, kept_layers
from edgec.ir.weight_scheme import WeightScheme
from edgec.runtime_py.adapters.peft_folder import WEIGHTS
from edgec.runtime_py.adapters.peft_settings import ADAPTER_CONFIG

if TYPE_CHECKING:
    from edgec.exporter.sources.model_source import ModelSource
    from edgec.passes.compress.rounding.learned_grids import LearnedGrid

KEY = "edgec"
_MAX_CONFIG_BYTES = 16 << 20
_PAGES = ("report.html", "training.json", "README.md")
_OWN_ADAPTER = frozenset((*_PAGES, ADAPTER_CONFIG, WEIGHTS))
_OWN = ("config.json", "generation_config.json", "model.safetensors", *_PAGES)


@dataclass(frozen=True)
class AdaptRecord:
    """What training changed, as the config stores it.

    Attributes:
        passes: the passes that the model was trained under.
        boundary: how many of the first layers have their own keys and values; None where every layer has.
        mode: how the others share; None where no layer shares.
        recipe: the recipe's file in the model's folder.
        grids: name of a tensor of scales -> its parameter, and the fields of its scheme.
    """

    passes: tuple[str, ...] = ()
    boundary: int | None = None
    mode: str | None = None
    recipe: str | None = None
    grids: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The record as the config holds it."""
        return asdict(self)


class _Entry(BaseModel):
    """The config's entry, for validation."""

    passes: tuple[str, ...] = ()
    boundary: PositiveInt | None = None
    mode: Literal["reuse", "project"] | None = None
    recipe: str | None = None
    grids: dict[str, dict[str, Any]] = {}


def record_of(config: Mapping[str, Any]) -> AdaptRecord | None:
    """The record of an adapted model; None for any other.

    Raises:
        InputError: E505, the entry is damaged.
    """
    entry = config.get(KEY)
    if entry is None:
        return None
    try:
        record = AdaptRecord(**dict(_Entry.model_validate(entry)))
        for grid in record.grids.values():
            if not isinstance(grid["parameter"], str) or _scheme(grid).bits < 1:
                raise TypeError("a grid names no parameter")
    except (TypeError, KeyError, AttributeError, ValidationError) as error:
        raise InputError(
            what="what adapt recorded in the config cannot be read",
            where=f"config.json, {KEY!r}",
            why=first_fault(error) if isinstance(error, ValidationError) else str(error),
            fix="write the model with edgec adapt again",
            code="E505",
        ) from error
    return record


def as_recorded(recipe: Recipe, config: Mapping[str, Any]) -> Recipe:
    """The recipe with keys and values shared as in training, and without passes that would move learned weights.

    Raises:
        InputError: E505, the recipe shares differently.
    """
    record = record_of(config)
    if record is None:
        return recipe
    if record.grids:
        recipe = with_trained_grids(replace(recipe, prepare=()))
    if record.mode is None or record.boundary is None:
        return recipe
    layers = config.get("num_hidden_layers")
    trained = (record.mode, record.boundary)
    if recipe.shared_kv and not _agrees(recipe, trained, layers if isinstance(layers, int) else 0):
        raise InputError(
            what="the recipe shares keys and values differently from how the model was trained",
            where=f"recipe {recipe.name}",
            why=f"it asks for {recipe.shared_kv} at {recipe.boundary}; the model has {trained[0]} at {trained[1]}",
            fix="leave [shared_kv] out of the recipe",
            code="E505",
        )
    return replace(recipe, shared_kv=record.mode, boundary=record.boundary)


def _agrees(recipe: Recipe, trained: tuple[str, int], layers: int) -> bool:
    """Whether a recipe shares as a model was trained to; an open boundary was chosen in training."""
    mode, kept = trained
    return recipe.shared_kv == mode and (recipe.boundary == AUTO or kept_layers(recipe.boundary, layers) == kept)


def check_free(out: Path, force: bool) -> None:
    """Refuse an output that exists, unless ``force`` is set and adapt wrote all of it.

    Raises:
        InputError: E508, it exists; E123, ``force`` would delete what adapt did not write.
    """
    if os.path.lexists(out) and not force:
        raise output_exists(out)
    check_replaceable(out, _own_names, "adapted model")


def output_exists(out: Path) -> InputError:
    """The error for an output that exists (E508)."""
    return InputError(f"{out} exists", "--out", fix="give another folder, or --force", code="E508")


def _own_names(folder: Path) -> frozenset[str] | None:
    """The files of an adapted model or of a trained adapter, damaged or not; None where neither says so itself."""
    if _trained_adapter(folder):
        return _OWN_ADAPTER
    try:
        entry = parse_json(limited_bytes(folder / "config.json", _MAX_CONFIG_BYTES, follow=False))[KEY]
        recipe = Path(str(entry["recipe"])).name if "grids" in entry and "passes" in entry else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    templates = (file.relative_to(folder).as_posix() for file in folder.glob(EXTRA_TEMPLATES))
    return None if recipe is None else frozenset((*_OWN, *TOKENIZER_NAMES, recipe, *templates))


def _trained_adapter(folder: Path) -> bool:
    try:
        training = parse_json(limited_bytes(folder / "training.json", _MAX_CONFIG_BYTES, follow=False))
        return bool(training["settings"]["low_rank"]) and (folder / ADAPTER_CONFIG).is_file()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def recorded_recipe(model: str | Path) -> Path | None:
    """The recipe that an adapted model's folder carries; None for any other model."""
    folder = Path(model)
    try:
        config = read_json(folder / CONFIG)
    except InputError:
        return None  # The reason is reported when the model itself is read.
    record = record_of(config)
    # A plain file name: a config must not reach outside its folder.
    name = Path(record.recipe).name if record and record.recipe else None
    return folder / name if name and (folder / name).is_file() else None


def recorded_grids(source: ModelSource) -> list[LearnedGrid]:
    """The grids that were learned for a model, their scales read from its files."""
    from edgec.exporter.sources.weights.names import BoundWeights
    from edgec.passes.compress.rounding.learned_grids import LearnedGrid

    record = record_of(source.config)
    if record is None or not isinstance(source.weights, BoundWeights):
        return []
    stored = source.weights.base
    return [
        LearnedGrid(str(grid["parameter"]), _scheme(grid), stored.tensor(name).float())
        for name, grid in record.grids.items()
    ]


def grid_entry(parameter: str, scheme: WeightScheme) -> dict[str, Any]:
    """The record's entry for one learned grid."""
    return {"parameter": parameter, **asdict(scheme)}


def _scheme(grid: Mapping[str, Any]) -> WeightScheme:
    known = WeightScheme.__dataclass_fields__
    return WeightScheme(**{name: value for name, value in grid.items() if name in known and name != "parameter"})
