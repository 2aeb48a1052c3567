"""Run any form of a model that makes rows of an image or a sound and reads them in a text, on the same probe.

inputs -> see or hear -> rows -> in the place of some tokens -> forward -> logits
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from edgec.backends.forms import Form
from edgec.backends.static_artifact import backend_of
from edgec.exporter.parity.output_form import forms_of
from edgec.exporter.parity.outputs import flatten_outputs
from edgec.exporter.parity.placed_rows import ExecutedText, StaticText, WrittenText
from edgec.exporter.parity.probe_calls import ProbeCall, text_calls
from edgec.exporter.parity.probed_method import Executed, ProbedMethod
from edgec.ir.call_plan import Call
from edgec.ir.program import Interface
from edgec.ir.row_inputs import Placed, placed_part
from edgec.runtime_py.engines.simulated import open_function


class RowsProbe(Protocol):
    """An image or a sound, and a text with its rows."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Ids, among them one that stands for a row, once for each."""

    @property
    def plan(self) -> tuple[Call, ...]:
        """The calls that feed the tokens."""

    @property
    def whole(self) -> Sequence[Tensor]:
        """Inputs of the first method, all of which is image or sound."""

    @property
    def in_text(self) -> Sequence[Tensor]:
        """Its inputs whose rows stand in the text; where a sound ends early, others than ``whole``."""

    @property
    def rows(self) -> int:
        """How many rows stand in the text."""

    @property
    def after_rows(self) -> int:
        """The position of the first token after the rows."""

    def placed(self, rows: Tensor) -> Placed:
        """What the whole text has beside tokens and positions, with these rows [R, width]."""


@dataclass(frozen=True)
class RowsReference:
    """What transformers' own model computes.

    Attributes:
        whole: the rows of the probe's ``whole``, float32 [T, width].
        in_text: those in the text, float32 [R, width].
        logits: float32 [P, V], at the text's compared positions.
    """

    whole: Tensor
    in_text: Tensor
    logits: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, to be stored with the rungs; none shares its memory with another."""
        return {"whole": self.whole, "in_text": self.in_text.clone(), "logits": self.logits}

    @classmethod
    def read(cls, kept: Mapping[str, Tensor]) -> RowsReference:
        """Restore a reference from what ``tensors`` returned."""
        return cls(kept["whole"], kept["in_text"], kept["logits"])


@dataclass(frozen=True)
class ProbedRows:
    """What a model of two methods is compared on.

    Attributes:
        names: the method that makes rows, and the one that reads them in a text.
        probe: what both are fed.
        reference: what transformers' own model computes.
    """

    names: tuple[str, str]
    probe: RowsProbe
    reference: RowsReference

    def methods(self) -> Mapping[str, ProbedMethod]:
        """The methods; text is written after transformers' own rows."""
        whole, wanted, (first, forward) = [ProbeCall(list(self.probe.whole))], self.reference.whole, self.names
        return {
            first: ProbedMethod(first, lambda _: whole, flatten_outputs(wanted), forms_of(wanted[None])),
            forward: ProbedMethod(forward, self._text_calls, self.reference.logits),
        }

    def _text_calls(self, interface: Interface) -> Sequence[ProbeCall]:
        placed = self.probe.placed(self.reference.in_text)
        return text_calls(interface, self.probe.tokens, self.probe.plan, partial(placed_part, placed))

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the reference by name, to be stored with the rungs."""
        return self.reference.tensors()

    def execute(self, artifact: Path) -> Executed:
        """Execute the methods of an artifact, each alone, and both of them from the first inputs to the logits."""
        return self.executed(ExecutedRows.of_program(artifact, self.names))

    def executed(self, methods: ExecutedRows) -> Executed:
        """What executed methods answer, each alone, and both of them from the first inputs to the logits."""
        probe, (first, forward) = self.probe, self.names
        whole, made = methods.rows(probe.whole), methods.rows(probe.in_text)[: probe.rows]
        written, after_own = (
            methods.text.plan_logits(probe.tokens, probe.plan, probe.placed(rows))
            for rows in (self.reference.in_text, made)
        )
        return Executed({first: flatten_outputs(whole), forward: written}, after_own)


@dataclass(frozen=True)
class ExecutedRows:
    """The methods of an artifact, executed on this machine.

    Attributes:
        first: the method that makes rows, as a function of its inputs in order.
        text: the decoder.
    """

    first: Callable[[Sequence[Tensor]], Sequence[Tensor]]
    text: WrittenText

    @classmethod
    def of_program(cls, artifact: Path, names: tuple[str, str]) -> ExecutedRows:
        """Load an artifact into ExecuTorch's runtime, in this process.

        Raises:
            InputError: E157, the runtime refuses it.
        """
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        first, forward = names
        return cls(TorchMethod(artifact, first), ExecutedText(artifact, forward))

    @classmethod
    def of_form(cls, artifact: Path, names: tuple[str, str], form: Form) -> ExecutedRows:
        """Load an artifact of any form; one of fixed shapes by what executes it here."""
        if not form.static:
            return cls.of_program(artifact, names)
        text = StaticText(backend_of(form.module).execute(artifact))
        return cls(open_function(form.backends[0], artifact, names[0]), text)

    def rows(self, inputs: Sequence[Tensor]) -> Tensor:
        """All rows of an image or a sound, float32 [T, width]."""
        with torch.no_grad():
            return self.first(list(inputs))[0][0].float().clone()
