"""A body of ``multipart/form-data`` (RFC 7578) as named values: read once, in memory, within the server's limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from typing import Any, Final

from edgec.runtime_py.serve.problems import malformed_body

_MOST_PARTS: Final = 64
_MOST_HEAD: Final = 4096
_MOST_BOUNDARY: Final = 70
_LIST: Final = "[]"


@dataclass(frozen=True)
class _Part:
    """One part: the field's name, and its bytes; a file's stay bytes, others are text."""

    name: str
    is_file: bool
    data: bytes


def read_form(raw: bytes, content_type: str) -> dict[str, Any]:
    """The fields of a form by their names: texts, and bytes of files; of ``NAME[]`` a list under ``NAME``.

    Raises:
        RequestError: E632, it is not such a form within the limits.
    """
    held: dict[str, Any] = {}
    for part in _parts(raw, _boundary(content_type)):
        value = part.data if part.is_file else _text(part)
        name = part.name.removesuffix(_LIST)
        if part.name.endswith(_LIST):
            known = held.setdefault(name, [])
            if not isinstance(known, list):
                raise malformed_body("it is given as a value and as a list", name)
            known.append(value)
        elif name in held:
            raise malformed_body("it is given twice", name)
        else:
            held[name] = value
    return held


def _boundary(content_type: str) -> bytes:
    boundary = _header("content-type", content_type).get_boundary("")
    if not 0 < len(boundary) <= _MOST_BOUNDARY or not boundary.isascii():
        raise malformed_body("the header Content-Type names no boundary of the form's parts")
    return b"--" + boundary.encode()


def _parts(raw: bytes, boundary: bytes) -> Iterator[_Part]:
    """The parts between boundaries, of which the last one ends in two dashes."""
    if not raw.startswith(boundary):
        raise malformed_body("the form does not begin with its boundary")
    place = len(boundary)
    for _ in range(_MOST_PARTS):
        if raw.startswith(b"--", place):
            return
        end = raw.find(b"\r\n" + boundary, place)
        if end < 0 or not raw.startswith(b"\r\n", place):
            raise malformed_body("the form is cut off")
        yield _part(raw[place + 2 : end])
        place = end + 2 + len(boundary)
    if not raw.startswith(b"--", place):
        raise malformed_body(f"the form has more than {_MOST_PARTS} parts")


def _part(raw: bytes) -> _Part:
    head, found, data = raw.partition(b"\r\n\r\n")
    if not found or len(head) > _MOST_HEAD:
        raise malformed_body("a part of the form has no header within the limits")
    lines = (line.partition(":") for line in head.decode("utf-8", "replace").split("\r\n"))
    described = next((value for name, _, value in lines if name.strip().lower() == "content-disposition"), "")
    header = _header("content-disposition", described.strip())
    name = header.get_param("name", "", "content-disposition")
    if header.get_content_disposition() != "form-data" or not isinstance(name, str) or not name:
        raise malformed_body("a part of the form has no name")
    return _Part(name, header.get_param("filename", None, "content-disposition") is not None, data)


def _header(name: str, value: str) -> Message:
    message = Message()
    message[name] = value.replace("\r", " ").replace("\n", " ")
    return message


def _text(part: _Part) -> str:
    try:
        return part.data.decode()
    except UnicodeDecodeError as cause:
        raise malformed_body("it is not text in UTF-8", part.name[:80]) from cause
