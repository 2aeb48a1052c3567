from __future__ import annotations

import torch

from edgec.ir.attributes import attribute
from edgec.ir.program import Program
from edgec.ir.quantized_form import decisions_of
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import options, run_pass, run_passes
from edgec.passes.draft.shared_rounding import RoundedModel, SharedRounding
from tests.passes.decoders import captured

EIGHT, SYMMETRIC = WeightScheme(bits=8, group_size=0), WeightScheme(bits=4, group_size=0)


def rounded(algorithm: str, lm_head: WeightScheme = EIGHT) -> Program:
    return run_pass(captured("llama"), Quantize(default=EIGHT, lm_head=lm_head, algorithm=algorithm))


def integers(program: Program, name: str) -> list[torch.Tensor]:
    return [attribute(program.graph, b) for d in decisions_of(program.graph) if d.name == name for b in d.buffers]


def test_only_the_named_tensors_are_taken() -> None:
    model, other = rounded("rtn"), rounded("mse")
    named = next(d.name for d in decisions_of(other.graph) if d.role == "vocabulary")
    kept = next(d.name for d in decisions_of(other.graph) if d.role == "linear")
    shared = SharedRounding((named,), RoundedModel(model.graph, "forward"))
    assert not all(map(torch.equal, integers(other, named), integers(model, named)))
    result = run_pass(other, shared)
    assert all(a is b for a, b in zip(integers(result, named), integers(model, named), strict=True))
    assert all(a is b for a, b in zip(integers(result, kept), integers(other, kept), strict=True))
    assert options(shared)["model"] == "forward"


def test_tensors_on_another_grid_stay() -> None:
    model, other = rounded("rtn"), rounded("mse", lm_head=SYMMETRIC)
    named = next(d.name for d in decisions_of(other.graph) if d.role == "vocabulary")
    shared = SharedRounding((named,), RoundedModel(model.graph, "forward"))
    assert run_passes(other, [shared]) is other
