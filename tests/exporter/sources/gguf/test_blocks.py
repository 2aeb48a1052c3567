"""The integers and scales of GGUF's blocks mean, to the bit, what the gguf package says that the blocks mean."""

from __future__ import annotations

from math import prod
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from edgec.bundle.gguf_header import READ_TYPES, GgufTensor
from edgec.errors import InputError
from edgec.exporter.sources.gguf.blocks import integer_blocks
from edgec.exporter.sources.gguf.scales import float16_holds
from edgec.exporter.sources.gguf.weights import GgufParameter, GgufWeights, row_order, turned
from tests.exporter.sources.gguf_models import FAMILIES, tiny_model, write_model
from tests.exporter.sources.test_gguf_models import random_blocks

# Values in a group, the smallest and the largest integer.
FORMS = {
    **{"Q4_0": (32, -8, 7), "Q4_1": (32, 0, 15), "Q5_0": (32, -16, 15), "Q5_1": (32, 0, 31), "Q8_0": (32, -128, 127)},
    **{"Q2_K": (16, 0, 3), "Q3_K": (16, -4, 3), "Q4_K": (32, 0, 15), "Q5_K": (32, 0, 31), "Q6_K": (16, -32, 31)},
    **{"IQ4_NL": (32, -127, 113), "MXFP4": (32, -12, 12), "TQ1_0": (256, -1, 1), "TQ2_0": (256, -1, 1)},
}


def tensor_of(file: Path, kind: str, shape: tuple[int, ...]) -> tuple[GgufTensor, torch.Tensor]:
    """A tensor of random blocks in a file of its own, and what the package makes of it."""
    number = gguf.GGMLQuantizationType[kind]
    values, _ = gguf.GGML_QUANT_SIZES[number]
    raw = random_blocks(kind, prod(shape[:-1]), shape[-1] // values)
    file.write_bytes(b"before" + raw.tobytes())
    expected = torch.from_numpy(np.array(gguf.dequantize(raw, number)))
    return GgufTensor("w", kind, shape, file, len(b"before"), raw.nbytes), expected


@pytest.mark.parametrize("kind", FORMS)
def test_integers_and_scales_give_the_values_to_the_bit(kind: str, tmp_path: Path) -> None:
    tensor, expected = tensor_of(tmp_path / "w", kind, (24, 1024))
    blocks = integer_blocks(tensor)
    group, least, most = FORMS[kind]
    assert blocks is not None
    assert torch.equal(blocks.values(), expected)
    assert (blocks.group, int(blocks.codes.min()), int(blocks.codes.max())) == (group, least, most)
    assert blocks.codes.dtype == blocks.s.dtype == torch.int8 and blocks.d.dtype == torch.float16
    assert blocks.codes.shape == (24, 1024) and blocks.s.shape == (24, 1024 // group)
    width = 1024 // blocks.d.shape[1]
    assert width == gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][0]
    lifted = kind in ("Q4_1", "Q5_1", "Q2_K", "Q4_K", "Q5_K")
    assert (blocks.minimum is not None) == (blocks.dmin is not None) == lifted


@pytest.mark.parametrize("kind", sorted(set(READ_TYPES) - FORMS.keys()))
def test_other_types_have_no_such_integers(kind: str, tmp_path: Path) -> None:
    tensor, _ = tensor_of(tmp_path / "w", kind, (4, 256))
    assert integer_blocks(tensor) is None


def test_a_ternary_weight_with_a_fourth_value_is_damaged(tmp_path: Path) -> None:
    tensor, _ = tensor_of(tmp_path / "w", "TQ2_0", (2, 256))
    raw = bytearray(tensor.file.read_bytes())
    raw[tensor.offset + 5] |= 0b11
    tensor.file.write_bytes(bytes(raw))
    with pytest.raises(InputError, match="codes that its format does not have") as caught:
        integer_blocks(tensor)
    assert caught.value.code == "E819"


@pytest.mark.parametrize("power", [0, 40])
def test_a_block_of_zeros_has_a_scale_of_zero_whatever_its_power_is(power: int, tmp_path: Path) -> None:
    """Zeros are stored with a power that float16 does not hold; 8 is the negative zero."""
    raw = np.array([[power, *[0x80] * 16]], np.uint8)
    (tmp_path / "w").write_bytes(raw.tobytes())
    tensor = GgufTensor("w", "MXFP4", (1, 32), tmp_path / "w", 0, raw.nbytes)
    blocks = integer_blocks(tensor)
    assert blocks is not None and not blocks.values().any() and not blocks.d.any()
    assert not gguf.dequantize(raw, gguf.GGMLQuantizationType.MXFP4).any()
    assert float16_holds(tensor)


def test_powers_that_float16_does_not_hold_are_found(tmp_path: Path) -> None:
    raw = np.array([[power, *[0x11] * 16] for power in (104, 143, 103, 144)], np.uint8)
    (tmp_path / "w").write_bytes(raw.tobytes())
    found = [
        float16_holds(GgufTensor("w", "MXFP4", (1, 32), tmp_path / "w", 17 * block, 17)) for block in range(len(raw))
    ]
    assert found == [True, True, False, False]


def test_rows_in_pieces_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor, expected = tensor_of(tmp_path / "w", "Q4_K", (7, 512))
    monkeypatch.setattr("edgec.exporter.sources.gguf.blocks._AT_ONCE", 1024)
    blocks = integer_blocks(tensor)
    assert blocks is not None and torch.equal(blocks.values(), expected)


def test_dimensions_beyond_two_are_rows(tmp_path: Path) -> None:
    tensor, expected = tensor_of(tmp_path / "w", "Q5_K", (3, 4, 256))
    blocks = integer_blocks(tensor)
    assert blocks is not None and torch.equal(blocks.values(), expected)


def test_rows_of_heads_are_put_in_order_with_their_scales(tmp_path: Path) -> None:
    tensor, expected = tensor_of(tmp_path / "w", "Q4_1", (16, 64))
    weights = GgufWeights((tensor.file,), {"q": GgufParameter((tensor,), (16, 64), heads=2)})
    blocks = weights.blocks("q")
    assert blocks is not None
    assert torch.equal(blocks.values(), weights.tensor("q"))
    assert torch.equal(weights.tensor("q"), turned(expected, 2))
    assert row_order(8, 2).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_a_models_blocks_are_found_by_parameter(tmp_path: Path) -> None:
    from edgec.exporter.sources.gguf.file import read_gguf
    from edgec.exporter.sources.gguf.weights import gguf_weights

    family = FAMILIES["llama"]
    model = tiny_model(family)
    weights = gguf_weights(read_gguf(write_model(tmp_path / "tiny.gguf", family, model, "Q4_0")), model)
    for name, entry in weights.names().items():
        blocks = weights.blocks(name)
        assert (blocks is None) == (len(entry.shape) < 2), name
        assert blocks is None or torch.equal(blocks.values(), weights.tensor(name))
