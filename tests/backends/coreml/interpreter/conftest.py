"""Packages that coremltools writes, each converted once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from edgec.backends.coreml.interpreter import Package, load_package
from tests.backends.coreml.interpreter.case import inputs
from tests.backends.coreml.interpreter.cases import CASES


def write_program(path: Path, specs: Mapping[str, Any], body: Callable[..., Any]) -> Path:
    """A .mlpackage of a MIL function as it is built: no pass of coremltools changes it."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    program = mb.program(input_specs=list(specs.values()), opset_version=ct.target.iOS18)(body)
    model = ct.convert(
        program,
        convert_to="mlprogram",
        minimum_deployment_target=ct.target.iOS18,
        pass_pipeline=ct.PassPipeline.EMPTY,
        skip_model_load=True,
    )
    model.save(str(path))
    return path


def _all_cases(path: Path, half: bool) -> Path:
    """One function with the results of all cases as outputs."""
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import types

    number, plain = (types.fp16, np.float16) if half else (types.fp32, np.float32)
    given = inputs()
    specs = {
        name: mb.TensorSpec(shape=tuple(tensor.shape), dtype=number if tensor.is_floating_point() else types.int32)
        for name, tensor in given.items()
    }

    def body(x: Any, y: Any, p: Any, image: Any, square: Any, index: Any, grid: Any) -> Any:
        own = dict(zip(given, (x, y, p, image, square, index, grid), strict=True))
        results = []
        for k, case in enumerate(CASES):
            made = case.build(mb, own, plain)
            for j, result in enumerate(made if isinstance(made, (tuple, list)) else (made,)):
                results.append(mb.identity(x=result, name=f"case_{k}_{j}"))
        return tuple(results)

    return write_program(path, specs, body)


@pytest.fixture(scope="session")
def operator_packages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """All cases as one package, in float32 and in float16."""
    folder = tmp_path_factory.mktemp("operators")
    return {kind: _all_cases(folder / f"{kind}.mlpackage", kind == "fp16") for kind in ("fp32", "fp16")}


@pytest.fixture(scope="session")
def operator_results(operator_packages: Mapping[str, Path]) -> Mapping[tuple[str, str], Mapping[str, Tensor]]:
    """Outputs of all cases, by precision of the program and by accumulation."""
    runs = [("fp32", "float32"), ("fp16", "float32"), ("fp16", "float16"), ("fp16", "unrounded")]
    given = inputs()
    return {run: _run(load_package(operator_packages[run[0]], run[1]), given) for run in runs}  # type: ignore[arg-type]


def _run(package: Package, given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    with torch.no_grad():
        return package.functions["main"].run(given)
