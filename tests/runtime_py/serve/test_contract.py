"""The contract test of ExecuTorch's example server, as its authors wrote it, against this server.

``EDGEC_OPENAI_CONTRACT`` names the file, ``examples/llm_server/conformance/test_openai_contract.py`` of a checkout of
ExecuTorch; without it there is nothing to run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.limits import DEFAULT_LIMITS
from tests.runtime_py.serve.running import Running, model_of, running, script_by

NAMED = os.environ.get("EDGEC_OPENAI_CONTRACT")
SAID = "你好世界 🌍 café"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


@pytest.fixture(scope="module")
def model(batched_bundle: Path) -> Model:
    """The tiny decoder's context is too short for a call after its prompt."""
    return model_of(batched_bundle)


@pytest.fixture(scope="module")
def server(model: Model) -> Iterator[Running]:
    """One session, the model's own, which says what it is told to."""
    with running(model, limits=replace(DEFAULT_LIMITS, sessions=1)) as made:
        yield made


def _answer(before: str) -> str:
    return CALL if "weather" in before else SAID


def _counts(report: Path) -> dict[str, int]:
    suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None
    return {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}


@pytest.mark.long
@pytest.mark.skipif(NAMED is None, reason="EDGEC_OPENAI_CONTRACT names no file")
def test_all_of_it_passes_and_nothing_is_skipped(server: Running, model: Model, tmp_path: Path) -> None:
    calls, report = script_by(model, _answer), tmp_path / "report.xml"
    asked = {"OPENAI_BASE_URL": server.url, "OPENAI_MODEL": server.name, "no_proxy": "127.0.0.1"}
    apart = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path), f"--junitxml={report}"]
    line = [sys.executable, "-B", "-m", "pytest", *apart, str(Path(str(NAMED)).resolve())]
    done = subprocess.run(
        line, env={**os.environ, **asked}, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    counts = _counts(report)
    assert counts.pop("tests") >= 7 and not any(counts.values()), done.stdout
    assert calls, "the model was asked"
