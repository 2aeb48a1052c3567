"""Run a predictor of further tokens in every form over the probe: what it reads is what transformers' model gives.

tokens 0 .. L-2 -> the model -> hidden states [1, L-1, H] --,
tokens 1 .. L-1 --------------------------------------- draft -> logits of tokens 2 .. L
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.entry_points import Limits
from edgec.bundle.predictor import DRAFT
from edgec.exporter.capture.predictor import JoinedInputs
from edgec.exporter.parity.execution import step_by_step
from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.parity.probe import Probe
from edgec.exporter.parity.probe_calls import ProbeCall, text_calls
from edgec.exporter.parity.probed_method import ProbedMethod
from edgec.exporter.sources.decoders.positions import first_place
from edgec.exporter.sources.drafts.predictor import Predictor
from edgec.ir.call_plan import Call, call_plan, compared_positions, last_rows
from edgec.ir.graph_run import first_output
from edgec.ir.program import Interface
from edgec.passes.draft.hidden_output import HIDDEN


@dataclass(frozen=True)
class PredictorProbe:
    """What a predictor is fed, and what it should answer.

    Attributes:
        tokens: each the one after a hidden state's.
        plan: the calls that feed them.
        hidden: float32 [1, S, H], by transformers' own model.
        wanted: logits, float32 [P, V], at the plan's compared positions.
    """

    tokens: tuple[int, ...]
    plan: tuple[Call, ...]
    hidden: Tensor
    wanted: Tensor

    @property
    def method(self) -> ProbedMethod:
        """The method draft on this probe."""
        return ProbedMethod(DRAFT, self.calls, self.wanted)

    def calls(self, interface: Interface) -> list[ProbeCall]:
        """The calls for a Program with such an interface."""
        given = lambda start, size: {HIDDEN: self.hidden[:, start : start + size]}  # noqa: E731
        return text_calls(interface, self.tokens, self.plan, given)

    def executed(self, artifact: Path, hidden: Tensor) -> Tensor:
        """The logits of an artifact's method draft after these hidden states, float32 [P, V] as ``wanted``.

        Raises:
            InputError: E157, the runtime refuses the artifact.
        """
        from edgec.runtime_py.engines.open_artifact import TorchMethod

        method = TorchMethod(artifact, DRAFT)
        return torch.cat([_called(method, self.tokens, call, hidden)[0][0].clone() for call in self.plan])


def reference(model: Any, predictor: Predictor, one_layer: Any, probe: Probe, limits: Limits) -> PredictorProbe:
    """Run transformers' own model and its predictor over a probe, in float32.

    Args:
        model: the causal language model.
        predictor: what it goes on from.
        one_layer: the predictor as ``Predictor.build_on`` makes it, with its weights.
        probe: the ladder's.
        limits: of the artifact.
    """
    tokens = probe.tokens[1:]
    plan = call_plan(len(tokens), limits.prefill_chunk, limits.logit_rows)
    with torch.no_grad(), InFloat32(), step_by_step(model):
        first = first_place(model)
        places = torch.arange(first, first + len(tokens)).unsqueeze(0)
        read = torch.tensor([list(probe.tokens[:-1])])
        hidden = hidden_states(model, predictor, read, places)
        logits = first_output(JoinedInputs(one_layer)(torch.tensor([list(tokens)]), torch.arange(len(tokens)), hidden))
    return PredictorProbe(tokens, plan, hidden, logits[0, compared_positions(plan)].float())


def hidden_states(model: Any, predictor: Predictor, tokens: Tensor, places: Tensor) -> Tensor:
    """What transformers' own model gives a predictor to go on from, float32 [1, S, H]."""
    wanted = bool(predictor.taps)
    output = model.get_decoder()(tokens, position_ids=places, use_cache=False, output_hidden_states=wanted)
    if predictor.matrix is None:
        last: Tensor = output.last_hidden_state.float()
        return last
    joined = torch.cat([output.hidden_states[layer].float() for layer in predictor.taps], -1)
    return torch.nn.functional.linear(joined, predictor.matrix.float())


def executed_hidden(artifact: Path, probe: Probe) -> Tensor:
    """The hidden states of an artifact's forward along the probe but for its last token, float32 [1, L - 1, H].

    Raises:
        InputError: E157, the runtime refuses the artifact.
    """
    from edgec.runtime_py.engines.open_artifact import TorchMethod

    method = TorchMethod(artifact)
    found: dict[int, Tensor] = {}
    for call in probe.plan:
        ids = torch.tensor([list(probe.tokens[call.start :][: call.size])])
        rows = method((ids, torch.arange(call.start, call.start + call.size), last_rows(call)))[1][0]
        found |= {call.start + place: row.clone() for place, row in enumerate(rows)}
    return torch.stack([found[place] for place in range(len(probe.tokens) - 1)]).unsqueeze(0)


def _called(method: Any, tokens: Sequence[int], call: Call, hidden: Tensor) -> list[Tensor]:
    ids = torch.tensor([list(tokens[call.start :][: call.size])])
    positions = torch.arange(call.start, call.start + call.size)
    outputs: list[Tensor] = method((ids, positions, hidden[:, call.start :][:, : call.size], last_rows(call)))
    return outputs
