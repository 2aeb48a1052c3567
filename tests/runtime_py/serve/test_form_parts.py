"""Forms with files: what a client sends, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.runtime_py.serve.audio_body import TranscriptionBody
from edgec.runtime_py.serve.bodies import checked_body
from edgec.runtime_py.serve.form_parts import read_form
from edgec.runtime_py.serve.problems import RequestError

TYPE = "multipart/form-data; boundary=XX"


def form(*parts: tuple[str, bytes], end: bytes = b"--XX--\r\n") -> bytes:
    return b"".join(b"--XX\r\n" + head.encode() + b"\r\n\r\n" + data + b"\r\n" for head, data in parts) + end


def field(name: str, value: str) -> tuple[str, bytes]:
    return f'Content-Disposition: form-data; name="{name}"', value.encode()


FILE = ('Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav', b"\r\n--X\0\xff")


def test_texts_files_and_lists() -> None:
    raw = form(FILE, field("model", "m"), field("names[]", "a"), field("names[]", "b"))
    assert read_form(raw, TYPE) == {"file": b"\r\n--X\0\xff", "model": "m", "names": ["a", "b"]}
    assert read_form(raw.replace(b"XX", b"Z Z"), 'multipart/form-data; boundary="Z Z"')["model"] == "m"


@pytest.mark.parametrize(
    ("raw", "content_type"),
    [
        (b"", TYPE),
        (form(field("a", "b")), "multipart/form-data"),
        (form(field("a", "b")), "multipart/form-data; boundary=" + "X" * 71),
        (form(field("a", "b"), end=b""), TYPE),
        (form(("", b"x")), TYPE),
        (form(("Content-Disposition: form-data", b"x")), TYPE),
        (form(("Content-Disposition: attachment; name=a", b"x")), TYPE),
        (form(("X: " + "y" * 5000, b"x")), TYPE),
        (form(field("a", "1"), field("a", "2")), TYPE),
        (form(field("a", "1"), field("a[]", "2")), TYPE),
        (form(('Content-Disposition: form-data; name="a"', b"\xff")), TYPE),
        (form(*[field(f"n{number}", "") for number in range(65)]), TYPE),
        (b"preamble" + form(field("a", "b")), TYPE),
    ],
)
def test_what_is_no_form_is_refused(raw: bytes, content_type: str) -> None:
    with pytest.raises(RequestError, match="E632"):
        read_form(raw, content_type)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for one in (raw, b"--XX\r\n" + raw, form((raw.decode("latin-1"), raw))):
        try:
            assert isinstance(read_form(one, TYPE), dict)
        except RequestError as error:
            assert error.code == "E632"


def test_the_values_of_a_form_are_read_as_their_kinds() -> None:
    raw = form(FILE, field("model", "m"), field("stream", "true"), field("temperature", "0.5"))
    body = checked_body(read_form(raw, TYPE), TranscriptionBody)
    assert (body.stream, body.temperature, body.file) == (True, 0.5, FILE[1])


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("temperature", "nan", "E632"),
        ("temperature", "2", "E632"),
        ("stream", "maybe", "E632"),
        ("prompt", "Once", "E632"),
        ("response_format", "diarized_json", "E632"),
        ("timestamp_granularities[]", "word", "E632"),
        ("chunking_strategy", "auto", "E633"),
        ("file", "text", "E632"),
    ],
)
def test_what_cannot_be_honoured_is_named(name: str, value: str, code: str) -> None:
    parts = [field("model", "m"), field(name, value), *([FILE] if name != "file" else [])]
    with pytest.raises(RequestError) as refused:
        checked_body(read_form(form(*parts), TYPE), TranscriptionBody)
    assert refused.value.code == code and refused.value.param == name.removesuffix("[]")
