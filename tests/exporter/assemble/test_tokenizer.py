"""A bundle's tokenizer gives the ids of the model's, also where its class depends on the model's config.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgec.bundle.tokenizer_folder import open_tokenizer
from edgec.exporter.assemble.tokenizer import tokenizer_contents
from edgec.exporter.sources.model_folder import tokenizer_files
from edgec.exporter.sources.tokenizer import load_tokenizer
from tests.vision_words import tokenizer

TEXT = "what is this"


def model_folder(folder: Path, model_type: str) -> Path:
    tokenizer().save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return folder


@pytest.mark.parametrize("model_type", ["llama", "qwen3_5_text"])
def test_a_bundle_reads_the_tokenizer_that_the_model_has(model_type: str, tmp_path: Path) -> None:
    source = model_folder(tmp_path / "model", model_type)
    own = load_tokenizer(source)
    (tmp_path / "bundle" / "tokenizer").mkdir(parents=True)
    for name, content in tokenizer_contents(tokenizer_files(source), own).items():
        (tmp_path / "bundle" / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    read = open_tokenizer(tmp_path / "bundle" / "tokenizer")
    assert type(read) is type(own)
    assert read(TEXT)["input_ids"] == own(TEXT)["input_ids"]


def test_what_reads_the_same_is_copied(tmp_path: Path) -> None:
    files = tokenizer_files(model_folder(tmp_path, "llama"))
    assert tokenizer_contents(files, load_tokenizer(tmp_path)) == {f"tokenizer/{file.name}": file for file in files}
    assert tokenizer_contents((), None) == {}
