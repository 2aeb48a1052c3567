"""Lines of native code are held back by the table alone, and everything else comes through in order."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from edgec.native_noise import native_noise_held

NOISE = b"[kernel_runtime_context.h:91] No temp allocator provided\n"
SCRIPT = """
import os, sys
from edgec.native_noise import native_noise_held
with native_noise_held():
    os.write(2, b"[kernel_runtime_context.h:91] No temp allocator provided\\n" * 3000)
    os.write(2, b"[method.cpp:1] something else\\n")
    print("a line of Python", file=sys.stderr)
    os.write(2, b"without an end")
os.write(2, b"[kernel_runtime_context.h:91] No temp allocator provided\\n")
print("after", file=sys.stderr)
"""


def test_a_line_of_the_table_is_held_back_and_no_other(capfd: pytest.CaptureFixture[str]) -> None:
    with native_noise_held():
        os.write(2, NOISE * 3000)
        os.write(2, b"[method.cpp:1] something else\n" + NOISE + b"without an end")
    os.write(2, NOISE)
    assert capfd.readouterr().err == f"[method.cpp:1] something else\nwithout an end{NOISE.decode()}"


def test_pythons_own_stream_goes_past_the_filter() -> None:
    said = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True).stderr.decode()
    assert said.count("No temp allocator") == 1 and said.endswith("after\n")
    assert "a line of Python\n" in said and "something else\n" in said and "without an end" in said


def test_an_error_ends_the_filter(capfd: pytest.CaptureFixture[str]) -> None:
    before = sys.stderr
    with pytest.raises(ValueError, match="broken"), native_noise_held():
        raise ValueError("broken")
    os.write(2, NOISE)
    assert sys.stderr is before and capfd.readouterr().err == NOISE.decode()
