"""What a Mac does with bundles for Apple's chips, with STAND-INS for the two libraries that only a Mac has.

What coremltools does in Python is coremltools' own, over a stand-in for its Objective-C part. That one and the one for
ExecuTorch's binding compute by edgec's interpreter, under the names and types that theirs have: nothing here ran on a
Mac.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import edgec
from edgec.backends.coreml.interpreter import MilFunction, load_package
from edgec.backends.coreml.pte_program import open_pte
from edgec.backends.mlx.execute import execute as execute_mlx
from edgec.bundle.folder import open_bundle
from edgec.cli.app import app
from edgec.devices import simulators
from edgec.devices.host import HostTransport
from edgec.devices.job import Job, job_from_json
from edgec.devices.simulators import mac_runtime_of, simulator_elsewhere, simulator_of
from edgec.errors import InputError, ToolError
from edgec.exporter.publish.ways import _runs_here
from edgec.runtime_py.adapters.use import opened_adapter
from edgec.runtime_py.bench import run
from edgec.runtime_py.bench.job import run_job
from edgec.runtime_py.engines import apple
from edgec.runtime_py.evaluate.evaluate import evaluate
from edgec.runtime_py.model import load
from edgec.runtime_py.verify.verify import verify

Bundles = Callable[[str], Path]
PROMPT = "Once upon a time there was a little girl"


@dataclass
class StandInProxy:
    """``_MLModelProxy`` of coremltools' ``libcoremlpython``: a compiled function, and how a package is compiled."""

    path: str
    units: str
    function: str
    hints: Mapping[str, str]
    asset: Any
    loaded: ClassVar[list[tuple[str, str]]] = []

    def __post_init__(self) -> None:
        package = load_package(Path(self.path))
        self.loaded.append((self.units, self.function))
        self.compiled: MilFunction = package.functions[self.function or package.default_function]

    @staticmethod
    def compileModel(package: str) -> str:
        """Core ML compiles into a temporary folder, from which coremltools moves it."""
        return str(shutil.copytree(package, Path(package).with_suffix(".compiled")))

    def newState(self) -> dict[str, Any]:
        """Core ML's state, which goes through Python unread."""
        return self.compiled.fresh_state()

    def predict(self, data: dict[str, Any], state: Any) -> dict[str, Any]:
        """Arrays in, of which coremltools made float16 float32; float16 comes back as such, in no order."""
        assert all(isinstance(value, np.ndarray) and value.dtype != np.float16 for value in data.values())
        made = self.compiled.run({name: torch.from_numpy(value) for name, value in data.items()}, state)
        return {name: made[name].numpy() for name in reversed(made)}


@dataclass
class StandInBinding:
    """A method in ExecuTorch's binding, whose delegates a Mac has."""

    artifact: Path
    name: str
    opened: list[Any] = field(default_factory=list)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The arrays that the method gives, in order."""
        self.opened[:] = self.opened or [open_pte(self.artifact).methods[self.name]]
        return [value.numpy() for value in self.opened[0].run([torch.from_numpy(each) for each in inputs])]


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> type[StandInProxy]:
    from coremltools.models import _compiled_model, utils

    for module in (_compiled_model, utils):
        monkeypatch.setattr(module, "_macos_version", lambda: (15, 1))
    monkeypatch.setattr(_compiled_model, "_MLModelProxy", StandInProxy)
    library = SimpleNamespace(_MLModelProxy=StandInProxy)
    monkeypatch.setitem(sys.modules, "coremltools.libcoremlpython", library)
    monkeypatch.setattr(simulators, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(apple, "BoundMethod", StandInBinding)
    monkeypatch.setattr(StandInProxy, "loaded", [])
    monkeypatch.setattr(run, "mac_ver", lambda: ("15.1", ("", "", ""), "arm64"))
    return StandInProxy


@dataclass
class StandInMlx:
    """The method of a program for MLX in ExecuTorch's binding: tokens and their positions in, the last logits out."""

    artifact: Path
    name: str

    def __post_init__(self) -> None:
        self.methods = execute_mlx(self.artifact)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Logits [1, 1, V], by edgec's interpreter over mlx."""
        tokens, positions = inputs
        assert tokens.shape == (1, len(positions)) and tokens.dtype == positions.dtype == np.int64
        last = {"start": torch.tensor([positions[0]]), "last": torch.tensor([len(positions) - 1])}
        return [self.methods.call("forward", {"tokens": torch.from_numpy(tokens), **last}).numpy()[None, None]]


@pytest.fixture
def package(phone_bundle: Bundles, tmp_path: Path) -> Path:
    """A bundle with a Core ML package; a copy, since the stand-in compiles beside the package."""
    return Path(shutil.copytree(phone_bundle("mlpackage"), tmp_path / "a.edgec"))


