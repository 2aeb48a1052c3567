"""ExecuTorch's own export as an engine, through its Python runtime.

It gives only the logits of the last token, so it is not asked for several rows (``most_rows`` of its jobs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.harness.jobs import serve

LIBRARIES = (
    "torch",
    "executorch.extension.pybindings.portable_lib",
    "executorch.kernels.quantized",
    "executorch.extension.llm.custom_ops.custom_ops",
)


class ExecuTorch:
    """A loaded program as an engine; it holds the KV cache."""

    def __init__(self, artifact: Path, threads: int, vocab_size: int) -> None:
        import torch
        from executorch.extension.pybindings import portable_lib

        self._torch = torch
        portable_lib._unsafe_reset_threadpool(threads)
        # The attention kernel runs on both pools and spins where their sizes differ.
        torch.set_num_threads(threads)
        self._module = portable_lib._load_for_executorch(str(artifact))
        self._logits: Any = None
        self.vocab_size = vocab_size

    def feed(self, tokens: Sequence[int], start: int, rows: int) -> None:
        """See ``Engine.feed``; ``rows`` is 1."""
        torch = self._torch
        inputs = (torch.tensor([list(tokens)]), torch.tensor([start]))
        self._logits = self._module.forward(inputs, clone_outputs=False)[0]

    def logits(self) -> list[list[float]]:
        """See ``Engine.logits``."""
        return [list(map(float, self._logits.reshape(-1)[-self.vocab_size :]))]


def open_engine(job: Mapping[str, Any]) -> ExecuTorch:
    """Open the engine of a job."""
    return ExecuTorch(Path(job["artifact"]), job["threads"], job["vocab_size"])


def import_libraries(_job: Mapping[str, Any]) -> None:
    """Import the libraries that the engine needs, two of them only to register operators."""
    for name in LIBRARIES:
        import_module(name)


if __name__ == "__main__":
    serve(open_engine, import_libraries)
