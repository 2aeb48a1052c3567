"""Checks that need a Mac: they run automatically on a Mac, and are reported as ``not run`` elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor

from edgec.backends.coreml.mac import MacMethods, Tools, mac_methods, mac_tools, placements
from edgec.backends.coreml.mlpackage import execute
from edgec.backends.coreml.mlpackage import packages as packages_of
from edgec.bundle.entry_points import MethodInfo
from edgec.bundle.findings import DeviceCheck, Placement
from edgec.devices.targets import Target
from edgec.errors import BudgetError, EdgecError
from edgec.exporter.parity.metrics import difference
from edgec.ir.call_plan import static_plan
from edgec.ir.memory_inputs import is_memory
from edgec.ir.row_inputs import ROW_INPUTS
from edgec.ir.static_methods import Methods, run_static

_NAMES = ("compile", "predict", "placement")
_BACKENDS = ("coreml", "coreml_gpu", "coreai", "coreai_gpu")
_ELSEWHERE = {
    "vulkan": "Vulkan delegates run on a phone's GPU only: this artifact was lowered, never executed",
    "qnn_delegate": "QNN delegates run on a Snapdragon only: this artifact was lowered, never executed",
}
_EPSILON_SHARE = 0.02
"""The Neural Engine sums in float16: a token may differ where its lead is below 2 % of the largest logit."""


def not_run(why: str) -> list[DeviceCheck]:
    """All checks as not run, with the reason."""
    return [DeviceCheck.model_validate({"name": name, "status": "not run", "note": why}) for name in _NAMES]


def artifact_checks(
    artifact: Path, target: Target, methods: Sequence[MethodInfo], states: Sequence[str], tokens: Sequence[int]
) -> list[DeviceCheck]:
    """The checks of an artifact; none for formats that are not Apple's.

    Args:
        artifact: the verified artifact.
        target: what it was made for.
        methods: the entry points as the manifest lists them.
        states: names of all states.
        tokens: ids to feed, teacher-forced; empty for non-decoder models.

    Raises:
        BudgetError: E468.
    """
    if target.backend in _ELSEWHERE:
        return [DeviceCheck(name="predict", status="not run", note=_ELSEWHERE[target.backend])]
    if target.backend not in _BACKENDS:
        return []
    if target.format != "mlpackage":
        return not_run(
            f"only a .mlpackage can be checked by itself; export with --format mlpackage, not {target.format}"
        )
    read, tools = packages_of(artifact), mac_tools(target.unit)
    return device_checks(read, methods, states, lambda: execute(artifact), tokens, tools)


def device_checks(
    packages: Sequence[Path],
    methods: Sequence[MethodInfo],
    states: Sequence[str],
    reference: Callable[[], Methods],
    tokens: Sequence[int],
    tools: Tools | None = None,
) -> list[DeviceCheck]:
    """Compile Core ML packages, run them against edgec's interpreter, and ask where their operators run.

    Args:
        packages: NAME.mlpackage, or the parts of a model in several packages, which are not run.
        methods: prefill and decode; those of a non-decoder model are not run.
        states: names of all states.
        reference: makes the same methods, executed by edgec's interpreter.
        tokens: ids to feed, teacher-forced.
        tools: of a Mac; None looks for them.

    Raises:
        BudgetError: E468, Core ML refuses the package or computes something else.
    """
    mac = tools or mac_tools()
    if mac is None:
        return not_run(f"there is no Mac here: {sys.platform}")
    with TemporaryDirectory() as folder:
        compiled = [_compile(mac, package, Path(folder) / f"model_{i}.mlmodelc") for i, package in enumerate(packages)]
        load = mac_methods_of(methods, states)
        if len(compiled) == 1:
            predicted = _predict(mac, compiled[0], packages[0], load, reference, tokens)
        else:
            predicted = _skip_prediction(mac, "the model is in several packages, which are compiled and placed only")
        placed = [row for package, each in zip(packages, compiled, strict=True) for row in _place(mac, each, package)]
    return [
        DeviceCheck(name="compile", status="passed", machine=mac.machine),
        predicted,
        DeviceCheck(name="placement", status="passed", machine=mac.machine, placement=placed),
    ]


def _compile(tools: Tools, package: Path, destination: Path) -> Path:
    with _refusals("Core ML's compiler refuses the package", package):
        return tools.compile(package, destination)


def _place(tools: Tools, compiled: Path, package: Path) -> list[Placement]:
    with _refusals("Core ML has no compute plan for the package", package):
        return placements(tools, compiled)


def _skip_prediction(tools: Tools, why: str) -> DeviceCheck:
    return DeviceCheck(name="predict", status="not run", machine=tools.machine, note=why)


@contextmanager
def _refusals(what: str, package: Path) -> Iterator[None]:
    """Turn whatever coremltools and its frameworks raise into E468: they share no base class of errors."""
    try:
        yield
    except EdgecError:
        raise
    except Exception as error:
        raise _failed(what, package, f"{type(error).__name__}: {error}") from error


def _predict(
    tools: Tools,
    compiled: Path,
    package: Path,
    load: Callable[[Tools, Path], MacMethods] | None,
    reference: Callable[[], Methods],
    tokens: Sequence[int],
) -> DeviceCheck:
    if load is None:
        return _skip_prediction(tools, "the model is not a decoder of text alone")
    expected = reference()
    plan = static_plan(len(tokens), expected.chunk)
    wanted = run_static(expected, tokens, plan)
    with _refusals("Core ML does not execute the package", package):
        predicted = run_static(load(tools, compiled), tokens, plan)
    return DeviceCheck(
        name="predict", status="passed", machine=tools.machine, note=_agreement(wanted, predicted, package)
    )


def mac_methods_of(methods: Sequence[MethodInfo], states: Sequence[str]) -> Callable[[Tools, Path], MacMethods] | None:
    """How to load a decoder's methods; None for models without them, or that read more than tokens."""
    names = {tensor.name for method in methods for tensor in method.inputs}
    alone = not any(name in ROW_INPUTS or is_memory(name) for name in names)
    if alone and {"prefill", "decode"} <= {method.name for method in methods}:
        return lambda tools, compiled: mac_methods(tools, compiled, methods, states)
    return None


def _agreement(expected: Tensor, predicted: Tensor, package: Path) -> str:
    gap = difference(expected, predicted, _EPSILON_SHARE * float(expected.abs().max()))
    note = (
        f"{gap.positions} positions against edgec's interpreter: largest difference {gap.max_abs:.3g}, "
        f"KL {gap.kl_mean:.3g} nats, same top-1 {gap.top1_agreement:.1%}"
    )
    if gap.top1_agreement < 1.0:
        raise _failed("Core ML computes other tokens than edgec's interpreter", package, note)
    return note


def _failed(what: str, package: Path, why: str) -> BudgetError:
    fix = "do not ship this package; report it with the model's architecture and the recipe"
    return BudgetError(what, str(package), why, fix, "E468")
