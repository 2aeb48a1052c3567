"""Static methods as an ExecuTorch program: one package, and a cache that its caller writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.backends.coreml import pte
from edgec.ir.static_methods import run_static
from tests.passes.static.test_static_methods import passes, relative
from tests.passes.static_methods import PLAN, cached, methods, reference, tokens


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pte") / "model.pte"
    lowered = pte.lower(methods(cached("short llama"), passes("caller")), path, lambda step, done, total: None)
    assert lowered.delegation.fallbacks == []
    assert lowered.delegation.delegates == 2
    return path


@pytest.mark.slow
def test_decode_sees_what_prefill_wrote_because_the_caller_writes_it(program: Path) -> None:
    # float16 against float32: 7e-3 of the largest logit at most over five families.
    assert relative(run_static(pte.execute(program), tokens(), PLAN), reference("short llama")) < 3e-2


@pytest.mark.slow
def test_both_methods_read_one_package(program: Path) -> None:
    layout = pte.layout(program)
    assert layout.artifact_bytes == program.stat().st_size
    assert len([run for run in layout.stored if run.shape and run.shape[0] in (96, 48)]) > 0
    digests = [run.sha256 for run in layout.stored if run.bytes > 4096]
    assert len(digests) == len(set(digests))