def tokens_of(bundle: Path) -> list[int]:
    return list(load(bundle, threads=1).generate(PROMPT, max_new_tokens=6).tokens)


@pytest.mark.slow
def test_core_ml_executes_a_package_and_its_times_are_speeds(
    package: Path, mac: type[StandInProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run", str(package), "-p", PROMPT, "--max-new-tokens", "6", "--threads", "1", "--raw", "--json"]
    answer = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert answer["decode_tokens_per_s"] > 0 and answer.get("obtained") != "simulated"
    assert sorted(mac.loaded) == [("CPU_AND_NE", "decode"), ("CPU_AND_NE", "prefill")]
    monkeypatch.undo()
    assert answer["tokens"] == tokens_of(package), "as edgec's interpreter gives"


@pytest.mark.slow
def test_a_package_is_verified_and_evaluated(package: Path, mac: type[StandInProxy], tmp_path: Path) -> None:
    report = verify(package, threads=1)
    assert report.passed and "simulated" not in {check.name: check for check in report.checks}["artifact"].detail
    (tmp_path / "text.txt").write_text(PROMPT)
    assert "simulated" not in evaluate(package, tmp_path / "text.txt", tokens=8, threads=1).obtained


@pytest.mark.slow
def test_a_package_is_measured(package: Path, mac: type[StandInProxy], monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs run in this process, since a stand-in does not reach another."""
    monkeypatch.setattr(HostTransport, "run", lambda self, job: run_job(job_from_json(job)))
    brief = ["--prompt-tokens", "8", "--new-tokens", "2", "--warmups", "0", "--threads", "1"]
    done = CliRunner().invoke(app, ["bench", str(package), "--device", "host", *brief, "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert not answer["simulated"] and {each["obtained"][:8] for each in answer["records"]} == {"measured"}
    comparability, subject = (answer["records"][0][name] for name in ("comparability", "subject"))
    assert comparability["runtime"] == "Core ML, macOS 15.1"
    assert subject["artifact_bytes"] == sum(file.stat().st_size for file in open_bundle(package).artifact_files)
    loads = [each for each in answer["records"] if each.get("state")]
    assert len(loads) == 6 and all(0 <= each["resident_share"] <= 1 for each in loads), "of a folder's files"
    job = Job(kind="profile", bundle=str(package), threads=1, prompt_tokens=8, new_tokens=2, repetitions=1, warmups=0)
    with pytest.raises(ToolError) as refused:
        run_job(job)
    assert refused.value.code == "E350" and "Core ML" in refused.value.why


@pytest.mark.slow
def test_executorchs_delegates_execute_a_program(
    phone_bundle: Bundles, mac: type[StandInProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = phone_bundle("pte")
    model = load(bundle, threads=1)
    assert model.session.engine == "apple" and mac_runtime_of(model.bundle.manifest) == (
        "ExecuTorch's delegate for Core ML"
    )
    found = list(model.generate(PROMPT, max_new_tokens=6).tokens)
    monkeypatch.undo()
    assert found == tokens_of(bundle)


@pytest.mark.slow
def test_the_delegate_for_mlx_executes_a_program(
    phone_model: Path, stage_cache: Path, mac: type[StandInProxy], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = edgec.export(
        phone_model, target="iphone", unit="gpu", format="pte", recipe="float", context=128, out=tmp_path / "a.edgec"
    )
    monkeypatch.setattr(apple, "BoundMethod", StandInMlx)
    model = load(bundle, threads=1)
    assert model.session.engine == "apple" and mac_runtime_of(model.bundle.manifest) == "ExecuTorch's delegate for MLX"
    found = list(model.generate(PROMPT, max_new_tokens=6).tokens)
    monkeypatch.undo()
    assert found == tokens_of(bundle)


@pytest.mark.slow
def test_a_package_that_core_ml_refuses_is_told_with_its_words(
    package: Path, mac: type[StandInProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(package: str) -> str:
        raise RuntimeError("Error compiling model: \"compiler error: unsupported opset 'CoreML9'\".")

    monkeypatch.setattr(mac, "compileModel", staticmethod(refuse))
    with pytest.raises(ToolError) as refused:
        load(package)
    assert refused.value.code == "E920" and "CoreML9" in refused.value.why


@pytest.mark.slow
def test_what_is_written_about_a_bundle_is_the_same_on_every_system(package: Path, mac: type[StandInProxy]) -> None:
    opened = open_bundle(package)
    assert not simulator_of(opened.manifest) and simulator_elsewhere(opened.manifest)
    assert _runs_here(opened.manifest), "the card has the commands for a computer"
    with pytest.raises(InputError) as refused:
        opened_adapter("pirate", opened)
    assert refused.value.code == "E767", "an artifact for Apple's chips takes no file of an adapter"


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
