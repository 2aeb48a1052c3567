"""Bundles for an iPhone on a machine without one: run, verified, evaluated, never timed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from edgec.cli.app import app
from edgec.errors import InputError
from edgec.runtime_py.bench.bench import bench
from edgec.runtime_py.evaluate.evaluate import evaluate
from edgec.runtime_py.model import load
from edgec.runtime_py.verify.verify import verify
from tests.runtime_py.engines.simulated.conftest import FORMATS

Bundles = Callable[[str], Path]
PROMPT = "Once upon a time there was a little girl"
# An export takes 10 to 30 s: one format is enough for the quick tests.
every_format = pytest.mark.parametrize(
    "kind", [kind if kind == "mlpackage" else pytest.param(kind, marks=pytest.mark.slow) for kind in FORMATS]
)


@pytest.mark.long
@every_format
def test_the_artifact_is_there_and_verifies(kind: str, phone_bundle: Bundles) -> None:
    bundle = phone_bundle(kind)
    assert (bundle / FORMATS[kind]).exists()
    report = verify(bundle, threads=1)
    assert report.passed, report.to_json()
    checks = {check.name: check for check in report.checks}
    assert checks["output vectors"].status == "passed"
    assert "simulated" in checks["artifact"].detail


@every_format
def test_logits_are_those_of_transformers(kind: str, phone_bundle: Bundles, phone_model: Path) -> None:
    """float16 against float32: the tokens fed are transformers' own, so that one close call does not hide the rest."""
    import torch
    from transformers import AutoModelForCausalLM

    phone = load(phone_bundle(kind), threads=1)
    tokens, reference = phone.encode(PROMPT), AutoModelForCausalLM.from_pretrained(phone_model).eval()
    actual = phone.session.prefill(tokens, 0)
    for _ in range(6):
        with torch.no_grad():
            expected = reference(torch.tensor([tokens])).logits[0, -1].numpy()
        # Values are rounded to 11 bits some twenty times in two layers, and sums on the way.
        assert float(np.abs(expected - actual).max()) <= 2e-2 * float(np.abs(expected).max())
        tokens.append(int(expected.argmax()))
        actual = phone.session.forward(tokens[-1:], len(tokens) - 1, [0])[0]


def test_a_session_rewinds_and_fills_its_context(phone_bundle: Bundles) -> None:
    """Near the end, where a padded chunk has no place, tokens go one by one; the logits are the same."""
    session = load(phone_bundle("mlpackage"), threads=1).session
    context, chunk = session.limits.context, session.limits.prefill_chunk
    tokens = [1 + i % 50 for i in range(context)]
    whole = session.prefill(tokens, 0)
    again = session.prefill(tokens[chunk:], chunk)
    assert float(np.abs(whole - again).max()) <= 1e-3 * float(np.abs(whole).max())
    cut = context - 5
    session.prefill(tokens[:cut], 0)
    assert float(np.abs(session.prefill(tokens[cut:], cut) - whole).max()) <= 2e-2 * float(np.abs(whole).max())


def test_run_prints_text_and_no_speed(phone_bundle: Bundles) -> None:
    arguments = ["run", str(phone_bundle("mlpackage")), "-p", PROMPT, "--max-new-tokens", "4", "--threads", "1"]
    plain = CliRunner().invoke(app, arguments)
    assert plain.exit_code == 0, plain.output
    assert "simulated by edgec's interpreter" in plain.stderr
    assert "tokens/s" not in plain.stderr
    answer: dict[str, Any] = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert answer["obtained"] == "simulated"
    assert len(answer["tokens"]) == 4
    assert {answer[name] for name in ("ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s", "load_ms")} == {None}


def test_eval_is_marked(phone_bundle: Bundles, phone_model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(PROMPT + ". She had a red ball and liked to play outside.")
    result = evaluate(phone_bundle("mlpackage"), text, tokens=24, reference=str(phone_model), threads=1)
    assert result.obtained.startswith("simulated by edgec's interpreter")
    assert result.overall.top1_agreement is not None
    assert result.overall.kl_mean is not None and result.overall.kl_mean < 1e-3


@every_format
def test_bench_refuses(kind: str, phone_bundle: Bundles) -> None:
    with pytest.raises(InputError) as error:
        bench(phone_bundle(kind))
    assert error.value.code == "E427"
