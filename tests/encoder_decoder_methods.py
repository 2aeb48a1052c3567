"""The methods of tiny random encoder-decoders, rewritten as for a CPU, and a Whisper that says various tokens."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path

import torch

from edgec.bundle.entry_points import ENCODER_DECODER_METHODS, Limits
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.stages.pass_orders import encoder_decoder_passes
from edgec.ir.program import Program
from edgec.passes.contract import run_passes
from tests.encoder_decoders import captured_encoder_decoder, tiny_encoder_decoder

LIMITS = Limits(context=64, prefill_chunk=16, logit_rows=4)


@lru_cache(maxsize=4)
def rewritten(family: str, kernels: str = "edgec") -> Mapping[str, Program]:
    """The programs of a family's methods in float32, by name."""
    captured = captured_encoder_decoder(family)
    passes = encoder_decoder_passes(Recipe("float", kernels=kernels), LIMITS)
    return {name: run_passes(getattr(captured, name), passes[name]) for name in ENCODER_DECODER_METHODS}


def save_talking_whisper(folder: Path) -> Path:
    """A folder with a tiny Whisper that says various tokens, others after each sound: its positions are large."""
    model = deepcopy(tiny_encoder_decoder("whisper"))
    positions = model.model.decoder.embed_positions.weight.data
    positions.normal_(0, 2.0, generator=torch.Generator().manual_seed(9))
    model.save_pretrained(folder)
    return folder
