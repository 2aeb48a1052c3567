"""The chips and recipes that can be compiled for Hexagon, decided before any work by a table in ``hexagon.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from edgec.errors import InputError

if TYPE_CHECKING:
    from edgec.devices.targets import Target
    from edgec.ir.weight_scheme import WeightScheme

_TABLE = Path(__file__).with_name("hexagon.toml")
CONTEXTS, DELEGATE = "qnn", "qnn_delegate"


class AskedSchemes(Protocol):
    """A recipe's schemes for weights, one for each kind of matrix; None where it stays in float."""

    @property
    def name(self) -> str:
        """The recipe's name as users type it."""

    @property
    def weights(self) -> WeightScheme | None:
        """The scheme of linear layers that no rule names."""

    @property
    def lm_head(self) -> WeightScheme | None:
        """The scheme of the lm_head."""

    @property
    def embedding(self) -> WeightScheme | None:
        """The scheme of embedding tables."""

    @property
    def rules(self) -> Sequence[tuple[str, WeightScheme | None]]:
        """The schemes of parameters whose names match a pattern."""


def check_chip(target: Target, recipe: AskedSchemes) -> None:
    """Refuse a chip whose Hexagon processor lacks what every artifact needs, and recipes without a form there.

    Other backends pass.

    Raises:
        InputError: E594 for the chip, E595 for the recipe.
        ToolError: E584, E585 or E586: ExecuTorch's delegate is asked for, and what makes it is not here.
    """
    if target.backend not in (CONTEXTS, DELEGATE):
        return
    _check_generation(target)
    if target.backend == CONTEXTS:
        _check_integers(target, recipe)
        return
    _check_floats(target, recipe)
    from edgec.backends.qnn_delegate.sdk import fitting_sdk

    fitting_sdk()


def _check_generation(target: Target) -> None:
    if target.hexagon is None or target.soc_model is None:
        raise _refused(target, "edgec does not know which Hexagon processor it has")
    needs = tomllib.loads(_TABLE.read_text())["needs"]
    lacking = [f"{feature} ({least})" for feature, least in needs.items() if _number(target.hexagon) < _number(least)]
    if lacking:
        raise _refused(target, f"its Hexagon {target.hexagon} lacks {', '.join(lacking)}")


def _check_integers(target: Target, recipe: AskedSchemes) -> None:
    if recipe.weights is None or recipe.lm_head is None or any(scheme is None for _, scheme in recipe.rules):
        raise InputError(
            what=f"{target.name} gets integer weights in every layer",
            where=f"recipe {recipe.name}",
            why="edgec computes in fixed point on Hexagon, and this recipe leaves weights in float",
            fix="use --recipe 8bit, 4bit or int4-channel",
            code="E595",
        )


def _check_floats(target: Target, recipe: AskedSchemes) -> None:
    schemes = (recipe.weights, recipe.lm_head, recipe.embedding, *(scheme for _, scheme in recipe.rules))
    if any(scheme is not None for scheme in schemes):
        raise InputError(
            what=f"{target.name} gets float weights with --format pte",
            where=f"recipe {recipe.name}",
            why="edgec gives ExecuTorch's QNN delegate float16; integer weights need --format qnn",
            fix="use --recipe float, or leave --format pte out",
            code="E595",
        )


def _number(generation: str) -> int:
    return int(generation.removeprefix("V"))


def _refused(target: Target, why: str) -> InputError:
    return InputError(
        what=f"{target.chip_name or target.phone_name} cannot be compiled for",
        where=target.name,
        why=why,
        fix="use a phone with Snapdragon 8 Gen 2 or later, or the CPU (--target android-cpu)",
        code="E594",
    )
