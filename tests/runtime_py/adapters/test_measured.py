"""Evaluating and measuring a bundle under an adapter."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import edgec
from edgec.bundle.folder import open_bundle
from edgec.cli.app import run_cli
from edgec.devices.job import Job, job_from_json
from edgec.devices.qemu.emulator import EMULATOR
from edgec.devices.transport import parse_address
from edgec.errors import InputError
from edgec.runtime_py.adapters.adapter_file import read_adapter
from edgec.runtime_py.adapters.make import make_adapter
from edgec.runtime_py.bench import job as jobs
from edgec.runtime_py.bench.bench import BenchPlan, bench, bench_on
from edgec.runtime_py.bench.job import run_job
from edgec.runtime_py.bench.shown_prompt import ShownPrompt
from edgec.runtime_py.evaluate.evaluate import evaluate
from edgec.runtime_py.sessions.session import Session
from tests.runtime_py.adapters.loras import EVERY, pairs, session_logits, write_lora
from tests.runtime_py.tiny_decoder import TEXT

ARM64 = (EMULATOR, "aarch64-linux-gnu-g++")


@pytest.fixture(scope="module")
def adapter(four_bits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    return make_adapter(four_bits, write_lora(folder / "lora", pairs(EVERY)), folder / "a.adapter").path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


def test_an_evaluation_is_that_of_the_adapted_model(four_bits: Path, adapter: Path, text: Path) -> None:
    plain, adapted = evaluate(four_bits, text), evaluate(four_bits, text, adapter=adapter)
    assert plain.adapter == "" and adapted.adapter == read_adapter(adapter).digest
    session = Session(four_bits)
    session.adapter = adapter
    tokens = edgec.load(four_bits).encode(TEXT)
    assert len(tokens) <= session.limits.context, "one window"
    logs = torch.log_softmax(session_logits(session, tokens[:-1]).double(), -1)
    nll = -logs[torch.arange(len(tokens) - 1), torch.tensor(tokens[1:])].mean()
    # The same logits; sums of float64 in another order.
    assert adapted.overall.nll == pytest.approx(float(nll), rel=1e-9)
    assert abs(adapted.overall.nll - plain.overall.nll) > 0.01


def test_the_command_takes_an_adapter(
    four_bits: Path, adapter: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["eval", str(four_bits), "--text", str(text), "--adapter", str(adapter)]
    assert run_cli([*line, "--json"]) == 0
    digest = json.loads(capsys.readouterr().out)["adapter"]
    assert digest == read_adapter(adapter).digest
    assert run_cli(line) == 0 and f"adapter: {digest[:12]}" in " ".join(capsys.readouterr().out.split())
    assert run_cli([*line[:-1], str(text), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "E695"


def test_a_job_measures_the_adapted_model(four_bits: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    measured = jobs.lap

    def spy(session: Session, prompt: ShownPrompt, new_tokens: int) -> Any:
        seen.append(session.cache.adapter)
        return measured(session, prompt, new_tokens)

    monkeypatch.setattr(jobs, "lap", spy)
    for path in (None, adapter):
        job = BenchPlan(prompt_tokens=8, new_tokens=4, warmups=0, adapter=path).job(open_bundle(four_bits))
        assert ("adapter" in job.to_json()) == (path is not None)
        run_job(job_from_json(job.to_json()))
    assert seen == [""] * 5 + [read_adapter(adapter).digest] * 5


def test_an_adapter_that_cannot_be_measured_is_refused_first(four_bits: Path, adapter: Path, tmp_path: Path) -> None:
    opened = open_bundle(four_bits)
    (tmp_path / "damaged").write_bytes(b"x")
    for address, app, path, code in (("ios:X", True, adapter, "E701"), ("host", False, tmp_path / "damaged", "E695")):
        transport: Any = SimpleNamespace(check=lambda _: None, address=parse_address(address), whole_runs=app)
        with pytest.raises(InputError, match=code):
            bench_on(transport, opened, BenchPlan(prompt_tokens=8, new_tokens=4, adapter=path), None, print)


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, ARM64)), reason=f"needs {' and '.join(ARM64)}")
def test_the_phone_s_runner_adds_an_adapter(four_bits: Path, adapter: Path) -> None:
    result = bench(four_bits, "qemu", adapter=adapter, prompt_tokens=8, new_tokens=4, warmups=0)
    assert {record.subject.adapter for record in result.records} == {read_adapter(adapter).digest}


@pytest.mark.slow
def test_a_run_names_its_adapter(four_bits: Path, adapter: Path) -> None:
    result = bench(four_bits, adapter=adapter, prompt_tokens=8, new_tokens=4, warmups=0, profile=True)
    assert {record.subject.adapter for record in result.records} == {read_adapter(adapter).digest}
    assert Job("load", "x", 1, 1).to_json().get("adapter") is None
