"""A separate process: exported programs to a .pte with QNN delegates, by ExecuTorch's partitioner and Qualcomm's SDK.

    python -m edgec.backends.qnn_delegate.hand_over FOLDER

The folder holds ``job.json`` and METHOD.pt2; the process writes ``model.pte`` and ``answer.json``. It exists because
the SDK's libraries are searched for when a process starts, and because they may crash it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

JOB, ANSWER, RESULT = "job.json", "answer.json", "model.pte"
_OUTSIDE = "ExecuTorch's QNN partitioner does not support it; ExecuTorch's CPU kernel runs it"


def main(folder: Path) -> None:
    """Do the folder's job, which names the chip's number and the methods in order."""
    job = json.loads((folder / JOB).read_text())
    lowered = _lowered(folder, job["methods"], job["soc_model"])
    with (folder / RESULT).open("wb") as stream:
        lowered.to_executorch().write_to_file(stream)
    from edgec.backends.delegated_pte import delegated_operators

    delegation, operators = delegated_operators(lowered, "qnn", _OUTSIDE)
    answer = {"delegation": delegation.model_dump(), "operators": list(operators)}
    (folder / ANSWER).write_text(json.dumps(answer))


def _lowered(folder: Path, methods: list[str], soc_model: int) -> Any:
    """ExecuTorch's edge program manager: float16 on Hexagon, with the weights of all methods in one context."""
    import torch
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils import utils

    options = utils.generate_htp_compiler_spec(use_fp16=True, use_weight_sharing=True)
    specs = utils.generate_qnn_executorch_compiler_spec(QcomChipset(soc_model), options)
    exported = {name: torch.export.load(folder / f"{name}.pt2") for name in methods}
    modules = {name: program.module() for name, program in exported.items()}
    inputs = {name: program.example_inputs[0] for name, program in exported.items()}
    return utils.to_edge_transform_and_lower_to_qnn(modules, inputs, specs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
