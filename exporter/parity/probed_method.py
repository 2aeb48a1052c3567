"""One method of a model that has several: what it is fed, what it should answer, and what each of its layers gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from edgec.exporter.parity.divergence import Layers, artifact_layers, call_layers
from edgec.exporter.parity.output_form import OutputForm
from edgec.exporter.parity.outputs import flatten_outputs
from edgec.exporter.parity.probe_calls import ProbeCall, text_logits
from edgec.ir.program import Interface, Program


@dataclass(frozen=True)
class ProbedMethod:
    """A method, fed with what transformers' own model gave the method before it.

    Attributes:
        name: of the method.
        calls: the calls for a Program with such an interface.
        wanted: what transformers' own model computes, as ``run`` gives it.
        forms: of each output, compared at its own size; empty where the method gives logits.
        layer_outputs: how many outputs each layer makes, where the outputs are those of all layers in turn; 0: layers
            are told apart by their attention.
    """

    name: str
    calls: Callable[[Interface], Sequence[ProbeCall]]
    wanted: Tensor
    forms: Sequence[OutputForm] = ()
    layer_outputs: int = 0

    @property
    def gives_logits(self) -> bool:
        """Whether its outputs are distributions over tokens."""
        return not self.forms

    def run(self, program: Program) -> Tensor:
        """The outputs of a Program: logits float32 [P, V], else all values in one row."""
        calls = self.calls(program.interface)
        if self.gives_logits:
            return text_logits(program, calls)
        with torch.no_grad():
            return torch.cat([flatten_outputs(program.graph(*call.inputs)) for call in calls], 1)

    def layers(self, program: Program) -> Layers:
        """What each layer of a Program gives; a layer that attends twice counts with the last of its attentions."""
        if self.layer_outputs:
            return self.output_layers(self.run(program))
        return call_layers(program, self.calls(program.interface))

    def executed_layers(self, artifact: Path, exposed: Program) -> Layers:
        """The same of the method in an artifact that was lowered from a program of ``expose_layers``."""
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        method, calls = TorchMethod(artifact, self.name), self.calls(exposed.interface)
        if self.layer_outputs:
            return self.output_layers(torch.cat([flatten_outputs(method(call.inputs)) for call in calls], 1))
        return artifact_layers(method, exposed, calls)

    def output_layers(self, outputs: Tensor) -> Layers:
        """All outputs in one row, by layer."""
        count, parts = self.layer_outputs, outputs.split([form.size for form in self.forms], 1)
        return {start // count: torch.cat(parts[start : start + count], 1) for start in range(0, len(parts), count)}


@dataclass(frozen=True)
class Executed:
    """What an artifact of several methods answers.

    Attributes:
        alone: each method's outputs on the inputs of its `ProbedMethod`, as ``run`` gives them.
        whole: the logits of all methods one after the other, float32 [P, V].
    """

    alone: Mapping[str, Tensor]
    whole: Tensor


class Probed(Protocol):
    """A model of several methods and all that transformers' own model computes on the probe."""

    def methods(self) -> Mapping[str, ProbedMethod]:
        """Each method by its name, in the order of the calls."""

    def tensors(self) -> dict[str, Tensor]:
        """What transformers' own model computed, by name, to be stored with the rungs."""

    def execute(self, artifact: Path) -> Executed:
        """Execute an artifact's methods, each alone and all after each other.

        Raises:
            InputError: E157, the runtime refuses the artifact.
        """
