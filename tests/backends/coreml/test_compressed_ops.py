"""Compressed weights through coremltools and ExecuTorch's Core ML delegate, executed by edgec's interpreter."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.export import ExportedProgram

from edgec.backends.coreml.compressed_ops import expand_tables, register, sparse_parts
from edgec.backends.coreml.interpreter import load_package
from edgec.errors import InputError
from edgec.ir.lut_form import dequantize_lut
from edgec.ir.program import Program
from tests.backends.compressed_layers import FORMS, Form, layer, swept, wanted

# float16 weights and results against float32: 2^-11 of each product's size
TOLERANCE = 3e-3


def _exported(program: Program, given: Tensor) -> ExportedProgram:
    return torch.export.export(program.graph, (given,), strict=False)


@lru_cache(maxsize=32)
def _converted(form: Form) -> Any:
    import coremltools as ct

    program, given = layer(form)
    register()
    return ct.convert(
        _exported(program, given).run_decompositions({}),
        minimum_deployment_target=ct.target.iOS18,
        compute_precision=ct.precision.FLOAT16,
        skip_model_load=True,
    )


def _executed(package: Path, given: Tensor) -> Tensor:
    function = next(iter(load_package(package).functions.values()))
    (name,) = [feature.name for feature in function.inputs]
    (result,) = function.run({name: given}).values()
    return result.float()


def _constexprs(converted: Any) -> tuple[str, ...]:
    operators = converted._mil_program.functions["main"].operations
    return tuple(operator.op_type for operator in operators if operator.op_type.startswith("constexpr"))


@pytest.mark.long
@pytest.mark.parametrize("form", swept(FORMS))
def test_a_package_holds_the_form_and_computes_the_graphs_numbers(form: Form, tmp_path: Path) -> None:
    program, given = layer(form)
    converted = _converted(form)
    assert _constexprs(converted) == form.constexpr
    package = tmp_path / "layer.mlpackage"
    converted.save(str(package))
    torch.testing.assert_close(_executed(package, given), wanted(program, given), atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.long
def test_the_file_holds_packed_indices(tmp_path: Path) -> None:
    sizes = {}
    for form in (form for form in FORMS if form.name in ("lut2", "lut3", "lut4", "lut6", "sparse")):
        package = tmp_path / f"{form.name}.mlpackage"
        _converted(form).save(str(package))
        sizes[form.name] = (package / "Data/com.apple.CoreML/weights/weight.bin").stat().st_size
    assert sizes["lut2"] < sizes["sparse"] < sizes["lut4"] < sizes["lut6"] and sizes["lut3"] < sizes["lut4"]
    # half a byte an index; tables; headers of file and blobs, aligned to 64 bytes
    assert sizes["lut4"] < 64 * 96 // 2 + 4 * 16 * 2 + 8 * 64


_THROUGH_EXECUTORCH = (
    "lut3",
    "lut4 convolution",
    "sparse",
    "balanced",
    "int4 channel",
    "int4 block 32",
    "int8 channel",
)


@pytest.mark.long
@pytest.mark.parametrize("form", swept(f for f in FORMS if f.name in _THROUGH_EXECUTORCH))
def test_executorchs_delegate_reads_the_same_forms(form: Form, tmp_path: Path) -> None:
    import coremltools as ct
    from executorch.backends.apple.coreml.compiler import CoreMLBackend
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner
    from executorch.examples.apple.coreml.scripts.extract_coreml_models import extract_coreml_models
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    register()
    program, given = layer(form)
    specs = CoreMLBackend.generate_compile_specs(
        minimum_deployment_target=ct.target.iOS18, compute_precision=ct.precision.FLOAT16
    )
    edge = to_edge_transform_and_lower(
        _exported(program, given),
        partitioner=[CoreMLPartitioner(compile_specs=specs)],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    (extracted,) = extract_coreml_models(edge.to_executorch().buffer, out_dir=str(tmp_path / "out"))
    package = next(Path(str(extracted)).rglob("*.mlpackage"))
    torch.testing.assert_close(_executed(package, given), wanted(program, given), atol=TOLERANCE, rtol=TOLERANCE)


def test_registering_twice_and_after_executorch_keeps_our_converters() -> None:
    import importlib

    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY as REGISTRY

    register()
    importlib.import_module("executorch.backends.apple.coreml.partition")
    register()
    for name in ("edgec::dequantize_lut", "torchao.dequantize_affine"):
        assert REGISTRY.get_func(name).__module__ == "edgec.backends.coreml.compressed_ops"


def test_a_scale_per_row_becomes_a_table_per_row() -> None:
    indices = torch.randint(0, 4, (6, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    table, scale = torch.randn(2, 4), torch.arange(1.0, 7.0)
    tables = expand_tables(table.numpy(), scale.numpy(), 3, (6, 8))
    assert tables.shape == (6, 1, 4, 1)
    values = np.take_along_axis(tables[:, 0, :, 0], indices.numpy().astype(int), 1)
    assert np.allclose(values, dequantize_lut(indices, table, scale, 3).numpy())


def test_zeros_are_left_out_only_where_that_saves_bytes() -> None:
    table = np.array([[0.0, 1.0]], dtype=np.float32).reshape(1, 1, 2, 1)
    indices = np.array([[0, 1, 0, 0]], dtype=np.uint8)
    assert sparse_parts(indices, table) is None
    wide = np.zeros((1, 1, 16, 1), dtype=np.float32)
    parts = sparse_parts(indices, wide)
    assert parts is not None and parts.mask.tolist() == [[0, 1, 0, 0]] and parts.nonzero.tolist() == [1]
    assert sparse_parts(indices, wide + 1.0) is None


def test_a_table_without_a_form_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        expand_tables(np.zeros((1, 32), dtype=np.float32), None, 4, (4, 8))
    assert caught.value.code == "E440" and "32 entries" in caught.value.what


class _Odd(torch.nn.Module):
    """A weight in a form that Core ML does not have."""

    weight: Tensor
    scale: Tensor

    def __init__(self, low: int, high: int, computed: bool) -> None:
        super().__init__()
        self.bounds, self.computed = (low, high), computed
        self.register_buffer("weight", torch.ones(8, 16, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale * x.mean() if self.computed else self.scale
        zero = torch.zeros(8, 1, dtype=torch.int8)
        arguments: Any = ([1, 16], scale, zero, torch.int8, *self.bounds)
        return torch.nn.functional.linear(x, torch.ops.torchao.dequantize_affine(self.weight, *arguments))


@pytest.mark.parametrize(("module", "words"), [(_Odd(-2, 1, False), "-2 to 1"), (_Odd(-8, 7, True), "computed")])
def test_what_core_ml_has_no_form_for_is_refused(module: _Odd, words: str) -> None:
    import coremltools as ct

    register()
    exported = torch.export.export(module, (torch.ones(1, 16),)).run_decompositions({})
    with pytest.raises(InputError) as caught:
        ct.convert(exported, minimum_deployment_target=ct.target.iOS18, skip_model_load=True)
    assert caught.value.code == "E440" and words in caught.value.what and caught.value.fix
