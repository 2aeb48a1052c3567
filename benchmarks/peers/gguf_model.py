"""A transformers model as GGUF, quantised by llama.cpp itself; runs in the peers' environment.

A job has ``config`` and ``weights`` (config.json and safetensors), ``out`` (the float16 GGUF), or ``source``, ``out``
and ``preset`` for a quantised copy. Only what random weights need is written: ``tokenizer`` asks for one of made-up
words, without which llama.cpp's server starts for no model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import llama_cpp as lib  # type: ignore[import-not-found]
import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from benchmarks.peers.gguf_families import GGUF_FAMILIES, kv_heads
from benchmarks.peers.tokenizer import made_up_words

# Small tensors that llama.cpp's kernels read in float32, besides vectors and biases.
_FLOAT32 = ("ffn_gate_inp.weight", "ssm_conv1d.weight", "shortconv.conv.weight")
# llama.cpp's type, and whether the lm_head gets the bits of the other matrices; its own presets give it more.
PRESETS = {
    "preset": (lib.LLAMA_FTYPE_MOSTLY_Q4_0, False),
    "equal": (lib.LLAMA_FTYPE_MOSTLY_Q4_0, True),
    "two bits": (lib.LLAMA_FTYPE_MOSTLY_Q2_K, True),
}


def write_float16(config: Mapping[str, Any], weights: Path, out: Path, tokenizer: bool = False) -> None:
    """Write matrices in float16 and vectors in float32."""
    family = GGUF_FAMILIES[config["model_type"]]
    # Tensors wait in a file: mixtures of experts take gigabytes.
    writer = gguf.GGUFWriter(out, gguf.MODEL_ARCH_NAMES[family.architecture], use_temp_file=True)
    _write_shape(writer, config, _feed_forward_length(config, weights))
    _write_tokenizer(writer, config["vocab_size"] if tokenizer else 0)
    family.describe(writer, config)
    for name, tensor in _tensors(config, weights):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_shape(writer: gguf.GGUFWriter, config: Mapping[str, Any], feed_forward_length: int) -> None:
    head = int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    writer.add_name("random weights")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(feed_forward_length)
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(kv_heads(config))
    writer.add_layer_norm_rms_eps(config.get("rms_norm_eps") or config["norm_eps"])
    _write_rope(writer, config.get("rope_parameters") or config, head)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def _write_tokenizer(writer: gguf.GGUFWriter, words: int) -> None:
    """A tokenizer of so many words; its one merge makes nothing new, but llama.cpp refuses to read none."""
    if not words:
        writer.add_tokenizer_model("no_vocab")
        return
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(made_up_words(words))
    writer.add_token_types([gguf.TokenType.NORMAL] * words)
    writer.add_token_merges(["t 0"])


def _write_rope(writer: gguf.GGUFWriter, rope: Mapping[str, Any], head: int) -> None:
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))
    if rope.get("rope_type") == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def _feed_forward_length(config: Mapping[str, Any], weights: Path) -> int:
    """The width between a layer's two matrices; LFM2 rounds that of its config, so that the tensor says it."""
    if config["model_type"] != "lfm2":
        return int(config["intermediate_size"])
    with safe_open(weights, framework="np") as file:
        return int(file.get_slice("model.layers.0.feed_forward.w1.weight").get_shape()[0])


def _tensors(config: Mapping[str, Any], weights: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    family = GGUF_FAMILIES[config["model_type"]]
    names = gguf.get_tensor_name_map(family.architecture, config["num_hidden_layers"])
    with safe_open(weights, framework="np") as file:
        for key in file.keys():  # noqa: SIM118  (a file is not a mapping)
            for named, tensor in family.forms(config, key, file.get_tensor(key)):
                name = names.get_name(named, try_suffixes=(".weight", ".bias"))
                assert name is not None, named
                small = tensor.ndim == 1 or name.endswith((*_FLOAT32, ".bias"))
                yield name, np.ascontiguousarray(tensor, np.float32 if small else np.float16)


def quantize(source: Path, out: Path, preset: str) -> None:
    """Make one of llama.cpp's quantised forms of a float16 GGUF.

    Raises:
        RuntimeError: llama.cpp refused.
    """
    chosen = lib.llama_model_quantize_default_params()
    chosen.ftype, chosen.pure = PRESETS[preset]
    status = lib.llama_model_quantize(str(source).encode(), str(out).encode(), chosen)
    if status != 0:
        raise RuntimeError(f"llama_model_quantize returned {status} for {source}")


def facts(path: Path) -> dict[str, Any]:
    """The file size, the bytes of each tensor type, and ``decode_bytes``, which are read for every token.

    All matrices are read except an embedding with a separate lm_head.
    """
    tensors = gguf.GGUFReader(path).tensors
    types: dict[str, int] = {}
    for tensor in tensors:
        types[tensor.tensor_type.name] = types.get(tensor.tensor_type.name, 0) + int(tensor.n_bytes)
    tied = all(tensor.name != "output.weight" for tensor in tensors)
    read = sum(int(t.n_bytes) for t in tensors if tied or t.name != "token_embd.weight")
    return {"file_bytes": path.stat().st_size, "tensor_bytes": types, "decode_bytes": read}


def versions() -> dict[str, str]:
    """The peer's version, and which instructions its kernels were built for."""
    return {"llama-cpp-python": lib.__version__, "llama.cpp": lib.llama_print_system_info().decode().strip()}


def _work(job: Mapping[str, Any]) -> dict[str, Any]:
    out = Path(job["out"])
    partial = out.with_suffix(".partial")
    if "preset" in job:
        quantize(Path(job["source"]), partial, job["preset"])
    else:
        config = json.loads(Path(job["config"]).read_text())
        write_float16(config, Path(job["weights"]), partial, job.get("tokenizer", False))
    partial.rename(out)
    return facts(out)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    answer = versions() if given.get("kind") == "versions" else _work(given)
    print("\n" + json.dumps(answer))
