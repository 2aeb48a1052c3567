"""A model in floats computes what its integers stand for, with inputs that nothing rounds."""

from __future__ import annotations

from collections.abc import Mapping
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
from edgec.backends.litert.operators import Integers
from edgec.backends.litert.weights import packed, read_model, write_integers, written_model
from tests.backends.litert.test_litert_model import signatures


def _with_floats(content: bytes, matrices: Mapping[str, Integers]) -> bytes:
    """A model whose inputs for matrices are constants, what the integers stand for."""
    schema, held = read_model(content)
    for signature in held.signatureDefs:
        graph = held.subgraphs[signature.subgraphIndex]
        for given in [each for each in signature.inputs if each.name.decode() in matrices]:
            known, buffer = matrices[given.name.decode()], schema.BufferT()
            groups = known.scales.reshape(len(known.values), -1, 1)
            floats = known.values.reshape(*groups.shape[:2], -1).astype(np.float32) * groups
            buffer.data = floats.reshape(-1).view(np.uint8)
            held.buffers.append(buffer)
            graph.tensors[given.tensorIndex].buffer = len(held.buffers) - 1
            signature.inputs.remove(given)
            graph.inputs = [place for place in graph.inputs if place != given.tensorIndex]
    return written_model(held, len(content))


@pytest.mark.sweep(1)
@pytest.mark.long
@pytest.mark.parametrize("recipe", ["4bit", "8bit"])
def test_it_is_the_model_over_what_its_integers_stand_for(recipe: str, tmp_path: Path) -> None:
    asking, matrices = converted(list(signatures("llama", recipe).values()), by_products=False)
    before, written = _with_floats(asking, matrices), write_integers(asking, matrices)
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
