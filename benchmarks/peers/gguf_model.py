"""A transformers model as GGUF, quantised by llama.cpp itself; runs in the peers' environment.

A job has ``config`` and ``weights`` (config.json and safetensors), ``out`` (the float16 GGUF), or ``source``, ``out``
and ``preset`` for a quantised copy. Only what random weights need is written: no tokenizer, no merges.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf  # type: ignore[import-not-found]
import llama_cpp as lib  # type: ignore[import-not-found]
import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

# By transformers' model_type: llama.cpp's architecture, and whether its rotary embedding pairs neighbours, not halves.
_ARCHITECTURES = {
    "llama": (gguf.MODEL_ARCH.LLAMA, True),
    "mistral": (gguf.MODEL_ARCH.LLAMA, True),
    "qwen3": (gguf.MODEL_ARCH.QWEN3, False),
    "qwen3_5_text": (gguf.MODEL_ARCH.QWEN35, False),
}
# llama.cpp's type, and whether the lm_head gets the bits of the other matrices; its own presets give it more.
PRESETS = {
    "preset": (lib.LLAMA_FTYPE_MOSTLY_Q4_0, False),
    "equal": (lib.LLAMA_FTYPE_MOSTLY_Q4_0, True),
    "two bits": (lib.LLAMA_FTYPE_MOSTLY_Q2_K, True),
}


def write_float16(config: Mapping[str, Any], weights: Path, out: Path) -> None:
    """Write matrices in float16 and vectors in float32."""
    architecture, _ = _ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(out, gguf.MODEL_ARCH_NAMES[architecture])
    _write_shape(writer, config)
    for name, tensor in _tensors(config, weights):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_shape(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    head = int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    writer.add_name("random weights")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config.get("rope_parameters") or config
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))
    if "linear_num_value_heads" in config:
        _write_recurrences(writer, config)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("no_vocab")


def _write_recurrences(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    """The shape of Gated DeltaNet layers, under the names of state-space models."""
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
    writer.add_ssm_inner_size(config["linear_value_head_dim"] * config["linear_num_value_heads"])
    writer.add_full_attention_interval(config["full_attention_interval"])
    # Positions of text are the same in all sections, which only images tell apart.
    writer.add_rope_dimension_sections([11, 11, 10, 0])


def _tensors(config: Mapping[str, Any], weights: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    architecture, neighbours = _ARCHITECTURES[config["model_type"]]
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    with safe_open(weights, framework="np") as file:
        for key in file.keys():  # noqa: SIM118  (a file is not a mapping)
            tensor, projection = file.get_tensor(key), key.split(".")[-2]
            if neighbours and projection in heads:
                tensor = _halves_to_neighbours(tensor, heads[projection])
            recurrent = "linear_num_value_heads" in config
            named, tensor = _as_recurrent(key, tensor) if recurrent else (key, tensor)
            small = tensor.ndim == 1 or "conv1d" in key
            kept = tensor.astype(np.float32 if small else np.float16)
            yield names.get_name(named, try_suffixes=(".weight", ".bias")), kept


def _as_recurrent(key: str, tensor: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """A tensor of Gated DeltaNet and its model's norms, which scale by 1 + w, in llama.cpp's form."""
    if key.endswith(".A_log"):
        return key, -np.exp(tensor.astype(np.float32))
    if key.endswith(".dt_bias"):
        return key.removesuffix(".dt_bias") + ".dt_proj.bias", tensor
    if key.endswith("conv1d.weight"):
        return key, tensor.squeeze(1)
    plain = not key.endswith("norm.weight") or key.endswith("linear_attn.norm.weight")
    return key, tensor if plain else tensor.astype(np.float32) + 1.0


def _halves_to_neighbours(matrix: NDArray[Any], heads: int) -> NDArray[Any]:
    """Reorder the rows of each head, as llama.cpp's own converter does for this architecture."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


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
        write_float16(json.loads(Path(job["config"]).read_text()), Path(job["weights"]), partial)
    partial.rename(out)
    return facts(out)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    answer = versions() if given.get("kind") == "versions" else _work(given)
    print("\n" + json.dumps(answer))
