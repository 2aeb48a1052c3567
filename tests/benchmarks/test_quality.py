from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.numpy as numpy_format
import safetensors.torch as torch_format
import torch
from torch import Tensor

from benchmarks.quality_parts.formats import _float32, _fp8, _outliers
from benchmarks.quality_parts.measure import HEADER, Reference, Row, line
from benchmarks.quality_parts.rounding import Stored, Way, integers, rounded, tables, ternary
from benchmarks.quality_parts.subjects import Subject
from benchmarks.quality_parts.weights import cases
from edgec.ir.weight_scheme import WeightScheme, lut
from edgec.passes.contract import run_pass
from edgec.passes.fuse.fuse_rms_norm import FuseRmsNorm
from tests.passes.prepared_decoders import every_position


def _layer() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    weight, inputs = torch.randn(16, 64, generator=random), torch.randn(256, 64, generator=random)
    return weight, inputs @ torch.randn(64, 64, generator=random)


def _error(stored: Stored, weight: Tensor, inputs: Tensor) -> float:
    return float((inputs @ (stored.values - weight).T).square().mean())


def _subject() -> Subject:
    ids = torch.randint(3, 128, (6, 1, 40), generator=torch.Generator().manual_seed(0))
    return Subject("tiny", Path(), list(ids[:3]), list(ids[3:]), "random tokens", ids.flatten())


def test_ternary_scales_by_least_squares_are_the_best_of_many() -> None:
    weight, inputs = _layer()
    stored = ternary(32, "mse")(weight, inputs)
    assert stored.bits == pytest.approx(weight.numel() * (math.log2(3) + 0.5))
    parts = weight.view(16, -1, 32)
    for share in torch.linspace(0.2, 2, 60):
        scale = parts.abs().mean(-1, keepdim=True) * share
        other = ((parts / scale).round().clamp(-1, 1) * scale).view(weight.shape)
        # the stored scale is stored with 8 bits of precision
        assert float((stored.values - weight).square().sum()) <= 1.001 * float((other - weight).square().sum())


def test_bits_are_those_that_are_stored() -> None:
    weight, inputs = _layer()
    assert integers(WeightScheme(4, 32, scale_bits=16), "rtn")(weight, inputs).bits == 4.5 * weight.numel()
    assert tables(lut(3, 8), "k-means")(weight, inputs).bits == 3 * weight.numel() + 2 * 8 * 16


@pytest.mark.parametrize("make", [lambda a: integers(WeightScheme(3, 32), a), lambda a: ternary(64, a)])
def test_compensation_lowers_the_error(make: Callable[[str], Way]) -> None:
    weight, inputs = _layer()
    assert _error(make("gptq")(weight, inputs), weight, inputs) < _error(make("mse")(weight, inputs), weight, inputs)


def test_outlier_columns_are_kept() -> None:
    weight, inputs = _layer()
    inputs = inputs / inputs.abs().max()
    inputs[:, 5] *= 100
    stored = _outliers(weight, inputs)
    assert torch.equal(stored.values[:, 5], weight[:, 5].half().float())
    assert stored.bits > 8 * weight.numel() and not torch.equal(stored.values[:, 6], weight[:, 6])


def test_floats_of_8_bits() -> None:
    weight, inputs = _layer()
    assert torch.allclose(_fp8(torch.float8_e4m3fn)(weight, inputs).values, weight, rtol=2**-4, atol=1e-4)


@pytest.mark.long
def test_a_row_compares_window_by_window() -> None:
    subject = _subject()
    subject.__dict__["program"] = run_pass(every_position("llama"), FuseRmsNorm())
    reference = Reference.of(subject)
    same = reference.compare(reference.windows, "float32", "", 32)
    assert same.kl == 0 and same.increase == 0 and same.same_top1 == 1 and same.tokens == 3 * 39
    changed, bits = rounded(subject.program, subject, integers(WeightScheme(2, 32, scale_bits=16), "rtn"))
    row = reference.row(changed, "2 bits", "RTN", bits)
    assert row.kl > 0.01 and row.error > 0 and bits == pytest.approx(2.5)
    assert torch.equal(Reference.of(subject).windows[0], reference.windows[0])


def test_lines_have_the_headers_columns() -> None:
    row = Row("m", 4.5, "4-bit", "RTN", 3.3, 0.01, 0.002, 0.003, 0.95, 1000)
    assert line(row).count("|") == HEADER.count("|") and "+1.00%" in line(row) and "95.0%" in line(row)


def test_every_form_has_nearest_values_and_gptq() -> None:
    forms = {case.form for case in cases()}
    assert len(forms) == 12
    for form in forms:
        algorithms = [case.algorithm for case in cases() if case.form == form]
        assert len(algorithms) == len(set(algorithms)) and any("GPTQ" in name for name in algorithms)


def test_weights_for_the_peers_are_read_without_torch(tmp_path: Path) -> None:
    held = {"a": torch.arange(4).bfloat16() / 3}
    torch_format.save_file(held, tmp_path / "model.safetensors")
    read = numpy_format.load_file(_float32(tmp_path / "model.safetensors", tmp_path / "float32.safetensors"))
    assert read["a"].dtype.name == "float32" and read["a"].tolist() == held["a"].tolist()
