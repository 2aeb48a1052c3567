"""The demo of a trained chat model: what it prints, and that the model keeps its integers and still answers."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from edgec.bundle.folder import open_bundle
from edgec.runtime_py.runners import executorch_llm
from examples import chat_demo
from examples.chat_demo import Answer, answer_table, exported, main


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(chat_demo, "PACKAGE", "edgec_no_such_package")
    assert chat_demo.published() is None and main([]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_a_file_that_is_no_model_is_a_typed_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    assert main(["--model", str(tmp_path / "x.gguf"), "--out", str(tmp_path)]) != 0
    assert "[E80" in capsys.readouterr().err


def test_the_table_fits_a_narrow_screen() -> None:
    rows = [
        Answer("edgec, its own bits", 96_700_000, 0.0024, 81.4, "Paris,\nwhere it rains."),
        Answer("llama.cpp", 9, None, None, ""),
    ]
    console = Console(width=80, file=io.StringIO())
    console.print(answer_table("Where?", rows), chat_demo.text_table((one.name, one.text) for one in rows))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "96.7" in text and "0.0024" in text and "81" in text and "unavailable" in text and "Paris, where" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.real_model
@pytest.mark.timeout(1800)
def test_the_published_model_keeps_its_integers_and_answers(
    real_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ExecuTorch's runner writes last, and has no logits.
    monkeypatch.setattr(executorch_llm, "AUTOMATIC", True)
    answer = exported(real_model, None, tmp_path, chat_demo.QUESTION)
    manifest = open_bundle(next(tmp_path.glob("*.edgec"))).manifest
    fates = [one.fate for one in manifest.checkpoint]
    assert fates.count("kept") == len(fates) == 211
    # What is left of it is activations in 8 bits: measured 0.0024 to 0.0042.
    assert answer.kl_mean is not None and answer.kl_mean < 0.01
    assert answer.size_bytes < 1.02 * real_model.stat().st_size and len(answer.text.split()) > 2
