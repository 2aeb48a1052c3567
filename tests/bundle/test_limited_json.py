"""JSON from outside: what exceeds a limit is refused with the reader's own code, whatever it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import BaseModel

from edgec.bundle.limited_json import JsonKind, limited_bytes, parse_json, read_json, read_model, read_object
from edgec.errors import InputError

KIND = JsonKind("The file cannot be read.", "write it again", "E138", max_bytes=10_000)


class _Fields(BaseModel):
    count: int
    stop: str | list[str] | None = None


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{", b"nul", b"\xff\xfe", b'"\xff"', b'"\\ud800"', b"1 2", b"{'a': 1}", b'{"a": 1,}', b"\0"),
        *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b'{"a": [1e400]}', b"9" * 41, b"9" * 5000),
        *(b"[" * 210 + b"]" * 210, b'{"a":' * 500 + b"1" + b"}" * 500, b"[" * 9_999, b" " * 10_001),
    ],
)
def test_what_is_no_json_within_the_limits_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "file.json").write_bytes(raw)
    with pytest.raises(InputError) as caught:
        read_json(tmp_path / "file.json", KIND)
    assert (caught.value.code, caught.value.fix) == ("E138", "write it again") and caught.value.why


def test_json_within_the_limits_is_read(tmp_path: Path) -> None:
    (tmp_path / "file.json").write_bytes(b'\xef\xbb\xbf{"count": 3, "deep": ' + b"[" * 190 + b"]" * 190 + b"}")
    assert read_object(tmp_path / "file.json", KIND)["count"] == 3
    assert read_model(tmp_path / "file.json", _Fields, KIND) == _Fields(count=3)
    assert parse_json(b"1000000000000000019884624838656") == 10**30 + 19884624838656


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"text"', b"1", b"true", b'{"count": "many"}', b"{}"])
def test_another_shape_is_refused_by_name(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "file.json").write_bytes(raw)
    with pytest.raises(InputError) as caught:
        read_model(tmp_path / "file.json", _Fields, KIND)
    assert caught.value.code == "E138"
    if not raw.startswith(b"{"):
        with pytest.raises(InputError, match="cannot be read"):
            read_object(tmp_path / "file.json", KIND)


def test_infinite_numbers_are_read_where_a_reader_wants_them() -> None:
    assert parse_json(b"[0.0, Infinity]", infinite=True) == [0.0, float("inf")]


@pytest.mark.parametrize("kind", ["absent", "folder", "pipe"])
def test_what_is_no_plain_file_is_refused_without_waiting_for_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file.json"
    {"absent": lambda: None, "folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}[kind]()  # type: ignore[no-untyped-call]
    with pytest.raises(InputError) as caught:
        read_json(path, KIND)
    assert caught.value.code == "E138"


@pytest.mark.parametrize(
    ("stop", "why"),
    [
        ("5", "stop: Input should be a valid string, or Input should be a valid list"),
        ('["a", 5]', "stop.1: Input should be a valid string"),
    ],
)
def test_a_value_of_several_kinds_is_told_what_each_wants(tmp_path: Path, stop: str, why: str) -> None:
    (tmp_path / "file.json").write_text(f'{{"count": 3, "stop": {stop}}}')
    with pytest.raises(InputError) as caught:
        read_model(tmp_path / "file.json", _Fields, KIND)
    assert caught.value.why == why


def test_a_file_is_read_whole_also_where_it_says_that_it_is_smaller(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    assert limited_bytes(file, 3) == limited_bytes(file, 1 << 40) == b"abc"
    with pytest.raises(ValueError, match="larger than 2 bytes"):
        limited_bytes(file, 2)
    # Linux says that its own files are empty.
    own = Path("/proc/self/limits")
    if own.exists():
        whole = limited_bytes(own, 1 << 20)
        assert own.stat().st_size == 0 and whole == own.read_bytes()
        with pytest.raises(ValueError, match="larger than 9 bytes"):
            limited_bytes(own, 9)
