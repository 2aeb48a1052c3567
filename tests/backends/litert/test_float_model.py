"""A model in floats computes what its integers stand for, with inputs that nothing rounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from edgec.ir.static_methods import run_static
from tests.passes.static_methods import CONTEXT, PLAN, tokens

pytest.importorskip("ai_edge_litert.interpreter")
pytest.importorskip("litert_torch")
from edgec.backends.coreml.interpreter.blob import unpacked
from edgec.backends.litert.converter import converted
from edgec.backends.litert.float_model import in_floats
from edgec.backends.litert.methods import LitertMethods
from edgec.backends.litert.weights import packed, write_integers
from tests.backends.litert.test_litert_model import signatures


@pytest.mark.long
@pytest.mark.parametrize("recipe", ["4bit", "8bit"])
def test_it_is_the_model_before_its_integers_were_written(recipe: str, tmp_path: Path) -> None:
    before, matrices = converted(list(signatures("llama", recipe).values()), by_products=False)
    written = write_integers(before, matrices)
    wanted, made, rounded = (
        run_static(LitertMethods(each), tokens(CONTEXT), PLAN) for each in (before, in_floats(written), written)
    )
    # Scales of blocks went through float16: 5e-4 of a value at most where they were not bfloat16, and sums of the same.
    assert torch.allclose(made, wanted, rtol=0, atol=1e-4 * float(wanted.abs().max()))
    assert float((rounded - wanted).abs().max()) > 1e-3 * float(wanted.abs().max())


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_integers_come_out_as_they_were_packed(bits: int) -> None:
    values = np.arange(-(1 << (bits - 1)), 1 << (bits - 1)).astype(np.int8)[:-1]
    assert np.array_equal(unpacked(packed(values, bits), bits, len(values), signed=True), values)
