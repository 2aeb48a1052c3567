"""Run any form of a model over the same tokens, fed as on a phone: whole chunks, then single tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.fx import GraphModule

from edgec.exporter.capture.recurrences import model_code
from edgec.exporter.parity.float32_mode import InFloat32
from edgec.exporter.parity.probe_calls import text_calls, text_logits
from edgec.exporter.sources.decoders.positions import first_place
from edgec.ir.call_plan import Call, DecoderStep, Tokens, compared_positions, feed
from edgec.ir.linear_memo import LinearMemo
from edgec.ir.program import Program
from edgec.passes.contract import run_pass
from edgec.passes.prefill.last_logits import LastLogits, lm_head_linear

# 1 GiB in float32.
_MOST_LOGITS = 1 << 28
# Functions of model files, each with the equivalent one of the same arguments.
_STEPS: Mapping[str, str] = {
    "torch_chunk_gated_delta_rule": "torch_recurrent_gated_delta_rule",
    "chunk_kimi_delta_attention": "recurrent_kimi_delta_attention",
}


def run_program(program: Program, tokens: Tokens, plan: Sequence[Call], memo: LinearMemo | None = None) -> Tensor:
    """Run a decoder's Program: logits float32 [P, V] at the plan's compared positions; ``memo`` as in ``run_calls``."""
    program = _bound_logits(program, len(tokens), len(compared_positions(plan)))
    return text_logits(program, text_calls(program.interface, tokens, plan), memo)


def _bound_logits(program: Program, length: int, rows: int) -> Program:
    """The program; where logits of all positions would take too much memory, with those of chosen ones only."""
    if program.interface.states or any(tensor.name == "logit_index" for tensor in program.interface.inputs):
        return program
    vocabulary: Any = program.interface.outputs[0].shape[-1]
    if length * vocabulary <= _MOST_LOGITS or lm_head_linear(program.graph) is None:
        return program
    return run_pass(program, LastLogits(rows))


def run_artifact(artifact: Path, tokens: Tokens, plan: Sequence[Call]) -> Tensor:
    """Run a decoder's .pte in ExecuTorch's runtime, in this process: logits float32 [P, V] as ``run_program``."""
    return feed(artifact_step(artifact), tokens, plan)


def artifact_step(artifact: Path) -> DecoderStep:
    """Load a decoder's .pte as a function of tokens, positions and rows."""
    from edgec.runtime_py.engines.open_artifact import TorchMethod

    method = TorchMethod(artifact)

    def step(ids: Tensor, positions: Tensor, rows: Tensor) -> Tensor:
        logits: Tensor = method((ids, positions, rows))[0]
        return logits

    return step


def run_eager(model: torch.nn.Module, tokens: Tokens, plan: Sequence[Call], memo: LinearMemo | None = None) -> Tensor:
    """Run transformers' own model in float32, without a cache: logits float32 [P, V] as ``run_program``."""
    rows = torch.tensor(compared_positions(plan))
    chooses = "logits_to_keep" in signature(model.forward).parameters
    remembering = memo.run() if memo is not None else nullcontext()
    with torch.no_grad(), InFloat32(memo), remembering, step_by_step(model):
        chosen = {"logits_to_keep": rows} if chooses else {}
        if first := first_place(model):
            # A padding token in the text would shift the places of all others; the artifact knows no padding.
            chosen["position_ids"] = torch.arange(first, first + len(tokens)).unsqueeze(0)
        logits: Tensor = model(input_ids=torch.tensor([list(tokens)]), use_cache=False, **chosen).logits
    return (logits[0] if chooses else logits[0, rows]).float()


@contextmanager
def step_by_step(model: torch.nn.Module) -> Iterator[None]:
    """Run delta rules of a model token by token inside the block, as transformers' own code does once it decodes.

    In chunks it solves a triangular system of keys that resemble each other, which costs digits: on tiny random models
    of Qwen3.5 the chunks differ from double precision by 1.1e-6 of the largest output, the steps by 1.2e-7. Gated norms
    over small heads then make 5e-4 of the largest logit out of the former.
    """
    _, files = model_code(model)
    with ExitStack() as stack:
        for chunks, steps in _STEPS.items():
            for file in (file for file in files if hasattr(file, chunks) and hasattr(file, steps)):
                stack.enter_context(patch.object(file, chunks, getattr(file, steps)))
        yield


def record_layers(graph: GraphModule, inputs: Sequence[Tensor]) -> dict[int, Tensor]:
    """The output of every attention layer during one call, by layer."""
    recorder = _Recorder(graph)
    with torch.no_grad():
        recorder.run(*inputs)
    return recorder.layers


class _Recorder(torch.fx.Interpreter):
    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.layers: dict[int, Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        from edgec.ir.attention import layer_of

        result = super().run_node(n)
        layer = layer_of(n)
        if layer is not None:
            self.layers[layer] = result.detach().clone()
        return result
