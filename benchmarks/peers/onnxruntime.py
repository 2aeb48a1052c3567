"""ONNX Runtime as an engine: the model of ONNX Runtime GenAI's builder; runs in the peer's environment.

A job has ``artifact`` (the .onnx), ``threads``, ``context``, ``vocab_size`` and ``head_dim``. Past and present keys and
values are the same memory, as in ONNX Runtime GenAI, whose own generator computes logits of one row or of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort

from benchmarks.harness.jobs import serve
from benchmarks.peers.onnxruntime_export import ROWS


class OnnxRuntime:
    """A session with a bound KV cache; ``slots``: its positions and the width of a head."""

    def __init__(self, artifact: str, threads: int, slots: tuple[int, int], vocab_size: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self._session = ort.InferenceSession(artifact, options, providers=["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        self._inputs = {given.name for given in self._session.get_inputs()}
        # The binding holds addresses only.
        self._cache = [self._bind_cache(given, *slots) for given in self._session.get_inputs() if "past" in given.name]
        self._given: list[Any] = []
        self.vocab_size = vocab_size

    def _bind_cache(self, given: Any, positions: int, width: int) -> Any:
        heads = given.shape[1]
        memory = ort.OrtValue.ortvalue_from_numpy(np.zeros((1, heads, positions, width), np.float32))
        self._binding.bind_ortvalue_input(given.name, memory)
        self._binding.bind_ortvalue_output(given.name.replace("past_key_values", "present"), memory)
        return memory

    def feed(self, tokens: Sequence[int], start: int, rows: int) -> None:
        """See ``Engine.feed``."""
        end = start + len(tokens)
        inputs = {
            "input_ids": np.array([tokens], np.int64),
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(start, end, dtype=np.int64)[None],
            ROWS: np.array([-rows], np.int64),
        }
        self._given = [ort.OrtValue.ortvalue_from_numpy(value) for value in inputs.values()]
        for name, value in zip(inputs, self._given, strict=True):
            if name in self._inputs:
                self._binding.bind_ortvalue_input(name, value)
        self._binding.bind_output("logits", "cpu")
        self._session.run_with_iobinding(self._binding)

    def logits(self) -> list[list[float]]:
        """See ``Engine.logits``."""
        # In the order of binding, in which the logits follow the cache.
        rows: list[list[float]] = self._binding.get_outputs()[len(self._cache)].numpy()[0].tolist()
        return rows


def open_engine(job: Mapping[str, Any]) -> OnnxRuntime:
    """Open the engine of a job."""
    slots = (job["context"], job["head_dim"])
    return OnnxRuntime(job["artifact"], job["threads"], slots, job["vocab_size"])


if __name__ == "__main__":
    serve(open_engine)
