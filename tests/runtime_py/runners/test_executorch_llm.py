"""ExecuTorch's runner on artifacts that it cannot run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from edgec.errors import ToolError
from edgec.runtime_py.runners import process
from edgec.runtime_py.runners.executorch_llm import LlmRunner


@pytest.mark.long
def test_an_artifact_that_it_refuses_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (artifact := tmp_path / "model.pte").write_bytes(b"no program")
    with pytest.raises(ToolError) as refused:
        LlmRunner("TextLLMRunner", artifact, tmp_path / "tokenizer.json", ()).write(["x"], 1)
    assert refused.value.code == "E848" and "ended with status 1" in refused.value.why


def test_a_process_that_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    died = subprocess.CompletedProcess([], -11, "", "[method.cpp] one\n\ntwo\n")
    monkeypatch.setattr(process, "run_worker", lambda *job: died)
    with pytest.raises(ToolError, match=r"was ended by a signal: .method.cpp. one . two"):
        LlmRunner("TextLLMRunner", tmp_path / "model.pte", tmp_path / "tokenizer.json", ()).write(["x"], 1)


def test_a_process_that_does_not_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LIMIT_S", 0.01)
    with pytest.raises(ToolError, match="did not end in") as stopped:
        LlmRunner("TextLLMRunner", tmp_path / "model.pte", tmp_path / "tokenizer.json", ()).write(["x"], 1)
    assert stopped.value.code == "E848"
