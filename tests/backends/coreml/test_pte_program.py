"""A .pte with Core ML inside: what runs in Core ML, what runs outside, and whose state is whose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.backends.coreml.extract import extract_packages
from edgec.backends.coreml.pte_program import open_pte
from edgec.errors import InputError

pytestmark = pytest.mark.slow

WIDTH = 16
# float16 weights and results against float32: two roundings of values below 4.
TOLERANCE = 4e-3


class Counted(nn.Module):
    """Adds up what it was given, in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.total: Tensor
        self.register_buffer("total", torch.zeros(1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(self.linear(x).sum(0, keepdim=True))
        return x + self.total


class Plain(nn.Module):
    """One layer, and a sine after it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.linear(x)
        return torch.sin(y) * 2, y


def _lowered(methods: Mapping[str, tuple[nn.Module, Tensor]], outside: list[str], path: Path) -> Path:
    import coremltools as ct
    from executorch.backends.apple.coreml.compiler import CoreMLBackend
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    specs = CoreMLBackend.generate_compile_specs(
        minimum_deployment_target=ct.target.iOS18, compute_precision=ct.precision.FLOAT16
    )
    programs = {name: torch.export.export(module.eval(), (x,)) for name, (module, x) in methods.items()}
    partitioner = {
        name: [CoreMLPartitioner(compile_specs=specs, skip_ops_for_coreml_delegation=outside)] for name in methods
    }
    edge = to_edge_transform_and_lower(
        programs, partitioner=partitioner, compile_config=EdgeCompileConfig(_check_ir_validity=False)
    )
    path.write_bytes(edge.to_executorch().buffer)
    return path


@pytest.fixture(scope="session")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Methods ``many`` (3 rows) and ``one`` (1 row) over one module with a state inside Core ML."""
    module = Counted()
    methods: dict[str, tuple[nn.Module, Tensor]] = {
        "many": (module, torch.zeros(3, WIDTH)),
        "one": (module, torch.zeros(1, WIDTH)),
    }
    return _lowered(methods, [], tmp_path_factory.mktemp("counted") / "model.pte")


@pytest.fixture(scope="session")
def partly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module whose sine stays outside Core ML."""
    methods: dict[str, tuple[nn.Module, Tensor]] = {"forward": (Plain(), torch.zeros(2, WIDTH))}
    return _lowered(methods, ["aten.sin.default"], tmp_path_factory.mktemp("partly") / "model.pte")


def _some(rows: int, seed: int) -> Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))


def test_a_delegate_keeps_its_state_between_calls(counted: Path) -> None:
    method, module = open_pte(counted).methods["many"], Counted()
    for step in range(3):
        x = _some(3, step)
        with torch.no_grad():
            expected = module(x)
        assert float((method.run([x])[0].float() - expected).abs().max()) < TOLERANCE * (step + 1)


def test_methods_have_states_of_their_own_as_on_a_phone(counted: Path) -> None:
    """ExecuTorch makes one MLState for each delegate: what one method wrote, the other does not see."""
    methods, module = open_pte(counted).methods, Counted()
    methods["many"].run([_some(3, 0)])
    x = _some(1, 1)
    with torch.no_grad():
        expected = module(x)
    assert float((methods["one"].run([x])[0].float() - expected).abs().max()) < TOLERANCE


def test_what_lies_outside_is_executed_by_torch(partly: Path) -> None:
    method = open_pte(partly).methods["forward"]
    assert method.kernels == ("aten::sin.out",)
    x = _some(2, 5)
    with torch.no_grad():
        expected = Plain()(x)
    for actual, wanted in zip(method.run([x]), expected, strict=True):
        assert float((actual.float() - wanted).abs().max()) < TOLERANCE


def test_an_unknown_kernel_is_refused_with_its_name(partly: Path) -> None:
    method = open_pte(partly).methods["forward"]
    method.plan.operators[0].name = "aten::no_such_operator"
    with pytest.raises(InputError) as error:
        method.run([_some(2, 5)])
    assert error.value.code == "E425"
    assert "no_such_operator" in error.value.where


def test_packages_are_written_once(counted: Path, tmp_path: Path) -> None:
    delegates = extract_packages(counted.read_bytes(), tmp_path / "out")
    assert {each.method for each in delegates} == {"many", "one"}
    assert {each.function for each in delegates} <= {"many", "one", ""}
    assert all(each.package.is_dir() for each in delegates)
    assert {len(each.inputs) for each in delegates} == {1}


@pytest.mark.parametrize("pte", [b"", b"not a program", bytes(4096)], ids=["empty", "text", "zeros"])
def test_what_is_no_program_is_refused(pte: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        extract_packages(pte, tmp_path)
    assert error.value.code == "E424"


def test_a_program_without_core_ml_is_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        extract_packages((tiny_bundle / "model.pte").read_bytes(), tmp_path)
    assert error.value.code == "E424"
    assert "no Core ML delegate" in error.value.what


def test_wrong_shapes_are_refused(partly: Path) -> None:
    method: Any = open_pte(partly).methods["forward"]
    with pytest.raises(InputError) as error:
        method.run([torch.zeros(3, WIDTH)])
    assert error.value.code == "E422"
