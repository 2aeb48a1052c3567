"""Compressed weights as coremltools.optimize writes them: each form decompresses to what coremltools says it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from edgec.backends.coreml.interpreter import load_package
from edgec.backends.coreml.interpreter.graph import Constant, Expression

OUT, IN = 64, 96
WEIGHT = (np.random.default_rng(0).standard_normal((OUT, IN)) / 8).astype(np.float32)
X = torch.from_numpy(np.random.default_rng(1).standard_normal((3, IN)).astype(np.float32))
Compress = Callable[[Any, Any], Any]


def _program(target: str) -> Any:
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    @mb.program(input_specs=[mb.TensorSpec(shape=(3, IN))], opset_version=ct.target[target])  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        return mb.linear(x=x, weight=WEIGHT, name="y")

    return ct.convert(
        program,
        convert_to="mlprogram",
        minimum_deployment_target=ct.target[target],
        compute_precision=ct.precision.FLOAT32,
        skip_model_load=True,
    )


@pytest.fixture(scope="session")
def plain() -> Mapping[str, Any]:
    """One linear layer, for iOS 16 and for iOS 18."""
    return {target: _program(target) for target in ("iOS16", "iOS18")}


def _palettized(**options: Any) -> Compress:
    def compress(optimize: Any, model: Any) -> Any:
        config = optimize.OpPalettizerConfig(**{"mode": "kmeans", "weight_threshold": 1, **options})
        return optimize.palettize_weights(model, optimize.OptimizationConfig(global_config=config))

    return compress


def _linear(joint: bool = False, **options: Any) -> Compress:
    def compress(optimize: Any, model: Any) -> Any:
        config = optimize.OpLinearQuantizerConfig(**{"mode": "linear_symmetric", "weight_threshold": 1, **options})
        return optimize.linear_quantize_weights(
            model, optimize.OptimizationConfig(global_config=config), **({"joint_compression": True} if joint else {})
        )

    return compress


def _pruned(optimize: Any, model: Any) -> Any:
    config = optimize.OpMagnitudePrunerConfig(target_sparsity=0.5, weight_threshold=1)
    return optimize.prune_weights(model, optimize.OptimizationConfig(global_config=config))


def _sparse_table(optimize: Any, model: Any) -> Any:
    config = optimize.OpPalettizerConfig(mode="kmeans", nbits=4, weight_threshold=1)
    joint = optimize.OptimizationConfig(global_config=config)
    return optimize.palettize_weights(_pruned(optimize, model), joint, joint_compression=True)


def _sparse_integers(optimize: Any, model: Any) -> Any:
    return _linear(joint=True, dtype="int8")(optimize, _pruned(optimize, model))


def _integer_table(optimize: Any, model: Any) -> Any:
    return _linear(joint=True, dtype="int8", granularity="per_tensor")(optimize, _palettized(nbits=4)(optimize, model))


LUT, BLOCKS, DENSE = "constexpr_lut_to_dense", "constexpr_blockwise_shift_scale", "constexpr_sparse_to_dense"
GROUPS = {"granularity": "per_grouped_channel"}
FORMS: list[tuple[str, str, Compress, set[str]]] = [
    *((f"lut{bits}", "iOS18", _palettized(nbits=bits), {LUT}) for bits in (1, 2, 3, 4, 6, 8)),
    *((f"ios16-lut{bits}", "iOS16", _palettized(nbits=bits), {LUT}) for bits in (1, 2, 4, 6)),
    ("lut4-groups", "iOS18", _palettized(nbits=4, **GROUPS, group_size=16), {LUT}),
    (
        "lut3-columns",
        "iOS18",
        _palettized(nbits=3, granularity="per_grouped_channel", group_size=8, channel_axis=1),
        {LUT},
    ),
    (
        "lut4-scaled",
        "iOS18",
        _palettized(nbits=4, **GROUPS, group_size=16, enable_per_channel_scale=True),
        {LUT, BLOCKS},
    ),
    ("lut2-vectors", "iOS18", _palettized(nbits=2, cluster_dim=2), {LUT}),
    ("lut4-vectors", "iOS18", _palettized(nbits=4, cluster_dim=4), {LUT}),
    ("lut4-of-integers", "iOS18", _integer_table, {LUT, BLOCKS}),
    ("int8", "iOS18", _linear(dtype="int8"), {BLOCKS}),
    ("int4-channel", "iOS18", _linear(dtype="int4", granularity="per_channel"), {BLOCKS}),
    ("int4-block32", "iOS18", _linear(dtype="int4", granularity="per_block", block_size=32), {BLOCKS}),
    ("uint4-block16", "iOS18", _linear(dtype="uint4", mode="linear", granularity="per_block", block_size=16), {BLOCKS}),
    ("ios16-int8", "iOS16", _linear(dtype="int8"), {"constexpr_affine_dequantize"}),
    ("ios16-uint8", "iOS16", _linear(dtype="uint8", mode="linear"), {"constexpr_affine_dequantize"}),
    ("sparse", "iOS18", _pruned, {DENSE}),
    ("ios16-sparse", "iOS16", _pruned, {DENSE}),
    ("sparse-lut4", "iOS18", _sparse_table, {DENSE, "constexpr_lut_to_sparse"}),
    ("sparse-int8", "iOS18", _sparse_integers, {DENSE, "constexpr_sparse_blockwise_shift_scale"}),
]


def _operators(constant: Constant) -> set[str]:
    if not isinstance(constant, Expression):
        return set()
    return {constant.operator}.union(*(_operators(part) for _, part in constant.inputs))


@pytest.mark.long
@pytest.mark.parametrize(("name", "target", "compress", "operators"), FORMS, ids=[form[0] for form in FORMS])
def test_a_form_decompresses_as_coremltools_says(
    name: str, target: str, compress: Compress, operators: set[str], plain: Mapping[str, Any], tmp_path: Path
) -> None:
    import coremltools.optimize.coreml as optimize

    model = compress(optimize, plain[target])
    model.save(str(tmp_path / "m.mlpackage"))
    package = load_package(tmp_path / "m.mlpackage", "float32")
    step = next(step for step in package.functions["main"].graph.steps if step.operator == "linear")
    weight = step.inputs["weight"]
    assert not isinstance(weight, (str, tuple))
    assert _operators(weight) == operators
    actual = package.constants.value(weight)
    assert isinstance(actual, Tensor)
    expected = _decompressed(optimize, model, tmp_path)
    # Products of an integer and a scale: equal but for the last bit of float32.
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-7)
    y = package.functions["main"].run({"x": X})["y"]
    torch.testing.assert_close(y, F.linear(X, expected), rtol=1e-5, atol=1e-5)


def _decompressed(optimize: Any, model: Any, folder: Path) -> Tensor:
    """The weight as coremltools' own decompression writes it, read as a plain constant."""
    optimize.decompress_weights(model).save(str(folder / "plain.mlpackage"))
    package = load_package(folder / "plain.mlpackage", "float32")
    step = next(step for step in package.functions["main"].graph.steps if step.operator == "linear")
    weight = step.inputs["weight"]
    assert not isinstance(weight, (str, tuple, Expression))
    value = package.constants.value(weight)
    assert isinstance(value, Tensor)
    return value


def test_a_cast_constant_keeps_its_values(tmp_path: Path) -> None:
    from coremltools.converters.mil import Builder as mb

    from tests.backends.coreml.interpreter.conftest import write_program

    half = WEIGHT.astype(np.float16)

    def body(x: Any) -> Any:
        return mb.linear(x=x, weight=mb.constexpr_cast(source_val=half, output_dtype="fp32"), name="y")

    path = write_program(tmp_path / "m.mlpackage", {"x": mb.TensorSpec(shape=(3, IN))}, body)
    y = load_package(path, "float32").functions["main"].run({"x": X})["y"]
    torch.testing.assert_close(y, F.linear(X, torch.from_numpy(half).float()), rtol=1e-5, atol=1e-5)
