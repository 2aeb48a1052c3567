"""What a Mac does with bundles for Apple's chips, with STAND-INS for Core ML and for ExecuTorch's binding.

The stand-ins compute by edgec's interpreter, under the names and shapes of coremltools and of the binding, so that this
shows the wiring alone: nothing here ran on a Mac.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from edgec.backends.coreml.interpreter import MilFunction, load_package
from edgec.backends.coreml.pte_program import open_pte
from edgec.cli.app import app
from edgec.devices import simulators
from edgec.devices.simulators import mac_runtime_of, refuse_as_speed, simulator_of
from edgec.errors import ToolError
from edgec.runtime_py.bench.job import Job, run_job
from edgec.runtime_py.engines import apple
from edgec.runtime_py.evaluate.evaluate import evaluate
from edgec.runtime_py.model import load
from edgec.runtime_py.verify.verify import verify

Bundles = Callable[[str], Path]
PROMPT = "Once upon a time there was a little girl"


@dataclass
class StandInState:
    """An ``MLState``: what it holds is out of its caller's reach."""

    values: dict[str, Any]


@dataclass
class StandInModel:
    """``coremltools.models.CompiledMLModel``: arrays in, a dictionary in any order out."""

    function: MilFunction

    def predict(self, data: Mapping[str, Any], state: Any = None) -> Mapping[str, Any]:
        assert all(isinstance(value, np.ndarray) for value in data.values())
        held = {} if state is None else state.values
        made = self.function.run({name: torch.from_numpy(value) for name, value in data.items()}, held)
        return {name: made[name].numpy() for name in reversed(made)}

    def make_state(self) -> StandInState:
        return StandInState(self.function.fresh_state())


@dataclass
class StandInTools:
    """``edgec.backends.coreml.mac.CoreMLTools`` without a Mac."""

    unit: str = "npu"
    loaded: list[tuple[str, str | None]] = field(default_factory=list)
    machine: str = "stand-in, no Mac"

    def compile(self, package: Path, destination: Path) -> Path:
        shutil.copytree(package, destination)
        return destination

    def load(self, compiled: Path, function: str | None) -> StandInModel:
        self.loaded.append((self.unit, function))
        package = load_package(compiled)
        return StandInModel(package.functions[function or package.default_function])

    def operators(self, compiled: Path) -> Iterable[tuple[str, str, str]]:
        return ()


@dataclass
class StandInBinding:
    """A method in ExecuTorch's binding, whose delegates a Mac has."""

    artifact: Path
    name: str

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        self._method = getattr(self, "_method", None) or open_pte(self.artifact).methods[self.name]
        return [value.numpy() for value in self._method.run([torch.from_numpy(each) for each in inputs])]


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> StandInTools:
    tools = StandInTools()
    monkeypatch.setattr(simulators, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(apple, "CoreMLTools", lambda unit: tools)
    monkeypatch.setattr(apple, "BoundMethod", StandInBinding)
    return tools


def tokens_of(bundle: Path) -> list[int]:
    return load(bundle, threads=1).generate(PROMPT, max_new_tokens=6).tokens


@pytest.mark.long
def test_core_ml_executes_a_package_and_its_times_are_speeds(
    phone_bundle: Bundles, mac: StandInTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = phone_bundle("mlpackage")
    arguments = ["run", str(bundle), "-p", PROMPT, "--max-new-tokens", "6", "--threads", "1", "--json"]
    answer = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert answer["decode_tokens_per_s"] > 0 and answer.get("obtained") != "simulated"
    assert mac.loaded == [("npu", "prefill"), ("npu", "decode")] or mac.loaded == [
        ("npu", "decode"),
        ("npu", "prefill"),
    ]
    monkeypatch.undo()
    assert answer["tokens"] == tokens_of(bundle), "as edgec's interpreter gives"


@pytest.mark.long
def test_it_is_verified_evaluated_and_measured(phone_bundle: Bundles, mac: StandInTools, tmp_path: Path) -> None:
    bundle = phone_bundle("mlpackage")
    report = verify(bundle, threads=1)
    assert report.passed and "simulated" not in {check.name: check for check in report.checks}["artifact"].detail
    (tmp_path / "text.txt").write_text(PROMPT)
    assert "simulated" not in evaluate(bundle, tmp_path / "text.txt", tokens=8, threads=1).obtained
    refuse_as_speed(load(bundle).bundle.manifest)
    job = Job(kind="speed", bundle=str(bundle), threads=1, prompt_tokens=8, new_tokens=2, repetitions=1, warmups=0)
    result = run_job(job)
    assert result["engine"] == "apple" and len(result["laps"]) == 1


@pytest.mark.slow
def test_executorchs_delegates_execute_a_program(
    phone_bundle: Bundles, mac: StandInTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = phone_bundle("pte")
    model = load(bundle, threads=1)
    assert model.session.engine == "apple" and mac_runtime_of(model.bundle.manifest) == (
        "ExecuTorch's delegate for Core ML"
    )
    found = tokens_of(bundle)
    monkeypatch.undo()
    assert found == tokens_of(bundle)


@pytest.mark.long
def test_a_package_that_core_ml_refuses_is_told_with_its_words(
    phone_bundle: Bundles, mac: StandInTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(package: Path, destination: Path) -> Path:
        raise RuntimeError("unsupported opset 'CoreML9'")

    monkeypatch.setattr(mac, "compile", refuse)
    with pytest.raises(ToolError) as refused:
        load(phone_bundle("mlpackage"))
    assert refused.value.code == "E920" and "CoreML9" in refused.value.why


def test_elsewhere_it_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest: Any = SimpleNamespace(runtime=SimpleNamespace(backends=["CoreML"]), name="a")
    monkeypatch.setattr(simulators, "sys", SimpleNamespace(platform="linux"))
    assert simulator_of(manifest) and not mac_runtime_of(manifest)
    monkeypatch.setattr(simulators, "sys", SimpleNamespace(platform="darwin"))
    assert not simulator_of(manifest) and mac_runtime_of(manifest) == "Core ML"
    manifest.runtime.backends = ["QNNExecutionProvider"]
    assert simulator_of(manifest) and not mac_runtime_of(manifest), "no Mac has a Hexagon"


def test_mlx_gets_the_tokens_of_a_call_without_their_padding() -> None:
    calls: list[tuple[list[int], list[int]]] = []

    class OneMethod:
        def run(self, inputs: Sequence[Any]) -> list[Any]:
            tokens, positions = inputs
            assert tokens.dtype == positions.dtype == np.int64
            calls.append((tokens[0].tolist(), positions.tolist()))
            return [np.full((1, 1, 4), tokens.sum(), np.float16)]

    method: Any = OneMethod()
    delegate = apple.GrowingDelegate(apple.DelegatedMethod(method), 8)
    given = {"tokens": torch.tensor([[5, 6, 7, 0, 0]]), "start": torch.tensor([3]), "last": torch.tensor([2])}
    assert delegate.call("prefill", given).tolist() == [18.0] * 4
    assert calls == [([5, 6, 7], [3, 4, 5])]
