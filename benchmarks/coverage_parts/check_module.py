"""One encoder or vision model from a config to a bundle: what it computes from other inputs, against transformers."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks.coverage_parts.check import Outcome
from benchmarks.coverage_parts.chosen_rows import choosing_as
from benchmarks.coverage_parts.tiny_modules import MODULES, module_model

MASK = "attention_mask"


@dataclass(frozen=True)
class ModuleColumn:
    """What a module is exported for.

    Attributes:
        title: in the table.
        target: as ``edgec export --target`` takes it.
        format: of the artifact; empty: the target's.
        tolerance: the largest difference of an output, relative to its largest value.
    """

    title: str
    target: str
    format: str = ""
    tolerance: float = 1e-3


MODULE_COLUMNS: Mapping[str, ModuleColumn] = {
    column.title: column
    for column in (
        ModuleColumn("host", "host"),
        ModuleColumn("android-cpu", "android-cpu"),
        ModuleColumn("onnx", "android-cpu", format="onnx"),
        ModuleColumn("iphone mlpackage", "iphone", format="mlpackage", tolerance=3e-2),
    )
}


def check_module(kind: str, column: ModuleColumn = MODULE_COLUMNS["host"]) -> Outcome:
    """Export a tiny random model of a type and compare its outputs on inputs that the export did not see."""
    from edgec.errors import EdgecError

    def outcome(result: str, reason: object = "", code: str = "") -> Outcome:
        words = " ".join(str(reason).split())[:300]
        return Outcome(kind=kind, column=column.title, result=result, code=code, reason=words)

    with TemporaryDirectory() as folder:
        try:
            model = module_model(kind, MODULES["seed"].get(kind, 0))
            model.save_pretrained(folder)
        except Exception as error:  # Each family fails in its own way on sizes that it was not made for.
            return outcome("no config", f"{type(error).__name__}: {error}")
        try:
            return outcome(*_compared(model, _exported(Path(folder), column), column.tolerance))
        except EdgecError as error:
            return outcome("refused", f"{error.what} {error.why}", error.code)
        except Exception as error:
            print(traceback.format_exc(limit=-12)[-3000:])
            return outcome("failed", f"{type(error).__name__}: {error}")


def _exported(folder: Path, column: ModuleColumn) -> Path:
    import edgec

    out = folder / "x.edgec"
    bundle: Path = edgec.export(folder, target=column.target, recipe="float", format=column.format or None, out=out)
    return bundle


def _compared(model: Any, bundle: Path, tolerance: float) -> tuple[str, str]:
    """The result, and the reason for it."""
    from edgec.bundle.folder import open_bundle
    from edgec.runtime_py.functions.function import Function

    function, given = Function(open_bundle(bundle)), False
    for length in _lengths(function.info):
        inputs = other_inputs(function.info, length)
        found = {name: torch.from_numpy(made) for name, made in _run(function, inputs).items()}
        reason = _first_difference(found, _outputs(model, inputs), inputs.get(MASK), tolerance)
        if reason:
            with choosing_as(list(found.values()), partial(difference, mask=None), tolerance):
                chosen = _outputs(model, inputs)
            if _first_difference(found, chosen, inputs.get(MASK), tolerance):
                return "different", reason
            given = True
    return "equal", f"where transformers is given the bundle's choice of rows, by scores within {tolerance:.0e}" * given


def _run(function: Any, inputs: Mapping[str, Tensor]) -> Mapping[str, Any]:
    made: Mapping[str, Any] = function.run(**{name: value.numpy() for name, value in inputs.items()})
    return made


def _outputs(model: Any, inputs: Mapping[str, Tensor]) -> list[Tensor]:
    """What transformers' model computes."""
    with torch.no_grad():
        return [value for value in model(**inputs).to_tuple() if isinstance(value, Tensor)]


def _first_difference(found: Mapping[str, Tensor], wanted: list[Tensor], mask: Tensor | None, tolerance: float) -> str:
    """What differs by more than the tolerance; empty: nothing."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs, and transformers gives {len(wanted)}"
    for (name, made), right in zip(found.items(), wanted, strict=True):
        apart = difference(made, right, mask)
        if not apart <= tolerance:
            return f"{name} by {apart:.0e} of its largest value"
    return ""


def _lengths(info: Any) -> list[int]:
    """The lengths to compare where they vary: one token, a few, and the most."""
    return sorted({1, 7, high}) if (high := next(iter(info.dynamic.values()), (0, 0))[1]) else [0]


def other_inputs(info: Any, length: int, seed: int = 1) -> dict[str, Tensor]:
    """Seeded inputs of a method; the last quarter of a text is padding.

    Args:
        info: the method in the manifest.
        length: of the texts, where it varies.
        seed: of the values.
    """
    drawn = torch.Generator().manual_seed(seed)
    return {each.name: _input(each, length, drawn) for each in info.inputs}


def _input(info: Any, length: int, drawn: torch.Generator) -> Tensor:
    shape = [size if isinstance(size, int) else length for size in info.shape]
    if "mask" in info.name:
        return (torch.arange(shape[-1]) < shape[-1] - shape[-1] // 4).expand(shape).to(_dtype(info)).contiguous()
    if made := _FIXED.get(info.name):
        return made(shape).to(_dtype(info))
    if _dtype(info).is_floating_point:
        return torch.randn(shape, generator=drawn)
    return torch.randint(4, 250, shape, generator=drawn, dtype=_dtype(info))


def _dtype(info: Any) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, info.dtype.removeprefix("torch."))
    return dtype


# Inputs of which not every value has a meaning.
_FIXED: Mapping[str, Callable[[list[int]], Tensor]] = {
    "input_labels": lambda shape: torch.ones(shape, dtype=torch.long),
    "input_points": lambda shape: torch.full(shape, 21.0),
}


def difference(made: Tensor, right: Tensor, mask: Tensor | None) -> float:
    """The largest difference relative to the largest right value, without the rows of padding."""
    if made.shape != right.shape:
        return float("inf")
    made, right = made.float(), right.float()
    if mask is not None and right.dim() > 2 and right.shape[:2] == mask.shape:
        made, right = made[mask > 0], right[mask > 0]
    if not right.numel():
        return 0.0
    return float((made - right).abs().max() / right.abs().max().clamp(min=1e-12))
