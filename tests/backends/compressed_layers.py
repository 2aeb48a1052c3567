"""One layer with its weight in each compressed form, as the passes leave it in a graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme, balanced, lut
from edgec.passes.compress.palettize import Palettize
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.contract import run_pass

ROWS, WIDTH = 64, 96
INPUT = torch.linspace(-1.0, 1.0, WIDTH).view(1, WIDTH)
TOKENS = torch.tensor([[0, 63, 5, 5]], dtype=torch.int32)


@dataclass(frozen=True)
class Form:
    """A compressed layer: ``constexpr`` are Core ML's operators for it, in order."""

    name: str
    scheme: WeightScheme
    kind: str = "linear"
    constexpr: tuple[str, ...] = ("constexpr_lut_to_dense",)


_SPARSE = ("constexpr_lut_to_sparse", "constexpr_sparse_to_dense")
_SCALED = ("constexpr_blockwise_shift_scale",)
TABLES = tuple(Form(f"lut{bits}", lut(bits, 16)) for bits in (1, 2, 3, 4, 6, 8))
FORMS = (
    *TABLES,
    Form("lut4 per tensor", lut(4)),
    Form("lut4 convolution", lut(4, 16), "conv"),
    Form("lut4 embedding", lut(4, 16), "embedding"),
    Form("balanced", balanced(1)),
    Form("sparse", lut(4, 16, 0.5), constexpr=_SPARSE),
    Form("sparse 2:4", lut(4, 16, 0.5, 4), constexpr=_SPARSE),
    Form("sparse convolution", lut(4, 16, 0.5), "conv", _SPARSE),
    Form("int4 channel", WeightScheme(4, 0, activation_bits=0), constexpr=_SCALED),
    Form("int4 block 32", WeightScheme(4, 32, activation_bits=0), constexpr=_SCALED),
    Form("int8 channel", WeightScheme(8, 0, activation_bits=0), constexpr=_SCALED),
    Form("int8 embedding", WeightScheme(8, 0, activation_bits=0), "embedding", _SCALED),
    Form("int4 embedding", WeightScheme(4, 0, activation_bits=0), "embedding", _SCALED),
)
# Each has a form beside it that goes the same way through the converters.
_THOROUGH = ("lut8", "sparse 2:4", "sparse convolution", "int4 channel", "int8 channel", "int4 embedding")


def swept(forms: Iterable[Form]) -> list[Any]:
    """Forms as parameters of a test; some of them are for the slow run."""
    return [
        pytest.param(form, id=form.name, marks=[pytest.mark.slow] if form.name in _THOROUGH else []) for form in forms
    ]


class _Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(WIDTH, ROWS, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x.view(1, WIDTH, 1, 1))
        return result.view(1, ROWS)


@lru_cache(maxsize=32)
def layer(form: Form) -> tuple[Program, Tensor]:
    """The layer's program and its input."""
    torch.manual_seed(0)
    made: dict[str, nn.Module] = {
        "linear": nn.Linear(WIDTH, ROWS, bias=False),
        "conv": _Convolution(),
        "embedding": nn.Embedding(ROWS, WIDTH),
    }
    given = TOKENS if form.kind == "embedding" else INPUT
    program = capture_module(made[form.kind].eval().requires_grad_(False), (given,))
    scheme = form.scheme
    if scheme.is_table:
        return run_pass(program, Palettize(default=scheme, embedding=scheme)), given
    if form.kind == "embedding":
        return run_pass(program, QuantizeEmbedding(scheme.bits, scheme.group_size, min_rows=1)), given
    return run_pass(program, Quantize(default=scheme)), given


def wanted(program: Program, given: Tensor) -> Tensor:
    """What the graph computes."""
    with torch.no_grad():
        outputs = program.graph(given)
    result: Tensor = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
    return result
