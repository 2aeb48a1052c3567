"""``python -m edgec.runtime_py.runners.seq2seq_worker`` follows the loop of ExecuTorch's Seq2SeqRunner.

The job comes as JSON on stdin; the answer goes to the file that the job names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgec.bundle.entry_points import ENCODER, TEXT_DECODER
from edgec.runtime_py.runners.executorch_llm_worker import constant_values
from edgec.runtime_py.runners.process import answer_job

_Call = Callable[[Sequence[Any]], Sequence[Any]]


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    from executorch.extension.pybindings import portable_lib

    from edgec.runtime_py.engines.choice import choose_engine

    # Registers the operators that the artifact has, edgec's own where it has some.
    choose_engine(job["operators"], "executorch")
    constants = constant_values(job["artifact"])
    program = portable_lib._load_program(job["artifact"])
    methods = (program.load_method(ENCODER), program.load_method(TEXT_DECODER))
    ends = constants.get("get_eos_ids", [])
    texts = [_written(*methods, np.load(file), ends, job) for file in job["features"]]
    return {"constants": constants, "texts": texts}


def _written(encoder: _Call, decoder: _Call, features: Any, ends: Sequence[int], job: dict[str, Any]) -> list[int]:
    """The likeliest tokens after a sound, one call for each; states of an earlier text stay, as in the runner."""
    import torch

    (states,) = encoder([torch.from_numpy(features)])
    tokens = [job["start"]]
    while len(tokens) <= job["tokens"]:
        token, position = torch.tensor([tokens[-1:]]), torch.tensor([len(tokens) - 1])
        (logits,) = decoder([token, states, position])
        tokens.append(int(logits.reshape(-1, logits.shape[-1])[-1].argmax()))
        if tokens[-1] in ends:
            break
    return tokens[1:]


if __name__ == "__main__":
    sys.exit(answer_job(_answer))
