"""Which instructions edgec's linear kernels use: what is in force is said, and what is not there is refused."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgec.bundle.folder import open_bundle
from edgec.engine.compile.build import build_runner
from edgec.errors import InputError
from edgec.runtime_py.engines.engine import EngineModel
from edgec.runtime_py.engines.instructions import kernel_text, linear_kernel, linear_kernels

KNOWN = ("avx512vnni", "avxvnni", "avx2", "i8mm", "dotprod", "plain")


def test_this_processor_has_some_and_plain_code_is_the_last() -> None:
    names = linear_kernels()
    assert names[-1] == "plain" and linear_kernel() in names
    assert list(names) == [name for name in KNOWN if name in names], "best first"


@pytest.mark.parametrize(
    ("kernel", "available", "said"),
    [
        ("avx2", ("avx2", "plain"), "avx2"),
        ("avx2", (), "avx2"),
        ("avx2", ("avx512vnni", "avx2", "plain"), "avx2 by EDGEC_ISA (its best: avx512vnni)"),
        ("plain", ("i8mm", "dotprod", "plain"), "plain by EDGEC_ISA (its best: i8mm)"),
        ("plain", ("plain",), "plain (the processor has no instructions for a faster kernel)"),
        ("plain", (), "plain (the processor has no instructions for a faster kernel)"),
    ],
)
def test_lesser_instructions_are_named_with_their_reason(kernel: str, available: Sequence[str], said: str) -> None:
    assert kernel_text(kernel, available) == said


def absent() -> str:
    """Instructions that edgec's kernels know and this processor lacks."""
    return next(name for name in KNOWN if name not in linear_kernels())


@pytest.mark.parametrize("asked", ["avx9", "AVX2", "avx2 ", None])
def test_a_name_that_is_not_there_is_refused(
    asked: str | None, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked or absent()
    monkeypatch.setenv("EDGEC_ISA", asked)
    with pytest.raises(InputError) as refused:
        EngineModel(open_bundle(tiny_bundle).artifact_path)
    assert refused.value.code == "E144" and refused.value.where == f"EDGEC_ISA={asked}"
    assert all(name in refused.value.why for name in linear_kernels()) and "unset EDGEC_ISA" in refused.value.fix


@pytest.mark.parametrize("asked", ["", "plain"])
def test_what_is_there_or_nothing_is_taken(asked: str, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEC_ISA", asked)
    assert EngineModel(open_bundle(tiny_bundle).artifact_path).info.max_tokens > 0


@pytest.mark.parametrize("asked", ["avx9", None])
def test_the_runner_refuses_it_in_a_line(asked: str | None, tiny_bundle: Path) -> None:
    asked = asked or absent()
    line = [str(build_runner().runner), "--bundle", str(tiny_bundle), "--tokens", "1,2,3"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ, "EDGEC_ISA": asked})
    assert done.returncode == 1 and done.stdout == ""
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"error: EDGEC_ISA={asked} names no instruction set") and said.endswith(
        " ".join(linear_kernels())
    )
