"""Any rows of a packed matrix can be read alone: they are those of the whole, however many are unpacked at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from edgec.exporter.sources.packed.integer_groups import IntegerGroups
from edgec.ir.row_tensor import whole
from tests.exporter.sources.packed.test_gptq import AWQ, GPTQ, WEIGHT, opened
from tests.exporter.sources.packed_writers import PartsOf, awq_parts, gptq_parts, rounded, write_packed
from tests.exporter.sources.small_folders import layer_folder
from tests.exporter.sources.test_packed_others import (
    BITNET,
    MX,
    W8A8,
    grouped,
    int8_parts,
    mxfp4_parts,
    pack_parts,
    ternary_parts,
)

IDS = torch.tensor([31, 0, 7, 8, 9, 7, 20])


def gptq(bits: int, symmetric: bool, ordered: bool = False) -> tuple[dict[str, Any], PartsOf]:
    def parts(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        order = np.random.default_rng(0).permutation(np.arange(weight.shape[1]) // 64) if ordered else None
        made = rounded(weight, bits, 64, symmetric, order)
        return gptq_parts(made), made.values

    return {**GPTQ, "bits": bits, "sym": symmetric, "desc_act": ordered}, parts


def awq(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    made = rounded(weight, 4, 64, False)
    return awq_parts(made), made.values


def packed(name: str, weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    made = rounded(weight, 4, 32, False)
    return pack_parts(made, False), made.values


FORMS: dict[str, tuple[dict[str, Any], PartsOf]] = {
    "GPTQ": gptq(4, True),
    "GPTQ with zero points": gptq(3, False),
    "GPTQ of 8 bits with zero points": gptq(8, False),
    "GPTQ with act-order": gptq(4, False, ordered=True),
    "AWQ": (AWQ, awq),
    "compressed-tensors": (grouped(4, 32, False), packed),
    "int8": (W8A8, int8_parts),
    "MXFP4": (MX, mxfp4_parts),
    "ternary": (BITNET, ternary_parts),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_those_of_the_whole(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, parts = FORMS[form]
    meant = write_packed(tmp_path / "m", settings, parts, layer_folder(tmp_path))[WEIGHT]
    weights = opened(tmp_path / "m")
    integers = weights.packed[WEIGHT].integers
    assert integers is not None
    for at_once in (1 << 22, 256, 1):
        monkeypatch.setattr("edgec.exporter.sources.packed.integer_groups._AT_ONCE", at_once)
        values = weights.rows(WEIGHT)
        assert values is not None
        # Ternary scales are one division and one product here, one division there.
        torch.testing.assert_close(whole(values), meant, rtol=2e-7 if form == "ternary" else 0, atol=0)
        assert torch.equal(whole(values), weights.tensor(WEIGHT))
        assert torch.equal(values[3:21], weights.tensor(WEIGHT)[3:21])
        assert torch.equal(values[IDS], weights.tensor(WEIGHT)[IDS])
    if integers.bits < 8 or integers.zero is None:
        _check_codes(integers)


def _check_codes(integers: IntegerGroups) -> None:
    codes, all_codes = integers.code_rows(), integers.codes(slice(None))
    if integers.columns is not None:
        all_codes = all_codes[:, integers.columns]
    assert all_codes.dtype == torch.int8 and torch.equal(whole(codes), all_codes)
    assert torch.equal(codes[5:9], all_codes[5:9]) and torch.equal(codes[IDS], all_codes[IDS])
