"""Decoders whose artifact has one method of varying length over its own caches, for a phone's GPU.

captured graph -> passes -> backend -> artifact of one method ``forward``, which gives the last token's logits
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from edgec.backends.mlx.operators import refuse_unspoken
from edgec.bundle.entry_points import FORWARD
from edgec.exporter.progress import Progress
from edgec.exporter.stages.decoder import rewrite_decoder
from edgec.exporter.stages.pass_orders import single_method_passes
from edgec.exporter.stages.static_decoder import StaticDecoderStages
from edgec.exporter.stages.static_lowering import MethodCalls
from edgec.ir.program import Program
from edgec.passes.contract import Pass


class SingleMethodStages(StaticDecoderStages):
    """The stages of such a decoder; its program stays in memory between them, as the only method."""

    def passes(self) -> list[Pass]:
        """The passes, in order."""
        return single_method_passes(self.request.recipe, self.request.limits, self.request.calibration)

    def check(self, program: Program) -> None:
        """Refuse a captured program that MLX's attention does not have, too."""
        super().check(program)
        refuse_unspoken(program)

    def functions(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """The one method; the format has none under adapters."""
        (program,) = programs.values()
        return {FORWARD: program}

    def rewrite(self, folder: Path, progress: Progress) -> None:
        """Run the reference, capture the model and apply its passes; its last graph is the method's."""
        done = rewrite_decoder(self.request, self.passes(), progress, check=self.check)
        self.methods = self.functions({"": done.program})
        done.save(folder)

    def first_calls(self, methods: Mapping[str, Program]) -> MethodCalls:
        """The first chunk of the probe."""
        tokens = self.request.probe.tokens[: self.request.limits.prefill_chunk]
        positions = torch.arange(len(tokens))
        return {FORWARD: [[torch.tensor([list(tokens)]), positions, positions[-1:]]]}
