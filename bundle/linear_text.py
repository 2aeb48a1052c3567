"""Read which matrices a delegate of edgec's linear kernels refers to.

The delegate is text, written by ``backends/edgec_linear/text.py`` and read on the device by
``devices/runner/kernels/region/region_text.cpp``, which checks it whole; here only its matrices are of interest.
"""

from __future__ import annotations

from edgec.bundle.xnnpack_blob import BlobConstant

_START, _MOST_BYTES, _MOST_NUMBER = b"edgec.linear 1\n", 1 << 20, 1 << 26
_MATRIX_WORDS = 8


def is_linear_text(blob: bytes) -> bool:
    """Whether a delegate's bytes are such a text, and nothing else."""
    return blob.startswith(_START) and blob.endswith(b"\nend\n") and len(blob) <= _MOST_BYTES and blob.isascii()


def linear_matrices(blob: bytes) -> tuple[BlobConstant, ...]:
    """The matrices of a text: ``intB`` for B bits as dtype, [rows, width] as shape; none where it is not one."""
    lines = [line.split(" ") for line in blob.decode("ascii").splitlines()] if is_linear_text(blob) else []
    widths: list[int] = []
    width, matrices = 0, []
    for kind, *words in lines:
        numbers = [int(word) if word.isdigit() and len(word) < 10 else -1 for word in words]
        if kind == "widths":
            widths = numbers
        elif kind == "group" and words and 0 <= numbers[0] < len(widths):
            width = widths[numbers[0]]
        elif kind == "matrix" and len(words) == _MATRIX_WORDS and 0 < numbers[1] <= _MOST_NUMBER and width > 0:
            matrices.append(BlobConstant(f"int{numbers[3]}", (numbers[1], width), words[6]))
    return tuple(matrices)
