"""The static methods of a decoder once for the model as it is and once under each adapter, over the same tensors.

cached program -+------------------> prefill, decode
+-> add_adapter ---> prefill_pirate, decode_pirate
+-> add_adapter ---> prefill_poet, decode_poet
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.bundle.shipped_adapters import ShippedAdapter
from edgec.exporter.parity.execution import run_program
from edgec.exporter.parity.ladder import Stage, lowering_rung, of_method, quality_rung
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.adapters import NamedLora
from edgec.exporter.stages.pass_orders import method_passes
from edgec.ir.program import Effect, Program
from edgec.ir.row_tensor import fill_integers
from edgec.ir.static_methods import (
    DECODE,
    PREFILL,
    STATIC_METHODS,
    AdaptedMethods,
    GraphMethods,
    Methods,
    function_name,
    run_static,
)
from edgec.passes.contract import run_pass, run_passes
from edgec.passes.static.add_adapter import AddAdapter, LowRankChange, LowRankChanges
from edgec.runtime_py.adapters.peft_folder import PeftModule

_MEASURED = "changes the model on purpose: what the adapter does on the probe"


def adapted_programs(program: Program, request: ExportRequest) -> dict[str, Program]:
    """The cached program as it is, by an empty name, and under each adapter; they share the model's tensors."""
    under = {lora.name: run_pass(program, _adding(lora, request)) for lora in request.loras}
    return {"": program, **under}


def _adding(lora: NamedLora, request: ExportRequest) -> AddAdapter:
    changes = LowRankChanges({module.name: _change(lora, module) for module in lora.folder.modules})
    return AddAdapter(lora.name, changes, request.form.logits_width)


def _change(lora: NamedLora, module: PeftModule) -> LowRankChange:
    a, b = (torch.from_numpy(side.floats().copy()) for side in (module.a, module.b))
    return LowRankChange(a, b, lora.folder.settings.scale_of(module.name))


def every_function(programs: Mapping[str, Program], request: ExportRequest) -> dict[str, Program]:
    """Each static method of each of ``adapted_programs``, by its function's name.

    Integers that a checkpoint stores get memory of their own: constants are told apart by where they lie.
    """
    for program in programs.values():
        fill_integers(program.graph)
    return {
        function_name(method, adapter): static_method(program, method, request)
        for adapter, program in programs.items()
        for method in STATIC_METHODS
    }


def static_method(program: Program, method: str, request: ExportRequest) -> Program:
    """One static method of a cached program."""
    limits = request.limits
    tokens = {PREFILL: limits.prefill_chunk, DECODE: 1}[method]
    return run_passes(program, method_passes(method, tokens, request.slots, request.form))


def graph_methods(functions: Mapping[str, Program], adapter: str) -> GraphMethods:
    """The graphs of the methods under an adapter, executed by torch."""
    return GraphMethods({method: functions[function_name(method, adapter)] for method in STATIC_METHODS})


@dataclass(frozen=True)
class AdapterGraphs:
    """What was measured of the graphs under one adapter: the rungs, and the logits of the last graphs."""

    rungs: tuple[Rung, ...]
    final: Tensor


def measure_graphs(
    adapter: str, program: Program, functions: Mapping[str, Program], before: Stage, request: ExportRequest
) -> AdapterGraphs:
    """Measure what an adapter changes, and compare its static methods with the cached program under it.

    Args:
        adapter: its name.
        program: the cached program under the adapter.
        functions: all static methods, by their functions' names.
        before: the cached program's logits without an adapter.
        request: names the probe.
    """
    probe = request.probe
    wanted = Stage("add_adapter", run_program(program, probe.tokens, probe.plan), Effect.SEMANTIC)
    after = Stage("static methods", run_static(graph_methods(functions, adapter), probe.tokens, probe.plan))
    changed = quality_rung(before, wanted, {}, gated=False, note=_MEASURED)
    rungs = (of_adapter(changed, adapter), of_adapter(lowering_rung(wanted, after), adapter))
    return AdapterGraphs(rungs, after.logits)


def of_adapter(rung: Rung, adapter: str) -> Rung:
    """A rung that says which adapter it is about."""
    return of_method(rung, f"adapter {adapter}")


def artifact_logits(methods: Methods, adapter: str, request: ExportRequest) -> Tensor:
    """The logits of an artifact's functions under an adapter, float32 [P, V]; ``adapter``: empty for none."""
    return run_static(AdaptedMethods(methods, adapter), request.probe.tokens, request.probe.plan)


def final_name(adapter: str) -> str:
    """The name under which the last graph's logits under an adapter are kept between the stages."""
    return function_name("final", adapter)


def shipped_adapters(request: ExportRequest) -> list[ShippedAdapter]:
    """The adapters for the manifest."""
    return [_shipped(lora, request) for lora in request.loras]


def _shipped(lora: NamedLora, request: ExportRequest) -> ShippedAdapter:
    names = [module.name for module in lora.folder.modules]
    return ShippedAdapter(
        name=lora.name,
        digest=lora.digest,
        trained_on=lora.folder.settings.trained_on,
        ranks=sorted({lora.folder.settings.rank_of(name) for name in names}),
        modules=names,
        bytes=lora.bytes(2 if request.form.half else 4),
    )
