"""onnxruntime-genai on folders that it cannot open, and where it is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.errors import ToolError
from edgec.runtime_py.runners import genai
from edgec.runtime_py.runners.genai import GenaiQuestion, asked_genai

NOTHING = GenaiQuestion([], [], [], 0, [], 1)


def test_without_the_package_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genai, "is_installed", lambda: False)
    with pytest.raises(ToolError) as refused:
        asked_genai(tmp_path, NOTHING)
    assert refused.value.code == "E856" and "[genai]" in refused.value.fix


@pytest.mark.parametrize("config", [None, "{", '{"model": {"type": "no such type"}}'])
def test_a_folder_that_it_refuses_is_an_error_with_its_reason(config: str | None, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime_genai")
    if config is not None:
        (tmp_path / "genai_config.json").write_text(config)
    with pytest.raises(ToolError) as refused:
        asked_genai(tmp_path, NOTHING)
    assert refused.value.code == "E856" and "ended with status 1" in refused.value.why
