"""The loop of ExecuTorch's speech runner on an artifact that it cannot run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgec.errors import ToolError
from edgec.runtime_py.runners.seq2seq import NAME, Seq2SeqLoop


@pytest.mark.long
def test_an_artifact_that_it_refuses_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (artifact := tmp_path / "model.pte").write_bytes(b"no program")
    with pytest.raises(ToolError) as refused:
        Seq2SeqLoop(artifact, (), 3).write([np.zeros((1, 16, 100), np.float32)], 4)
    assert refused.value.code == "E848" and NAME in refused.value.what
    assert "ended with status 1" in refused.value.why
