"""The integers and scales of GGUF's blocks mean, to the bit, what the gguf package says that the blocks mean."""

from __future__ import annotations

from math import prod
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from edgec.bundle.gguf_header import READ_TYPES, GgufTensor
from edgec.exporter.sources.gguf_blocks import integer_blocks
from edgec.exporter.sources.gguf_weights import GgufParameter, GgufWeights, row_order, turned
from tests.exporter.sources.gguf_models import FAMILIES, tiny_model, write_model
from tests.exporter.sources.test_gguf_models import random_blocks

# Values in a group, the smallest and the largest integer.
FORMS = {
    **{"Q4_0": (32, -8, 7), "Q4_1": (32, 0, 15), "Q5_0": (32, -16, 15), "Q5_1": (32, 0, 31), "Q8_0": (32, -128, 127)},
    **{"Q2_K": (16, 0, 3), "Q3_K": (16, -4, 3), "Q4_K": (32, 0, 15), "Q5_K": (32, 0, 31), "Q6_K": (16, -32, 31)},
}


def _tensor(file: Path, kind: str, shape: tuple[int, ...]) -> tuple[GgufTensor, torch.Tensor]:
    """A tensor of random blocks in a file of its own, and what the package makes of it."""
    number = gguf.GGMLQuantizationType[kind]
    values, _ = gguf.GGML_QUANT_SIZES[number]
    raw = random_blocks(kind, prod(shape[:-1]), shape[-1] // values)
    file.write_bytes(b"before" + raw.tobytes())
    expected = torch.from_numpy(np.array(gguf.dequantize(raw, number)))
    return GgufTensor("w", kind, shape, file, len(b"before"), raw.nbytes), expected


@pytest.mark.parametrize("kind", FORMS)
def test_integers_and_scales_give_the_values_to_the_bit(kind: str, tmp_path: Path) -> None:
    tensor, expected = _tensor(tmp_path / "w", kind, (24, 1024))
    blocks = integer_blocks(tensor)
    group, least, most = FORMS[kind]
    assert blocks is not None
    assert torch.equal(blocks.values(), expected)
    assert (blocks.group, int(blocks.codes.min()), int(blocks.codes.max())) == (group, least, most)
    assert blocks.codes.dtype == blocks.s.dtype == torch.int8 and blocks.d.dtype == torch.float16
    assert blocks.codes.shape == (24, 1024) and blocks.s.shape == (24, 1024 // group)
    width = 1024 // blocks.d.shape[1]
    assert width == gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][0]
    assert (blocks.minimum is None) == (blocks.dmin is None) == (kind in ("Q4_0", "Q5_0", "Q8_0", "Q3_K", "Q6_K"))


@pytest.mark.parametrize("kind", sorted(set(READ_TYPES) - FORMS.keys()))
def test_other_types_have_no_such_integers(kind: str, tmp_path: Path) -> None:
    tensor, _ = _tensor(tmp_path / "w", kind, (4, 256))
    assert integer_blocks(tensor) is None


def test_rows_in_pieces_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor, expected = _tensor(tmp_path / "w", "Q4_K", (7, 512))
    monkeypatch.setattr("edgec.exporter.sources.gguf_blocks._AT_ONCE", 1024)
    blocks = integer_blocks(tensor)
    assert blocks is not None and torch.equal(blocks.values(), expected)


def test_dimensions_beyond_two_are_rows(tmp_path: Path) -> None:
    tensor, expected = _tensor(tmp_path / "w", "Q5_K", (3, 4, 256))
    blocks = integer_blocks(tensor)
    assert blocks is not None and torch.equal(blocks.values(), expected)


def test_rows_of_heads_are_put_in_order_with_their_scales(tmp_path: Path) -> None:
    tensor, expected = _tensor(tmp_path / "w", "Q4_1", (16, 64))
    weights = GgufWeights((tensor.file,), {"q": GgufParameter((tensor,), (16, 64), heads=2)})
    blocks = weights.blocks("q")
    assert blocks is not None
    assert torch.equal(blocks.values(), weights.tensor("q"))
    assert torch.equal(weights.tensor("q"), turned(expected, 2))
    assert row_order(8, 2).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_a_models_blocks_are_found_by_parameter(tmp_path: Path) -> None:
    from edgec.exporter.sources.gguf_file import read_gguf
    from edgec.exporter.sources.gguf_weights import gguf_weights

    family = FAMILIES["llama"]
    model = tiny_model(family)
    weights = gguf_weights(read_gguf(write_model(tmp_path / "tiny.gguf", family, model, "Q4_0")), model)
    for name, entry in weights.names().items():
        blocks = weights.blocks(name)
        assert (blocks is None) == (len(entry.shape) < 2), name
        assert blocks is None or torch.equal(blocks.values(), weights.tensor(name))
