"""On a trained chat model: no right artifact is refused, faults are, and the default says something sensible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import edgec
from edgec.bundle.findings import Rung
from edgec.bundle.folder import read_manifest
from edgec.exporter.options import ExportOptions
from edgec.exporter.parity.execution import run_artifact, run_program
from edgec.exporter.parity.execution_noise import Noise, second_execution
from edgec.exporter.parity.ladder import Stage, executed_budget, lowering_rung
from edgec.exporter.parity.own_roundings import rung_with_roundings
from edgec.exporter.parity.probe_calls import text_calls
from edgec.exporter.progress import Progress
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.stages.capturing import capture_request, stream_weights
from edgec.exporter.stages.cpu_methods import block_rows
from edgec.exporter.stages.decoder import DecoderStages
from edgec.exporter.stages.rewriting import with_floats
from edgec.exporter.stages.static_decoder import StaticDecoderStages, lowering_budget
from edgec.ir.program import Program
from edgec.passes.contract import run_passes
from tests.exporter.off_grid import off_grid_folder
from tests.exporter.parity.planted_faults import LOST, ONE_ROW, ROWS_OFF, SWAPPED, damaged

pytestmark = [pytest.mark.real_model, pytest.mark.slow, pytest.mark.timeout(3600)]
Lower = Callable[[Program], bytes]
MATRIX = "layers.10.self_attn.v_proj"


@dataclass(frozen=True)
class Rounded:
    """The rounded graph of a real model."""

    request: ExportRequest
    program: Program
    logits: Tensor
    noise: Noise

    def lower(self, program: Program, change: Callable[[Program], Program] = lambda program: program) -> bytes:
        from edgec.backends.cpu.lower import lower

        return lower(change(program), block_rows=block_rows(self.request)).artifact

    def rung(self, executed: Tensor) -> Rung:
        recipe, form = self.request.recipe, self.request.form
        if form.static:
            budget = lowering_budget(recipe, half=form.half, untrained=False, noise=self.noise)
        else:
            budget = executed_budget(recipe, rounded=True, noise=self.noise)
        return lowering_rung(Stage("graph", self.logits), Stage("artifact", executed), budget, rounded=True)

    def judged_with_its_roundings(self, executed: Tensor, lower: Lower) -> Rung:
        probe = self.request.probe
        calls = text_calls(self.program.interface, probe.tokens, probe.plan)
        return rung_with_roundings(self.rung(executed), self.program, calls, executed, lower)


def rounded(folder: Path, **options: Any) -> Rounded:
    request = resolve_options(ExportOptions(folder, recipe="4bit", **options)).request
    stages = (StaticDecoderStages if request.form.static else DecoderStages)(request)
    captured = capture_request(request, stream_weights(request.source), Progress())
    program = with_floats(run_passes(captured, stages.passes(), in_place=True))
    run = partial(run_program, tokens=request.probe.tokens, plan=request.probe.plan)
    logits = run(program)
    return Rounded(request, program, logits, second_execution(request.form).noise(program, logits, run))


@pytest.fixture(scope="module")
def trained(real_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return off_grid_folder(real_model, tmp_path_factory.mktemp("trained") / "off-grid")


@pytest.fixture(scope="module")
def four_bit(trained: Path) -> Rounded:
    return rounded(trained)


def executed(own: Rounded, folder: Path, lower: Lower) -> Tensor:
    (folder / "model.pte").write_bytes(lower(own.program))
    return run_artifact(folder / "model.pte", own.request.probe.tokens, own.request.probe.plan)


def test_a_right_artifact_passes_both_ways(four_bit: Rounded, tmp_path: Path) -> None:
    got = executed(four_bit, tmp_path, four_bit.lower)
    assert four_bit.rung(got).passed
    refused = replace(four_bit, noise=Noise(kl_mean=0.0, max_relative=0.0, how="none"))
    assert not refused.rung(got).passed
    assert refused.judged_with_its_roundings(got, four_bit.lower).passed


@pytest.mark.parametrize("fault", [ROWS_OFF, LOST])
def test_faults_of_a_whole_matrix_are_refused(fault: str, four_bit: Rounded) -> None:
    probe = four_bit.request.probe
    wrong = run_program(damaged(four_bit.program, fault, MATRIX), probe.tokens, probe.plan)
    assert not four_bit.rung(wrong).passed


@pytest.mark.parametrize("fault", [SWAPPED, ONE_ROW, ROWS_OFF, LOST])
def test_no_fault_is_excused_by_its_own_roundings(fault: str, four_bit: Rounded, tmp_path: Path) -> None:
    lower = partial(four_bit.lower, change=lambda program: damaged(program, fault, MATRIX))
    got = executed(four_bit, tmp_path, lower)
    assert not four_bit.judged_with_its_roundings(got, lower).passed


FORMS: dict[str, dict[str, Any]] = {
    "onnx": {"target": "host", "format": "onnx"},
    "mlpackage": {"target": "iphone", "format": "mlpackage"},
}


@pytest.fixture(scope="module", params=list(FORMS))
def of_a_form(trained: Path, request: pytest.FixtureRequest) -> Rounded:
    return rounded(trained, **FORMS[request.param])


@pytest.mark.parametrize("fault", [SWAPPED, ONE_ROW, ROWS_OFF, LOST])
def test_logits_tell_each_fault_where_activations_are_floats(fault: str, of_a_form: Rounded) -> None:
    probe = of_a_form.request.probe
    wrong = run_program(damaged(of_a_form.program, fault, MATRIX), probe.tokens, probe.plan)
    assert not of_a_form.rung(wrong).passed, of_a_form.noise


def test_the_default_is_never_refused_and_knows_the_capital_of_france(trained: Path, tmp_path: Path) -> None:
    bundle = edgec.export(trained, out=tmp_path / "x.edgec")
    manifest = read_manifest(bundle)
    quality = [rung for rung in manifest.parity if rung.half == "quality"][-1]
    assert quality.passed and quality.kl_mean is not None and quality.kl_mean <= 0.2
    assert quality.kl_error is not None and quality.kl_error < 0.2 * quality.kl_mean
    model = edgec.load(bundle)
    said = model.chat().say("What is the capital of France?", model.request(max_new_tokens=24, temperature=0.0))
    assert "Paris" in said.text
