"""ExecuTorch's tokenizer in C++, which its runners read tokenizer.json with, on the golden texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytorch_tokenizers import CppHFTokenizer
from tokenizers import Tokenizer

from edgec.bundle.golden_texts import TEXTS

EXAMPLE = Path(__file__).parents[3] / "examples" / "tiny-stories" / "tokenizer.json"


def other_ids(path: Path, begins: int) -> list[str]:
    """The names of the texts of which it makes other ids; ``begins``: how many it is told to put before a text."""
    ours, theirs = Tokenizer.from_file(str(path)), CppHFTokenizer()
    theirs.load(str(path))
    return [name for name, text in TEXTS if list(theirs.encode(text, begins, 0)) != ours.encode(text).ids]


def test_every_golden_text_has_the_same_ids() -> None:
    assert len(TEXTS) >= 25 and other_ids(EXAMPLE, 1) == []


def test_it_adds_what_begins_a_text_only_where_it_is_told_to() -> None:
    assert len(other_ids(EXAMPLE, 0)) == len(TEXTS)


def test_other_merges_are_found(tmp_path: Path) -> None:
    tokenizer = json.loads(EXAMPLE.read_text())
    tokenizer["model"]["merges"].reverse()
    (changed := tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    ours, theirs = Tokenizer.from_file(str(EXAMPLE)), CppHFTokenizer()
    theirs.load(str(changed))
    same = [name for name, text in TEXTS if list(theirs.encode(text, 1, 0)) == ours.encode(text).ids]
    assert "english" not in same


@pytest.mark.real_model
@pytest.mark.long
def test_a_published_chat_models_tokenizer_is_read_alike(real_model: Path, tmp_path: Path) -> None:
    from edgec.exporter.sources.resolve import resolve
    from edgec.exporter.sources.tokenizer import load_tokenizer

    folder = resolve(str(real_model)).path
    assert folder is not None
    load_tokenizer(folder).save_pretrained(tmp_path)
    assert other_ids(tmp_path / "tokenizer.json", 0) == []
