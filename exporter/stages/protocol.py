"""What every kind of model has between capture and bundle: three stages over files, so that each can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from torch import Tensor

from edgec.bundle.manifest import Rung
from edgec.exporter.progress import Progress
from edgec.exporter.stages.compiled import Rewrite


class Stages(Protocol):
    """The stages of one request; ``exporter/pipeline.py`` calls them in this order, or takes them from the cache."""

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model, apply its passes; leave rungs and last outputs in ``folder``.

        Raises:
            BudgetError: E201, a pass missed its budget; E210, a weight stayed in float that was to be rounded.
            InputError: the model cannot be captured, or a pass is not legal on it.
        """

    def lower(self, folder: Path, progress: Progress) -> None:
        """Lower the last graph; leave the artifact and its facts in ``folder``."""

    def verify(self, artifact: Path, rewrite: Rewrite, logits: dict[str, Tensor]) -> list[Rung]:
        """Execute the artifact and compare it with the graph it was made from, and with the float model.

        Args:
            artifact: as ``lower`` left it.
            rewrite: what ``rewrite`` left: the names of the last graph and of the reference.
            logits: their outputs, float32 [P, V], under ``final`` and ``reference``.
        """
