"""The wiring of the checks that need a Mac, with a STAND-IN for Core ML: no figure here is Core ML's."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

from edgec.backends.coreml import mac
from edgec.bundle.findings import DeviceCheck
from edgec.devices.targets import load_target
from edgec.errors import BudgetError
from edgec.exporter.stages.device_checks import artifact_checks, device_checks, not_run
from tests.backends.coreml.toy_mac import STATE, VOCABULARY, ToyReference, ToyTools, toy_methods

TOKENS = [(7 * i + i * i) % VOCABULARY for i in range(50)]


def _checks(tools: ToyTools | None, held: bool = False) -> list[DeviceCheck]:
    return device_checks([Path("model.mlpackage")], toy_methods(held), [STATE], ToyReference, TOKENS, tools)


@pytest.mark.parametrize("held", [False, True])
def test_all_three_checks_run_where_there_are_tools(held: bool) -> None:
    tools = ToyTools(held=held)
    checks = _checks(tools, held)
    assert [(check.name, check.status) for check in checks] == [
        ("compile", "passed"),
        ("predict", "passed"),
        ("placement", "passed"),
    ]
    assert {check.machine for check in checks} == {"stand-in, no Mac"}
    assert "same top-1 100.0%" in checks[1].note
    assert tools.loaded == ["prefill", "decode"]


def test_placement_counts_operators_by_method_and_unit() -> None:
    rows = [(row.method, row.operator, row.unit, row.count) for row in _checks(ToyTools())[2].placement]
    assert rows == [
        ("decode", "ios18.conv", "neural engine", 2),
        ("decode", "ios18.gather", "cpu", 1),
        ("prefill", "ios18.cast", "unknown", 1),
        ("prefill", "ios18.conv", "gpu", 1),
    ]


def test_a_state_that_is_written_wrongly_fails_the_export() -> None:
    with pytest.raises(BudgetError) as caught:
        _checks(ToyTools(fault=-2.0))
    assert caught.value.code == "E468" and "top-1" in caught.value.why


def test_a_package_that_core_ml_refuses_fails_the_export() -> None:
    with pytest.raises(BudgetError) as caught:
        _checks(ToyTools(refusal="unsupported op"))
    assert caught.value.code == "E468" and "unsupported op" in caught.value.why


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has the tools")
def test_without_a_mac_the_manifest_says_not_run() -> None:
    assert mac.mac_tools() is None
    checks = _checks(None)
    assert [(check.name, check.status) for check in checks] == [
        (name, "not run") for name in ("compile", "predict", "placement")
    ]
    assert all("no Mac" in check.note for check in checks)
    assert checks == not_run(checks[0].note)


def test_coremltools_has_what_the_mac_will_call() -> None:
    """Names and parameters; their behaviour needs a Mac."""
    import coremltools as ct
    from coremltools.models.compute_plan import MLComputePlan
    from coremltools.models.utils import compile_model

    assert list(inspect.signature(compile_model).parameters) == ["model", "destination_path"]
    assert {"path", "compute_units"} <= set(inspect.signature(MLComputePlan.load_from_path).parameters)
    assert hasattr(MLComputePlan, "get_compute_device_usage_for_mlprogram_operation")
    parameters = inspect.signature(ct.models.CompiledMLModel.__init__).parameters
    assert {"path", "compute_units", "function_name"} <= set(parameters)
    assert "state" in inspect.signature(ct.models.CompiledMLModel.predict).parameters
    assert hasattr(ct.models.CompiledMLModel, "make_state")
    devices = vars(ct.models.compute_device)
    assert set(mac._UNITS) <= set(devices)


def test_a_model_that_is_no_decoder_is_compiled_and_placed() -> None:
    methods = [toy_methods(False)[0].model_copy(update={"name": "forward"})]
    checks = device_checks([Path("model.mlpackage")], methods, [], ToyReference, [], ToyTools())
    assert [check.status for check in checks] == ["passed", "not run", "passed"]


def test_only_apples_formats_have_these_checks() -> None:
    nothing = (Path("model"), toy_methods(False), [STATE], TOKENS)
    assert artifact_checks(nothing[0], load_target("host"), *nothing[1:]) == []
    inside = artifact_checks(nothing[0], load_target("iphone-16-pro-npu-aimodel"), *nothing[1:])
    assert {check.status for check in inside} == {"not run"} and "--format mlpackage" in inside[0].note


def test_every_package_of_a_model_in_parts_is_compiled_and_placed() -> None:
    tools, parts = ToyTools(), [Path("part_0.mlpackage"), Path("part_1.mlpackage")]
    checks = device_checks(parts, toy_methods(False), [STATE], ToyReference, TOKENS, tools)
    assert [check.status for check in checks] == ["passed", "not run", "passed"]
    assert "several packages" in checks[1].note and tools.loaded == []
    assert sum(row.count for row in checks[2].placement) == 2 * sum(
        row.count for row in _checks(ToyTools())[2].placement
    )


@pytest.mark.parametrize("call", ["compile", "load", "operators"])
def test_whatever_a_tool_raises_is_a_failed_check(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("no such function")

    monkeypatch.setattr(ToyTools, call, refuse)
    with pytest.raises(BudgetError, match="E468") as caught:
        _checks(ToyTools())
    assert "ValueError: no such function" in caught.value.why
