"""llama.cpp as an engine, through the low-level functions of llama-cpp-python; runs in the peers' environment.

A job has ``artifact`` (GGUF), ``threads``, ``context`` and optionally ``kv`` (a GGML type of keys and values).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import llama_cpp as lib  # type: ignore[import-not-found]

from benchmarks.harness.jobs import serve

_KV = {"float32": lib.GGML_TYPE_F32, "float16": lib.GGML_TYPE_F16, "q8_0": lib.GGML_TYPE_Q8_0}
_MICRO_BATCH = 512
_SEQUENCE = 0


@lib.llama_log_callback  # type: ignore[untyped-decorator]
def _silent(_level: int, _text: bytes, _data: ctypes.c_void_p) -> None:
    """Drop llama.cpp's log, which reports every tensor."""


class LlamaCpp:
    """A model and a context as an engine, with llama.cpp's own defaults except for the sizes and the KV type."""

    def __init__(self, artifact: str, threads: int, context: int, kv: str = "float16") -> None:
        lib.llama_log_set(_silent, ctypes.c_void_p())
        lib.llama_backend_init()
        model = lib.llama_model_load_from_file(artifact.encode(), lib.llama_model_default_params())
        if model is None:
            raise RuntimeError(f"llama.cpp cannot load {artifact}")
        made = lib.llama_init_from_model(model, _parameters(threads, context, kv))
        if made is None:
            raise RuntimeError(f"llama.cpp cannot make a context of {context} positions with {kv}")
        self._context = made
        self._memory = lib.llama_get_memory(made)
        self._batch = batch = lib.llama_batch_init(context, 0, 1)
        # Each look-up of a ctypes field makes an object: once here, not for every token.
        self._fields = (batch.token, batch.pos, batch.n_seq_id, batch.seq_id, batch.logits)
        self._rows = 0
        self.vocab_size = int(lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model)))

    def feed(self, tokens: Sequence[int], start: int, rows: int) -> None:
        """See ``Engine.feed``; llama.cpp splits long batches into micro-batches itself."""
        lib.llama_memory_seq_rm(self._memory, _SEQUENCE, start, -1)
        ids, positions, counts, sequences, wanted = self._fields
        self._batch.n_tokens, first_row = len(tokens), len(tokens) - rows
        for i, token in enumerate(tokens):
            ids[i], positions[i], counts[i], sequences[i][0] = token, start + i, 1, _SEQUENCE
            wanted[i] = i >= first_row
        status = lib.llama_decode(self._context, self._batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        lib.llama_synchronize(self._context)
        self._rows = rows

    def logits(self) -> list[list[float]]:
        """See ``Engine.logits``."""
        return [
            list(lib.llama_get_logits_ith(self._context, i - self._rows)[: self.vocab_size]) for i in range(self._rows)
        ]


def _parameters(threads: int, context: int, kv: str) -> Any:
    """The context's parameters; a quantised V cache needs flash attention, which llama.cpp decides on otherwise."""
    chosen = lib.llama_context_default_params()
    chosen.n_ctx, chosen.n_batch, chosen.n_ubatch = context, context, min(context, _MICRO_BATCH)
    chosen.n_threads = chosen.n_threads_batch = threads
    chosen.type_k = chosen.type_v = _KV[kv]
    if kv == "q8_0":
        chosen.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
    return chosen


def open_engine(job: Mapping[str, Any]) -> LlamaCpp:
    """Open the engine of a job."""
    return LlamaCpp(job["artifact"], job["threads"], job["context"], job.get("kv", "float16"))


if __name__ == "__main__":
    serve(open_engine)
