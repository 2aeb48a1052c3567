"""Logits of a GGUF on given tokens, after llama.cpp quantised it; runs in the peers' environment.

A job has ``source`` (a float16 GGUF), ``type`` (F16, Q4_K_M, ...), ``windows`` (token ids) and ``out`` (a path
without suffix). lm_head and embedding stay in float16, unless ``whole`` asks for llama.cpp's own choice of their types.
``importance`` names an .npz file: the mean squares of inputs by the tensor's name, an importance matrix.
Logits: ``out``.f32, float32 [tokens, vocabulary].
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import llama_cpp as lib  # type: ignore[import-not-found]
import numpy as np

from benchmarks.peers.llama_cpp import LlamaCpp

_LAST = ("token_embd.weight", "output.weight")


def quantize(source: Path, out: Path, name: str, whole: bool, importance: str | None) -> None:
    """Quantise every matrix, the embedding only where the ``whole`` model is meant.

    Raises:
        RuntimeError: llama.cpp refused.
    """
    chosen = lib.llama_model_quantize_default_params()
    chosen.ftype = getattr(lib, f"LLAMA_FTYPE_MOSTLY_{name}")
    if not whole:
        chosen.token_embedding_type = chosen.output_tensor_type = lib.GGML_TYPE_F16
    table = _importance(importance)
    if table is not None:
        chosen.imatrix = table
    status = lib.llama_model_quantize(str(source).encode(), str(out).encode(), chosen)
    if status != 0:
        raise RuntimeError(f"llama_model_quantize returned {status} for {name}")


def _importance(file: str | None) -> Any:
    """An importance matrix as llama.cpp's functions take it, ended by an entry without a name; None for none."""
    if file is None:
        return None
    entries = [(name.encode(), np.ascontiguousarray(values, np.float32)) for name, values in np.load(file).items()]
    table = (lib.llama_model_imatrix_data * (len(entries) + 1))()
    for place, (name, values) in zip(table, entries, strict=False):
        place.name, place.size = name, values.size
        place.data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    table.kept = entries  # ctypes copies no memory
    return table


def sizes(path: Path) -> tuple[float, str]:
    """The bits per weight of all matrices except the embedding, and how many tensors have each type."""
    tensors = [t for t in gguf.GGUFReader(path).tensors if len(t.shape) == 2 and t.name not in _LAST]
    counts: dict[str, int] = {}
    for tensor in tensors:
        counts[tensor.tensor_type.name] = counts.get(tensor.tensor_type.name, 0) + 1
    bits = 8.0 * sum(int(t.n_bytes) for t in tensors) / sum(int(t.n_elements) for t in tensors)
    return bits, ", ".join(f"{name} x{count}" for name, count in sorted(counts.items()))


def write_logits(model: Path, windows: Sequence[Sequence[int]], out: Path) -> int:
    """Run every window from position 0, write the logits and return the vocabulary's size."""
    engine = LlamaCpp(str(model), 1, max(map(len, windows)))
    with out.open("wb") as stream:
        for window in windows:
            engine.feed(window, 0, len(window))
            stream.write(np.asarray(engine.logits(), np.float32).tobytes())
    return engine.vocab_size


def _work(job: Mapping[str, Any]) -> dict[str, Any]:
    source, out = Path(job["source"]), Path(job["out"])
    model = source if job["type"] == "F16" else out.with_suffix(".gguf")
    if job["type"] != "F16":
        quantize(source, model, job["type"], job.get("whole", False), job.get("importance"))
    bits, types = sizes(model)
    logits = out.with_suffix(".f32")
    return {
        "vocabulary": write_logits(model, job["windows"], logits),
        "bits": bits,
        "types": types,
        "model": str(model),
        "logits": str(logits),
    }


if __name__ == "__main__":
    print("\n" + json.dumps(_work(json.load(sys.stdin))))
