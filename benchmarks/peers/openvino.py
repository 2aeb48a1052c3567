"""OpenVINO as an engine: the exported model with its KV state, compiled for the CPU; runs in the peer's environment.

A job has ``artifact`` (the .xml), ``threads`` and ``vocab_size``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov  # type: ignore[import-not-found]

from benchmarks.harness.jobs import serve
from benchmarks.peers.openvino_export import ROWS


class OpenVino:
    """A compiled model and one infer request, whose variables are the KV cache."""

    def __init__(self, artifact: Path, threads: int, vocab_size: int) -> None:
        compiled = ov.Core().compile_model(artifact, "CPU", _settings(threads))
        self._request = compiled.create_infer_request()
        self._inputs = {name for port in compiled.inputs for name in port.names}
        self._filled = 0
        self.vocab_size = vocab_size

    def feed(self, tokens: Sequence[int], start: int, rows: int) -> None:
        """See ``Engine.feed``."""
        self.rewind(start)
        end = start + len(tokens)
        inputs = {
            "input_ids": np.array([tokens], np.int64),
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(start, end, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
            ROWS: np.array([-rows], np.int64),
        }
        self._request.infer({name: value for name, value in inputs.items() if name in self._inputs})
        self._filled = end

    def rewind(self, positions: int) -> None:
        """See ``Rewinding.rewind``; OpenVINO has no other way than to copy the states."""
        if positions >= self._filled:
            return
        if positions == 0:
            self._request.reset_state()
        else:
            for variable in self._request.query_state():
                kept = variable.state.data[:, :, :positions]
                variable.state = ov.Tensor(np.ascontiguousarray(kept))
        self._filled = positions

    def logits(self) -> list[list[float]]:
        """See ``Engine.logits``."""
        rows: list[list[float]] = self._request.get_tensor("logits").data[0].tolist()
        return rows


def _settings(threads: int) -> dict[str, Any]:
    """One stream for one sequence, and the cache's precision of the others; the rest is OpenVINO's default."""
    return {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "KV_CACHE_PRECISION": "f16",
    }


def open_engine(job: Mapping[str, Any]) -> OpenVino:
    """Open the engine of a job."""
    return OpenVino(Path(job["artifact"]), job["threads"], job["vocab_size"])


if __name__ == "__main__":
    serve(open_engine)
