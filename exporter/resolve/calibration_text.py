"""The text on which weights are calibrated, as the model's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgec.bundle.encoding import token_ids
from edgec.bundle.manifest import CalibrationText
from edgec.errors import InputError
from edgec.exporter.recipes.calibrated import is_layerwise, reads_text
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.recipes.support import support_of
from edgec.ir.kv_donors import AUTO

TOKENS = 4096
"""Tokens that are used: second moments change little with more."""
LAYERWISE_TOKENS = 16384
"""Tokens used where whole layers are fitted: a layer must see several times as many inputs as it is wide."""
_OPTION = "--calibrate"


def calibration_tokens(
    file: str | Path | None, recipe: Recipe, tokenizer: Any, *, searched: bool = False
) -> tuple[int, ...]:
    """The first tokens of a calibration text; none without a file.

    Args:
        file: UTF-8 text like what the model will see.
        recipe: resolved for its backend; look-up tables, layer-wise algorithms and the activation ranges of
            fixed-point backends are calibrated.
        tokenizer: transformers' tokenizer of the model, or None.
        searched: whether bits per layer are searched for, which needs the text whatever the recipe is.

    Raises:
        InputError: E119, the file cannot be read; E442, nothing would be calibrated.
    """
    if file is None:
        return ()
    _require_effect(recipe, tokenizer, searched)
    try:
        text = Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            what="the calibration text cannot be read",
            where=str(file),
            why=str(error),
            fix=f"give a UTF-8 text file with {_OPTION}",
            code="E119",
        ) from error
    count = LAYERWISE_TOKENS if searched or is_layerwise(recipe) else TOKENS
    return tuple(token_ids(tokenizer, text)[:count])


def text_of_file(file: str | Path | None, tokens: Sequence[int]) -> CalibrationText | None:
    """What reports say about the text of a file; None without one."""
    if file is None:
        return None
    name = Path(file).name.encode(errors="backslashreplace").decode()
    return CalibrationText(file=name, tokens=len(tokens))


def _require_effect(recipe: Recipe, tokenizer: Any, searched: bool) -> None:
    schemes = (recipe.weights, recipe.lm_head, *(scheme for _, scheme in recipe.rules))
    support = support_of(recipe.backend, recipe.kernels)
    ranged = support is not None and support.ranged
    reasons = {
        "the model has no tokenizer to read text with": tokenizer is None,
        f"recipe {recipe.name} has no calibrated algorithm, and makes no look-up tables here": not searched
        and not reads_text(recipe)
        and not ranged
        and not (recipe.shared_kv and recipe.boundary == AUTO)
        and not any(scheme and scheme.is_table for scheme in schemes),
    }
    for why, so in reasons.items():
        if so:
            fix = (
                f"leave {_OPTION} out, or use a recipe that calibrates (4bit-gptq; lut4 for iphone; any for Snapdragon)"
            )
            raise InputError("there is nothing to calibrate", _OPTION, why, fix, code="E442")
