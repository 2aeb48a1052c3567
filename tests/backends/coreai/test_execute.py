"""Apple's Core AI runtime behind the interpreter's signature, and both of them over the same operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgec.backends.coreai.execute import CoreAIModel, load_model
from edgec.backends.coreml.interpreter import Package, load_package
from edgec.errors import InputError, ToolError

pytestmark = pytest.mark.slow

pytest.importorskip("coreai_torch")
SLOTS, WIDTH = 8, 16


class Counted(nn.Module):
    """Writes a projected row after ``start``, gives all of them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.rows: Tensor
        self.register_buffer("rows", torch.zeros(1, SLOTS, WIDTH))

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        first: Any = start.item()
        torch._check(first >= 0)
        torch._check(first + x.shape[1] <= SLOTS)
        self.rows[:, first : first + x.shape[1]] = self.linear(x)
        return self.rows + 0.0


@pytest.fixture(scope="session")
def stateful(tmp_path_factory: pytest.TempPathFactory) -> CoreAIModel:
    """Functions ``three`` and ``one`` over one weight and one state."""
    from coreai_torch import TorchConverter, get_decomp_table

    module, converter = Counted().eval(), TorchConverter()
    for name, size in (("three", 3), ("one", 1)):
        inputs = (torch.zeros(1, size, WIDTH), torch.zeros(1, dtype=torch.int32))
        program = torch.export.export(module, inputs).run_decompositions(get_decomp_table())
        converter.add_exported_program(program, entrypoint_name=name, output_names=["y"], state_names=["rows"])
    path = tmp_path_factory.mktemp("coreai") / "model.aimodel"
    converter.to_coreai().save_asset(path)
    return load_model(path)


def test_functions_share_a_state(stateful: CoreAIModel) -> None:
    """float32 throughout: only the order of sums differs."""
    module, state = Counted(), stateful.functions["one"].fresh_state()
    for name, start, size in (("three", 0, 3), ("three", 3, 3), ("one", 6, 1)):
        inputs = {"x": torch.randn(1, size, WIDTH), "start": torch.tensor([start], dtype=torch.int32)}
        with torch.no_grad():
            expected = module(inputs["x"], inputs["start"])
        actual = stateful.functions[name].run(inputs, state)["y"]
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(state["rows"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("inputs", [{}, {"x": torch.zeros(1, 2, WIDTH), "start": torch.zeros(1)}])
def test_wrong_inputs_are_refused(stateful: CoreAIModel, inputs: dict[str, Tensor]) -> None:
    function = stateful.functions["three"]
    with pytest.raises(InputError) as error:
        function.run(inputs, function.fresh_state())
    assert error.value.code == "E422"


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.aimodel").mkdir()
    (tmp_path / "bad.aimodel" / "main.mlirb").write_bytes(b"nothing")
    for path in (tmp_path / "absent.aimodel", tmp_path / "bad.aimodel"):
        with pytest.raises(InputError) as error:
            load_model(path)
        assert error.value.code == "E426"


def test_an_absent_runtime_is_a_missing_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("edgec.backends.coreai.execute.find_spec", lambda name: None)
    with pytest.raises(ToolError) as error:
        load_model(tmp_path)
    assert (error.value.code, error.value.exit_code) == ("E431", 3)


OPERATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": lambda x, y: F.linear(x, torch.linspace(-1, 1, 64).reshape(8, 8), torch.linspace(0, 1, 8)),
    "matmul": lambda x, y: x @ y.transpose(-1, -2),
    "attention": lambda x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]),
    "softmax": lambda x, y: torch.softmax(x * 4, -1),
    "layer_norm": lambda x, y: F.layer_norm(x, (8,), torch.linspace(0.5, 1, 8), torch.linspace(-1, 1, 8)),
    "rms_norm": lambda x, y: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5),
    "gelu": lambda x, y: F.gelu(x),
    "silu": lambda x, y: F.silu(x) * y,
    "conv1x1": lambda x, y: F.conv2d(x.reshape(1, 8, 1, -1), torch.linspace(-1, 1, 128).reshape(16, 8, 1, 1)),
    "conv": lambda x, y: F.conv2d(
        x.reshape(1, 2, 8, -1), torch.linspace(-1, 1, 54).reshape(3, 2, 3, 3), stride=2, padding=1
    ),
    "rotation": lambda x, y: x * y.cos() + torch.cat([-x[..., 4:], x[..., :4]], -1) * y.sin(),
    "mask": lambda x, y: torch.where(x > y, x, torch.full_like(x, -4e4)).amax(-1),
    "sums": lambda x, y: torch.stack([x.mean(1), x.sum(1), y.amax(1)]),
    "gather": lambda x, y: F.embedding(torch.tensor([3, 0, 3]), x[0].contiguous()),
    "slices": lambda x, y: torch.cat([x[:, 1:4:2], y[:, :-2]], 1),
    "tanh": lambda x, y: 30 * torch.tanh(x / 30),
}


