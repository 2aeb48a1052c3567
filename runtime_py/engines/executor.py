"""Which engine executes an artifact: edgec's own where it can be compiled, else ExecuTorch's Python binding.

Both run the same ExecuTorch with the same kernels. edgec's maps packed weights, keeps several sequences on one model,
gives access to their state and needs no torch; the binding needs no compiler. An artifact with operators of edgec's
(``edgec::...``) needs the engine's library either way; one with operators of ExecuTorch's LLM library (``llama::...``)
needs that library, and with it torch. Bundles for units that this machine lacks are simulated (docs/interpreter.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EngineName = Literal["edgec", "executorch", "simulated"]


class Executor(Protocol):
    """One loaded method with its state."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Execute with arrays; the outputs are the caller's."""

    @property
    def state(self) -> NDArray[np.uint8] | None:
        """The state in place, uint8 [bytes]; None where it is out of reach."""
