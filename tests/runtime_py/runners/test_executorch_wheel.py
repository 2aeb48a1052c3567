"""What ExecuTorch's wheel lacks for a C++ program with its runners, as docs/runtimes.md says.

A wheel that brings one of these lets such a program be compiled and run here: then do it, and change the page.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "runtimes.md").read_text()


def wheel() -> Path:
    """The folder of the installed package."""
    spec = find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


@pytest.mark.parametrize("runner", ["llm", "asr"])
def test_the_wheel_has_no_headers_of_its_runners(runner: str) -> None:
    headers = wheel() / "include" / "executorch" / "extension"
    assert (headers / "module" / "module.h").is_file() and not (headers / runner).exists()
    assert f"extension/{runner}" in PAGE


def test_its_libraries_hold_no_runner_of_speech_and_its_python_module_alone_that_of_text() -> None:
    libraries = [*wheel().rglob("*.so")]
    assert any(each.name == "libexecutorch.so" for each in libraries)
    assert [each.name for each in libraries if b"Seq2SeqRunner" in each.read_bytes()] == []
    text = [each for each in libraries if b"TextLLMRunner" in each.read_bytes()]
    assert [each.parent.name for each in text] == ["runner"] and text[0].name.startswith("_llm_runner.")
