"""Tiny decoders as the one method of any length that another runtime calls."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from torch import Tensor

from edgec.exporter.parity.execution import run_program
from edgec.ir.call_plan import Call
from edgec.ir.program import Program
from edgec.ir.stateful_call import STATEFUL, StatefulFunction, StatefulGraph, StatefulMethods
from edgec.ir.static_methods import run_static
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.static.finite_mask import FiniteMask
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.position_tables import PositionTables
from edgec.passes.static.stacked_cache import StackedCache
from edgec.passes.static.stateful_method import StatefulMethod
from tests.passes.static_methods import CHUNK, CONTEXT, applied, captured, tokens

LAYOUTS = tuple(STATEFUL)
# A whole prompt, single tokens, a second prompt over what is cached, and the end of the context; longer than a window.
CALLS = (
    Call(0, 21, 1),
    *(Call(21 + i, 1, 1) for i in range(8)),
    Call(29, 16, 1),
    *(Call(45 + i, 1, 1) for i in range(19)),
)


@lru_cache(maxsize=2)
def cached(name: str) -> Program:
    """A family's program with full-length caches, all of whose tokens have logits."""
    cache = KvCache(CONTEXT, CHUNK, rings=False)
    return applied(captured(name), (RemoveNoops(), FuseRmsNorm(), cache, FoldConstants()))


def stateful(name: str, layout: str) -> Program:
    """The method in a layout."""
    names = STATEFUL[layout]
    passes = (
        StatefulMethod(names, CONTEXT),
        PositionTables(CONTEXT),
        StackedCache(names),
        Fp16SafeNorm(),
        FiniteMask(),
    )
    return applied(cached(name), passes)


def wanted(name: str) -> Tensor:
    """Logits of the captured program at the calls' last tokens, float32 [P, V]."""
    return run_program(captured(name), tokens(CONTEXT), CALLS)


def executed(function: StatefulFunction, layout: str) -> Tensor:
    """Logits of a function, called as its runtime calls it: float32 [P, V]."""
    return run_static(StatefulMethods(function, STATEFUL[layout], chunk=1), tokens(CONTEXT), CALLS)


def graph_logits(program: Program, layout: str) -> Tensor:
    """Logits of the method as a graph."""
    return executed(StatefulGraph(replace(program)), layout)
