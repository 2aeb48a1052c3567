"""A loaded method that takes torch tensors, for the parity ladder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgec.runtime_py.engines.choice import choose_engine
from edgec.runtime_py.engines.executorch_binding import runtime
from edgec.runtime_py.engines.open_artifact import open_executor
from edgec.runtime_py.engines.threads import set_threads


class TorchMethod:
    """One loaded method of an artifact, called with torch tensors."""

    def __init__(self, artifact: Path, name: str = "forward") -> None:
        """Load ``name`` from ``artifact``, whatever operators it has; weights are packed in memory.

        Raises:
            InputError: E157, the runtime refuses the artifact (corrupted, other version, or a missing kernel).
        """
        runtime()
        engine = choose_engine(())
        set_threads(None)
        self._executor = open_executor(engine, artifact, name)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Execute with torch tensors; outputs are fresh copies.

        Raises:
            InputError: E157, the runtime refuses the inputs or fails inside a kernel.
        """
        import torch

        outputs = self._executor.run([tensor.numpy() for tensor in inputs])
        return [torch.from_numpy(output) for output in outputs]
