"""Packages: states, several functions over one weight, flexible shapes, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from edgec.backends.coreml.interpreter import load_package
from edgec.backends.coreml.interpreter.proto import SPEC_FILE, messages
from edgec.errors import InputError
from tests.backends.coreml.interpreter.conftest import write_program

SLOTS, WIDTH = 12, 32
WEIGHT = (np.random.default_rng(0).integers(-32, 33, (WIDTH, WIDTH)) / 64).astype(np.float16)


def _cached(size: int) -> Callable[..., Any]:
    """x [1, size, WIDTH] is projected, written after ``start`` into the state, and attends all of it."""
    from coremltools.converters.mil import Builder as mb

    def body(x: Any, start: Any, cache: Any) -> Any:
        rows = mb.linear(x=x, weight=WEIGHT)
        end = mb.add(x=start, y=np.int32(size))
        begin = mb.concat(values=(np.array([0], np.int32), start, np.array([0], np.int32)), axis=0)
        stop = mb.concat(values=(np.array([1], np.int32), end, np.array([WIDTH], np.int32)), axis=0)
        held = mb.slice_update(x=mb.read_state(input=cache), update=rows, begin=begin, end=stop)
        now = mb.coreml_update_state(state=cache, value=held)
        return mb.matmul(x=x, y=now, transpose_y=True, name="scores")

    return body


@pytest.fixture(scope="session")
def stateful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Functions ``prefill`` (4 rows) and ``decode`` (1 row) over one weight and one state."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import types

    folder = tmp_path_factory.mktemp("stateful")
    described = ct.utils.MultiFunctionDescriptor()
    for name, size in (("prefill", 4), ("decode", 1)):
        specs = {
            "x": mb.TensorSpec(shape=(1, size, WIDTH), dtype=types.fp16),
            "start": mb.TensorSpec(shape=(1,), dtype=types.int32),
            "cache": mb.StateTensorSpec(shape=(1, SLOTS, WIDTH), dtype=types.fp16),
        }
        write_program(folder / f"{name}.mlpackage", specs, _cached(size))
        described.add_function(str(folder / f"{name}.mlpackage"), "main", name)
    described.default_function_name = "decode"
    ct.utils.save_multifunction(described, str(folder / "both.mlpackage"))
    return folder / "both.mlpackage"


def _calls() -> list[tuple[str, int, Tensor]]:
    generator = torch.Generator().manual_seed(3)
    plan = [("prefill", 0, 4), ("prefill", 4, 4), ("decode", 8, 1), ("decode", 9, 1)]
    return [(name, at, torch.randint(-64, 65, (1, n, WIDTH), generator=generator) / 64) for name, at, n in plan]


@pytest.mark.parametrize(("accumulate", "tolerance"), [("unrounded", 1e-5), ("float32", 2**-9), ("float16", 2**-8)])
def test_functions_share_a_state(stateful: Path, accumulate: Any, tolerance: float) -> None:
    """Tolerance: of the largest score, for one rounding of rows and one of scores; twice that when sums are rounded."""
    package = load_package(stateful, accumulate)
    assert package.default_function == "decode"
    state, rows = package.functions["decode"].fresh_state(), torch.zeros(1, SLOTS, WIDTH)
    for name, start, x in _calls():
        actual = package.functions[name].run({"x": x, "start": torch.tensor([start])}, state)["scores"].float()
        rows[:, start : start + x.shape[1]] = F.linear(x, torch.from_numpy(WEIGHT).float())
        expected = x @ rows.transpose(-1, -2)
        assert float((actual - expected).abs().max()) <= tolerance * float(expected.abs().max())
    assert float((state["cache"].float() - rows).abs().max()) <= tolerance * float(rows.abs().max())


def test_functions_share_a_weight(stateful: Path) -> None:
    package = load_package(stateful)
    held = []
    for name, start, x in _calls():
        state = package.functions[name].fresh_state()
        package.functions[name].run({"x": x, "start": torch.tensor([start])}, state)
        held.append(package.constants.held_bytes())
    assert held[0] >= WEIGHT.nbytes
    assert held[-1] - held[0] < WEIGHT.nbytes


def test_one_state_does_not_touch_another(stateful: Path) -> None:
    function = load_package(stateful).functions["prefill"]
    mine, yours = function.fresh_state(), function.fresh_state()
    function.run({"x": _calls()[0][2], "start": torch.tensor([0])}, mine)
    assert not bool(yours["cache"].any())
    assert bool(mine["cache"].any())


@pytest.mark.parametrize(
    ("inputs", "state"),
    [
        ({"x": torch.zeros(1, 4, WIDTH)}, "fresh"),
        ({"x": torch.zeros(1, 3, WIDTH), "start": torch.tensor([0])}, "fresh"),
        ({"x": torch.zeros(1, 4, WIDTH), "start": torch.tensor([0]), "more": torch.zeros(1)}, "fresh"),
        ({"x": torch.zeros(1, 4, WIDTH), "start": torch.tensor([0])}, None),
        ({"x": torch.zeros(1, 4, WIDTH), "start": torch.tensor([0])}, {"cache": torch.zeros(1, 3, WIDTH)}),
    ],
)
def test_wrong_inputs_are_refused(stateful: Path, inputs: dict[str, Tensor], state: Any) -> None:
    function = load_package(stateful).functions["prefill"]
    with pytest.raises(InputError) as error:
        function.run(inputs, function.fresh_state() if state == "fresh" else state)
    assert error.value.code == "E422"


@pytest.fixture(scope="session")
def flexible(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """softmax(x) reshaped by its own shape, for enumerated sizes and for a range."""
    import coremltools as ct

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, x * 2], 1).softmax(-1).reshape(-1, x.shape[0] * 8)

    folder = tmp_path_factory.mktemp("flexible")
    shapes = {
        "enumerated": ct.EnumeratedShapes(shapes=[(1, 8), (1, 16)], default=(1, 8)),
        "range": (1, ct.RangeDim(2, 64, default=8)),
    }
    program = torch.export.export(Model(), (torch.zeros(1, 8),), dynamic_shapes=({1: torch.export.Dim.DYNAMIC},))

    def write(kind: str) -> Path:
        path = folder / f"{kind}.mlpackage"
        if not path.exists():
            model = ct.convert(
                program.run_decompositions({}),
                inputs=[ct.TensorType("x", shape=shapes[kind])],
                outputs=[ct.TensorType("y")],
                minimum_deployment_target=ct.target.iOS18,
                compute_precision=ct.precision.FLOAT32,
                skip_model_load=True,
            )
            model.save(str(path))
        return path

    return write


@pytest.mark.long
@pytest.mark.parametrize(("kind", "allowed", "refused"), [("enumerated", (8, 16), (12,)), ("range", (4, 8, 64), (65,))])
def test_flexible_shapes(
    flexible: Callable[[str], Path], kind: str, allowed: tuple[int, ...], refused: tuple[int, ...]
) -> None:
    function = load_package(flexible(kind), "float32").functions["main"]
    for size in allowed:
        x = torch.linspace(-1, 1, size)[None]
        expected = torch.cat([x, x * 2], 1).softmax(-1).reshape(-1, 8)
        torch.testing.assert_close(function.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)
    for size in refused:
        with pytest.raises(InputError) as error:
            function.run({"x": torch.zeros(1, size)})
        assert error.value.code == "E422"


def _altered(package: Path, folder: Path, change: Callable[[Any], None]) -> Path:
    """A copy whose program was changed."""
    copy = folder / "altered.mlpackage"
    shutil.copytree(package, copy)
    spec = messages().Model.FromString((copy / SPEC_FILE).read_bytes())
    change(spec)
    (copy / SPEC_FILE).write_bytes(spec.SerializeToString())
    return copy


def _operation(spec: Any, kind: str) -> Any:
    block = next(iter(spec.mlProgram.functions["decode"].block_specializations.values()))
    return next(operation for operation in block.operations if operation.type == kind)


def test_an_unknown_operator_is_named_with_its_place(stateful: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        load_package(_altered(stateful, tmp_path, lambda spec: setattr(_operation(spec, "matmul"), "type", "lstm")))
    assert error.value.code == "E420"
    assert "lstm" in error.value.what
    assert "'decode'" in error.value.where
    assert "scores" in error.value.where


def test_a_failing_operator_is_named_with_its_place(stateful: Path, tmp_path: Path) -> None:
    def swap(spec: Any) -> None:
        inputs = _operation(spec, "matmul").inputs
        inputs["x"].arguments[0].name, inputs["y"].arguments[0].name = "start", inputs["x"].arguments[0].name

    function = load_package(_altered(stateful, tmp_path, swap)).functions["decode"]
    with pytest.raises(InputError) as error:
        function.run({"x": torch.zeros(1, 1, WIDTH), "start": torch.tensor([0])}, function.fresh_state())
    assert error.value.code == "E423"
    assert "matmul" in error.value.what
    assert "scores" in error.value.where


def _truncated_weights(package: Path) -> None:
    file = package / "Data/com.apple.CoreML/weights/weight.bin"
    file.write_bytes(file.read_bytes()[:100])


@pytest.mark.parametrize(
    "damage",
    [
        lambda package: (package / SPEC_FILE).unlink(),
        lambda package: (package / SPEC_FILE).write_bytes(b"no model"),
        lambda package: (package / SPEC_FILE).write_bytes(b""),
        _truncated_weights,
        lambda package: (package / "Data/com.apple.CoreML/weights/weight.bin").unlink(),
    ],
    ids=["no program", "not a program", "empty program", "cut weights", "no weights"],
)
def test_a_damaged_package_is_refused(stateful: Path, tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    copy = tmp_path / "copy.mlpackage"
    shutil.copytree(stateful, copy)
    damage(copy)
    with pytest.raises(InputError) as error:
        function = load_package(copy).functions["decode"]
        function.run({"x": torch.zeros(1, 1, WIDTH), "start": torch.tensor([0])}, function.fresh_state())
    assert error.value.code == "E421"
