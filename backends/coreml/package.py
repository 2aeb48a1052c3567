"""Static methods to a .mlpackage: one Core ML function for each, over the same weights and states.

graph -> float16 -> torch.export -> coremltools -> one package a method -> one package of several functions
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from edgec.backends.static_artifact import LoweringProgress
from edgec.errors import InputError
from edgec.ir.program import Program, TensorType
from edgec.ir.reexport import reexport, without_assertions
from edgec.passes.contract import output_node, run_pass
from edgec.passes.static.half_precision import HalfPrecision
from edgec.passes.static.separate_bias import SeparateBias

DEPLOYMENT_TARGET = "iOS18"
_STORED_VALUES = 10


def write_package(
    methods: Mapping[str, Program],
    path: Path,
    progress: LoweringProgress = lambda step, done, total: None,
    named: bool = False,
) -> None:
    """Write methods as one package.

    Args:
        methods: by function name; a single one becomes a package with the function ``main``, unless ``named``.
        path: the folder NAME.mlpackage, which must not exist.
        progress: called with a step's name, steps done and steps in all.
        named: a single function keeps its name.

    Raises:
        InputError: E404, coremltools cannot convert an operator.
    """
    from coremltools.models.utils import MultiFunctionDescriptor, save_multifunction

    steps = len(methods) + 1
    with TemporaryDirectory(dir=path.parent) as folder, without_bars(), equal_constants_once():
        parts = {}
        for index, (name, program) in enumerate(methods.items()):
            progress("convert", index, steps)
            parts[name] = Path(folder) / f"{name}.mlpackage"
            _convert(program, name).save(str(parts[name]))
        progress("join", steps - 1, steps)
        if len(parts) == 1 and not named:
            shutil.move(next(iter(parts.values())), path)
        else:
            described = MultiFunctionDescriptor()
            for name, part in parts.items():
                described.add_function(str(part), "main", name)
            described.default_function_name = next(iter(parts))
            save_multifunction(described, str(path))
    _leave_out_empty_folders(path)


def _leave_out_empty_folders(path: Path) -> None:
    """Remove folders without files, and the entries that name them: a package without weights has one.

    A bundle is a list of files, and a package whose manifest names what is not there is invalid.
    """
    manifest = path / "Manifest.json"
    described = json.loads(manifest.read_text())
    named = described["itemInfoEntries"]
    places = {key: path / "Data" / item["path"] for key, item in named.items()}
    empty = {key: place for key, place in places.items() if place.is_dir() and not any(place.iterdir())}
    for key, place in empty.items():
        place.rmdir()
        del named[key]
    if empty:
        manifest.write_text(json.dumps(described, indent=4))


def _convert(program: Program, name: str) -> Any:
    """Convert one method to a Core ML model in the types of its graph, without loading it, which takes a Mac."""
    import coremltools as ct

    from edgec.backends.coreml.converters import register
    from edgec.backends.coreml.float_islands import compute_precision

    register()
    half = run_pass(run_pass(program, SeparateBias()), HalfPrecision())
    exported = without_assertions(reexport(half.graph, half.interface).run_decompositions(decompositions()))
    try:
        _refuse_repeated_outputs(half)
        return ct.convert(
            exported,
            minimum_deployment_target=ct.target[DEPLOYMENT_TARGET],
            compute_precision=compute_precision(exported),
            compute_units=ct.ComputeUnit.CPU_AND_NE,
            inputs=[_declared(tensor) for tensor in half.interface.inputs],
            outputs=[ct.TensorType(name=tensor.name) for tensor in half.interface.outputs],
            skip_model_load=True,
        )
    except (NotImplementedError, RuntimeError, ValueError, AssertionError) as error:
        raise refused(name, error) from error


def _refuse_repeated_outputs(program: Program) -> None:
    """Refuse a value that is returned under two names: coremltools keeps one of them."""
    returned: Any = output_node(program.graph).args[0]
    values = returned if isinstance(returned, tuple | list) else (returned,)
    names: dict[Any, str] = {}
    for value, output in zip(values, program.interface.outputs, strict=True):
        if value in names:
            raise ValueError(f"outputs {names[value]} and {output.name} are the same value: return it once")
        names[value] = output.name


def _declared(tensor: TensorType) -> Any:
    """An input with its dtype; left to itself coremltools takes floats as float32."""
    import coremltools as ct
    import numpy as np

    dtype = {"torch.float16": np.float16, "torch.int32": np.int32}.get(str(tensor.dtype), np.float32)
    shape = [
        size if isinstance(size, int) else ct.RangeDim(size.low, size.high, default=size.low) for size in tensor.shape
    ]
    return ct.TensorType(name=tensor.name, shape=shape, dtype=dtype)


def decompositions() -> Any:
    """Decompositions of the operators that coremltools does not know or mistakes; all others stay whole."""
    from torch._decomp import get_decompositions

    aten = torch.ops.aten
    table = get_decompositions([aten.new_ones.default, aten.new_zeros.default, aten.new_full.default])
    logical = {aten.__and__.Tensor: torch.logical_and, aten.__or__.Tensor: torch.logical_or}
    return {**table, **logical, aten.where.ScalarOther: _where_other, aten.baddbmm.default: _sum_of_products}


def _where_other(condition: Tensor, x: Tensor, other: float) -> Tensor:
    result: Tensor = torch.ops.aten.where.self(condition, x, torch.full_like(x, other))
    return result


def _sum_of_products(bias: Tensor, x: Tensor, y: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """``baddbmm`` in two operators: coremltools' own adds a float16 bias to products that it made float32."""
    product = torch.bmm(x, y)
    scaled = product if alpha == 1.0 else product * alpha
    return (bias if beta == 1.0 else bias * beta) + scaled


def refused(method: str, error: Exception) -> InputError:
    """The error for a model that coremltools refuses (E404)."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return InputError(
        what="coremltools could not convert the model to Core ML",
        where=f"method {method}",
        why=(lines[0] if lines else type(error).__name__)[:300],
        fix="export for iOS 27 in Core AI's format (--format aimodel), which takes more operators, or for the CPU "
        "(--target iphone-16-pro-cpu), or report the model",
        code="E404",
    )


@contextmanager
def equal_constants_once() -> Iterator[None]:
    """Have coremltools store equal constants once where they lie in the weight file, as those of each step of a GRU.

    It leaves those below 100 values apart, although from 10 values on they are stored beside the weights.
    """
    from coremltools.converters.mil.mil.passes.defs.cleanup.const_deduplication import const_deduplication

    apart = const_deduplication._const_threshold
    const_deduplication._const_threshold = _STORED_VALUES
    try:
        yield
    finally:
        const_deduplication._const_threshold = apart


@contextmanager
def without_bars() -> Iterator[None]:
    """Silence coremltools' progress bars."""
    import tqdm  # type: ignore[import-untyped]

    made = tqdm.tqdm.__init__
    tqdm.tqdm.__init__ = _silent(made)
    try:
        yield
    finally:
        tqdm.tqdm.__init__ = made


def _silent(made: Callable[..., None]) -> Callable[..., None]:
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **{**kwargs, "disable": True})

    return make
