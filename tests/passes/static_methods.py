"""Tiny decoders as static methods, and their execution against the captured program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.parity.execution import run_program
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir.call_plan import Call
from edgec.ir.program import Program
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import Pass, run_pass
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.prefill.last_logits import LastLogits
from edgec.passes.prefill.prefill_skip import PrefillSkip
from edgec.passes.static.static_method import StaticMethod
from tests.families import FAMILIES, Family, StoredWeights, build, save

CONTEXT, CHUNK = 64, 16
# Two full chunks, one of five tokens and eleven of padding, single tokens; longer than any window.
PLAN = (Call(0, CHUNK, 1), Call(16, CHUNK, 1), Call(32, 5, 1), *(Call(37 + i, 1, 1) for i in range(12)))
# For what takes long to lower: two layers instead of three.
SHORT_LLAMA = Family("llama", {"tie_word_embeddings": True, "num_hidden_layers": 2})
_KEPT: list[TemporaryDirectory[str]] = []


def family(name: str) -> Family:
    """One of the families that capture takes."""
    return SHORT_LLAMA if name == "short llama" else next(each for each in FAMILIES if each.name == name)


@lru_cache(maxsize=2)
def captured(name: str) -> Program:
    """A family's captured program."""
    folder = TemporaryDirectory()
    _KEPT.append(folder)
    weights = StoredWeights(save(family(name), Path(folder.name)) / "model.safetensors")
    skeleton = build_skeleton(lambda: build(family(name), "edgec"))
    return capture_decoder(skeleton, model_spec(family(name).config().to_dict()), weights, CONTEXT)


@lru_cache(maxsize=2)
def cached(name: str, sink_tokens: int = 0) -> Program:
    """A family's program with full-length caches, from which static methods are made."""
    cache = KvCache(CONTEXT, CHUNK, sink_tokens=sink_tokens, rings=False)
    passes = (RemoveNoops(), LastLogits(1), FuseRmsNorm(), cache, PrefillSkip(), FoldConstants())
    return applied(captured(name), passes)


def applied(program: Program, passes: Sequence[Pass]) -> Program:
    """The program after some passes."""
    for each in passes:
        program = run_pass(program, each)
    return program


def methods(program: Program, passes: Sequence[Pass]) -> dict[str, Program]:
    """``prefill`` and ``decode`` of a cached program after some more passes."""
    return {
        name: applied(program, [StaticMethod(name, tokens), *passes])
        for name, tokens in (("prefill", CHUNK), ("decode", 1))
    }


def tokens(length: int = 49, seed: int = 3) -> list[int]:
    """Seeded token ids."""
    return torch.randint(0, 128, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def reference(name: str) -> Tensor:
    """Logits of the captured program, which has no cache, at the plan's positions: float32 [P, V]."""
    return run_program(captured(name), tokens(), PLAN)


def run(programs: Mapping[str, Program]) -> Tensor:
    """Logits of static methods over the plan: float32 [P, V]."""
    from edgec.ir.static_methods import GraphMethods, run_static

    return run_static(GraphMethods(programs), tokens(), PLAN)
