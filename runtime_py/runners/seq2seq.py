"""The loop of ExecuTorch's Seq2SeqRunner, followed over the runtime of its wheel: what an artifact says after sounds.

ExecuTorch's Android package has that class behind ``AsrModule``; no wheel has it. This is its loop in Python
(extension/asr/runner/seq2seq_runner.cpp, commit cff6f4d): ``encoder`` once, then ``text_decoder`` with one token, the
encoder's output and one position, from the token that begins texts on, up to an id that ``get_eos_ids`` names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from edgec.runtime_py.engines.executor import Array
from edgec.runtime_py.runners.executorch_llm import failed_runner
from edgec.runtime_py.runners.process import RunnerFailed, runner_answer

NAME: Final = "the loop of ExecuTorch's Seq2SeqRunner"
_WORKER: Final = "edgec.runtime_py.runners.seq2seq_worker"


@dataclass(frozen=True)
class SpokenTokens:
    """What the loop says of an artifact.

    Attributes:
        constants: what the artifact's constant methods say, by name; each is a list of numbers.
        texts: the tokens after each sound, without the one that begins them.
    """

    constants: Mapping[str, Sequence[int]]
    texts: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Seq2SeqLoop:
    """The loop over an artifact.

    Attributes:
        artifact: the .pte file.
        operators: the kernels that it needs, by name.
        start: the id that begins texts.
    """

    artifact: Path
    operators: Sequence[str]
    start: int

    def write(self, features: Sequence[Array], tokens: int) -> SpokenTokens:
        """What it writes after each sound's features, float32 [1, M, T]: at most so many tokens of each.

        Raises:
            ToolError: E848, it could not run the artifact.
        """
        with TemporaryDirectory() as folder:
            files = [Path(folder) / f"{index}.npy" for index in range(len(features))]
            for file, values in zip(files, features, strict=True):
                np.save(file, values)
            job = {
                "artifact": str(self.artifact.resolve()),
                "operators": list(self.operators),
                "start": self.start,
                "features": [str(file) for file in files],
                "tokens": tokens,
            }
            try:
                said = runner_answer(_WORKER, job)
            except RunnerFailed as error:
                raise failed_runner(NAME, self.artifact, str(error)) from error
        return SpokenTokens(said["constants"], said["texts"])
