"""The protocol of everything that executes a loaded method: arrays in, arrays out, with its state in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EngineName = Literal["edgec", "executorch", "apple", "simulated"]
BY_METHODS: frozenset[EngineName] = frozenset({"apple", "simulated"})
"""Engines that execute the methods of a decoder, or one function, under edgec's own loop and torch's threads."""


class Executor(Protocol):
    """One loaded method with its state."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Execute with arrays; the outputs belong to the caller."""

    def lend(self, inputs: Sequence[Array]) -> list[Array]:
        """Execute with arrays; the outputs are lent, without a copy, until the next call."""

    @property
    def state(self) -> NDArray[np.uint8] | None:
        """The state in place, uint8 [bytes]; None where it is out of reach."""
