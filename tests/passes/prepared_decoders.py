"""Captured decoders whose norms differ from channel to channel, for the rewrites that move norms' weights."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.parity.execution import run_program
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir.call_plan import call_plan
from edgec.ir.program import Program
from edgec.passes.contract import run_pass
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.graph.calibration import Calibration
from tests.families import FAMILIES, build, empty_model
from tests.passes.decoders import StateDict
from tests.passes.deep_decoders import CHUNK, CONTEXT, ROWS, captured, tokens

NAMES = ("llama", "qwen2", "qwen3", "gemma3_text", "phi3")
# A rewrite computes in float32 what a norm and a matrix computed one after the other: logits of about 10 move by 1e-5.
TOLERANCE = 1e-4


@lru_cache(maxsize=8)
def uneven(name: str, seed: int = 0) -> Program:
    """A family's program with fused norms; their weights, and biases, are random."""
    program = captured(next(family for family in FAMILIES if family.name == name))
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in program.graph.parameters():
            if parameter.dim() == 1:
                parameter.copy_(torch.rand(parameter.shape, generator=random) * 2 - 0.5)
    return run_pass(program, FuseRmsNorm())


def every_position(name: str) -> Program:
    """A family's program as it is captured: logits of every position, operators that have gradients."""
    family = next(each for each in FAMILIES if each.name == name)
    skeleton = build_skeleton(empty_model(family.config()))
    weights = StateDict(build(family, "eager"))
    return capture_decoder(skeleton, model_spec(family.config().to_dict()), weights, CONTEXT)


def logits(program: Program) -> Tensor:
    """A program's logits of the fixed tokens, float32 [P, V]."""
    return run_program(program, tokens(), call_plan(40, CHUNK, ROWS))


def calibration(length: int = 1200) -> Calibration:
    """Calibration with enough tokens for matrices 96 wide."""
    return Calibration(tokens(length), context=CONTEXT)
