"""A bundle's tokenizer is data: no code of its folder runs, and nothing asks on stdin whether it may."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from edgec.bundle.tokenizer_folder import open_tokenizer, untrusted_tokenizer
from edgec.errors import InputError
from tests.runtime_py.tiny_decoder import tiny_tokenizer

EVIL = """
from pathlib import Path
from transformers import PreTrainedTokenizerFast

(Path(__file__).parent / "executed").touch()

class Evil(PreTrainedTokenizerFast):
    pass
"""


class _Consent(io.StringIO):
    """A stdin that says yes to everything, and knows whether it was asked."""

    asked = 0

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        self.asked += 1
        return "y\n"


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> _Consent:
    """Let stdin agree to any question."""
    consent = _Consent()
    monkeypatch.setattr(sys, "stdin", consent)
    return consent


def _folder(folder: Path, **config: Any) -> Path:
    tiny_tokenizer().save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    return folder


def _evil(folder: Path, **config: Any) -> Path:
    _folder(folder, **config)
    (folder / "evil.py").write_text(EVIL)
    (folder / "config.json").write_text(
        json.dumps({"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil", "AutoProcessor": "evil.Evil"}})
    )
    return folder


def test_an_intact_tokenizer_is_read(tmp_path: Path) -> None:
    text = "Once upon a time"
    assert open_tokenizer(_folder(tmp_path / "t"))(text)["input_ids"] == tiny_tokenizer()(text)["input_ids"]


@pytest.mark.parametrize(
    "config",
    [
        {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}, "tokenizer_class": "Evil"},
        {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}, "tokenizer_class": None},
        {"auto_map": ["evil.Evil", "evil.Evil"]},
        {"tokenizer_class": "AutoProcessor"},
        {"tokenizer_class": "AutoTokenizer"},
        {"tokenizer_class": "AutoConfig"},
        {"tokenizer_class": "RagTokenizer"},
        {},
    ],
)
def test_no_code_of_the_folder_runs_and_nobody_is_asked(tmp_path: Path, stdin: _Consent, config: Any) -> None:
    folder = _evil(tmp_path / "t", **config)
    with pytest.raises(InputError) as caught:
        open_tokenizer(folder)
    assert caught.value.code == "E158"
    try:
        untrusted_tokenizer(folder)  # as at export, where other files may lie beside it
    except ValueError as error:
        assert str(error)
    assert stdin.asked == 0 and not (folder / "executed").exists()


@pytest.mark.parametrize("name", ["config.json", "evil.py", "pytorch_model.bin", "sub/tokenizer.json"])
def test_a_file_that_no_tokenizer_has_is_refused_by_name(tmp_path: Path, name: str) -> None:
    folder = _folder(tmp_path / "t")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("{}")
    with pytest.raises(InputError) as caught:
        open_tokenizer(folder)
    assert caught.value.code == "E158" and repr(name) in caught.value.why


def test_a_class_that_transformers_lacks_is_read_as_a_plain_tokenizer(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(_folder(tmp_path / "t", tokenizer_class="SomebodysTokenizer"))
    assert tokenizer("hi")["input_ids"] == tiny_tokenizer()("hi")["input_ids"]
