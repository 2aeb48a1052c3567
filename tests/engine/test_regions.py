"""A region's text is read whole or refused, and what is read stays within its memory."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from edgec.backends.edgec_linear.layout import SYMMETRIC, BlockRows, PackedMatrix
from tests.engine.compiled import compiled
from tests.engine.sanitized import MEMORY, sanitizing, why_not

TEXTS, ROUNDS = 500, 4

# A layer's second half: out of attention, norm, gated layers that read floats, and the next q, with a bias, a constant,
# a function and a matrix that reads rows which end within a slice.
GOOD = """edgec.linear 3
block_rows 16
widths 64 64 64 64 96 64 33 64 64 8
inputs 2
outputs 5 8 9
group 0 1 add 1 none int8
matrix 2 64 32 4 1 8 bfloat16 key -
norm 3 2 1e-06 key
group 3 2 gate 0 silu float32
matrix 4 96 0 8 1 128 row key -
matrix 4 96 64 3 1 4 bfloat16 key -
group 4 1 add 2 none int8
matrix 5 64 32 2 2 3 bfloat16 key -
group 5 1 none 0 none int8
matrix 6 33 0 2 1 1 row key key
group 6 1 none 0 none float32
matrix 9 8 0 4 1 8 row key -
constant mul 7 5 64 key
function gelu_tanh 8 7
end
"""
BYTES = 1 << 20


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(compiled("regions")))


def read(library: ctypes.CDLL, text: str, bytes: int = BYTES) -> int:
    """The number of steps, or -1."""
    content = text.encode()
    return int(library.test_read_region(content, ctypes.c_int64(len(content)), ctypes.c_int64(bytes)))


@pytest.mark.long
def test_a_whole_text_is_read(library: ctypes.CDLL) -> None:
    assert read(library, GOOD) == 8
    assert read(library, GOOD.replace("block_rows 16", "block_rows 8")) == 8
    assert read(library, GOOD.replace(" float32", " int8")) == 8
    assert read(library, GOOD.replace(" float32", "")) == -1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("edgec.linear 3", "edgec.linear 1"),
        ("block_rows 16", "block_rows 12"),
        ("inputs 2", "inputs 0"),
        ("inputs 2", "inputs 11"),
        ("outputs 5 8 9", "outputs 5 8 10"),
        ("outputs 5 8 9", "outputs 5 5 8"),
        ("outputs 5 8 9", "outputs 1"),
        ("outputs 5 8 9", "outputs"),
        ("group 0 1 add 1 none", "group 0 2 add 1 none"),
        ("group 0 1 add 1 none", "group 0 1 add 5 none"),
        ("group 0 1 add 1 none", "group 9 1 add 1 none"),
        ("matrix 2 64 32 4 1 8 bfloat16 key -", "matrix 2 63 32 4 1 8 bfloat16 key -"),
        ("matrix 2 64 32 4 1 8 bfloat16 key -", "matrix 2 64 48 4 1 8 bfloat16 key -"),
        ("matrix 2 64 32 4 1 8 bfloat16 key -", "matrix 2 64 32 5 1 8 bfloat16 key -"),
        ("matrix 2 64 32 4 1 8 bfloat16 key -", "matrix 2 64 32 8 2 128 bfloat16 key -"),
        ("matrix 2 64 32 4 1 8 bfloat16 key -", "matrix 2 64 32 4 3 8 bfloat16 key -"),
        ("matrix 2 64 32 4 1 8 bfloat16 key -", "matrix 1 64 32 4 1 8 bfloat16 key -"),
        ("matrix 2 64 32 4 1 8 bfloat16 key -", "matrix 2 64 32 4 1 8 bfloat16 missing -"),
        ("matrix 2 64 32 4 1 8 bfloat16 key -", "matrix 2 64 32 4 1 8 bfloat16 key"),
        ("matrix 2 64 32 4 1 8 bfloat16 key -", "matrix 2 64 32 4 1 8 bfloat16 key - -"),
        ("norm 3 2 1e-06 key", "norm 3 2 nan key"),
        ("norm 3 2 1e-06 key", "norm 4 2 1e-06 key"),
        ("norm 3 2 1e-06 key", "norm 3 4 1e-06 key"),
        ("group 3 2 gate 0 silu float32", "group 3 2 gate 0 swish float32"),
        ("group 3 2 gate 0 silu float32", "group 3 2 gate 0 silu float16"),
        ("group 3 2 gate 0 silu float32", "group 3 2 gate 0 silu float32 float32"),
        ("group 3 2 gate 0 silu float32", "group 3 2 gate 0 silu  float32"),
        ("matrix 4 96 64 3 1 4 bfloat16 key -", "matrix 6 33 64 3 1 4 bfloat16 key -"),
        ("matrix 6 33 0 2 1 1 row key key", "matrix 6 33 0 2 1 1 row key missing"),
        ("constant mul 7 5 64 key", "constant sub 7 5 64 key"),
        ("constant mul 7 5 64 key", "constant mul 7 5 63 key"),
        ("function gelu_tanh 8 7", "function gelu_tanh 8 6"),
        ("function gelu_tanh 8 7", "jump gelu_tanh 8 7"),
        ("function gelu_tanh 8 7\n", ""),
        ("end\n", ""),
        ("end\n", "end\nmore"),
    ],
)
def test_a_text_that_contradicts_itself_is_refused(library: ctypes.CDLL, old: str, new: str) -> None:
    assert GOOD.count(old) == 1 and read(library, GOOD.replace(old, new)) == -1


def test_data_that_is_too_short_is_refused(library: ctypes.CDLL) -> None:
    largest = PackedMatrix(96, 64, 0, SYMMETRIC[8], BlockRows.X86).bytes
    assert read(library, GOOD, largest) == 8 and read(library, GOOD, largest - 1) == -1


@pytest.mark.slow
def test_damaged_texts_stay_within_their_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if reason := why_not(MEMORY):
        pytest.skip(reason)
    program, text = compiled("regions_damaged", sanitizing(MEMORY)), tmp_path / "region.txt"
    for seed in range(ROUNDS):
        text.write_text(GOOD.replace("block_rows 16", f"block_rows {(16, 8)[seed % 2]}"))
        options = {"ASAN_OPTIONS": "detect_leaks=0:exitcode=99:allocator_may_return_null=1"}
        line = ["setarch", "-R", str(program), str(text), str(seed), str(TEXTS)]
        done = subprocess.run(line, capture_output=True, text=True, check=False, env=options)
        assert done.returncode == 0, done.stderr[-3000:]
        read, refused = (int(word) for word in done.stdout.split() if word.isdigit())
        assert read + refused == TEXTS and min(read, refused) > TEXTS // 10
        with capsys.disabled():
            print(f"\n{done.stdout.strip()}")
