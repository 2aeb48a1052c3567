"""When the phone's runner executes an artifact under the emulator, and when asking for it is an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgec.devices.targets import load_target
from edgec.engine.compile.build import RunnerBuild
from edgec.errors import EdgecError, InputError, ToolError
from edgec.exporter.options import ExportOptions
from edgec.exporter.parity.emulated import Emulation, emulated_calls, fed_tokens
from edgec.exporter.progress import Event, Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve import emulation
from edgec.exporter.resolve.emulation import choose_emulation
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.resolve.target_choice import in_format
from edgec.ir.call_plan import call_plan

pytestmark = pytest.mark.long

PHONE = load_target("android-cpu")


@pytest.fixture(scope="module")
def request_for_phone(tiny_folder: Path) -> ExportRequest:
    return resolve_options(ExportOptions(tiny_folder, target="android-cpu")).request


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An x86 machine with an emulator and a compiled runner, unless a test takes them away."""
    here = SimpleNamespace(machine="x86_64", build=RunnerBuild(Path()), compiled=[])

    def build(**given: Any) -> RunnerBuild:
        here.compiled.append(given["abi"].name)
        for done in range(3):
            given["compiled"](done, 2)
        return RunnerBuild(Path())

    monkeypatch.setattr(emulation, "AUTOMATIC", 10**12)
    monkeypatch.setattr(emulation, "find_build", lambda abi: here.build)
    monkeypatch.setattr(emulation, "build_runner", build)
    monkeypatch.setattr("platform.machine", lambda: here.machine)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    return here


def chosen(request: ExportRequest, asked: bool | None = None) -> Emulation:
    return choose_emulation(request, asked, Progress())


def refused(request: ExportRequest) -> EdgecError:
    with pytest.raises(EdgecError) as error:
        chosen(request, True)
    return error.value


def test_it_runs_where_the_tools_are_there_and_the_model_is_small(request_for_phone: ExportRequest) -> None:
    for target in (PHONE, load_target("iphone-16-pro-cpu")):
        assert chosen(replace(request_for_phone, target=target)) == Emulation(runs=True)


def test_unasked_nothing_is_compiled_and_the_reason_is_told(
    request_for_phone: ExportRequest, tools: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.build = None
    assert "edgec runner build --abi arm64" in chosen(request_for_phone).why_not
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "apt install qemu-user" in chosen(request_for_phone).why_not
    assert not chosen(request_for_phone).runs and tools.compiled == []


def test_asked_for_the_runner_is_compiled_and_progress_told(
    request_for_phone: ExportRequest, tools: SimpleNamespace
) -> None:
    seen: list[Event] = []
    progress = Progress(seen.append)
    progress.enter("resolve")
    assert choose_emulation(request_for_phone, True, progress) == Emulation(runs=True)
    assert tools.compiled == ["arm64"]
    assert [event.fraction for event in seen] == [0.0, 0.0, 0.5, 1.0] and "2 of 2 files" in seen[-1].detail


def test_asked_for_without_an_emulator_is_an_error(
    request_for_phone: ExportRequest, tools: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    error = refused(request_for_phone)
    assert isinstance(error, ToolError) and error.code == "E572" and error.exit_code == 3
    assert tools.compiled == []


def test_a_model_that_is_too_large(request_for_phone: ExportRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = sum(request_for_phone.source.weight_sizes)
    products = weights * fed_tokens(emulated_calls(request_for_phone.probe.plan))
    monkeypatch.setattr(emulation, "AUTOMATIC", products - 1)
    assert f"{weights:,} weights" in chosen(request_for_phone).why_not
    assert chosen(request_for_phone, True).runs
    monkeypatch.setattr(emulation, "MOST", products - 1)
    error = refused(request_for_phone)
    assert isinstance(error, InputError) and error.code == "E536" and f"{weights:,} weights" in error.why


def test_no_emulate_is_kept_as_the_reason(request_for_phone: ExportRequest) -> None:
    assert chosen(request_for_phone, False) == Emulation(why_not="--no-emulate")


def test_other_targets_have_no_such_rung(request_for_phone: ExportRequest, tools: SimpleNamespace) -> None:
    others = [load_target("host"), in_format(PHONE, "onnx"), load_target("iphone-16-pro")]
    for other in (replace(request_for_phone, target=target) for target in others):
        assert chosen(other) == chosen(other, False) == Emulation()
        assert refused(other).code == "E537"
    tools.machine = "aarch64"  # This machine's own kernels are the phone's.
    assert chosen(request_for_phone) == Emulation() and refused(request_for_phone).code == "E537"


def test_models_that_the_runner_cannot_run_say_so(request_for_phone: ExportRequest) -> None:
    module = replace(request_for_phone, source=replace(request_for_phone.source, kind="module"))
    assert "decoders only" in chosen(module).why_not and chosen(module, False).why_not
    assert refused(module).code == "E537" and "decoders only" in refused(module).why


@pytest.mark.parametrize(("context", "tokens"), [(512, 205), (64, 61), (2, 2)])
def test_the_calls_are_the_first_of_the_probe(context: int, tokens: int) -> None:
    plan = call_plan(min(context, 256), min(128, context), min(16, context))
    calls = emulated_calls(plan)
    assert calls == plan[: len(calls)] and fed_tokens(calls) == tokens
    assert [call.start for call in calls[1:]] == [call.start + call.size for call in calls[:-1]]
