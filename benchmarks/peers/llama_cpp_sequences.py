"""llama.cpp with several sequences in one context, the way its own server batches; runs in the peers' environment.

A job has ``artifact`` (GGUF), ``threads``, ``context`` (positions of a sequence), ``sequences`` and ``loads``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import llama_cpp as lib  # type: ignore[import-not-found]
import numpy as np

from benchmarks.harness.serving_load import Fed, serve

_MOST_TOKENS = 512


@lib.llama_log_callback  # type: ignore[untyped-decorator]
def _silent(_level: int, _text: bytes, _data: ctypes.c_void_p) -> None:
    """Drop llama.cpp's log."""


class LlamaSequences:
    """A context with several sequences, llama.cpp's own defaults except for the sizes."""

    def __init__(self, artifact: str, threads: int, context: int, sequences: int) -> None:
        lib.llama_log_set(_silent, ctypes.c_void_p())
        lib.llama_backend_init()
        model = lib.llama_model_load_from_file(artifact.encode(), lib.llama_model_default_params())
        if model is None:
            raise RuntimeError(f"llama.cpp cannot load {artifact}")
        chosen = lib.llama_context_default_params()
        chosen.n_ctx, chosen.n_seq_max = context * sequences, sequences
        chosen.n_batch = chosen.n_ubatch = _MOST_TOKENS
        chosen.n_threads = chosen.n_threads_batch = threads
        self._context = lib.llama_init_from_model(model, chosen)
        if self._context is None:
            raise RuntimeError(f"llama.cpp cannot make a context of {sequences} sequences")
        self._memory = lib.llama_get_memory(self._context)
        self._batch = batch = lib.llama_batch_init(_MOST_TOKENS, 0, 1)
        self._fields = (batch.token, batch.pos, batch.n_seq_id, batch.seq_id, batch.logits)
        self.vocab_size = int(lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model)))

    def step(self, fed: Sequence[Fed]) -> list[int]:
        """See ``Sequences.step``."""
        ids, positions, counts, sequences, logits = self._fields
        place, wanted = 0, list[int]()
        for one in fed:
            lib.llama_memory_seq_rm(self._memory, one.sequence, one.start, -1)
            for i, token in enumerate(one.tokens):
                ids[place], positions[place], counts[place] = token, one.start + i, 1
                sequences[place][0], logits[place] = one.sequence, 0
                place += 1
            if one.wanted:
                logits[place - 1] = 1
                wanted.append(place - 1)
        self._batch.n_tokens = place
        status = lib.llama_decode(self._context, self._batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        lib.llama_synchronize(self._context)
        rows = [lib.llama_get_logits_ith(self._context, at) for at in wanted]
        return [int(np.ctypeslib.as_array(row, (self.vocab_size,)).argmax()) for row in rows]


def open_model(job: Mapping[str, Any]) -> LlamaSequences:
    """Open the model of a job."""
    return LlamaSequences(job["artifact"], job["threads"], job["context"], job["sequences"])


if __name__ == "__main__":
    serve(open_model)