class AllOperators(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return tuple(operator(x, y) for operator in OPERATORS.values())


def _inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    return torch.randn(2, 6, 8, generator=generator), torch.randn(2, 6, 8, generator=generator)


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Package, CoreAIModel]:
    """The same operators as a Core ML package and as a Core AI model, both in float32."""
    import coremltools as ct
    from coreai_torch import TorchConverter, get_decomp_table

    folder, program = tmp_path_factory.mktemp("both"), torch.export.export(AllOperators().eval(), _inputs())
    ct.convert(
        program.run_decompositions({}),
        outputs=[ct.TensorType(name) for name in OPERATORS],
        minimum_deployment_target=ct.target.iOS18,
        compute_precision=ct.precision.FLOAT32,
        skip_model_load=True,
    ).save(str(folder / "m.mlpackage"))
    lowered = program.run_decompositions(get_decomp_table())
    converter = TorchConverter().add_exported_program(lowered, output_names=list(OPERATORS))
    converter.to_coreai().save_asset(folder / "m.aimodel")
    return load_package(folder / "m.mlpackage", "float32"), load_model(folder / "m.aimodel")


@pytest.fixture(scope="session")
def results(both: tuple[Package, CoreAIModel]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    package, model = both
    given = dict(zip(("x", "y"), _inputs(), strict=True))
    return package.functions["main"].run(given), model.functions["main"].run(given)


@pytest.mark.parametrize("operator", OPERATORS)
def test_interpreter_runtime_and_torch_agree(
    operator: str, results: tuple[dict[str, Tensor], dict[str, Tensor]]
) -> None:
    """float32 in all three; sums of up to 48 terms in another order, and other approximations of exp and erf."""
    with torch.no_grad():
        expected = OPERATORS[operator](*_inputs())
    for actual in results:
        torch.testing.assert_close(actual[operator], expected, rtol=2e-5, atol=2e-5)


def test_a_fault_of_a_converter_is_seen(tmp_path: Path) -> None:
    """coremltools 9.0 drops the keyword that torch.export gives to GELU: the package holds another function."""
    import coremltools as ct

    class Tanh(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.gelu(x, approximate="tanh")

    x = torch.linspace(-3, 3, 50)
    program = torch.export.export(Tanh(), (x,)).run_decompositions({})
    options = {"compute_precision": ct.precision.FLOAT32, "minimum_deployment_target": ct.target.iOS18}
    model = ct.convert(program, outputs=[ct.TensorType("y")], skip_model_load=True, **options)
    model.save(str(tmp_path / "m.mlpackage"))
    actual = load_package(tmp_path / "m.mlpackage", "float32").functions["main"].run({"x": x})["y"]
    torch.testing.assert_close(actual, F.gelu(x))
    assert float((actual - Tanh()(x)).abs().max()) > 1e-4
