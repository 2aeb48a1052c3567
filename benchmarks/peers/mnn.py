"""MNN as an engine, through its language model interface; runs in the peer's environment.

A job has ``artifact`` (the config.json), ``threads`` and ``vocab_size``. Where one row of logits is wanted MNN computes
the last one, else those of all tokens of the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.harness.jobs import serve

# The package has an attribute of this name too, which is another module.
llm = import_module("MNN.llm")
# MNN crashes where a model is destroyed before what it returned.
_ALIVE: list[Any] = []


class Mnn:
    """A loaded model, which holds the KV cache."""

    def __init__(self, artifact: str, threads: int, vocab_size: int) -> None:
        self._model = llm.create(artifact)
        _ALIVE.append(self._model)
        self._all_rows = False
        settings = {"backend_type": "cpu", "thread_num": threads, "reuse_kv": True, "all_logits": self._all_rows}
        self._model.set_config(settings)
        self._model.load()
        self._filled, self._rows = 0, 1
        self._logits: Any = None
        self.vocab_size = vocab_size

    def feed(self, tokens: Sequence[int], start: int, rows: int) -> None:
        """See ``Engine.feed``."""
        if self._all_rows != (rows > 1):
            self._all_rows = rows > 1
            self._model.set_config({"all_logits": self._all_rows})
        if start == 0:
            self._model.reset()
        elif start < self._filled:
            # To the end: 0 stands for it.
            self._model._c_obj.erase_history(start, 0)
        self._logits = self._model.forward(list(tokens))
        self._filled, self._rows = start + len(tokens), rows

    def logits(self) -> list[list[float]]:
        """See ``Engine.logits``."""
        rows: list[list[float]] = np.array(self._logits.read()).reshape(-1, self.vocab_size)[-self._rows :].tolist()
        return rows


def open_engine(job: Mapping[str, Any]) -> Mnn:
    """Open the engine of a job."""
    return Mnn(job["artifact"], job["threads"], job["vocab_size"])


if __name__ == "__main__":
    serve(open_engine)
