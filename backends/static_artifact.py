"""The three functions that every backend of static methods offers to the stages, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from torch import Tensor

from edgec.bundle.findings import Delegation
from edgec.bundle.pte_layout import ArtifactLayout
from edgec.ir.program import Interface, Program
from edgec.ir.static_methods import Methods

LoweringProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class StaticArtifact:
    """What a lowering reports about the artifact that it wrote.

    Attributes:
        interfaces: by method, as the runtime sees them.
        delegation: where the arithmetic runs.
        operators: kernels outside the accelerator that the runtime must have, by name.
    """

    interfaces: Mapping[str, Interface]
    delegation: Delegation
    operators: tuple[str, ...] = ()


class StaticBackend(Protocol):
    """A module under ``backends/`` that writes one format."""

    def lower(self, methods: Mapping[str, Program], path: Path, progress: LoweringProgress) -> StaticArtifact:
        """Write the artifact; ``path`` does not exist yet."""
        ...

    def execute(self, path: Path) -> Methods:
        """Load the artifact's methods to execute them here."""
        ...

    def layout(self, path: Path) -> ArtifactLayout:
        """Where the artifact's bytes lie."""
        ...

    EXECUTED_BY: str


def backend_of(module: str) -> StaticBackend:
    """Import the static backend of that module name."""
    return cast("StaticBackend", import_module(module))


CONTEXT_BYTES = 2_000_000_000
"""How many bytes one Qualcomm context holds; published limits are 2 to 4 GB."""


@dataclass(frozen=True)
class Chip:
    """The chip that an artifact is made for, and the inputs that ranges are measured on.

    Attributes:
        soc_model: Qualcomm's number of the chip.
        tokens: the calibration text of decoders.
        examples: the calibration inputs of other models, one tuple for each call.
        context_bytes: the most bytes of weights in one context; more are cut into several.
    """

    soc_model: int
    tokens: tuple[int, ...] = ()
    examples: tuple[Sequence[Tensor], ...] = ()
    context_bytes: int = CONTEXT_BYTES


class ChipBackend(Protocol):
    """A static backend whose artifact fits one chip only."""

    def lower_for(
        self, methods: Mapping[str, Program], path: Path, progress: LoweringProgress, chip: Chip
    ) -> StaticArtifact:
        """Write the artifact; ``path`` does not exist yet."""
        ...


def chip_backend_of(module: str) -> ChipBackend:
    """Import the chip-specific backend of that module name."""
    return cast("ChipBackend", import_module(module))
