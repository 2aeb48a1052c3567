from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from edgec.exporter.calibration import made_text
from edgec.exporter.calibration.made_text import MOST_BUILT_IN, PLAIN, make_text
from edgec.exporter.options import ExportOptions
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.resolved import resolve_options
from tests.runtime_py.tiny_decoder import tiny_tokenizer


def _request(folder: Path, **options: Any) -> ExportRequest:
    return resolve_options(ExportOptions(folder, recipe="4bit-gptq", context=256, **options)).request


def _made(request: ExportRequest) -> made_text.MadeText:
    return make_text(request, lambda _: None)


@pytest.mark.long
def test_the_model_writes_and_a_built_in_text_follows(tiny_folder: Path) -> None:
    request, shares = _request(tiny_folder), list[float]()
    made = make_text(request, shares.append)
    assert made == _made(request) and 1024 < len(made.written) <= 3072 and len(made.built_in) == MOST_BUILT_IN
    assert request.tokenizer.decode(made.built_in[1:40]) in PLAIN.read_text()
    assert shares == sorted(shares) and shares[0] >= 0 and 0.9 < shares[-1] <= 1
    assert len(made.tokens) <= 4096 and max(made.tokens) < request.spec.vocab_size
    said = f"{len(made.written):,} tokens that the model wrote and 1,024 built-in ones"
    assert str(made.told) == said and not made.notice


def test_without_a_tokenizer_the_model_writes_from_its_start(tiny_folder: Path) -> None:
    made = _made(replace(_request(tiny_folder), tokenizer=None))
    assert len(made.written) == 32 * 65 and made.written[0] == 1 and not made.built_in
    assert str(made.told) == "2,080 tokens that the model wrote"


def test_random_weights_write_nothing(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_text, "float_model", _never)
    request = _request(tiny_folder, random_weights=True)
    assert str(_made(request).told) == "1,024 built-in tokens; random weights write no text"
    nothing = _made(replace(request, tokenizer=None))
    assert nothing.tokens == () and nothing.told is None


def test_no_large_model_is_built_to_write(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = _request(tiny_folder)
    monkeypatch.setattr(made_text, "MOST_WRITING_BYTES", 4 * sum(request.source.weight_sizes) - 1)
    monkeypatch.setattr(made_text, "float_model", _never)
    made = _made(request)
    assert not made.written and made.built_in and "too large to write here" in str(made.told)


@pytest.mark.long
def test_a_model_of_nan_reads_the_built_in_text(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "nan")
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][0] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert str(_made(_request(folder)).told) == "1,024 built-in tokens; the model's logits are not finite"


@pytest.mark.long
def test_weights_stored_in_16_bits_write_as_their_values_in_float32_do(tiny_folder: Path, tmp_path: Path) -> None:
    made = []
    for name, dtype in (("half", torch.bfloat16), ("wide", torch.float32)):
        folder = shutil.copytree(tiny_folder, tmp_path / name)
        weights = load_file(folder / "model.safetensors")
        rounded = {key: value.bfloat16().to(dtype) for key, value in weights.items()}
        save_file(rounded, folder / "model.safetensors", {"format": "pt"})
        made.append(_made(_request(folder)))
    assert made[0].written == made[1].written


def test_a_template_that_fails_is_told(tiny_folder: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{{ raise_exception('no questions') }}"
    made = _made(replace(_request(tiny_folder), tokenizer=tokenizer))
    assert len(made.written) == 32 * 65 and "no questions" in made.notice and made.notice in str(made.told)


def _never(*_: Any) -> Any:
    raise AssertionError("the model was built")
