"""What stands in for Qualcomm's SDK and for the process that uses it. No test here has a fitting SDK."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgec.backends.qnn_delegate.sdk import LIBRARY

SOC_MODEL = 69


def plug_in() -> Path | None:
    """The folder of onnxruntime-qnn's libraries, which are newer than what ExecuTorch was made for; None without it."""
    spec = find_spec("onnxruntime_qnn")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def sdk_of_plug_in(folder: Path) -> tuple[Path, str]:
    """A folder laid out as an SDK over links to those libraries, and what LD_LIBRARY_PATH must hold for them."""
    source = plug_in()
    assert source is not None
    libraries = (folder / LIBRARY).parent
    libraries.mkdir(parents=True)
    for file in source.glob("*.so"):
        (libraries / file.name).symlink_to(file)
    return folder, str(source.with_name("onnxruntime_qnn.libs"))


def hand_over(line: Sequence[str], **how: Any) -> subprocess.CompletedProcess[str]:
    """In place of the process with the SDK: the same files read and written, the delegate left out."""
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    from edgec.backends.delegated_pte import delegated_operators
    from edgec.backends.qnn_delegate.hand_over import ANSWER, JOB, RESULT

    folder = Path(line[-1])
    job = json.loads((folder / JOB).read_text())
    assert job["soc_model"] == SOC_MODEL and how["env"]["QNN_SDK_ROOT"]
    programs = {name: torch.export.load(folder / f"{name}.pt2") for name in job["methods"]}
    lowered = to_edge_transform_and_lower(programs, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    (folder / RESULT).write_bytes(lowered.to_executorch().buffer)
    delegation, operators = delegated_operators(lowered, "qnn", "a stand-in takes nothing")
    (folder / ANSWER).write_text(json.dumps({"delegation": delegation.model_dump(), "operators": list(operators)}))
    return subprocess.CompletedProcess(list(line), 0, "", "")
