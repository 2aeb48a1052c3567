"""Metadata values of a GGUF file, read one after the other without ever leaving the file.

All numbers are little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Every length is held against
the file and against a limit before anything of that size is made: a file of a few bytes can claim 2^60 elements.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgec.errors import InputError

Fault = Callable[[str], InputError]
# Codes of the value types of fixed size in the format's own numbering; texts are 8 and arrays 9.
_NUMBERS: Mapping[int, str] = {
    **{0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f"},
    **{7: "?", 10: "Q", 11: "q", 12: "d"},
}
_TEXT, _ARRAY, _BOOL = 8, 9, 7
_LENGTH = struct.Struct("<Q")
_SHOWN = 60
# A vocabulary of 262,144 tokens with scores, types and merges holds 1.3 million elements in 16 MB.
MOST_ELEMENTS = 1 << 21
MOST_HEADER_BYTES = 64 << 20


@dataclass
class Cursor:
    """A place in a file's bytes that moves forward with each value that is read.

    Attributes:
        data: the whole file, mapped.
        at: the next byte.
        end: the first byte that may not be read.
        fault: makes the error for what is wrong there, from a reason.
        elements: how many more elements of arrays may be read.
    """

    data: Any
    at: int
    end: int
    fault: Fault
    elements: int = MOST_ELEMENTS

    def number(self, code: str) -> Any:
        """One number, by its code in Python's ``struct``."""
        return self.numbers(code, 1)[0]

    def numbers(self, code: str, count: int) -> tuple[Any, ...]:
        """Several numbers of one type."""
        start = self._step(count * struct.calcsize(f"<{code}"), f"{count:,} numbers")
        return struct.unpack_from(f"<{count}{code}", self.data, start)

    def text(self, most: int = MOST_HEADER_BYTES) -> str:
        """A text after its length in bytes, in UTF-8."""
        length = self.number("Q")
        if length > most:
            raise self.fault(f"a text of {length:,} bytes at byte {self.at:,}; {most:,} are allowed")
        start = self._step(length, f"a text of {length:,} bytes")
        return _decoded(self.data[start : self.at], self.fault)

    def value(self, key: str) -> Any:
        """A metadata value after its type: a number, a truth value, a text or a list of one kind of these."""
        kind = self.number("I")
        if kind == _ARRAY:
            return self._array(key)
        return self._single(kind, key)

    def _single(self, kind: int, key: str) -> Any:
        if kind == _TEXT:
            return self.text()
        if kind not in _NUMBERS:
            raise self.fault(f"{shortened(key)} has a value of type {kind}, which the format does not define")
        return self._checked(self.numbers("B" if kind == _BOOL else _NUMBERS[kind], 1), kind, key)[0]

    def _array(self, key: str) -> list[Any]:
        kind, count = self.number("I"), self.number("Q")
        if count > self.elements:
            raise self.fault(
                f"{shortened(key)} claims {count:,} elements; {MOST_ELEMENTS:,} are allowed in all arrays together"
            )
        self.elements -= count
        if kind == _TEXT:
            return self._texts(count)
        if kind not in _NUMBERS:
            raise self.fault(f"{shortened(key)} is an array of type {kind}; arrays hold numbers or texts")
        return self._checked(self.numbers("B" if kind == _BOOL else _NUMBERS[kind], count), kind, key)

    def _checked(self, values: tuple[Any, ...], kind: int, key: str) -> list[Any]:
        if kind != _BOOL:
            return list(values)
        if any(value > 1 for value in values):
            raise self.fault(f"{shortened(key)} is a truth value other than 0 and 1")
        return [bool(value) for value in values]

    def _texts(self, count: int) -> list[str]:
        """The texts of an array; the loop is plain, since a vocabulary has hundreds of thousands."""
        data, at, end, unpack = self.data, self.at, self.end, _LENGTH.unpack_from
        found: list[bytes] = []
        for _ in range(count):
            start = at + 8
            at = start + unpack(data, at)[0] if start <= end else end + 1
            if at > end:
                raise self._beyond(f"text {len(found):,} of {count:,}")
            found.append(data[start:at])
        self.at = at
        return [_decoded(each, self.fault) for each in found]

    def _step(self, size: int, what: str) -> int:
        """Move over ``size`` bytes; returns where they begin."""
        start = self.at
        if size > self.end - start:
            raise self._beyond(what)
        self.at = start + size
        return start

    def _beyond(self, what: str) -> InputError:
        return self.fault(f"{what} at byte {self.at:,} would end beyond byte {self.end:,}, where the header must end")


def shortened(text: str) -> str:
    """A name from a file as it can stand in a message."""
    return repr(text[:_SHOWN] + ("..." if len(text) > _SHOWN else ""))


def _decoded(raw: bytes, fault: Fault) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise fault(f"a text that is not UTF-8: {bytes(raw[:_SHOWN])!r}") from error
