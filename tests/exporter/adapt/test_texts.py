"""Text from wherever it lies, and a split that depends on nothing but the text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
import torch

from edgec.errors import EdgecError, InputError
from edgec.exporter.adapt.batches import Batches, tokenize
from edgec.exporter.adapt.split import CHUNK_BYTES
from edgec.exporter.adapt.texts import read_texts
from tests.runtime_py.tiny_decoder import tiny_tokenizer

PARAGRAPH = "x" * (CHUNK_BYTES - 2)


def numbered(count: int) -> str:
    return "\n\n".join(f"{number:05d}{PARAGRAPH}" for number in range(count))


def test_every_fiftieth_chunk_is_held_out(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text(numbered(120))
    texts = read_texts([file])
    assert [held[:5] for held in texts.held_out] == ["00049", "00099"]
    assert len(texts.train) == 3 and not any(held in "".join(texts.train) for held in texts.held_out)
    assert read_texts([file]) == texts


def test_the_last_chunk_of_a_short_text_is_held_out(tmp_path: Path) -> None:
    file = tmp_path / "short.txt"
    file.write_text(numbered(3))
    assert [held[:5] for held in read_texts([file]).held_out] == ["00002"]


def test_lines_of_jsonl_and_folders(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"{number:05d}{PARAGRAPH}"}) for number in range(3)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.txt").write_text(numbered(2))
    (tmp_path / "ignored.bin").write_bytes(b"\xff")
    texts = read_texts([tmp_path])
    assert [held[:5] for held in texts.held_out] == ["00001"] and texts.train[0].startswith("00000")


def test_many_short_files_are_one_text(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text(f"{number:05d} " + "words " * 400)
    texts = read_texts([tmp_path])
    assert len(texts.held_out) == 1 and texts.train[0].startswith("00000")


def test_lines_end_where_json_says(tmp_path: Path) -> None:
    rows = [{"text": f"{number}\u2028{PARAGRAPH}"} for number in range(3)] + [{"text": None}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    texts = read_texts([tmp_path / "a.jsonl"])
    assert texts.held_out[0].startswith("2\u2028") and "None" not in "".join(texts.train + texts.held_out)


class Rows(dict[str, list[str]]):
    """Stands for a data set."""

    column_names: ClassVar = ["text"]


@pytest.mark.parametrize(
    ("place", "asked"),
    [
        ("hf:who/what", ("who/what", None, "train")),
        ("hf:who/what:test", ("who/what", None, "test")),
        ("hf:who/what:small:test", ("who/what", "small", "test")),
    ],
)
def test_a_data_set_is_read_by_its_library(monkeypatch: pytest.MonkeyPatch, place: str, asked: tuple[str, ...]) -> None:
    calls = []

    def load_dataset(name: str, configuration: str | None, split: str) -> Rows:
        calls.append((name, configuration, split))
        return Rows(text=[numbered(3)])

    library = ModuleType("datasets")
    monkeypatch.setattr(library, "load_dataset", load_dataset, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", library)
    monkeypatch.setattr("edgec.exporter.adapt.texts.find_spec", lambda name: True)
    assert read_texts([place]).held_out and calls == [asked]


def test_a_data_set_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(*asked: object, **more: object) -> None:
        raise ConnectionError("no network")

    library = ModuleType("datasets")
    monkeypatch.setattr(library, "load_dataset", load_dataset, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", library)
    monkeypatch.setattr("edgec.exporter.adapt.texts.find_spec", lambda name: True)
    with pytest.raises(InputError) as caught:
        read_texts(["hf:who/what"])
    assert caught.value.code == "E502" and "no network" in str(caught.value.why)


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("bad.txt", b"\xff\xfe\xff", "E502"),
        ("bad.jsonl", b'{"title": "no text"}', "E502"),
        ("bad2.jsonl", b"not json", "E502"),
        ("tiny.txt", b"too little", "E503"),
    ],
)
def test_unusable_text_is_refused(tmp_path: Path, name: str, content: bytes, code: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_texts([tmp_path / name])
    assert caught.value.code == code


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in ("nowhere.txt", "empty"):
        with pytest.raises(InputError) as caught:
            read_texts([tmp_path / place])
        assert caught.value.code == "E502"


def test_a_data_set_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgec.exporter.adapt.texts.find_spec", lambda name: None)
    with pytest.raises(EdgecError) as caught:
        read_texts(["hf:roneneldan/TinyStories"])
    assert caught.value.code == "E504" and caught.value.exit_code == 3


def test_a_batch_depends_on_seed_and_number_alone(story: Path) -> None:
    batches = tokenize(read_texts([story]), tiny_tokenizer(), 32, 200, seed=7)
    one, other = batches.at(5, 3, 32), batches.at(5, 3, 32)
    assert torch.equal(one, other) and one.shape == (3, 33)
    assert not torch.equal(one, batches.at(6, 3, 32))
    # the tiny tokenizer begins texts with <s>
    assert one[:, 0].tolist() == [1, 1, 1] and batches.held_out[:, 0].unique().tolist() == [1]
    assert batches.held_out.shape[1] == 33


def test_the_last_token_of_the_text_is_reached() -> None:
    batches = Batches(torch.arange(10), torch.zeros(1, 5, dtype=torch.int64), None, 0)
    seen = torch.cat([batches.at(number, 8, 4).flatten() for number in range(20)])
    assert set(seen.tolist()) == set(range(10))


def test_a_text_shorter_than_a_sequence_is_refused(story: Path) -> None:
    with pytest.raises(InputError) as caught:
        tokenize(read_texts([story]), tiny_tokenizer(), 100_000, 200_000, seed=0)
    assert caught.value.code == "E503"
