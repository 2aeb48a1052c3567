"""The layers of a network that float16 does not hold, kept in float32 so that its artifact is right.

    where numbers end in float16  ->  that layer, until none do
    layers by their float16 error ->  the first 1, 2, 4, 8, ... with which the outputs hold the budget

Both are found in the graph that was lowered, run as if in float16 (``parity/half_run.py``) on some of the inputs that
the network is judged on, and on those times 4: an artifact is made once more, not once for each try.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.fx import GraphModule

from edgec.backends.coreml.activation_ranges import activation_ranges
from edgec.bundle.findings import Rung
from edgec.errors import BudgetError, EdgecError
from edgec.exporter.parity.half_range import LIMIT
from edgec.exporter.parity.half_run import errors_in_half, named, outputs_in_half
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.output_form import OutputForm, forms_of
from edgec.exporter.parity.outputs import flatten_outputs, worst_output_rung
from edgec.exporter.parity.refusals import JUDGED, used_share
from edgec.ir.node_layers import layer_of
from edgec.runtime_py.functions.prepared_inputs import spread

if TYPE_CHECKING:
    from edgec.exporter.progress import Progress
    from edgec.exporter.recipes.recipe import Recipe
    from edgec.exporter.request import ExportRequest
    from edgec.ir.program import Program

_FEW = 4
# Of the budget: the artifact adds in its own order.
_ENOUGH = 0.5
# A network of which more layers are to blame is not made for float16.
_MOST = 0.25
ROUNDS = 2
"""How often layers are looked for: an artifact may still be off where the graph's float16 is not."""
_OVERFLOW = "E830"


def may_keep(request: ExportRequest, error: EdgecError) -> bool:
    """Whether an export failed by what float16 makes of a network, and its format can keep layers in float32."""
    form = request.form
    if request.source.kind != "module" or not (form.half and form.static and form.executed):
        return False
    missed = isinstance(error, BudgetError) and error.code in JUDGED and error.where.startswith("stage artifact")
    return missed or error.code == _OVERFLOW


def with_float_layers(request: ExportRequest, progress: Progress) -> Recipe | None:
    """The recipe with the layers that are to blame in float32; None where none can be named."""
    progress.enter("search", "layers that float16 does not hold")
    search = _Search.of(request)
    found = search.layers() if search is not None else ()
    if not found:
        return None
    kept = tuple(dict.fromkeys((*request.recipe.keep_float, *found)))
    told = f"{request.recipe.name.partition(',')[0]}, {shown_layers(kept)} in float32"
    return replace(request.recipe, name=told, keep_float=kept)


def shown_layers(layers: Sequence[str]) -> str:
    """Layers in words: ``2 layers (norm, attention:sum)``."""
    named_few = ", ".join(layers[:3]) + (f" and {len(layers) - 3} more" if len(layers) > 3 else "")
    return f"{len(layers)} layer{'s' if len(layers) != 1 else ''} ({named_few})"


def naming_layer(request: ExportRequest, error: EdgecError) -> EdgecError:
    """The error of an artifact that float16 spoils, with the layer that it takes off most and how to keep that one."""
    search = _Search.of(request)
    errors = errors_in_half(search.graph, search.calls) if search else {}
    if not errors or "--keep-float" in error.fix:
        return error
    worst = max(errors, key=lambda each: errors[each])
    where = f"{error.where}; float16 is furthest off in {worst} ({errors[worst]:.2g} of its largest output)"
    fix = f"keep layers in float32 (--keep-float {worst}), or {error.fix}"
    return type(error)(error.what, where, error.why, fix, error.code)


@dataclass(frozen=True)
class _Search:
    """A graph, all inputs that must give numbers, some whose outputs are compared, and how that is done."""

    graph: GraphModule
    every: Sequence[Sequence[Tensor]]
    calls: Sequence[Sequence[Tensor]]
    wanted: Sequence[Sequence[Tensor]]
    forms: Sequence[OutputForm]
    compare: Callable[[Stage, Stage], Rung]

    @classmethod
    def of(cls, request: ExportRequest) -> _Search | None:
        from edgec.exporter.progress import Progress
        from edgec.exporter.stages.static_module import StaticModuleStages

        stages = StaticModuleStages(request)
        program, judged = stages.rewritten(Progress()), stages.judged()
        if not any(map(layer_of, program.graph.graph.nodes)):
            return None
        calls = spread(judged.calls, _FEW)
        with torch.no_grad():
            wanted = [tuple(program.graph(*call)) for call in calls]
        further = [each.inputs for each in judged.stress if each.moderate or _fits(program, each.inputs)]
        forms = [replace(form, half=True) for form in forms_of(wanted[0], calls[0])]
        return cls(program.graph, (*judged.calls, *further), calls, wanted, forms, stages.compare())

    def layers(self) -> tuple[str, ...]:
        """Patterns of the layers that must be float32; empty where these do not help, or are too many."""
        known = list(dict.fromkeys(filter(None, map(layer_of, self.graph.graph.nodes))))
        most = max(_FEW, int(_MOST * len(known)))
        kept: list[str] = []
        for inputs in self.every:
            while layer := outputs_in_half(self.graph, inputs, named(kept))[1]:
                if layer not in known or layer in kept or len(kept) == most:
                    return ()
                kept.append(layer)
        share = self._share(kept)
        aim = _ENOUGH if share > 1 or kept else min(_ENOUGH, _ENOUGH * share)
        return patterns(kept if share <= aim else self._with_worst(kept, aim, most), known)

    def _with_worst(self, kept: list[str], aim: float, most: int) -> list[str]:
        """The fewest layers of the largest errors with which the outputs are near enough; none where too many are."""
        errors = errors_in_half(self.graph, self.calls)
        ranked = sorted((each for each in errors if each not in kept), key=lambda each: -errors[each])
        few, many = 0, 1
        while self._share([*kept, *ranked[:many]]) > aim:
            if len(kept) + many >= min(most, len(ranked)):
                return []
            few, many = many, 2 * many
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if self._share([*kept, *ranked[:middle]]) <= aim else (middle, many)
        return [*kept, *ranked[:many]]

    def _share(self, kept: Collection[str]) -> float:
        """How much of the budget the outputs use up, in the call in which they differ most."""
        return max(map(partial(self._used, kept), self.calls, self.wanted))

    def _used(self, kept: Collection[str], call: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
        got, _ = outputs_in_half(self.graph, call, named(kept))
        stages = Stage("graph", flatten_outputs(wanted)), Stage("float16", flatten_outputs(got))
        rung = worst_output_rung(*stages, self.forms, self.compare)
        return max((used_share(rung, name, limit) for name, limit in rung.budget.items()), default=0.0)


def _fits(program: Program, inputs: Sequence[Tensor]) -> bool:
    """Whether float16 holds all values of a graph."""
    return max(activation_ranges(program, [inputs]).values(), default=0.0) <= LIMIT


def patterns(kept: Collection[str], known: Sequence[str]) -> tuple[str, ...]:
    """Layers as ``--keep-float`` takes them: a module's path where all of it is kept, else PATH:OPERATOR."""
    paths = dict.fromkeys(layer.partition(":")[0] for layer in kept)
    whole = {path for path in paths if path and all(each in kept for each in known if _is_inside(each, path))}
    return tuple(dict.fromkeys(path if (path := each.partition(":")[0]) in whole else each for each in kept))


def _is_inside(layer: str, path: str) -> bool:
    return layer.startswith((f"{path}:", f"{path}."))
