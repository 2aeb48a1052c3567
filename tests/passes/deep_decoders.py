"""Captured random decoders of several layers and kinds, for the passes that treat layers differently."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir.program import Program
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import run_pass
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.fuse.fuse_rope import FuseRope
from edgec.passes.prefill.last_logits import LastLogits
from tests.families import FULL, SLIDING, Family, build, empty_model
from tests.passes.decoders import StateDict

CONTEXT, CHUNK, ROWS, LAYERS = 64, 12, 4, 4


def _gemma(*kinds: str) -> dict[str, Any]:
    return {"layer_types": list(kinds), "num_hidden_layers": len(kinds), "sliding_window": 8}


MODELS: Mapping[str, Family] = {
    "llama": Family("llama", {"num_hidden_layers": LAYERS, "tie_word_embeddings": True}),
    "qwen3": Family("qwen3", {"num_hidden_layers": LAYERS, "tie_word_embeddings": True}),
    "gemma3": Family("gemma3_text", {**_gemma(SLIDING, FULL, SLIDING, FULL), "query_pre_attn_scalar": 16}),
    "phi3": Family("phi3", {"num_hidden_layers": LAYERS}),
    "smollm3": Family(
        "smollm3", {"num_hidden_layers": LAYERS, "no_rope_layers": [1, 0, 1, 0], "use_sliding_window": False}
    ),
    "rope_bases": Family("gemma3_text", {**_gemma(FULL, SLIDING, FULL, SLIDING), "query_pre_attn_scalar": 16}),
}


def captured(family: Family) -> Program:
    """The family's program after remove_noops and last_logits."""
    model = build(family, "eager")
    skeleton = build_skeleton(empty_model(family.config()))
    program = capture_decoder(skeleton, model_spec(family.config().to_dict()), StateDict(model), CONTEXT)
    return run_pass(run_pass(program, RemoveNoops()), LastLogits(rows=ROWS))


@lru_cache(maxsize=8)
def decoder(name: str) -> Program:
    """One of MODELS, captured."""
    return captured(MODELS[name])


def fused(program: Program) -> Program:
    """A program whose norms and rotations are single operators."""
    return run_pass(run_pass(program, FuseRmsNorm()), FuseRope())


def tokens(length: int = 40) -> list[int]:
    """Seeded token ids."""
    return torch.randint(0, 128, (length,), generator=torch.Generator().manual_seed(1)).tolist()
